"""Sync code under a cooperative limit: it is told, it is counted, its errors are its own."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from breakerkit import (
    BulkheadFullError,
    CallEndedLate,
    CallTimedOut,
    CallTimeoutError,
    CircuitOpenError,
    DeadlineExceededError,
    State,
    TimeoutRejected,
    breaker,
    check_deadline,
    current_deadline,
    timeout,
)
from breakerkit.testing import ManualClock, capture_events
from tests.shapes import Shape, every_shape, raising, returning, sync_shapes


def counts(one: Any) -> tuple[int, int, int]:
    """Return what a timeout has counted: expired, late, rejected."""
    seen = one.snapshot()
    return seen.expired, seen.late, seen.rejected


@every_shape
def test_in_time(clock: ManualClock, shape: Shape):
    """A call that is done in time gives its value, and saw its deadline."""
    one = timeout(2, clock=clock)
    assert shape.run(one, lambda: current_deadline().remaining) == 2
    assert counts(one) == (0, 0, 0)
    assert one.snapshot().calls >= 1
    assert current_deadline() is None


@every_shape
def test_late(clock: ManualClock, shape: Shape):
    """A value that comes late is delivered and counted, for nobody stopped the code."""
    one = timeout(2, name="db", clock=clock)
    with capture_events() as log:
        shape.run(one, lambda: clock.advance(2))
    if not shape.is_async:
        assert counts(one) == (0, 1, 0)
        assert [(event.name, event.seconds, event.error) for event in log.of(CallEndedLate)] == [
            ("db", 2.0, None)
        ]


@every_shape
def test_it_checks(clock: ManualClock, shape: Shape):
    """Code that asks is ended once its time is over; that is counted as an expiry of that limit."""
    one = timeout(2, name="db", clock=clock)

    def work() -> None:
        clock.advance(2)
        check_deadline()

    with capture_events() as log, pytest.raises(CallTimeoutError) as caught:
        shape.run(one, work)
    assert (caught.value.name, caught.value.seconds, caught.value.abandoned) == ("db", 2.0, False)
    assert counts(one) == (1, 0, 0)
    assert [(event.seconds, event.abandoned) for event in log.of(CallTimedOut)] == [(2.0, False)]


@every_shape
@pytest.mark.parametrize("kind", [TimeoutError, ConnectionError])
@pytest.mark.parametrize("late", [0, 1])
def test_its_own_error(clock: ManualClock, shape: Shape, kind: type[Exception], late: int):
    """C041: the function's own TimeoutError is the very object it raised, and no expiry."""
    one, error = timeout(2, clock=clock), kind("mine")

    def work() -> None:
        clock.advance(2 * late)
        raise error

    with pytest.raises(kind) as caught:
        shape.run(one, work)
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert counts(one) == (0, late, 0)


@every_shape
def test_an_error_of_another_limit(clock: ManualClock, shape: Shape):
    """A CallTimeoutError of another policy passes, and is counted there only."""
    one, error = timeout(2, clock=clock), CallTimeoutError("another", 2.0)
    with pytest.raises(CallTimeoutError) as caught:
        shape.run(one, raising(error))
    assert caught.value is error
    assert counts(one) == (0, 0, 0)


@every_shape
@pytest.mark.parametrize("error", [KeyboardInterrupt(), BulkheadFullError("x", "full", None)])
def test_what_is_no_evidence(clock: ManualClock, shape: Shape, error: BaseException):
    """An interrupt or a rejection passes, and is not counted as late."""
    one = timeout(2, clock=clock)

    def work() -> None:
        clock.advance(5)
        raise error

    with pytest.raises(type(error)):
        shape.run(one, work)
    assert counts(one) == (0, 0, 0)
    assert current_deadline() is None


@every_shape
def test_nested(clock: ManualClock, shape: Shape):
    """Under a longer limit its own is in force, under a shorter one that; each counts its own."""
    outer, inner = timeout(2, name="outer", clock=clock), timeout(9, name="inner", clock=clock)

    def work() -> None:
        clock.advance(2)
        check_deadline()

    def nested() -> Any:
        return shape.run(inner, work)

    with pytest.raises(CallTimeoutError) as caught:
        outer.call(nested)
    assert caught.value.name == "outer"
    assert counts(outer) == (1, 0, 0)
    assert counts(inner) == (0, 0, 0)
    with pytest.raises(CallTimeoutError) as caught:
        inner.call(lambda: shape.run(outer, work))
    assert caught.value.name == "outer"
    assert counts(outer) == (2, 0, 0)
    assert counts(inner) == (0, 0, 0)


@sync_shapes
def test_within_itself(clock: ManualClock, shape: Shape):
    """A function that calls itself through one limit expires once."""
    one = timeout(2, name="db", clock=clock)

    def work() -> None:
        clock.advance(2)
        check_deadline()

    with pytest.raises(CallTimeoutError):
        one.call(lambda: shape.run(one, work))
    assert counts(one) == (1, 0, 0)


