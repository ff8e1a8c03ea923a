"""The command line of the benchmarks: what it takes, and one line for what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.__main__ import EVERYTHING, FULL, QUICK, options
from benchmarks.harness import ENOUGH_ROUNDS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plain_run_has_enough_rounds() -> None:
    """Without options everything is measured, in at least 15 rounds."""
    chosen = options([])
    assert (chosen.rounds, chosen.only) == (FULL.rounds, None)
    assert FULL.rounds >= ENOUGH_ROUNDS == 15


def test_quick_has_few_rounds_and_rounds_wins() -> None:
    """``--quick`` takes few rounds, unless their number is given."""
    assert options(["--quick"]).rounds == QUICK.rounds
    assert options(["--quick", "--rounds", "7"]).rounds == 7


def test_groups_add_up() -> None:
    """``--only`` may be given again."""
    assert options(["--only", "open", "--only", "keys"]).only == ["open", "keys"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rounds", "0"], "argument --rounds: '0' is not a whole number of at least 1"),
        (["--rounds", "2.5"], "argument --rounds: '2.5' is not a whole number of at least 1"),
        (["--only", "methods"], "argument --only: invalid choice: 'methods'"),
        (["--json", "/no/such/place/out.json"], "argument --json: cannot write to"),
        (["--json", "/"], "argument --json: cannot write to '/'"),
        (["--write", "--only", "open"], "argument --write: not allowed with --only"),
        (["--write", "--quick"], "argument --write: needs at least 15 rounds"),
        (["--write", "--rounds", "14"], "argument --write: needs at least 15 rounds"),
        (["now"], "unrecognized arguments: now"),
    ],
)
def test_a_wrong_argument_is_one_line_and_status_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs; the one line names the argument and what is wrong with it."""
    with pytest.raises(SystemExit) as ended:
        options(arguments)
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.startswith(f"python -m benchmarks: {said}")
    assert told.count("\n") == 1


def test_an_unknown_group_is_told_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """The line lists every group there is."""
    with pytest.raises(SystemExit):
        options(["--only", "nonsense"])
    told = capsys.readouterr().err
    assert all(f"'{group}'" in told or f" {group}" in told for group in EVERYTHING)


def test_json_goes_where_one_may_write(tmp_path: Path) -> None:
    """A file that is not there yet is fine in a directory that is."""
    assert options(["--json", str(tmp_path / "out.json")]).json == tmp_path / "out.json"
