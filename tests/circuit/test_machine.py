"""Closed, open, half-open: what moves it, what does not, and whose result counts."""

from __future__ import annotations

import itertools
import pickle
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine

from breakerkit import (
    CallRejectedError,
    CircuitOpenError,
    OpenReason,
    ProbeLimitError,
    Registry,
    State,
    StateChanged,
    backoff,
    breaker,
)
from breakerkit.circuit._counting import FAR, drawn, never
from breakerkit.circuit._moves import MOVES
from tests.circuit.rig import Rig

WINDOW = {"failure_threshold": None}


# -- closed (SPEC 2) ---------------------------------------------------------


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
    assert (context.reason, context.window_calls, context.error) == (OpenReason.FAILURE_RATE, 100, None)


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


# -- open (SPEC 3) -----------------------------------------------------------


def test_a_rejection_says_what_and_how_long() -> None:
    """It carries name, reason, seconds left and the moment it opened, and is one of a family."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    rig.wait(10)
    error = rig.rejected()
    assert type(error) is CircuitOpenError
    assert isinstance(error, CallRejectedError)
    assert not isinstance(error, OSError)
    assert (error.name, error.reason, error.retry_after) == ("rig", OpenReason.CONSECUTIVE_FAILURES, 20)
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


@pytest.mark.parametrize(("seconds", "state"), [(0.999, State.OPEN), (1.0, State.HALF_OPEN), (1e6, State.HALF_OPEN)])
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


class Steps:
    """A clock that may step back, as a wall clock does."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        """Return whatever it is set to."""
        return self.at


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


# -- half-open (SPEC 4) ------------------------------------------------------


def probing(**settings: Any) -> Rig:
    """Return a rig that has just become half-open, after one second open."""
    rig = Rig(**{"failure_threshold": 1, "open_duration": 1, **settings})
    rig.half_open()
    return rig


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_at_most_so_many_probes_at_once(limit: int) -> None:
    """A further call is rejected with `ProbeLimitError` and counted neither way."""
    rig = probing(probe_limit=limit)
    rig.hang(limit)
    error = rig.rejected()
    assert isinstance(error, ProbeLimitError)
    assert (rig.seen.probes_active, rig.seen.probe_successes, rig.seen.failures) == (limit, 0, 1)


def test_the_limit_is_no_total() -> None:
    """A slot that is free again is given again."""
    rig = probing(probe_success_threshold=10)
    for _ in range(5):
        rig.ok()
    assert (rig.seen.probes_active, rig.seen.probe_successes) == (0, 5)


def test_it_closes_after_so_many_successes() -> None:
    """The threshold may exceed the limit; the last success closes it."""
    rig = probing(probe_limit=1, probe_success_threshold=3)
    rig.ok(2)
    assert rig.state is State.HALF_OPEN
    rig.ok()
    assert rig.state is State.CLOSED


def test_it_waits_for_every_admitted_probe() -> None:
    """With the threshold met it closes when no probe is active any more; admission looks at slots only."""
    rig = probing(probe_limit=2, probe_success_threshold=1)
    first, second = rig.start(), rig.start()
    rig.end(first)
    assert (rig.state, rig.seen.probe_successes) == (State.HALF_OPEN, 1)
    third = rig.start()
    assert isinstance(rig.rejected(), ProbeLimitError)
    rig.end(second)
    assert rig.state is State.HALF_OPEN
    rig.end(third)
    assert rig.state is State.CLOSED


@pytest.mark.parametrize("end", [None, KeyboardInterrupt(), "drop", "lapse", "ignore"])
def test_the_check_comes_at_every_release(end: Any) -> None:
    """It closes when the last slot is freed, however: success, cancel, drop, lapse, an ignored block."""
    rig = probing(probe_limit=2)
    first, second = rig.start(), rig.start()
    rig.end(first)
    assert rig.state is State.HALF_OPEN
    if end == "lapse":
        rig.wait(1)
    elif end == "ignore":
        second.ignore()
        assert rig.state is State.HALF_OPEN, "the slot is freed at the block's end"
        rig.end(second)
    elif end != "drop":
        rig.end(second, end)
    del second
    assert rig.state is rig.seen.state is State.CLOSED


def test_a_failing_probe_opens_it_again() -> None:
    """For a full new period, with a reason of its own; the successes are forgotten."""
    rig = probing(probe_limit=2, probe_success_threshold=3)
    rig.ok(2)
    rig.wait(0.5)
    error = ConnectionError()
    rig.fail(error=error)
    assert (rig.state, rig.seen.retry_after) == (State.OPEN, 1)
    assert rig.seen.reason is OpenReason.PROBE_FAILURE
    assert (rig.contexts[-1].openings, rig.contexts[-1].error) == (2, error)
    rig.wait(1)
    assert rig.seen.probe_successes == 0
    rig.ok(2)
    assert rig.state is State.HALF_OPEN


def test_two_probes_one_fails() -> None:
    """A fails at 0.05, B succeeds at 0.1: open since 0.05 for a full grown period; B changes nothing (C003)."""
    rig = probing(probe_limit=2, probe_success_threshold=2, open_duration=backoff(1, factor=2))
    a, b = rig.start(), rig.start()
    rig.wait(0.05)
    rig.end(a, ConnectionError())
    rig.wait(0.05)
    rig.end(b)
    assert rig.seen.reason is OpenReason.PROBE_FAILURE
    assert rig.seen.retry_after == pytest.approx(1.95)
    assert (rig.seen.successes, len(rig.contexts)) == (1, 2)


def test_neutral_probes_free_their_slots() -> None:
    """Its caller gets its own exception; the slot is free, still half-open, a success closes (C004)."""
    for limit in (1, 3):
        rig = probing(probe_limit=limit, ignore_on=ValueError)
        probes = [rig.start() for _ in range(limit)]
        for probe in probes:
            rig.end(probe, ValueError())
        rig.raises(ValueError())
        assert (rig.state, rig.seen.probes_active) == (State.HALF_OPEN, 0)
        rig.ok()
        assert rig.state is State.CLOSED


def test_a_predicate_that_raises_costs_no_slot(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets its error, the predicate's own is logged, it is a failure, the next probe runs (C005)."""
    rig = probing(failure_on=lambda error: error.code >= 500)
    rig.raises(OSError())
    assert "AttributeError" in caplog.text
    assert rig.seen.reason is OpenReason.PROBE_FAILURE
    rig.wait(1)
    rig.ok()
    assert rig.state is State.CLOSED


