"""Results that come too late, moves that meet, and blocks that wander between threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from breakerkit import CircuitOpenError, Mode, State, breaker
from breakerkit.events import CallSucceeded, StateChanged
from breakerkit.testing import ManualClock
from tests.concurrency.crowds import PATIENCE, together
from tests.shapes import Shape, every_shape, in_thread, raising, returning, sync_shapes

pytestmark = pytest.mark.usefixtures("eager")


class InFlight:
    """Calls that have begun in threads of their own and end when they are let go."""

    def __init__(
        self, call: Callable[[Callable[[], Any]], Any], ends: list[Callable[[], Any]]
    ) -> None:
        self._begun = threading.Barrier(len(ends) + 1)
        self._go = threading.Event()
        self.ended: list[Any] = []
        self._threads = [threading.Thread(target=self._run, args=(call, end)) for end in ends]
        for thread in self._threads:
            thread.start()
        self._begun.wait(PATIENCE)

    def let_go(self) -> list[Any]:
        """Let them end; return what each returned or raised."""
        self._go.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        return self.ended

    def _run(self, call: Callable[[Callable[[], Any]], Any], end: Callable[[], Any]) -> None:
        def behave() -> Any:
            self._begun.wait(PATIENCE)
            assert self._go.wait(PATIENCE)
            return end()

        try:
            self.ended.append(call(behave))
        except BaseException as error:
            self.ended.append(error)


@every_shape
def test_late_failures_move_nothing(clock: ManualClock, shape: Shape) -> None:
    """Twenty calls in flight fail after it opened: one opening, one callback, each its own error (C009)."""
    opened: list[Any] = []
    guarded = breaker(failure_threshold=3, open_duration=10, clock=clock, on_open=opened.append)
    errors = [ConnectionError(str(number)) for number in range(20)]
    flight = InFlight(
        lambda behave: shape.run(guarded, behave), [raising(error) for error in errors]
    )
    shape.fail(guarded, 3)
    before = guarded.snapshot()
    clock.advance(4)
    assert set(map(id, flight.let_go())) == set(map(id, errors))
    after = guarded.snapshot()
    assert (after.opened_at, after.openings, after.retry_after) == (before.opened_at, 1, 6)
    assert after.consecutive_failures == 3
    assert after.failures == 23
    assert len(opened) == 1


@every_shape
def test_a_late_success_closes_nothing(clock: ManualClock, shape: Shape) -> None:
    """A success that began before the opening does not close it, half-open or not (C010)."""
    guarded = breaker(failure_threshold=1, open_duration=2, clock=clock)
    early = InFlight(lambda behave: shape.run(guarded, behave), [returning("early")])
    shape.fail(guarded)
    clock.advance(2.5)
    probe = InFlight(lambda behave: shape.run(guarded, behave), [raising(ConnectionError())])
    clock.advance(1)
    assert early.let_go() == ["early"]
    assert guarded.state is State.HALF_OPEN
    assert guarded.snapshot().probe_successes == 0
    clock.advance(0.5)
    probe.let_go()
    assert guarded.state is State.OPEN
    assert guarded.snapshot().retry_after == 2


def test_failures_of_calls_in_flight_prolong_nothing(clock: ManualClock) -> None:
    """Late failures all through the open period leave its end where it was (C011)."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    flights = [InFlight(guarded.call, [raising(ConnectionError())]) for _ in range(8)]
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    opened_at = guarded.snapshot().opened_at
    for flight in flights[:4]:
        clock.advance(0.25)
        flight.let_go()
    assert clock.now() == 1
    assert guarded.state is State.HALF_OPEN
    for flight in flights[4:]:
        flight.let_go()
    assert guarded.snapshot().opened_at == opened_at
    assert guarded.call(returning("well")) == "well"
    assert guarded.state is State.CLOSED


@sync_shapes
def test_failures_that_meet_at_the_threshold(clock: ManualClock, shape: Shape) -> None:
    """Sixteen threads that fail together at the threshold are one opening (C012)."""
    opened: list[Any] = []
    guarded = breaker(failure_threshold=16, clock=clock, on_open=opened.append)
    changes: list[Any] = []
    guarded.subscribe(changes.append, StateChanged)
    flight = InFlight(lambda behave: shape.run(guarded, behave), [raising(ConnectionError())] * 16)
    assert {type(one) for one in flight.let_go()} == {ConnectionError}
    assert len(opened) == 1
    assert [change.new for change in changes] == [State.OPEN]
    assert guarded.snapshot().openings == 1


@every_shape
def test_resets_and_switches_that_meet(clock: ManualClock, shape: Shape) -> None:
    """Threads that reset, force and release together see no error, and all works afterwards (C012)."""
    guarded = breaker(failure_threshold=1, clock=clock)
    shape.fail(guarded)
    faults: list[Any] = []

    def force() -> None:
        with guarded.force_open(by="somebody"):
            guarded.why()

    together([guarded.reset, force] * 8, faults.append)
    assert faults == [None] * 16
    assert (guarded.state, guarded.mode, guarded.handles) == (State.CLOSED, Mode.AUTO, ())
    shape.fail(guarded)
    with pytest.raises(CircuitOpenError):
        shape.run(guarded, returning())


def test_blocks_that_wander_between_threads(clock: ManualClock) -> None:
    """A block may be entered in one thread and left in another, two of them crossed (C035)."""
    guarded = breaker(failure_threshold=1, open_duration=1, probe_limit=2, clock=clock)
    durations: list[float] = []
    guarded.subscribe(lambda event: durations.append(event.duration), CallSucceeded)
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    clock.advance(1)
    first, second = guarded.guard(), guarded.guard()
    in_thread(first.__enter__)
    clock.advance(0.25)
    in_thread(second.__enter__)
    clock.advance(0.25)
    assert guarded.snapshot().probes_active == 2
    in_thread(lambda: first.__exit__(None, None, None))
    assert guarded.snapshot().probes_active == 1
    clock.advance(0.25)
    in_thread(lambda: second.__exit__(None, None, None))
    assert (guarded.state, durations) == (State.CLOSED, [0.5, 0.5])


def test_a_yield_dependency_in_a_thread_pool(clock: ManualClock) -> None:
    """A generator around a block, each step in whichever thread of a pool, gives its slot back (C035)."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    clock.advance(1)

    def dependency() -> Any:
        with guarded.guard():
            yield "resource"

    with ThreadPoolExecutor(2) as one, ThreadPoolExecutor(2) as other:
        steps = dependency()
        assert one.submit(next, steps).result(PATIENCE) == "resource"
        assert guarded.snapshot().probes_active == 1
        assert other.submit(next, steps, "end").result(PATIENCE) == "end"
    assert guarded.state is State.CLOSED
