"""Closed: what opens it, and what is evidence (SPEC 2)."""

from __future__ import annotations

from typing import Any

import pytest

from breakerkit import OpenReason, State
from tests.circuit.rig import Rig

WINDOW = {"failure_threshold": None}


def test_opens_at_the_threshold_and_not_before() -> None:
    """So many failures in a row open it, one less does not."""
    rig = Rig()
    rig.fail(4)
    assert (rig.state, rig.seen.consecutive_failures) == (State.CLOSED, 4)
    rig.fail()
    assert rig.state is State.OPEN
    assert rig.seen.reason is OpenReason.CONSECUTIVE_FAILURES


def test_a_success_ends_the_streak() -> None:
    """A success sets the streak to 0."""
    rig = Rig(failure_threshold=2)
    for _ in range(10):
        rig.fail()
        rig.ok()
    assert (rig.state, rig.seen.consecutive_failures) == (State.CLOSED, 0)


def test_the_streak_does_not_age() -> None:
    """Failures in a row count however far apart they are."""
    rig = Rig(failure_threshold=2)
    rig.fail()
    rig.wait(1e6)
    rig.fail()
    assert rig.state is State.OPEN


def test_first_failure_opens_with_no_minimum() -> None:
    """With ``window_size=10`` and all else default the very first failure opens: 1 of 1 is 100 %."""
    rig = Rig(window_size=10)
    rig.fail()
    assert rig.seen.reason is OpenReason.FAILURE_RATE


def test_a_success_may_open_it() -> None:
    """One failure, then successes: it opens on the 99th, whose caller gets its value; no error is told."""
    rig = Rig(window_size=100, minimum_calls=100, failure_rate_threshold=1)
    rig.fail()
    rig.ok(98)
    assert rig.state is State.CLOSED
    rig.ok()
    context = rig.contexts[0]
    assert (context.reason, context.window_calls, context.error) == (
        OpenReason.FAILURE_RATE,
        100,
        None,
    )


def test_the_first_rule_that_fires_is_the_reason() -> None:
    """If several rules fire on one call, the streak rule comes before the rate rule."""
    rig = Rig(failure_threshold=1, window_size=10)
    rig.fail()
    assert rig.contexts[0].reason is OpenReason.CONSECUTIVE_FAILURES
    assert rig.contexts[0].window_failure_rate == 100


def test_the_rate_rule_adds_to_the_streak_rule() -> None:
    """With a window on, the streak rule stays on."""
    rig = Rig(failure_threshold=3, window_size=100, minimum_calls=100)
    rig.fail(3)
    assert rig.contexts[0].reason is OpenReason.CONSECUTIVE_FAILURES


@pytest.mark.parametrize("percent", [29, 57, 58])
def test_exact_rate_of_a_hundred(percent: int) -> None:
    """Just so many of a hundred open it, one less does not: no float in the comparison (C017)."""
    rig = Rig(**WINDOW, window_size=100, minimum_calls=100, failure_rate_threshold=percent)
    rig.ok(101 - percent)
    rig.fail(percent - 1)
    assert rig.state is State.CLOSED
    rig.fail()  # the oldest success has left
    assert rig.contexts[0].window_failures == percent


def test_all_of_ten_at_a_hundred_percent() -> None:
    """Ten failures of ten reach 100 percent on the tenth (C017)."""
    rig = Rig(**WINDOW, window_size=10, minimum_calls=10, failure_rate_threshold=100)
    rig.fail(9)
    assert rig.state is State.CLOSED
    rig.fail()
    assert rig.state is State.OPEN


@pytest.mark.parametrize("window", [{"window_size": 100}, {"window_duration": 60}])
def test_nine_failures_and_a_success(window: dict[str, Any]) -> None:
    """The streak rule alone never sees it; the rate opens on call 20, a success (C014)."""
    rig = Rig(failure_threshold=10)
    for _ in range(100):
        rig.fail(9)
        rig.ok()
    assert rig.state is State.CLOSED
    rig = Rig(**WINDOW, **window, minimum_calls=20, failure_rate_threshold=50)
    rig.fail(9), rig.ok(), rig.fail(9)
    assert rig.state is State.CLOSED
    rig.ok()
    context = rig.contexts[0]
    assert (context.window_calls, context.window_failures, context.error) == (20, 18, None)