def test_a_probe_is_in_no_window() -> None:
    """A probe enters neither window nor streak, and on closing both start empty."""
    rig = probing(window_size=10, probe_success_threshold=2)
    assert (rig.seen.consecutive_failures, rig.window) == (1, (1, 1))
    rig.ok()
    assert (rig.seen.consecutive_failures, rig.window) == (1, (1, 1)), "their last values"
    rig.ok()
    assert (rig.seen.consecutive_failures, rig.window) == (0, (0, 0))


def test_the_minimum_has_no_say_in_half_open() -> None:
    """A failing probe opens it at once, however few calls the window holds (C008)."""
    rig = Rig(failure_threshold=3, window_size=20, minimum_calls=10)
    rig.half_open()
    rig.fail()
    assert (rig.state, rig.seen.retry_after) == (State.OPEN, 30)
    rig.wait(30)
    rig.hang()
    assert rig.seen.probes_active == 1


def test_a_probe_lapses() -> None:
    """Without a timeout of its own a probe holds its slot as long as the open period was (C007)."""
    rig = probing()
    hung = rig.start()
    rig.wait(0.5)
    error = rig.rejected()
    assert isinstance(error, ProbeLimitError)
    assert error.retry_after == rig.seen.retry_after == 0.5
    rig.wait(0.6)
    assert rig.seen.probes_active == 0
    rig.ok()
    assert rig.state is State.CLOSED
    rig.end(hung, ConnectionError())
    assert (rig.state, rig.seen.consecutive_failures, rig.seen.failures) == (State.CLOSED, 0, 2)


