"""Starting over: reset, a fork, a state for a test; and what survives each (SPEC 8, 9)."""

from __future__ import annotations

import pytest

from breakerkit import (
    BreakerReset,
    State,
    StateChanged,
)
from breakerkit.testing import put_into_state
from tests.circuit.rig import Rig

# -- reset (SPEC 8) ----------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_reset_from_any_state(state: State) -> None:
    """Closed, all evidence cleared, config and callbacks kept; it returns the breaker."""
    rig = Rig(failure_threshold=3, window_size=10, minimum_calls=10)
    rig.fail(2)
    if state is not State.CLOSED:
        rig.open()
    if state is State.HALF_OPEN:
        rig.wait(30)
        rig.hang()
    config, told = rig.breaker.config, len(rig.contexts)
    assert rig.breaker.reset() is rig.breaker
    seen = rig.seen
    assert (seen.state, seen.consecutive_failures, rig.window) == (State.CLOSED, 0, (0, 0))
    assert (seen.reason, seen.opened_at, seen.retry_after, seen.probes_active) == (
        None,
        None,
        None,
        0,
    )
    assert rig.breaker.config is config
    assert len(rig.contexts) == told, "no opening callback"
    rig.open()
    assert len(rig.contexts) == told + 1


def test_reset_keeps_the_counters() -> None:
    """Counters are since creation."""
    rig = Rig(failure_threshold=2, ignore_on=ValueError)
    rig.ok(3)
    rig.raises(ValueError())
    rig.open()
    rig.rejected()
    before = rig.seen
    rig.breaker.reset()
    for field in ("calls", "successes", "failures", "ignored", "rejected", "openings"):
        assert getattr(rig.seen, field) == getattr(before, field) > 0


def test_reset_drops_what_is_in_flight() -> None:
    """Results of calls from before are no evidence."""
    rig = Rig(failure_threshold=1)
    call = rig.start()
    rig.breaker.reset()
    rig.end(call, ConnectionError())
    assert (rig.state, rig.seen.failures) == (State.CLOSED, 1)


def test_reset_starts_openings_over() -> None:
    """``openings`` in the context starts over, the counter does not."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    rig.wait(30)
    rig.fail()
    rig.breaker.reset()
    rig.fail()
    assert [context.openings for context in rig.contexts] == [1, 2, 1]
    assert rig.seen.openings == 3


@pytest.mark.parametrize("state", list(State))
def test_reset_is_told(state: State) -> None:
    """A `BreakerReset` with the state it was in, after the change of state, if there was one."""
    rig = Rig(failure_threshold=1)
    if state is not State.CLOSED:
        rig.half_open() if state is State.HALF_OPEN else rig.open()
    if state is State.HALF_OPEN:
        rig.hang()
    with rig.events() as log:
        rig.breaker.reset()
    assert [one.old for one in log.of(BreakerReset)] == [state]
    moves = [(one.old, one.new, one.reason) for one in log.of(StateChanged)]
    assert moves == ([] if state is State.CLOSED else [(state, State.CLOSED, None)])
    assert log[-1] in log.of(BreakerReset)


def test_reset_settles_what_was_dropped_first() -> None:
    """What is dropped before a reset is settled, and told, before it."""
    rig = Rig(failure_threshold=1, probe_limit=2)
    rig.half_open()
    dropped = rig.start()
    rig.ok()
    with rig.events() as log:
        del dropped
        rig.breaker.reset()
    moves = [(one.old, one.new) for one in log.of(StateChanged)]
    assert moves == [(State.HALF_OPEN, State.CLOSED)]
    assert rig.seen.ignored == 1


# -- fork --------------------------------------------------------------------


def test_a_fork_keeps_state_and_evidence() -> None:
    """In the child the evidence is there; what runs in the parent is not the child's."""
    rig = Rig(window_size=10, minimum_calls=10)
    rig.fail(2)
    call = rig.start()
    lock = rig.breaker._guard.lock
    rig.breaker._guard.after_fork()
    assert rig.breaker._guard.lock is not lock
    assert (rig.seen.consecutive_failures, rig.window) == (2, (2, 2))
    rig.end(call, ConnectionError())
    assert (rig.seen.consecutive_failures, rig.seen.failures) == (2, 3)
    rig.fail(3)
    assert rig.state is State.OPEN


def test_a_fork_frees_the_slots() -> None:
    """Half-open stays half-open, with every slot free and the successes kept."""
    rig = Rig(failure_threshold=1, probe_success_threshold=2)
    rig.half_open()
    rig.ok()
    rig.hang()
    rig.breaker._guard.after_fork()
    assert (rig.state, rig.seen.probes_active, rig.seen.probe_successes) == (State.HALF_OPEN, 0, 1)


def test_a_fork_keeps_an_open_period() -> None:
    """Open stays open, as long as it was."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    rig.wait(10)
    rig.breaker._guard.after_fork()
    assert (rig.state, rig.seen.retry_after) == (State.OPEN, 20)


def test_a_fork_forgets_what_hangs() -> None:
    """Calls that hang in the parent do not turn slow in the child; its tally is kept."""
    rig = Rig(window_size=10, minimum_calls=3, slow_call_duration=1, failure_threshold=None)
    call = rig.start()
    rig.wait(1)
    rig.end(call)
    rig.hang(5)
    rig.breaker._guard.after_fork()
    rig.wait(5)
    rig.ok()
    assert rig.slow == (2, 1)


# -- a state for a test ------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_put_into_state(state: State) -> None:
    """As if it had got there by itself, with no evidence, no callback and no event."""
    rig = Rig(failure_threshold=3)
    rig.fail(2)
    with rig.events() as log:
        put_into_state(rig.breaker, state, retry_after=7)
    assert (rig.state, rig.seen.consecutive_failures) == (state, 0)
    assert rig.seen.retry_after == (7 if state is State.OPEN else None)
    assert (log, rig.contexts) == ([], [])
    if state is State.OPEN:
        rig.wait(7)
    rig.ok()
    assert rig.state is State.CLOSED
