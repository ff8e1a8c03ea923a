"""The command line: what it takes, and one clear line with status 2 for everything else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import breakerkit
from breakerkit.cli import main
from breakerkit.cli._arguments import (
    AvalancheOptions,
    FailoverOptions,
    Options,
    StaleOptions,
    UsageError,
    parse_arguments,
)


def test_nothing_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``breakerkit demo`` leaves every choice to the demo; the picture goes into the current folder."""
    monkeypatch.chdir(tmp_path)
    assert parse_arguments(["demo"]) == Options(None, None, None, Path("breakerkit-demo.svg"))
    assert list(tmp_path.iterdir()) == []


def test_everything_can_be_said(tmp_path: Path) -> None:
    """Trace, speed, threads and picture are taken as they are."""
    svg = tmp_path / "x.svg"
    given = ["demo", "--trace", "a.jtl", "--speed", "2.5", "--threads", "7", "--svg", str(svg)]
    assert parse_arguments(given) == Options(Path("a.jtl"), 2.5, 7, svg)


def test_the_other_demos_have_arguments_of_their_own(tmp_path: Path) -> None:
    """``demo avalanche`` and ``demo failover`` leave choices open, or take what is said."""
    svg = tmp_path / "x.svg"
    given = ["--speed", "2.5", "--svg", str(svg)]
    assert parse_arguments(["demo", "avalanche", "--trace", "a.jtl", *given]) == AvalancheOptions(
        Path("a.jtl"), 2.5, svg
    )
    assert parse_arguments(["demo", "stale", "--trace", "a.jtl", *given]) == StaleOptions(
        Path("a.jtl"), 2.5, svg
    )
    assert parse_arguments(["demo", "stale", "--svg", str(svg)]) == StaleOptions(None, None, svg)
    assert parse_arguments(["demo", "failover", *given]) == FailoverOptions(2.5, svg)
    assert parse_arguments(["demo", "failover", "--svg", str(svg)]) == FailoverOptions(1.0, svg)


def test_each_demo_has_its_own_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One does not overwrite another's."""
    monkeypatch.chdir(tmp_path)
    pictures = {
        str(parse_arguments(["demo", *more]).svg)
        for more in ([], ["avalanche"], ["failover"], ["stale"])
    }
    assert pictures == {
        "breakerkit-demo.svg", "breakerkit-demo-avalanche.svg", "breakerkit-demo-failover.svg",
        "breakerkit-demo-stale.svg",
    }  # fmt: skip


def test_an_unwritable_folder_is_no_obstacle_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the current folder cannot be written the picture goes where temporary files go."""
    (tmp_path / "breakerkit-demo.svg").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", "/somewhere")
    assert parse_arguments(["demo"]).svg == Path("/somewhere/breakerkit-demo.svg")


def test_an_existing_picture_is_kept_until_there_is_a_new_one(tmp_path: Path) -> None:
    """Reading the arguments changes no file."""
    svg = tmp_path / "x.svg"
    svg.write_text("old")
    parse_arguments(["demo", "--svg", str(svg)])
    assert svg.read_text() == "old"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "breakerkit: error: a command is missing; allowed is: demo"),
        (["dmeo"], "invalid choice: 'dmeo'"),
        (["demo", "--sped", "3"], "--sped 3 is not known; allowed are demo with --trace, --speed, --threads and --svg"),
        (["demo", "--sp", "3"], "--sp 3 is not known"),
        (["demo", "more"], "more is not known"),
        (["demo", "--speed", "3", "failover"], "failover is not known; allowed are demo with"),
        (["demo", "avalanche", "--threads", "3"], "--threads 3 is not known; allowed are demo avalanche with --trace, --speed and --svg"),
        (["demo", "failover", "--trace", "x"], "--trace x is not known; allowed are demo failover with --speed and --svg"),
        (["demo", "stale", "--threads", "3"], "--threads 3 is not known; allowed are demo stale with --trace, --speed and --svg"),
        (["demo", "avalanche", "--speed", "0"], "breakerkit demo avalanche: error: argument --speed: must be a number above 0"),
        (["demo", "failover", "--speed", "9"], "breakerkit demo failover: error: argument --speed: must be a number above 0, at most 8, not '9'"),
        (["demo", "failover", "--svg", "none/x.svg"], "breakerkit demo failover: error: argument --svg: must be a file that can be written"),
        (["demo", "--speed"], "argument --speed: expected one argument"),
        *((["demo", "--speed", x], f"argument --speed: must be a number above 0, at most 100000, not {x!r}")
          for x in ("0", "-1", "nan", "inf", "1e9", "fast", "")),
        *((["demo", "--threads", x], f"argument --threads: must be a whole number from 1 to 500, not {x!r}")
          for x in ("0", "-3", "2.5", "501", "many", "")),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_line(
    given: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the argument and what is allowed; the exit status is 2; nothing ran."""
    assert main(given) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("breakerkit")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "why"),
    [("none/x.svg", "No such file"), (".", "not a file"), ("/dev/null", "not a file")],
)
def test_a_picture_needs_a_file_that_can_be_written(place: str, why: str, tmp_path: Path) -> None:
    """A missing folder, a folder and a device are refused, before anything ran."""
    with pytest.raises(
        UsageError, match="argument --svg: must be a file that can be written"
    ) as caught:
        parse_arguments(["demo", "--svg", str(tmp_path / place)])
    assert why in str(caught.value)


def test_the_picture_must_not_overwrite_the_trace(tmp_path: Path) -> None:
    """The same file under whatever name is refused."""
    trace = tmp_path / "a.jtl"
    trace.write_text("precious")
    (tmp_path / "link").symlink_to(trace)
    with pytest.raises(UsageError, match="is the trace itself"):
        parse_arguments(["demo", "--trace", str(trace), "--svg", str(tmp_path / "link")])
    assert trace.read_text() == "precious"
    other = str(tmp_path / "b.svg")
    assert parse_arguments(["demo", "--trace", str(trace), "--svg", other]).svg == Path(other)
    Path(other).touch()
    assert parse_arguments(["demo", "--trace", "none", "--svg", other]).svg == Path(other)
    with pytest.raises(UsageError, match="demo avalanche: .* is the trace itself"):
        parse_arguments(["demo", "avalanche", "--trace", str(trace), "--svg", str(trace)])


@pytest.mark.parametrize(
    "given",
    [
        ["--version"],
        ["--help"],
        *(["demo", *more, "--help"] for more in ([], ["avalanche"], ["failover"], ["stale"])),
    ],
)
def test_help_and_version_go_to_standard_output(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They end with status 0."""
    with pytest.raises(SystemExit) as caught:
        main(given)
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    assert breakerkit.__version__ in out or "usage: breakerkit" in out