@pytest.mark.parametrize(("seconds", "active"), [(2.75, 1), (3, 0)])
def test_probe_timeout(seconds: float, active: int) -> None:
    """``probe_timeout`` says how long a probe may hold its slot; at its very end it has lost it."""
    rig = probing(probe_timeout=3)
    rig.hang()
    rig.wait(seconds)
    assert rig.seen.probes_active == active
    assert rig.seen.retry_after == (0.25 if active else None)


def test_retry_after_is_the_next_lapse() -> None:
    """With every slot taken it is the time until the longest-running probe loses its own."""
    rig = probing(probe_limit=2, probe_timeout=3)
    rig.hang()
    rig.wait(1)
    assert rig.seen.retry_after is None
    rig.hang()
    assert rig.rejected().retry_after == rig.seen.retry_after == 2
    rig.wait(2)
    rig.hang()
    assert rig.seen.retry_after == 1


@pytest.mark.parametrize("error", [None, ConnectionError()])
def test_a_lapsed_probe_still_counts(error: Exception | None) -> None:
    """If it ends within the same half-open period its result counts."""
    rig = probing()
    hung = rig.start()
    rig.wait(5)
    rig.end(hung, error)
    assert rig.state is (State.OPEN if error else State.CLOSED)


def test_a_lapse_acts_at_its_own_moment() -> None:
    """What ends after it is judged as of then, whoever notices it later: the late failure is dropped."""
    rig = probing(probe_limit=2)
    first, second = rig.start(), rig.start()
    rig.end(first)
    rig.wait(10)
    rig.end(second, ConnectionError())
    assert (rig.state, rig.seen.consecutive_failures, rig.seen.failures) == (State.CLOSED, 0, 2)


def test_closed_since_the_lapse() -> None:
    """From the lapse on it is closed: healthy time counts from that moment."""
    rig = probing(probe_limit=2, open_duration=backoff(1, factor=2))
    first, second = rig.start(), rig.start()
    rig.end(first)
    rig.wait(2)  # closed after one second, healthy for one
    rig.fail()
    assert rig.seen.retry_after == 1
    assert second is not None


def test_lapses_come_in_order() -> None:
    """Only the probes whose time is over lose their slots."""
    rig = probing(probe_limit=3, probe_timeout=2)
    rig.hang()
    rig.wait(1)
    rig.hang(2)
    rig.wait(1)
    assert rig.seen.probes_active == 2
    rig.hang()
    assert rig.seen.probes_active == 3
    rig.wait(1)
    assert rig.seen.probes_active == 1


def test_a_probe_that_calls_through_the_same_breaker() -> None:
    """It is rejected inside, with no deadlock, and the rejection is no failure."""
    rig = probing()
    assert isinstance(rig.breaker.call(rig.rejected), ProbeLimitError)
    assert rig.state is State.CLOSED


def test_a_late_success_of_the_closed_time_closes_nothing() -> None:
    """X begins at 0 and succeeds at 0.5; a probe runs from 0.3 to 0.6 and fails: half-open, then open (C010)."""
    rig = Rig(failure_threshold=1, open_duration=0.2)
    x = rig.start()
    rig.wait(0.05)
    rig.fail()
    rig.wait(0.25)
    probe = rig.start()
    rig.wait(0.2)
    rig.end(x)
    rig.wait(0.05)
    assert rig.state is State.HALF_OPEN
    rig.wait(0.05)
    rig.end(probe, ConnectionError())
    rig.wait(0.05)
    assert rig.state is State.OPEN
    assert (rig.seen.successes, rig.seen.probe_successes) == (1, 0)


