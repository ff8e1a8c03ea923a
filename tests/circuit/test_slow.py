"""Slow calls: slow when they end late, slow already while they hang, each once."""

from __future__ import annotations

from typing import Any

import pytest

from breakerkit import CallSucceeded, OpenReason, State
from breakerkit.circuit._slow import SlowCalls
from breakerkit.circuit._states import Lease
from breakerkit.circuit._window import CountWindow
from tests.circuit.rig import Rig

WINDOWS = [{"window_size": 10}, {"window_duration": 100}]
over_either_window = pytest.mark.parametrize("window", WINDOWS, ids=["count", "time"])


def slow_rig(window: dict[str, Any] | None = None, **settings: Any) -> Rig:
    """Return a rig with a limit of one second, half of five calls, and no failure rule in reach."""
    usual = {
        "failure_threshold": 100,
        "minimum_calls": 5,
        "slow_call_duration": 1,
        "slow_call_rate_threshold": 50,
    }
    return Rig(**{**usual, **(window or WINDOWS[0]), **settings})


def lasting(rig: Rig, seconds: float, error: BaseException | None = None) -> None:
    """Make a call that takes so long."""
    call = rig.start()
    rig.wait(seconds)
    rig.end(call, error)


@over_either_window
@pytest.mark.parametrize(("seconds", "slow"), [(0.75, 0), (1.0, 1), (1.25, 1)])
@pytest.mark.parametrize("error", [None, ConnectionError()])
def test_a_call_at_least_this_long_is_slow(
    window: dict[str, Any], seconds: float, slow: int, error: BaseException | None
) -> None:
    """A call of just the limit is slow, whether it failed or not."""
    rig = slow_rig(window)
    lasting(rig, seconds, error)
    assert rig.slow == (1, slow)
    assert rig.window == (1, error is not None)


@over_either_window
def test_the_rate_of_slow_calls_opens(window: dict[str, Any]) -> None:
    """Reached opens it, once the minimum is in the tally; that caller gets its value."""
    rig = slow_rig(window)
    lasting(rig, 1)
    lasting(rig, 1)
    rig.ok(2)
    assert rig.state is State.CLOSED
    lasting(rig, 1)
    assert rig.seen.reason is OpenReason.SLOW_CALL_RATE
    context = rig.contexts[0]
    assert (context.slow_calls, context.slow_call_rate, context.error) == (3, 60.0, None)


def test_a_fast_success_that_makes_the_minimum_opens() -> None:
    """The call that fills the tally up to the minimum is judged, fast or not."""
    rig = slow_rig(slow_call_rate_threshold=20)
    lasting(rig, 1)
    rig.ok(3)
    assert rig.state is State.CLOSED
    rig.ok()
    assert rig.seen.reason is OpenReason.SLOW_CALL_RATE
    assert rig.contexts[0].slow_call_rate == 20.0


def test_slow_calls_are_no_failures() -> None:
    """Slowness has a tally of its own and leaves streak and failure rate alone."""
    rig = slow_rig(slow_call_rate_threshold=100)
    rig.fail()
    lasting(rig, 1)
    assert (rig.seen.consecutive_failures, rig.window, rig.slow) == (0, (2, 1), (2, 1))


@over_either_window
def test_hanging_calls_open_it_at_an_admission(window: dict[str, Any]) -> None:
    """Ten calls hang; the admission that finds them opens it and is itself rejected (C019)."""
    rig = slow_rig(window)
    calls = [rig.start() for _ in range(10)]
    rig.wait(1.5)
    assert rig.state is State.CLOSED, "reading judges nothing"
    rejection = rig.rejected()
    assert (rejection.reason, rejection.retry_after) == (OpenReason.SLOW_CALL_RATE, 30)
    assert rig.contexts[0].slow_calls == 10
    rig.wait(1.5)
    for call in calls:
        rig.end(call, KeyboardInterrupt())
    assert (rig.seen.openings, rig.seen.ignored, rig.slow) == (1, 10, (10, 10))


