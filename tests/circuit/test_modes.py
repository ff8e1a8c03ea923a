"""What each mode does with calls: forced open, disabled, observe (SPEC 8, 10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from breakerkit import (
    BreakerReset,
    CallRejected,
    CircuitOpenError,
    Mode,
    OpenReason,
    ProbeLimitError,
    State,
    StateChanged,
)
from tests.circuit.rig import Rig

SWITCHES = {"force_open": Mode.FORCED_OPEN, "disable": Mode.DISABLED, "observe": Mode.OBSERVE}
each_switch = pytest.mark.parametrize("switch", SWITCHES)


def seconds(number: float) -> timedelta:
    """Return a time from now."""
    return timedelta(seconds=number)


# -- forced open -------------------------------------------------------------


def test_forced_open_rejects() -> None:
    """It reads open; the rejection's reason is ``FORCED``, with no known end."""
    rig = Rig()
    handle = rig.breaker.force_open()
    error = rig.rejected()
    assert (type(error), error.reason, error.retry_after) == (
        CircuitOpenError,
        OpenReason.FORCED,
        None,
    )
    assert error.opened_at == handle.since
    seen = rig.seen
    assert (seen.state, seen.reason, seen.retry_after, seen.opened_at) == (
        State.OPEN,
        OpenReason.FORCED,
        None,
        handle.since,
    )
    assert (seen.rejected, seen.openings) == (1, 0)
    handle.release()
    assert rig.state is State.CLOSED
    rig.ok()


def test_forced_open_says_until_when() -> None:
    """``retry_after`` is the time to the last expiry, or ``None`` if one of them has none."""
    rig = Rig()
    first = rig.breaker.force_open(until=seconds(5))
    rig.breaker.force_open(until=seconds(20))
    rig.breaker.disable()
    rig.wait(1)
    assert rig.rejected().retry_after == rig.seen.retry_after == 19
    assert rig.seen.opened_at == first.since
    forever = rig.breaker.force_open()
    assert rig.rejected().retry_after is None
    forever.release()
    rig.wait(10)
    assert rig.rejected().retry_after == 9


def test_forcing_calls_no_opening_callback() -> None:
    """It is no opening; a `StateChanged` is told all the same, both ways."""
    rig = Rig()
    with rig.events() as log:
        handle = rig.breaker.force_open()
        rig.rejected()
        handle.release()
    moves = [(one.old, one.new, one.reason, one.mode) for one in log.of(StateChanged)]
    assert moves == [
        (State.CLOSED, State.OPEN, OpenReason.FORCED, Mode.FORCED_OPEN),
        (State.OPEN, State.CLOSED, None, Mode.AUTO),
    ]
    assert [(one.reason, one.mode) for one in log.of(CallRejected)] == [
        (OpenReason.FORCED, Mode.FORCED_OPEN)
    ]
    assert rig.contexts == []


def test_expiry_is_told_at_the_next_call() -> None:
    """When a switch has expired, the next call tells that the state reads otherwise."""
    rig = Rig()
    rig.breaker.force_open(until=seconds(5))
    rig.wait(5)
    with rig.events() as log:
        rig.ok()
    assert [(one.old, one.new) for one in log.of(StateChanged)] == [(State.OPEN, State.CLOSED)]


def test_forcing_what_is_open_tells_nothing() -> None:
    """It read open before and reads open now."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    with rig.events() as log:
        rig.breaker.force_open().release()
    assert log.of(StateChanged) == []
    assert rig.seen.reason is OpenReason.CONSECUTIVE_FAILURES


def test_the_evidence_stays_under_a_force() -> None:
    """Streak and window are as they were when the switch is given up."""
    rig = Rig(window_size=10, minimum_calls=10)
    rig.fail(4)
    with rig.breaker.force_open():
        assert (rig.seen.consecutive_failures, rig.window) == (4, (4, 4))
    rig.fail()
    assert rig.seen.reason is OpenReason.CONSECUTIVE_FAILURES


def test_the_open_period_runs_on_under_a_force() -> None:
    """An open period that ends while it is forced has ended when the switch is given up."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    with rig.breaker.force_open():
        rig.wait(30)
        assert rig.state is State.OPEN
    assert rig.state is State.HALF_OPEN