def test_a_probe_of_an_earlier_period_is_dropped() -> None:
    """It neither frees a slot nor counts in a later half-open period."""
    rig = probing(probe_limit=2)
    old, failing = rig.start(), rig.start()
    rig.end(failing, ConnectionError())
    rig.wait(1)
    rig.hang(2)
    rig.end(old)
    assert (rig.seen.probes_active, rig.seen.probe_successes) == (2, 0)


def test_openings_count_since_it_was_closed() -> None:
    """``openings`` in the context starts over at each closing, the counter does not."""
    rig = probing()
    rig.fail()
    rig.wait(1)
    rig.ok()
    rig.fail()
    assert [context.openings for context in rig.contexts] == [1, 2, 1]
    assert rig.seen.openings == 3


# -- outcomes (SPEC 5) -------------------------------------------------------


@pytest.mark.parametrize("shape", ["closed", "after a reset", "later closed period", "open", "half-open"])
@pytest.mark.parametrize("error", [None, ConnectionError(), KeyboardInterrupt()])
def test_a_result_of_another_generation_is_dropped(shape: str, error: BaseException | None) -> None:
    """A closed call that ends in another period changes nothing; its counter counts."""
    rig = Rig(failure_threshold=2, window_size=10, minimum_calls=10)
    call = rig.start()
    if shape in {"after a reset", "later closed period"}:
        rig.breaker.reset()
    if shape in {"open", "half-open", "later closed period"}:
        rig.open()
    if shape in {"half-open", "later closed period"}:
        rig.wait(30)
    if shape == "later closed period":
        rig.ok()
    if shape == "half-open":
        rig.hang()
    before, failures, ignored = rig.seen, rig.seen.failures, rig.seen.ignored
    rig.end(call, error)
    after = rig.seen
    if shape == "closed":
        assert (rig.window != (0, 0)) is not isinstance(error, KeyboardInterrupt)
        return
    for field in ("state", "consecutive_failures", "window_calls", "probes_active", "probe_successes", "retry_after"):
        assert getattr(after, field) == getattr(before, field)
    assert (after.failures + after.ignored + after.successes) - (before.successes + failures + ignored) == 1


def test_cancelled_calls_are_neutral() -> None:
    """After two failures five users hang up and one presses Ctrl-C: streak 2, six ignored (C018)."""
    rig = Rig(failure_threshold=3)
    rig.fail(2)
    for _ in range(5):
        rig.raises(GeneratorExit())
    rig.raises(KeyboardInterrupt())
    assert (rig.state, rig.seen.consecutive_failures, rig.seen.ignored) == (State.CLOSED, 2, 6)
    rig.fail()
    assert rig.state is State.OPEN


def test_ignored_types_win() -> None:
    """What is ignored, and what is in no list, never adds a failure (C015)."""
    rig = Rig(failure_on=ConnectionError, ignore_on=ConnectionRefusedError)
    for _ in range(10):
        rig.raises(ConnectionRefusedError())
        rig.raises(NameError())
    assert (rig.seen.consecutive_failures, rig.seen.ignored) == (0, 20)
    rig.fail(4)
    assert rig.state is State.CLOSED
    rig.fail()
    assert rig.state is State.OPEN


def test_success_on_proves_an_answer() -> None:
    """An exception that proves the dependency answered ends the streak and closes as a probe."""
    rig = Rig(failure_threshold=2, success_on=LookupError)
    rig.fail()
    rig.raises(KeyError())
    assert (rig.seen.consecutive_failures, rig.seen.successes) == (0, 1)
    rig.half_open()
    rig.raises(KeyError())
    assert rig.state is State.CLOSED


def test_errors_as_values() -> None:
    """A value that is a failure opens on the third; every caller gets the very object (C016)."""
    rig = Rig(failure_threshold=3, failure_if=lambda reply: reply.code != 0)
    replies = [SimpleNamespace(code=1) for _ in range(3)]
    for reply in replies:
        assert rig.breaker.call(lambda: reply) is reply  # noqa: B023  # called at once
    assert rig.contexts[0].error is None
    assert rig.state is State.OPEN