def test_a_full_window_is_not_needed() -> None:
    """The rate is judged from the minimum on (C068)."""
    rig = Rig(**WINDOW, window_size=100, minimum_calls=5)
    rig.fail(4)
    assert rig.state is State.CLOSED
    rig.fail()
    assert rig.state is State.OPEN


def test_old_evidence_goes_by_time() -> None:
    """After an hour of silence the window is empty, in a snapshot too, and a success is judged alone (C064)."""
    rig = Rig(**WINDOW, window_duration=10, minimum_calls=10, failure_rate_threshold=50)
    rig.fail(9)
    rig.wait(3600)
    assert rig.window == (0, 0)
    rig.ok()
    assert (rig.state, rig.window) == (State.CLOSED, (1, 0))


def test_successes_that_leave_by_time_are_judged() -> None:
    """A rate rises when old successes leave a time window: the next success is judged on that."""
    rig = Rig(**WINDOW, window_duration=10, minimum_calls=2, failure_rate_threshold=75)
    rig.ok(4)
    rig.wait(5)
    rig.fail(3)
    rig.ok()
    assert rig.window == (8, 3)
    rig.wait(5)
    rig.ok()
    assert rig.state is State.CLOSED, "three of five"
    rig = Rig(**WINDOW, window_duration=10, minimum_calls=2, failure_rate_threshold=75)
    rig.ok(4)
    rig.wait(5)
    rig.fail(3)
    rig.wait(5)
    rig.ok()
    assert rig.contexts[0].window_failure_rate == 75, "three of four"


def test_the_window_holds_completed_closed_calls_only() -> None:
    """Rejections, probes, ignored and cancelled calls are not in it."""
    rig = Rig(failure_threshold=2, window_size=10, minimum_calls=10, ignore_on=ValueError)
    rig.ok()
    rig.raises(ValueError())
    rig.raises(KeyboardInterrupt())
    assert rig.window == (1, 0)
    rig.open()
    rig.rejected()
    assert rig.window == (3, 2)
    rig.wait(30)
    rig.fail()
    assert rig.window == (3, 2)
    rig.wait(30)
    rig.ok()
    assert rig.window == (0, 0)


def test_the_tripping_caller_gets_its_own_exception() -> None:
    """The very object, its cause and context untouched, never wrapped or replaced (C020)."""
    rig = Rig(failure_threshold=1)
    error, cause = TimeoutError("connect"), OSError("refused")
    error.__cause__ = cause
    rig.fail(error=error)
    assert error.__cause__ is cause
    assert error.__context__ is None
    assert rig.contexts[0].error is error


def test_failures_in_flight_open_it_once() -> None:
    """Ten calls in flight that all fail open it once, call the callback once, and change nothing more."""
    rig = Rig()
    calls = [rig.start() for _ in range(10)]
    for call in calls[:5]:
        rig.end(call, ConnectionError())
    before = rig.seen
    rig.wait(3)
    for call in calls[5:]:
        rig.end(call, ConnectionError())
    after = rig.seen
    assert (len(rig.contexts), after.openings, after.failures) == (1, 1, 10)
    assert (after.opened_at, after.retry_after) == (before.opened_at, 27)


def test_the_order_is_that_of_completion() -> None:
    """What ended last counts last, whenever it began."""
    rig = Rig(failure_threshold=2)
    first = rig.start()
    rig.fail()
    rig.end(first)
    assert rig.seen.consecutive_failures == 0


def test_late_failures_change_nothing() -> None:
    """Twenty calls begin at 0 and fail at 0.3, it opens at 0.02: one opening, nothing moves (C009)."""
    rig = Rig(failure_threshold=3)
    calls = [rig.start() for _ in range(20)]
    rig.wait(0.02)
    rig.fail(3)
    opened = rig.seen.opened_at
    rig.wait(0.28)
    errors = [ConnectionError() for _ in calls]
    for call, error in zip(calls, errors, strict=True):
        rig.end(call, error)
    assert len(rig.contexts) == rig.seen.openings == 1
    assert rig.seen.opened_at is opened
    assert rig.seen.retry_after == pytest.approx(29.72)