ENDS: list[tuple[str, BaseException | None]] = [
    ("success", None),
    ("failure", ConnectionError()),
    ("neutral", KeyboardInterrupt()),
]


@over_either_window
@pytest.mark.parametrize(("_name", "error"), ENDS, ids=[name for name, _ in ENDS])
def test_hanging_calls_open_it_at_the_end_of_any_call(
    window: dict[str, Any], _name: str, error: BaseException | None
) -> None:
    """The end of a fast call, however it ended, counts those that hang."""
    rig = slow_rig(window, minimum_calls=3)
    rig.hang(3)
    rig.wait(0.5)
    fast = rig.start()
    rig.wait(0.5)
    rig.end(fast, error)
    assert rig.seen.reason is OpenReason.SLOW_CALL_RATE
    assert rig.slow == ((3, 3) if isinstance(error, KeyboardInterrupt) else (4, 3))
    assert rig.contexts[0].error is (error if isinstance(error, ConnectionError) else None)


@over_either_window
def test_hanging_calls_open_it_at_the_end_of_a_late_call(window: dict[str, Any]) -> None:
    """The end of a call that belongs to the past counts as the end of a call here too."""
    rig = slow_rig(window, minimum_calls=2)
    late, decided = rig.start(), rig.start()
    decided.ignore()
    rig.breaker.reset()
    rig.hang()
    rig.wait(1)
    rig.end(decided)
    assert rig.slow == (1, 1)
    rig.hang()
    rig.wait(1)
    rig.end(late)
    assert rig.seen.reason is OpenReason.SLOW_CALL_RATE


@over_either_window
def test_a_hanging_call_counts_once(window: dict[str, Any]) -> None:
    """It counts while it hangs, and not again when it ends."""
    rig = slow_rig(window)
    hanging = rig.start()
    rig.wait(1)
    rig.ok()
    assert rig.slow == (2, 1)
    rig.wait(5)
    rig.ok()
    rig.end(hanging)
    assert rig.slow == (3, 1)


@over_either_window
@pytest.mark.parametrize(("seconds", "tally"), [(0.25, (0, 0)), (1, (1, 1)), (3, (1, 1))])
@pytest.mark.parametrize("noticed", [True, False])
def test_cancelled_calls(
    window: dict[str, Any], seconds: float, tally: tuple[int, int], noticed: bool
) -> None:
    """A cancel before the limit is never slow (C019); one after it stays slow."""
    rig = slow_rig(window)
    call = rig.start()
    rig.wait(seconds)
    if noticed:
        rig.hang()
    rig.end(call, KeyboardInterrupt())
    assert rig.slow == tally
    assert rig.window == (0, 0)


def test_a_cancel_after_the_limit_is_judged() -> None:
    """The end of a cancelled call judges what it has counted."""
    rig = slow_rig(minimum_calls=1)
    lasting(rig, 1, KeyboardInterrupt())
    assert rig.seen.reason is OpenReason.SLOW_CALL_RATE


def test_a_block_ignored_early_may_turn_slow_yet() -> None:
    """Its outcome is decided, but it runs on; its end is judged."""
    rig = slow_rig(minimum_calls=1)
    call = rig.start()
    call.ignore()
    rig.wait(1)
    assert rig.slow == (0, 0)
    rig.end(call)
    assert rig.slow == (1, 1)
    assert rig.state is State.OPEN


def test_a_block_ignored_early_and_fast_is_not_slow() -> None:
    """One that ends before the limit leaves no trace but a counter."""
    rig = slow_rig(minimum_calls=1)
    call = rig.start()
    call.ignore()
    rig.end(call)
    rig.wait(5)
    rig.ok()
    assert (rig.slow, rig.seen.ignored) == ((1, 0), 1)


