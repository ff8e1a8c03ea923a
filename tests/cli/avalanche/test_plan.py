"""What of a recording is played: its longest outage, and what lies around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from breakerkit.cli._demo import RECORDING
from breakerkit.cli._options import UsageError
from breakerkit.cli._trace import Answer, Call, Recording, read
from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG, OTHERS, hangs, make_plan

if TYPE_CHECKING:
    from pathlib import Path


def recording(*bad: tuple[float, float], elapsed: float = 0.1) -> Recording:
    """A hundred seconds, ten calls a second; in the given times they fail after ``elapsed``."""
    calls = []
    for number in range(1000):
        start = number / 10
        failed = any(begin <= start < end for begin, end in bad)
        answer = Answer.RESET if failed else Answer.RIGHT
        calls.append(Call(start, elapsed if failed else 0.1, answer, 0 if failed else 200))
    return Recording("x.jtl", tuple(calls))


def test_the_outage_takes_seven_seconds_by_default() -> None:
    """A third of it comes before, a quarter after; all times are real seconds."""
    plan = make_plan(recording((30, 58)))
    assert plan.recorded == pytest.approx(27.9)
    assert plan.speed == pytest.approx(27.9 / 7)
    assert plan.over_at - plan.hung_at == pytest.approx(7)
    assert (plan.hung_at, plan.span - plan.over_at) == pytest.approx((2.45, 1.75))
    assert plan.hangs == (pytest.approx((plan.hung_at, plan.over_at)),)
    assert plan.hung_at < plan.rule_at < plan.over_at < plan.cleared_at < plan.span


def test_the_longest_outage_is_played_and_what_is_near_it() -> None:
    """Others hang the dependency too, if they fall into the time that is played."""
    plan = make_plan(recording((10, 15), (30, 60), (63, 66)), speed=10.0)
    assert plan.speed == 10.0
    first, second = plan.hangs
    assert first == pytest.approx((plan.hung_at, plan.over_at))
    assert second == pytest.approx((plan.hung_at + 3.3, plan.over_at + 0.6))
    assert second[1] < plan.span


def test_an_outage_may_be_all_there_is() -> None:
    """What would come before it and after it is played as health."""
    plan = make_plan(recording((0, 100)))
    assert plan.hangs == (pytest.approx((plan.hung_at, plan.over_at)),)
    assert plan.hung_at > 1


def test_calls_that_take_very_long_hang() -> None:
    """Ten times as long as usual, and half a second at least."""
    calls = recording().calls
    slow = [
        Call(call.start, 1.1 if 30 <= call.start < 40 else call.elapsed, call.answer, 200)
        for call in calls
    ]
    (hang,) = hangs(Recording("x", tuple(slow)))
    assert tuple(hang) == pytest.approx((30.0, 39.9))
    assert hangs(Recording("x", calls)) == ()


def test_without_an_outage_there_is_nothing_to_play() -> None:
    """The error names the argument and the recording."""
    with pytest.raises(
        UsageError,
        match=r"^breakerkit demo avalanche: error: argument --trace: x.jtl has no outage",
    ):
        make_plan(recording())


def test_an_outage_must_be_long_enough_to_be_seen() -> None:
    """The error names the argument and the most that is possible."""
    with pytest.raises(
        UsageError,
        match=r"argument --speed: must be at most 18.6 here: the outage of 27.9 s has to last 1.5 s, not 1.4 s",
    ):
        make_plan(recording((30, 58)), speed=20)


def test_only_one_dependency_hangs() -> None:
    """The others answer in the same time as ever, and so does it before."""
    plan = make_plan(recording((30, 58)))
    assert plan.script_of(HUNG).hangs == plan.hangs
    for name in OTHERS:
        script = plan.script_of(name)
        assert (script.hangs, script.silences) == ((), [])
        assert script.replies == [(plan.takes, "right", 200)]
    assert {panel.lanes for panel in plan.panels.values()} == {len(ENDPOINTS)}


def test_the_recording_that_ships_takes_less_than_half_a_minute() -> None:
    """Both rounds together."""
    plan = make_plan(read(RECORDING))
    assert 20 < 2 * plan.span < 26
    assert len(plan.hangs) == 1


def test_real_outages_are_found(traces: Path) -> None:
    """Two of the real recordings have one; the others have nothing that would hang for long."""
    found = {
        path.stem: [round(b - a) for a, b in hangs(read(path))] for path in traces.glob("*.jtl")
    }
    assert found == {
        "outage-recovery": [88],
        "process-killed": [62, 6],
        "flapping-at-capacity": [],
        "healthy-with-noise": [],
    }
