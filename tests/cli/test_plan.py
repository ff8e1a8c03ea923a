"""What is played: the speed, the sample, the threads, and when a service counts as failing or silent."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli import _plan
from breakerkit.cli._plan import Outage, make_plan, outages
from breakerkit.cli._trace import Answer, Call, Recording, read

if TYPE_CHECKING:
    from pathlib import Path


def steady(
    seconds: int, answer: Answer = Answer.RIGHT, per_second: int = 10, after: float = 0.0
) -> list[Call]:
    """Return calls at a steady rate, each of a tenth of a second."""
    return [Call(after + n / per_second, 0.1, answer, 200) for n in range(seconds * per_second)]


def test_a_run_takes_fifteen_seconds_by_default() -> None:
    """A long recording is compressed to the default length, a short one never slowed down."""
    assert make_plan(Recording("x", tuple(steady(150)))).speed == pytest.approx(10.0)
    assert make_plan(Recording("x", tuple(steady(3)))).speed == 1.0
    assert make_plan(Recording("x", (Call(0.0, 0.0, Answer.RIGHT, 200),))).span == 0.001


def test_speed_and_threads_can_be_chosen() -> None:
    """What is given is taken as it is."""
    plan = make_plan(Recording("x", tuple(steady(10))), speed=5.0, threads=3)
    assert (plan.speed, plan.threads, plan.recorded, len(plan.calls)) == (5.0, 3, 100, 100)


def test_a_sample_keeps_the_share_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be issued in time is left out evenly, among failures as among the others."""
    monkeypatch.setattr(_plan, "PACE", 10.0)
    calls = steady(90) + steady(10, Answer.RESET, after=90.0)
    plan = make_plan(Recording("x", tuple(calls)), speed=4.0)
    assert plan.recorded == 1000
    assert len(plan.calls) == pytest.approx(250, abs=2)
    assert sum(call.failed for call in plan.calls) == pytest.approx(25, abs=1)
    assert len([call for call in plan.calls if call.start < 45]) == pytest.approx(112, abs=2)


def test_as_many_threads_as_calls_overlapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call in flight needs a thread; the machine's limit of open files bounds them."""
    calls = tuple(Call(n / 1000, 5.0, Answer.RIGHT, 200) for n in range(300))
    recording = Recording("x", calls)
    assert make_plan(recording).threads == 308
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert make_plan(recording).threads == 192
    monkeypatch.setattr(resource, "getrlimit", lambda _: (16, 16))
    assert make_plan(recording).threads == 8
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert make_plan(recording).threads == 308
    monkeypatch.setitem(sys.modules, "resource", None)
    assert make_plan(Recording("x", calls * 2)).threads == 400


def test_an_outage_is_a_time_in_which_most_calls_fail() -> None:
    """It lasts from the first failure that was known to the last; a gap of a slice or two is no end."""
    calls = steady(10) + steady(4, Answer.RESET, after=10.0) + steady(4, Answer.RESET, after=16.0)
    (outage,) = outages(calls + steady(10, after=20.0), 30.0)
    assert tuple(outage) == pytest.approx((10.1, 19.9))
    far = calls + steady(5, after=20.0) + steady(3, Answer.SERVER_ERROR, after=25.0)
    assert len(outages(far, 30.0)) == 2


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([], id="nothing"),
        pytest.param(steady(30), id="health"),
        pytest.param(
            steady(10) + steady(1, Answer.RESET, after=10.0) + steady(10, after=11.0), id="a burst"
        ),
        pytest.param(steady(20, Answer.RESET, per_second=2), id="two errors a second"),
        pytest.param(steady(20) + steady(20, Answer.RESET, per_second=9), id="fewer than half"),
        pytest.param(steady(20, Answer.CALLER_ERROR), id="the callers' fault"),
    ],
)
def test_errors_are_not_yet_an_outage(calls: list[Call]) -> None:
    """Single errors, bursts, fewer than half, and 4xx are none."""
    assert outages(calls, 30.0) == ()


def test_a_service_is_silent_while_every_call_is_refused() -> None:
    """It stops and begins to listen half-way between two calls; a single refusal silences nothing."""
    right, refused = Answer.RIGHT, Answer.REFUSED
    kinds = [right, right, refused, refused, refused, right, refused, right]
    calls = tuple(Call(float(n), 0.0, answer, 200) for n, answer in enumerate(kinds))
    plan = make_plan(Recording("x", calls), speed=1.0)
    assert plan.silences == (Outage(1.5, 4.5), Outage(5.5, 6.5))
    close = tuple(Call(n / 100, 0.0, answer, 200) for n, answer in enumerate(kinds))
    assert make_plan(Recording("x", close), speed=1.0).silences == ()


def test_a_recording_may_begin_and_end_in_silence() -> None:
    """A service that is down at first, or to the last, is down then."""
    calls = tuple(Call(float(n), 0.0, Answer.REFUSED) for n in range(3))
    assert make_plan(Recording("x", calls), speed=1.0).silences == (Outage(0.0, 3.0),)


def test_real_recordings_take_half_a_minute(traces: Path) -> None:
    """Both runs of each real recording take 30 s, with every call issued, and the outages are found."""
    found = {}
    for path in traces.glob("*.jtl"):
        plan = make_plan(read(path))
        assert plan.span / plan.speed == pytest.approx(15.0)
        assert len(plan.calls) == plan.recorded
        found[path.stem] = [round(outage.ended - outage.began) for outage in plan.outages]
    assert found == {
        "outage-recovery": [87],
        "process-killed": [62],
        "flapping-at-capacity": [],
        "healthy-with-noise": [],
    }