@pytest.mark.parametrize("switch", ["force_open", "disable"])
def test_what_is_in_flight_cannot_move_it(switch: str) -> None:
    """A result of a call from before the switch is counted, and is no evidence, then or later."""
    rig = Rig(failure_threshold=1)
    during, after = rig.start(), rig.start()
    with getattr(rig.breaker, switch)():
        rig.end(during, ConnectionError())
    rig.end(after, ConnectionError())
    assert (rig.state, rig.seen.failures, rig.seen.consecutive_failures) == (State.CLOSED, 2, 0)


@pytest.mark.parametrize("switch", ["force_open", "disable"])
def test_slots_are_kept_over_it(switch: str) -> None:
    """Probes from before the switch keep their slots, for they still run; their results are void."""
    rig = Rig(failure_threshold=1, probe_success_threshold=2)
    rig.half_open()
    rig.ok()
    probe = rig.start()
    getattr(rig.breaker, switch)().release()
    assert (rig.seen.probes_active, rig.seen.probe_successes) == (1, 1)
    with pytest.raises(ProbeLimitError):
        rig.ok()
    rig.end(probe)
    assert (rig.state, rig.seen.probes_active, rig.seen.probe_successes) == (State.HALF_OPEN, 0, 1)
    rig.ok()
    assert rig.state is State.CLOSED


@pytest.mark.parametrize("switch", ["force_open", "disable"])
def test_the_last_void_probe_lets_it_close(switch: str) -> None:
    """With the threshold met before the switch, it closes when the last probe frees its slot."""
    rig = Rig(failure_threshold=1, probe_limit=2)
    rig.half_open()
    probe = rig.start()
    rig.ok()
    getattr(rig.breaker, switch)().release()
    assert rig.state is State.HALF_OPEN
    rig.end(probe, ConnectionError())
    assert rig.state is State.CLOSED


def test_a_switch_alone_closes_nothing() -> None:
    """A threshold lowered to what has been counted is judged at a release, not by a switch."""
    rig = Rig(failure_threshold=1, probe_success_threshold=2)
    rig.half_open()
    rig.ok()
    rig.breaker.reconfigure(probe_success_threshold=1)
    rig.breaker.force_open().release()
    assert rig.state is State.HALF_OPEN


@each_switch
def test_a_lapse_comes_before_a_switch(switch: str) -> None:
    """What a lapse has closed stays closed, and is told before the switch is."""
    rig = Rig(failure_threshold=1, probe_limit=2, probe_timeout=1)
    rig.half_open()
    hung = rig.start()
    rig.ok()
    rig.wait(1)
    assert rig.state is State.CLOSED
    with rig.events() as log:
        getattr(rig.breaker, switch)().release()
    assert (rig.state, hung is None) == (State.CLOSED, False)
    moves = log.of(StateChanged)
    assert (moves[0].old, moves[0].new) == (State.HALF_OPEN, State.CLOSED)
    assert all(one.new is next_.old for one, next_ in zip(moves, moves[1:], strict=False))


# -- disabled ----------------------------------------------------------------


def test_disabled_passes_and_records_nothing() -> None:
    """Calls pass, failures too, and neither counters nor evidence move."""
    rig = Rig(failure_threshold=1)
    with rig.breaker.disable():
        rig.ok()
        rig.fail(5)
        with rig.breaker.guard() as lease:
            lease.fail()
        call = rig.start()
    assert (rig.state, rig.seen.calls, rig.contexts) == (State.CLOSED, 0, [])
    rig.end(call, ConnectionError())
    dropped = rig.breaker.disable(), rig.start()
    del dropped
    assert (rig.state, rig.seen.calls) == (State.CLOSED, 0)