@every_shape
def test_not_begun_inside(clock: ManualClock, shape: Shape):
    """What is not begun further inside, because this limit passed, ends the call as timed out.

    The call itself was run: to those around it is a failure, and no rejection.
    """
    one = timeout(2, name="db", clock=clock)
    inner = timeout(1, name="inner", clock=clock)

    def work() -> None:
        clock.advance(2)
        inner.call(returning())

    with capture_events() as log, pytest.raises(CallTimeoutError) as caught:
        shape.run(one, work)
    assert caught.value.name == "db"
    assert isinstance(caught.value.__cause__, DeadlineExceededError)
    assert counts(one) == (1, 0, 0)
    assert counts(inner) == (0, 0, 1)
    assert [(event.name, event.reason) for event in log.of(TimeoutRejected)] == [
        ("inner", "no time left")
    ]


@every_shape
def test_not_begun_at_all(clock: ManualClock, shape: Shape):
    """With no time left around it nothing is begun, and a breaker around does not count that."""
    outer, inner = timeout(2, name="outer", clock=clock), timeout(1, clock=clock)
    watch = breaker(failure_threshold=1)

    def nested() -> None:
        clock.advance(2)
        with pytest.raises(DeadlineExceededError):
            watch.call(lambda: shape.run(inner, pytest.fail))

    outer.call(nested)
    assert watch.snapshot().ignored == 1
    assert inner.snapshot().rejected == 1


def test_a_breaker_around(clock: ManualClock):
    """An expiry is a failure to a breaker."""
    guarded = breaker(failure_threshold=1)

    @guarded
    @timeout(2, clock=clock)
    def work() -> None:
        clock.advance(3)
        check_deadline()

    with pytest.raises(CallTimeoutError):
        work()
    with pytest.raises(CircuitOpenError):
        work()
    assert work.timeout.snapshot().calls == 1


def test_a_listener_that_raises(clock: ManualClock):
    """A broken listener changes neither the value nor the error nor what is in force."""
    one = timeout(2, clock=clock)
    one.subscribe(raising_listener)
    assert one.call(lambda: clock.advance(2)) == 2
    with pytest.raises(CallTimeoutError):
        one.call(lambda: (clock.advance(2), check_deadline()))
    assert current_deadline() is None
    assert counts(one) == (1, 1, 0)


def raising_listener(event: object) -> None:
    raise LookupError(event)


def test_a_clock_that_is_interrupted():
    """Ctrl-C wherever the clock is read passes, and leaves no limit in force."""

    class Striking(ManualClock):
        strikes = 0

        def now(self) -> float:
            self.strikes -= 1
            if self.strikes == 0:
                raise KeyboardInterrupt
            return super().now()

    for reading in (1, 2):
        clock = Striking()
        one = timeout(2, clock=clock)
        clock.strikes = reading
        with pytest.raises(KeyboardInterrupt):
            one.call(returning())
        assert current_deadline() is None


def test_ctrl_c_while_a_value_is_looked_at(clock: ManualClock):
    """Its type may run code of the user's: no limit stays in force."""

    class Meta(type):
        def __hash__(cls) -> int:
            raise KeyboardInterrupt

    class Odd(metaclass=Meta):
        pass

    with pytest.raises(KeyboardInterrupt):
        timeout(1, clock=clock)(lambda: Odd())()
    assert current_deadline() is None


def test_ctrl_c_storm():
    """Ctrl-C at any moment of many calls leaves no limit in force."""
    one = timeout(30)
    # Plain values: Ctrl-C may leave an `Event` locked, and makes ``is_alive`` lie.
    prepared, over, times = [False], [False], 60

    @one
    @one
    def work() -> None:
        pass

    def strike() -> None:
        # One at a time: a second one would come where nobody is prepared for it. One that
        # comes in a destructor Python itself swallows: then nobody is prepared anew.
        for number in range(times):
            wait()
            prepared[0] = False
            time.sleep(0.0001 * (number % 7))
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        wait()
        over[0] = True

    def wait() -> None:
        end = time.monotonic() + 2
        while not prepared[0] and time.monotonic() < end:
            time.sleep(0.0001)

    def calls() -> None:
        prepared[0] = True
        while not over[0]:
            work()

    thread = threading.Thread(target=strike)
    thread.start()
    struck = 0
    while not over[0]:
        try:
            calls()  # a frame of its own: all of it is inside the ``try``
        except KeyboardInterrupt:
            struck += 1
            assert current_deadline() is None
    thread.join()
    assert struck > times / 2


def test_threads_and_fields(clock: ManualClock):
    """Each thread has its own limit; one policy counts them all."""
    one = timeout(2, clock=clock)
    barrier = threading.Barrier(8)
    seen: list[Any] = []

    @one
    def work() -> None:
        barrier.wait()
        seen.append(current_deadline().remaining)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2.0] * 8
    assert one.snapshot().calls == 8


@pytest.mark.parametrize("mode", ["cooperative", "abandon"])
def test_a_breaker_inside_counts_nothing_of_a_limit_around(clock: ManualClock, mode: Any):
    """C032 in sync code: the limit is the caller's, and no evidence to a breaker under it.

    That of a limit inside the breaker is.
    """
    inner, outer = breaker(failure_threshold=1), breaker(failure_threshold=1)
    one = timeout(5, clock=clock, mode=mode)

    @outer
    @one
    @inner
    def work() -> None:
        clock.advance(5)
        check_deadline()

    with pytest.raises(CallTimeoutError):
        work()
    seen = inner.snapshot()
    assert (seen.failures, seen.ignored, seen.state) == (0, 1, State.CLOSED)
    assert outer.snapshot().state is State.OPEN
