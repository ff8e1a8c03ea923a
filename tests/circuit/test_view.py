"""How a breaker looks from outside: the snapshot, the context of an opening, one sentence."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from breakerkit import Mode, OpenContext, OpenReason, Snapshot, State
from tests.circuit.rig import Rig

# -- the snapshot (SPEC 8) ---------------------------------------------------


def test_a_fresh_breaker() -> None:
    """Everything is empty, zero or ``None``."""
    assert Rig().seen == Snapshot(
        name="rig",
        state=State.CLOSED,
        mode=Mode.AUTO,
        consecutive_failures=0,
        window_calls=0,
        window_failures=0,
        window_failure_rate=0.0,
        slow_window_calls=0,
        slow_calls=0,
        slow_call_rate=0.0,
        probes_active=0,
        probe_successes=0,
        reason=None,
        opened_at=None,
        retry_after=None,
        calls=0,
        successes=0,
        failures=0,
        ignored=0,
        rejected=0,
        openings=0,
    )


def test_a_snapshot_is_frozen() -> None:
    """It is a record of one moment."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Rig().seen.calls = 1  # type: ignore[misc]  # that is the test


def test_the_numbers_belong_together() -> None:
    """Counters, streak, window and slow tally, each on its own count."""
    rig = Rig(
        failure_threshold=9,
        window_size=10,
        minimum_calls=10,
        slow_call_duration=1,
        ignore_on=ValueError,
    )
    rig.ok(4)
    rig.fail(3)
    rig.raises(ValueError())
    slow = rig.start()
    rig.wait(1)
    rig.end(slow)
    seen = rig.seen
    assert (seen.calls, seen.successes, seen.failures, seen.ignored, seen.rejected) == (
        9,
        5,
        3,
        1,
        0,
    )
    assert (seen.window_calls, seen.window_failures, seen.window_failure_rate) == (8, 3, 37.5)
    assert (seen.slow_window_calls, seen.slow_calls, seen.slow_call_rate) == (8, 1, 12.5)
    assert seen.consecutive_failures == 0


def test_calls_count_every_attempt() -> None:
    """Rejected ones too; late results are in the counters, not in the evidence."""
    rig = Rig(failure_threshold=1)
    late = rig.start()
    rig.fail()
    rig.rejected()
    rig.rejected()
    rig.end(late)
    seen = rig.seen
    assert (seen.calls, seen.successes, seen.failures, seen.rejected) == (4, 1, 1, 2)


@pytest.mark.parametrize("times", [1, 5])
def test_successes_are_counted_over_all_periods(times: int) -> None:
    """Successes of earlier periods, of probes and of the present one are in one counter."""
    rig = Rig(failure_threshold=1)
    for _ in range(times):
        rig.ok(3)
        rig.half_open()
        rig.ok()
    assert (rig.seen.successes, rig.seen.failures, rig.seen.openings) == (4 * times, times, times)


def test_an_open_breaker() -> None:
    """Reason, moment and wait are there; streak and window keep their last values."""
    before = datetime.now(UTC)
    rig = Rig(failure_threshold=2, window_size=10, minimum_calls=10)
    rig.ok()
    rig.fail(2)
    rig.wait(12)
    seen = rig.seen
    assert (seen.state, seen.reason, seen.retry_after) == (
        State.OPEN,
        OpenReason.CONSECUTIVE_FAILURES,
        18,
    )
    assert seen.opened_at is not None
    assert before <= seen.opened_at <= datetime.now(UTC)
    assert (seen.consecutive_failures, rig.window) == (2, (3, 2))


def test_a_half_open_breaker() -> None:
    """Probes and successes are there, the reason of the opening too; no wait while a slot is free."""
    rig = Rig(failure_threshold=2, probe_limit=2, probe_success_threshold=3)
    rig.half_open()
    opened = rig.seen.opened_at
    assert (rig.seen.probes_active, rig.seen.probe_successes, rig.seen.retry_after) == (0, 0, None)
    rig.ok()
    rig.hang()
    seen = rig.seen
    assert (seen.probes_active, seen.probe_successes, seen.retry_after) == (1, 1, None)
    assert (seen.reason, seen.opened_at) == (OpenReason.CONSECUTIVE_FAILURES, opened)
    assert seen.consecutive_failures == 2
    rig.hang()
    assert rig.seen.retry_after == 30


def test_closing_clears_what_is_shown() -> None:
    """After closing neither reason nor moment nor evidence of the outage is left."""
    rig = Rig(failure_threshold=2, window_size=10, minimum_calls=10)
    rig.half_open()
    rig.ok()
    seen = rig.seen
    assert (seen.reason, seen.opened_at, seen.retry_after) == (None, None, None)
    assert (seen.consecutive_failures, rig.window, seen.probe_successes) == (0, (0, 0), 0)


def test_a_closing_by_lapse_is_seen_through() -> None:
    """A reading shows it closed from the lapse on, with nothing left, and moves nothing."""
    rig = Rig(failure_threshold=1, probe_limit=2, window_size=9)
    rig.half_open()
    rig.hang()
    rig.ok()
    rig.wait(30)
    seen = rig.seen
    assert (seen.state, seen.probes_active, seen.probe_successes) == (State.CLOSED, 0, 0)
    assert (seen.reason, seen.opened_at, seen.consecutive_failures, rig.window) == (
        None,
        None,
        0,
        (0, 0),
    )


def test_a_lapse_without_enough_successes() -> None:
    """It stays half-open with a free slot."""
    rig = Rig(failure_threshold=1, probe_success_threshold=2, probe_limit=2)
    rig.half_open()
    rig.hang()
    rig.ok()
    rig.wait(30)
    assert (rig.state, rig.seen.probes_active, rig.seen.probe_successes) == (State.HALF_OPEN, 0, 1)