def test_disabled_passes_when_open() -> None:
    """An open breaker lets calls pass while it is disabled, and reads as what it is."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    with rig.breaker.disable():
        rig.ok()
        assert rig.state is State.OPEN
    rig.rejected()


# -- observe -----------------------------------------------------------------


def test_observe_passes_and_records() -> None:
    """Calls pass and are evidence; the state reads what it would be, and no callback is called."""
    rig = Rig(failure_threshold=2)
    rig.breaker.observe()
    rig.fail(2)
    assert (rig.state, rig.seen.openings, rig.contexts) == (State.OPEN, 1, [])
    rig.ok()
    assert (rig.state, rig.seen.rejected, rig.seen.successes) == (State.OPEN, 0, 1)


def test_observe_tells_what_it_would_have_done() -> None:
    """A call that would have been rejected passes, and a `CallRejected` is told with the mode."""
    rig = Rig(failure_threshold=1)
    rig.breaker.observe()
    with rig.events() as log:
        rig.fail()
        rig.ok()
    assert [(one.new, one.mode) for one in log.of(StateChanged)] == [(State.OPEN, Mode.OBSERVE)]
    told = [(one.reason, one.retry_after, one.mode) for one in log.of(CallRejected)]
    assert told == [(OpenReason.CONSECUTIVE_FAILURES, 30, Mode.OBSERVE)]


def test_observe_probes_as_it_would() -> None:
    """Half-open it counts as many probes as it would admit; what it would reject passes uncounted."""
    rig = Rig(failure_threshold=1)
    rig.breaker.observe()
    rig.half_open()
    probe = rig.start()
    rig.fail()
    assert (rig.state, rig.seen.probes_active) == (State.HALF_OPEN, 1)
    rig.end(probe)
    assert rig.state is State.CLOSED


def test_observe_asks_for_the_duration() -> None:
    """A callable open duration is asked: the state reads what it would be."""
    rig = Rig(failure_threshold=1, open_duration=lambda _: 7)
    rig.breaker.observe()
    rig.fail()
    assert rig.seen.retry_after == 7


def test_observe_goes_on_when_given_up() -> None:
    """What was found while observing is in force afterwards."""
    rig = Rig(failure_threshold=1)
    with rig.breaker.observe():
        rig.fail()
    assert rig.rejected().reason is OpenReason.CONSECUTIVE_FAILURES


def test_what_is_in_flight_counts_through_observe() -> None:
    """Observing begins no new generation: results of before and during count."""
    rig = Rig(failure_threshold=2)
    before = rig.start()
    with rig.breaker.observe():
        rig.end(before, ConnectionError())
        during = rig.start()
    rig.end(during, ConnectionError())
    assert rig.state is State.OPEN


# -- reset and threads -------------------------------------------------------


@each_switch
def test_reset_leaves_the_handles(switch: str) -> None:
    """``reset()`` clears the evidence and leaves the switches in force."""
    rig = Rig(failure_threshold=1)
    rig.fail()
    getattr(rig.breaker, switch)()
    with rig.events() as log:
        rig.breaker.reset()
    assert rig.breaker.mode is SWITCHES[switch]
    assert rig.state is (State.OPEN if switch == "force_open" else State.CLOSED)
    assert [one.old for one in log.of(BreakerReset)] == [State.OPEN]
    assert len(log.of(StateChanged)) == (switch != "force_open")


def test_sixteen_threads_at_the_threshold() -> None:
    """Sixteen threads fail together at the threshold, then all reset and force it: one opening, no odd error (C012)."""
    rig = Rig(failure_threshold=16)
    barrier = threading.Barrier(16)
    faults: list[BaseException] = []

    def together(act: Callable[[], Any]) -> None:
        def run() -> None:
            barrier.wait()
            try:
                act()
            except Exception as error:  # noqa: BLE001  # whatever it is, it is wrong
                faults.append(error)

        threads = [threading.Thread(target=run) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together(lambda: _failing(rig))
    assert (len(rig.contexts), rig.seen.openings, rig.seen.failures) == (1, 1, 16)
    together(lambda: (rig.breaker.reset(), rig.breaker.force_open().release(), rig.breaker.reset()))
    assert faults == []
    assert (rig.state, rig.breaker.handles) == (State.CLOSED, ())
    rig.open()
    assert len(rig.contexts) == 2


def _failing(rig: Rig) -> None:
    block = rig.breaker.guard()
    block.__enter__()
    block.__exit__(OSError, OSError("down"), None)