def test_a_failure_if_that_raises_is_neutral(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, the value is delivered and is no evidence, and a probe's slot is free (C016)."""
    rig = Rig(failure_threshold=1, failure_if=lambda reply: reply.code != 0)
    reply = object()
    assert rig.breaker.call(lambda: reply) is reply
    assert (rig.seen.ignored, rig.seen.successes) == (1, 0)
    assert "failure_if of 'rig' raised" in caplog.text
    rig.fail()
    rig.wait(30)
    assert rig.breaker.call(lambda: reply) is reply
    assert (rig.state, rig.seen.probes_active) == (State.HALF_OPEN, 0)


@pytest.mark.parametrize("early", [ConnectionError(), None])
def test_a_block_decides_once(early: Exception | None) -> None:
    """``lease.fail()`` and ``lease.ignore()`` decide at once, and nothing that follows changes it."""
    rig = Rig(failure_threshold=2)
    rig.fail()
    with rig.breaker.guard() as lease:
        lease.fail(early) if early else lease.ignore()
        assert rig.state is (State.OPEN if early else State.CLOSED)
        lease.fail(), lease.ignore(), lease.fail()
    assert (rig.seen.failures, rig.seen.ignored, rig.seen.successes) == ((2, 0, 0) if early else (1, 1, 0))
    assert [context.error for context in rig.contexts] == ([early] if early else [])


def test_an_early_failure_of_a_probe_opens_at_once() -> None:
    """The verdict is at once; what the block does afterwards is of an earlier period."""
    rig = probing()
    with rig.breaker.guard() as lease:
        lease.fail()
        assert rig.seen.reason is OpenReason.PROBE_FAILURE
        rig.wait(1)
        rig.hang()
    assert rig.seen.probes_active == 1


def test_a_lease_is_settled_once() -> None:
    """A dropped block that was decided before is not counted again."""
    for settings in ({}, {"trip_rules": Quiet()}):
        rig = Rig(**settings)
        call = rig.start()
        call.ignore()
        del call
        assert (rig.seen.calls, rig.seen.ignored) == (1, 1)


class Quiet:
    """A rule that never fires, and takes calls off the lock-free path."""

    def judge(self, _: object) -> None:
        """Return nothing."""


# -- opening callbacks and durations (SPEC 7, 10) ----------------------------


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


@pytest.mark.parametrize("answer", [None, 0, -1, "30", float("nan"), float("inf"), True, timedelta(0), 10**400])
def test_an_unusable_duration_is_thirty_seconds(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
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


# -- the parts ---------------------------------------------------------------


def test_the_table_of_moves() -> None:
    """There are four moves and no other; a reset is none."""
    closed, opened, half_open = State.CLOSED, State.OPEN, State.HALF_OPEN
    assert {
        (closed, opened),
        (opened, half_open),
        (half_open, opened),
        (half_open, closed),
    } == MOVES


def test_looking_at_a_counter_draws_nothing() -> None:
    """The last number drawn can be told without drawing one."""
    counter = itertools.count(1)
    assert drawn(counter) == 0
    assert next(counter) == 1
    assert (drawn(counter), drawn(counter), next(counter)) == (1, 1, 2)


@pytest.mark.parametrize("last", [0, FAR // 2 - 1, FAR // 2, FAR, 10**12])
def test_never_is_far_away(last: int) -> None:
    """A ticket that stands for never is at least half a billion away."""
    assert never(last) - last > FAR // 2


def test_a_hundred_thousand_successes_leave_nothing() -> None:
    """Memory does not grow with the traffic."""
    rig = Rig(window_size=10)
    work = rig.breaker(lambda: None)
    for _ in range(100_000):
        work()
    assert rig.seen.successes == 100_000
    assert len(rig.breaker._guard.machine.state.window.marks) == 0  # type: ignore[union-attr]  # it is closed