# -- the context of an opening (SPEC 7) ---------------------------------------


def test_the_context_has_everything() -> None:
    """All thresholds in force, the real window numbers whatever the reason, the moment and the error."""
    rig = Rig(
        failure_threshold=2,
        window_size=8,
        minimum_calls=6,
        failure_rate_threshold=80,
        slow_call_duration=1,
        slow_call_rate_threshold=90,
        probe_limit=2,
        probe_success_threshold=3,
        open_duration=7,
    )
    slow = rig.start()
    rig.wait(1)
    rig.end(slow)
    rig.ok()
    error = ConnectionError()
    rig.fail(2, error)
    (context,) = rig.contexts
    assert context == OpenContext(
        name="rig",
        reason=OpenReason.CONSECUTIVE_FAILURES,
        state=State.OPEN,
        failure_threshold=2,
        window_size=8,
        window_duration=None,
        minimum_calls=6,
        failure_rate_threshold=80.0,
        slow_call_duration=1.0,
        slow_call_rate_threshold=90.0,
        probe_limit=2,
        probe_success_threshold=3,
        consecutive_failures=2,
        window_calls=4,
        window_failures=2,
        window_failure_rate=50.0,
        slow_calls=1,
        slow_call_rate=25.0,
        open_duration=7.0,
        opened_at=rig.seen.opened_at,  # type: ignore[arg-type]  # it is open
        openings=1,
        error=error,
    )


def test_the_context_is_frozen() -> None:
    """It is a record."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    with pytest.raises(dataclasses.FrozenInstanceError):
        rig.contexts[0].name = "other"  # type: ignore[misc]  # that is the test


def test_the_context_of_a_time_window() -> None:
    """The duration of a time window is told too."""
    rig = Rig(failure_threshold=1, window_duration=9)
    rig.fail()
    assert (rig.contexts[0].window_duration, rig.contexts[0].window_size) == (9.0, 0)


def test_the_context_with_the_window_off() -> None:
    """Its numbers are zero."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    context = rig.contexts[0]
    assert (context.window_calls, context.window_failures, context.window_failure_rate) == (
        0,
        0,
        0.0,
    )


def test_the_context_of_a_failed_probe() -> None:
    """The window numbers are the last ones; the reason, the error and the count are its own."""
    rig = Rig(failure_threshold=2, window_size=9)
    rig.breaker.reconfigure(minimum_calls=9)
    rig.half_open()
    error = OSError()
    rig.fail(error=error)
    context = rig.contexts[1]
    assert (context.reason, context.error, context.openings) == (OpenReason.PROBE_FAILURE, error, 2)
    assert (context.consecutive_failures, context.window_calls, context.window_failures) == (
        2,
        2,
        2,
    )


def test_the_context_tells_what_is_in_force() -> None:
    """After a live change it carries the new thresholds."""
    rig = Rig(failure_threshold=1)
    rig.breaker.reconfigure(failure_threshold=2, probe_limit=4)
    rig.fail(2)
    assert (rig.contexts[0].failure_threshold, rig.contexts[0].probe_limit) == (2, 4)


def test_nothing_kept_leads_to_the_error() -> None:
    """Once the callback is through, the breaker holds no exception of a caller's."""
    rig = Rig(failure_threshold=1)
    error = ConnectionError()
    rig.fail(error=error)
    state: Any = rig.breaker._guard.machine.state
    assert state.evidence.error is None
    assert rig.rejected().__cause__ is None


# -- one sentence -------------------------------------------------------------


def test_why_closed() -> None:
    """The state, the streak and when it would open."""
    rig = Rig()
    rig.fail(2)
    assert rig.breaker.why() == "rig is closed; 2 failures in a row (opens at 5)."


def test_why_with_all_rules() -> None:
    """Each rule that is on has its own part."""
    rig = Rig(
        failure_threshold=None,
        window_size=10,
        minimum_calls=5,
        slow_call_duration=1,
        failure_rate_threshold=62.5,
    )
    rig.ok(2)
    rig.fail()
    why = rig.breaker.why()
    assert "1 of 3 calls in the window failed (opens at 62.5 % of at least 5)" in why
    assert "0 of 3 were slow" in why
    assert "opens at 5)" not in why.partition(",")[0]


def test_why_with_no_minimum() -> None:
    """Without a minimum it opens at a share of at least one call."""
    assert "of at least 1)" in Rig(window_duration=10).breaker.why()


def test_why_open() -> None:
    """Since when, why, and for how much longer."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    rig.wait(10)
    opened = rig.seen.opened_at
    assert opened is not None
    assert rig.breaker.why() == (
        f"rig is open since {opened:%Y-%m-%d %H:%M:%S} UTC because of consecutive failures"
        " for another 20 s; 1 failure in a row (opens at 1)."
    )


def test_why_half_open() -> None:
    """How many probes run, and how many successes are still needed."""
    rig = Rig(failure_threshold=1, probe_limit=2, probe_success_threshold=3)
    rig.half_open()
    rig.ok()
    rig.hang()
    why = rig.breaker.why()
    assert "rig is half-open after opening since" in why
    assert "because of consecutive failures: 1 of 2 probes running, 1 of 3 successes;" in why


def test_why_forced() -> None:
    """Who holds it, and why."""
    rig = Rig()
    with rig.breaker.force_open(by="ops", reason="a drill"):
        why = rig.breaker.why()
    assert why.startswith("rig is open since")
    assert "(forced-open by ops: a drill); 0 failures in a row" in why


def test_repr_names_it() -> None:
    """The repr has the name and the state."""
    assert repr(Rig().breaker) == "<CircuitBreaker 'rig' closed>"
