"""Open: rejections, the end of the period, and a duration that a callable gives (SPEC 3, 10)."""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from breakerkit import (
    CallRejectedError,
    CircuitOpenError,
    OpenReason,
    Registry,
    State,
    StateChanged,
    breaker,
)
from tests.circuit.rig import Rig, Steps


def test_a_rejection_says_what_and_how_long() -> None:
    """It carries name, reason, seconds left and the moment it opened, and is one of a family."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    rig.wait(10)
    error = rig.rejected()
    assert type(error) is CircuitOpenError
    assert isinstance(error, CallRejectedError)
    assert not isinstance(error, OSError)
    assert (error.name, error.reason, error.retry_after) == (
        "rig",
        OpenReason.CONSECUTIVE_FAILURES,
        20,
    )
    assert error.opened_at == rig.seen.opened_at
    assert error.opened_at.utcoffset() == timedelta(0)


def test_each_rejection_is_fresh() -> None:
    """A new exception each time, that pickles, and holds no context or frames of another."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    first, second = rig.rejected(), rig.rejected()
    assert first is not second
    assert first.__context__ is None
    copy = pickle.loads(pickle.dumps(first))
    assert (type(copy), str(copy), copy.args) == (CircuitOpenError, str(first), first.args)


def test_rejections_change_nothing() -> None:
    """Only a counter moves, and the moment it may be asked again comes nearer."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    before = rig.seen
    for _ in range(100):
        rig.rejected()
    assert rig.seen.rejected == 100
    assert (rig.seen.opened_at, rig.seen.retry_after) == (before.opened_at, before.retry_after)


@pytest.mark.parametrize(
    ("seconds", "state"), [(0.999, State.OPEN), (1.0, State.HALF_OPEN), (1e6, State.HALF_OPEN)]
)
def test_the_period_ends_at_its_very_end(seconds: float, state: State) -> None:
    """At exactly ``opened_at + open_duration`` it reads half-open, with no call made (C011)."""
    rig = Rig(failure_threshold=1, open_duration=1)
    rig.fail()
    rig.wait(seconds)
    assert rig.state is rig.seen.state is state


def test_late_failures_do_not_prolong_it() -> None:
    """Calls that fail every 0.2 until 3.0 move nothing: half-open at 1.0, and the first call is a probe (C011)."""
    rig = Rig(failure_threshold=1, open_duration=1)
    calls = [rig.start() for _ in range(10)]
    rig.fail()
    opened = rig.seen.opened_at
    for call in calls[:4]:
        rig.wait(0.2)
        rig.end(call, ConnectionError())
    assert rig.state is State.OPEN
    rig.wait(1 - rig.clock.now())
    assert rig.state is State.HALF_OPEN
    probe = rig.start()
    for call in calls[4:]:
        rig.wait(0.2)
        rig.end(call, ConnectionError())
    assert rig.seen.opened_at is opened
    rig.end(probe)
    assert rig.state is State.CLOSED


def test_reading_starts_nothing() -> None:
    """No thread and no timer makes it half-open, and reading changes nothing."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    threads = threading.active_count()
    rig.wait(30)
    with rig.events() as log:
        for _ in range(3):
            assert rig.state is rig.seen.state is State.HALF_OPEN
        rig.breaker.why(), repr(rig.breaker)
    assert log == []
    assert threading.active_count() == threads


def test_half_open_is_told_at_the_next_admission() -> None:
    """The event of the move comes with the first call after the period."""
    rig = Rig(failure_threshold=1)
    rig.half_open()
    with rig.events() as log:
        rig.ok()
    moves = [(one.old, one.new) for one in log.of(StateChanged)]
    assert moves == [(State.OPEN, State.HALF_OPEN), (State.HALF_OPEN, State.CLOSED)]


def test_the_wall_clock_has_no_part() -> None:
    """By the default clock it is open at 10 with 20 left, half-open at 31, wherever the wall clock jumps (C063)."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    with time_machine.travel(datetime(2030, 1, 1, tzinfo=UTC), tick=False):
        rig.wait(10)
        assert (rig.state, rig.seen.retry_after) == (State.OPEN, 20)
    with time_machine.travel(datetime(1999, 1, 1, tzinfo=UTC), tick=False):
        assert rig.rejected().retry_after == 20
        rig.wait(21)
        assert rig.state is State.HALF_OPEN


def test_a_clock_that_steps_back() -> None:
    """A wait is never longer than the period; the period starts over at the next call."""
    clock = Steps()
    b = breaker(failure_threshold=1, open_duration=30, clock=clock, registry=Registry())
    with pytest.raises(ZeroDivisionError), b.guard():
        1 / 0  # noqa: B018  # it is to raise
    clock.at = 0.0
    assert (b.state, b.snapshot().retry_after) == (State.OPEN, 30)
    with pytest.raises(CircuitOpenError) as caught, b.guard():
        pass
    assert caught.value.retry_after == 30
    clock.at = 29.0
    assert b.snapshot().retry_after == 1
    clock.at = 30.0
    assert b.state is State.HALF_OPEN


# -- a callable duration


def test_open_duration_may_depend_on_the_context() -> None:
    """A callable gets the context and says how long; seconds or `timedelta`."""
    told: list[Any] = []

    def plan(context: Any) -> Any:
        told.append(context)
        return timedelta(seconds=5) if context.openings > 1 else 2

    rig = Rig(failure_threshold=1, open_duration=plan)
    rig.fail()
    assert (rig.seen.retry_after, rig.contexts[0].open_duration, told[0].reason) == (
        2, 2, OpenReason.CONSECUTIVE_FAILURES,
    )  # fmt: skip
    rig.wait(2)
    rig.fail()
    assert rig.rejected().retry_after == rig.contexts[1].open_duration == 5


@pytest.mark.parametrize(
    "answer", [None, 0, -1, "30", float("nan"), float("inf"), True, timedelta(0), 10**400]
)
def test_an_unusable_duration_is_thirty_seconds(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A callable that returns nothing usable is logged, and 30 seconds hold."""
    rig = Rig(failure_threshold=1, open_duration=lambda _: answer)
    rig.fail()
    assert rig.seen.retry_after == 30
    assert "open_duration" in caplog.text
    assert "not seconds above 0" in caplog.text


def test_a_duration_that_raises_is_thirty_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """A callable that raises is logged, and 30 seconds hold."""
    rig = Rig(failure_threshold=1, open_duration=lambda _: 1 / 0)
    rig.fail()
    assert (rig.seen.retry_after, rig.contexts[0].open_duration) == (30, 30)
    assert "ZeroDivisionError" in caplog.text


def test_a_duration_runs_outside_the_lock() -> None:
    """It may read the breaker; a reset in it stands, and the period it asked for is over."""
    rigs: list[Rig] = []

    def plan(_: Any) -> float:
        assert rigs[0].state is State.OPEN
        rigs[0].breaker.reset()
        return 2

    rigs.append(Rig(failure_threshold=1, open_duration=plan))
    rigs[0].fail()
    assert rigs[0].state is State.CLOSED


def test_an_admission_that_opens_knows_the_duration() -> None:
    """A rejection by the very admission that opened it says the time that the callable gave."""
    rig = Rig(window_size=5, slow_call_duration=1, open_duration=lambda _: 7)
    rig.hang()
    rig.wait(1)
    assert rig.rejected().retry_after == 7