def test_a_block_failed_early_is_in_the_tally_at_once() -> None:
    """``lease.fail()`` decides at once, the tally of slow calls included."""
    rig = slow_rig()
    call = rig.start()
    call.fail()
    assert rig.slow == (1, 0)
    rig.wait(5)
    rig.end(call)
    assert rig.slow == (1, 0)


@pytest.mark.parametrize(("seconds", "tally"), [(0.5, (0, 0)), (1, (1, 1))])
def test_a_dropped_call_is_slow_if_it_hung(seconds: float, tally: tuple[int, int]) -> None:
    """A block that is dropped without an end is neutral, and slow as of that moment only."""
    rig = slow_rig(minimum_calls=2)
    call = rig.start()
    rig.wait(seconds)
    del call
    rig.wait(10)
    assert rig.slow == tally
    assert rig.seen.ignored == 1


def test_what_hung_in_an_earlier_period_is_forgotten() -> None:
    """After a reset nothing of what hangs counts, then or later."""
    rig = slow_rig(minimum_calls=1)
    hanging = rig.start()
    rig.breaker.reset()
    rig.wait(5)
    rig.ok()
    rig.end(hanging)
    assert rig.slow == (1, 0)


def test_probes_are_in_no_tally() -> None:
    """A probe that takes long closes it all the same, and the tally starts empty."""
    rig = slow_rig(failure_threshold=1, minimum_calls=1)
    rig.half_open()
    lasting(rig, 5)
    assert (rig.state, rig.slow) == (State.CLOSED, (0, 0))


def test_fast_calls_take_no_lock() -> None:
    """With a slow-call rule a fast success is taken in without the lock, in the usual case."""
    rig = slow_rig()
    rig.ok(10)  # past the minimum no fast call can change a verdict
    guard = rig.breaker._guard
    guard.lock, lock = None, guard.lock  # type: ignore[assignment]  # whoever takes it fails
    rig.ok(3)
    guard.lock = lock
    assert rig.slow == (10, 0)
    assert rig.seen.successes == 13


def test_a_listener_hears_of_fast_calls() -> None:
    """Each success is told with its duration, those without the lock included."""
    rig = slow_rig()
    with rig.events() as log:
        rig.ok(10)
        lasting(rig, 0.5)
        lasting(rig, 2)
    assert [event.duration for event in log.of(CallSucceeded)][-3:] == [0, 0.5, 2]
    assert len(log.of(CallSucceeded)) == 12


def test_old_slow_calls_leave_by_time() -> None:
    """In a time window old slowness goes by time, also when nobody calls."""
    rig = slow_rig({"window_duration": 10})
    lasting(rig, 1)
    assert rig.slow == (1, 1)
    rig.wait(10)
    assert rig.slow == (0, 0)


def test_the_watch_survives_a_change_under_its_hands() -> None:
    """If another thread changes the set of running calls while it is looked at, the lock tells."""

    class Torn(dict[Lease, bool]):
        def __iter__(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

    slow = SlowCalls(1.0, CountWindow(5))
    slow.running = Torn()
    assert slow.hanging(0.0)


def test_a_call_that_another_thread_has_taken_needs_the_lock() -> None:
    """Only who takes a call out of the running ones draws its ticket."""
    slow = SlowCalls(1.0, CountWindow(5))
    lease = Lease(None, 0.0)
    slow.start(lease)
    assert slow.passed(lease, 0.5) == 1
    assert slow.passed(lease, 0.5) == 0
    assert slow.tally(0.5) == (1, 0)


def test_a_call_that_turns_slow_is_judged_by_the_slow_rule_alone() -> None:
    """New settings are judged at the next completed call, not when a hanging call is noticed."""
    rig = Rig(
        failure_threshold=None, window_size=10, slow_call_duration=1, slow_call_rate_threshold=100
    )
    rig.ok()
    rig.fail()
    hanging = rig.start()
    rig.breaker.reconfigure(failure_rate_threshold=50)
    rig.wait(2)
    rig.ok()
    rig.end(hanging)
    assert (rig.state, rig.slow) == (State.CLOSED, (4, 1))
