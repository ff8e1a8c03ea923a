"""What code sees of the limits around it: deadlines that nest, clocks, signals."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakerkit import (
    CallCancelledError,
    CallTimeoutError,
    CancelSignal,
    DeadlineExceededError,
    _ambient,
    check_deadline,
    current_deadline,
    pipeline,
    timeout,
)
from breakerkit.testing import ManualClock
from tests.shapes import in_thread


def test_no_limit():
    """With no limit around, there is no deadline and nothing to check."""
    assert current_deadline() is None
    check_deadline()
    assert _ambient.remaining() is None
    assert _ambient.too_late() is None
    assert _ambient.current_signal() is None


def test_a_deadline(clock: ManualClock):
    """It says whose it is, how long it was, what is left, and when nothing is."""
    with timeout(2, name="db", clock=clock).guard():
        seen = current_deadline()
        assert seen is not None
        assert (seen.name, seen.seconds, seen.remaining, seen.expired) == ("db", 2.0, 2.0, False)
        assert repr(seen) == "<Deadline of 'db': 2 of 2 s left>"
        clock.advance(1.5)
        check_deadline()
        assert seen.remaining == 0.5 == _ambient.remaining()
        clock.advance(0.5)
        assert (seen.remaining, seen.expired, _ambient.remaining()) == (0.0, True, 0.0)
        clock.advance(5)
        assert seen.remaining == 0.0
        with pytest.raises(CallTimeoutError) as caught:
            check_deadline()
        assert (caught.value.name, caught.value.seconds) == ("db", 2.0)
    assert current_deadline() is None


def test_the_shorter_wins(clock: ManualClock):
    """A longer limit inside changes nothing, a shorter one is in force while its block runs."""
    with timeout(5, name="outer", clock=clock).guard():
        with timeout(9, name="longer", clock=clock).guard():
            assert current_deadline().name == "outer"
        with timeout(2, name="shorter", clock=clock).guard():
            assert current_deadline().name == "shorter"
        with timeout(5, name="equal", clock=clock).guard():
            assert current_deadline().name == "outer"
        assert current_deadline().remaining == 5


def test_two_clocks(clock: ManualClock):
    """Limits on two clocks are both in force, whichever clock is ahead."""
    other = ManualClock(1000)
    with (
        timeout(5, name="outer", clock=clock).guard(),
        timeout(2, name="inner", clock=other).guard(),
        timeout(1, name="innermost", clock=other).guard(),
    ):
        deadline = current_deadline()
        assert (deadline.name, deadline.remaining) == ("innermost", 1)
        clock.advance(4.5)
        assert current_deadline().name == "outer"
        assert deadline.remaining == 0.5
        clock.advance(1)
        with pytest.raises(CallTimeoutError, match="'outer'"):
            check_deadline()


def test_a_clock_that_steps_back():
    """What is left is never more than the limit was long."""

    class Stepping:
        reading = 100.0

        def now(self) -> float:
            return self.reading

    clock = Stepping()
    with timeout(2, clock=clock).guard():
        clock.reading = 0.0
        assert current_deadline().remaining == 2.0


def test_nothing_begins_without_time(clock: ManualClock):
    """What has no time left is not begun; the error says whose deadline it was."""
    ran: list[int] = []
    inner = timeout(9, name="inner", clock=clock)
    with timeout(2, name="outer", clock=clock).guard():
        clock.advance(2)
        with pytest.raises(DeadlineExceededError) as caught:
            inner.call(ran.append, 1)
        with pytest.raises(DeadlineExceededError), inner.guard():
            ran.append(2)
    assert ran == []
    assert caught.value.name == "outer"
    assert caught.value.reason == "no time left"
    assert caught.value.retry_after is None
    assert inner.snapshot().rejected == 2


def test_the_signal_of_a_deadline(clock: ManualClock):
    """It reads as set once the deadline has passed, or when somebody sets it."""
    with timeout(2, name="db", clock=clock).guard():
        signal = current_deadline().signal
        assert not signal.cancelled
        assert signal.reason is None
        clock.advance(2)
        assert signal.cancelled
        assert signal.reason == "deadline of 'db'"
        assert signal.cancel("mine")
        assert signal.reason == "mine"


def test_a_signal_beside_a_deadline(clock: ManualClock):
    """The signal of ``apply`` in a pipeline is seen with the deadline and without it."""
    cancel = CancelSignal()

    def work() -> str:
        seen = current_deadline()
        check_deadline()
        assert seen is not None
        assert not seen.signal.cancelled
        cancel.cancel("hung up")
        assert seen.signal.cancelled
        assert seen.signal.reason == "hung up"
        assert _ambient.current_signal().cancelled
        with pytest.raises(CallCancelledError) as caught:
            check_deadline()
        assert caught.value.reason == "hung up"
        return "done"

    pipe = pipeline(timeout(2, clock=clock))
    assert pipe.apply(work, cancel=cancel) == "done"


def test_only_a_signal():
    """A signal alone is no deadline."""
    cancel, second = CancelSignal(), CancelSignal()
    with _ambient.bearing(cancel):
        assert current_deadline() is None
        assert _ambient.remaining() is None
        check_deadline()
        with timeout(5).guard():
            assert current_deadline().seconds == 5
            assert _ambient.current_signal() is cancel
        with _ambient.bearing(second):
            both = _ambient.current_signal()
            cancel.cancel("first")
            assert (both.cancelled, both.reason) == (True, "first")
            assert both.cancel("second")
            assert second.reason == "second" == both.reason
        with pytest.raises(CallCancelledError):
            check_deadline()
    assert _ambient.current_signal() is None


def test_a_signal_under_another_clock(clock: ManualClock):
    """A limit on another clock inside keeps the signal, and asks no clock of no limit."""
    cancel = CancelSignal()
    with _ambient.bearing(cancel), timeout(5, clock=clock).guard():
        assert _ambient.current_signal() is cancel
        assert current_deadline().remaining == 5


def test_steady(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    """Real time alone ends a limit on the monotonic clock with no signal, and no other."""
    import time

    from breakerkit import SystemClock

    system = SystemClock()
    assert system.now is time.monotonic
    seen = []
    for first, second in ((system, system), (system, clock), (clock, system)):
        with timeout(5, clock=first).guard(), timeout(2, clock=second).guard():
            seen.append(_ambient.steady(_ambient.limit.get()))
    assert seen == [True, False, False]
    with _ambient.bearing(CancelSignal()), timeout(5, clock=system).guard():
        assert not _ambient.steady(_ambient.limit.get())


def test_a_copied_context_takes_it_along(clock: ManualClock):
    """Work that is handed to another thread with its context sees the deadline."""
    with timeout(2, clock=clock).guard():
        context = contextvars.copy_context()
        assert in_thread(current_deadline) is None
        assert in_thread(lambda: context.run(current_deadline)).seconds == 2
    assert context.run(current_deadline) is None


def test_what_a_call_leaves_behind_is_not_under_its_limit(clock: ManualClock):
    """A context that was copied inside a sync call, or under a signal, has what was around it."""
    inner, outer = timeout(2, clock=clock), timeout(5, clock=clock)
    context = inner.call(contextvars.copy_context)
    assert current_deadline() is None
    assert context.run(current_deadline) is None
    with outer.guard():
        context = inner.call(contextvars.copy_context)
        assert context.run(current_deadline).seconds == 5
    assert context.run(current_deadline) is None
    with _ambient.bearing(CancelSignal()):
        context = contextvars.copy_context()
        assert context.run(_ambient.current_signal) is not None
    assert context.run(_ambient.current_signal) is None


async def test_a_task_started_by_a_sync_call_is_free_when_that_has_ended(clock: ManualClock):
    """A sync function under a cooperative limit may start work that goes on for good."""
    gate = asyncio.Event()

    async def serve() -> object:
        await gate.wait()
        return current_deadline(), await timeout(60, clock=clock).call(left)

    async def left() -> float | None:
        return _ambient.remaining()

    task = timeout(2, clock=clock).call(lambda: asyncio.ensure_future(asyncio.sleep(0)))
    assert await task is None
    started: list[asyncio.Task[object]] = []
    timeout(2, clock=clock).call(lambda: started.append(asyncio.ensure_future(serve())))
    clock.advance(10)
    gate.set()
    assert await started[0] == (None, 60)


class Model:
    """Limits around each other, by brute force: all are kept and all are asked."""

    def __init__(self) -> None:
        self.clocks = (ManualClock(), ManualClock(50))
        self.limits: list[tuple[float, ManualClock, str, float]] = []

    def left(self) -> tuple[float, str] | None:
        """Return what is left and whose limit says so; of equal ones the outermost."""
        found = [(end - clock.now(), name) for end, clock, name, _ in self.limits]
        return min(found, key=lambda one: one[0], default=None)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(1, 20), st.integers(0, 1)),
        st.tuples(st.just("leave"), st.just(0), st.just(0)),
        st.tuples(st.just("advance"), st.integers(0, 4), st.integers(0, 1)),
        st.tuples(st.just("call"), st.integers(1, 20), st.integers(0, 1)),
    ),
    max_size=40,
)


@given(STEPS)
def test_nested_limits_against_a_model(steps: list[tuple[str, int, int]]):
    """However limits on two clocks nest, what is left is the least of all, and 0 begins nothing."""
    model, stack = Model(), []
    with contextlib.ExitStack() as cleanup:
        for number, (step, size, which) in enumerate(steps):
            clock = model.clocks[which]
            before = model.left()
            if step == "advance":
                clock.advance(size)
            elif step == "leave" and stack:
                stack.pop().close()
                model.limits.pop()
            elif step in ("enter", "call"):
                one: Any = timeout(size, clock=clock)
                one._guard.rename(str(number))
                if before is not None and before[0] <= 0:
                    with pytest.raises(DeadlineExceededError) as caught:
                        one.call(pytest.fail, "begun without time")
                    assert caught.value.name == before[1]
                elif step == "call":
                    inner = (float(size), str(number))
                    least = min(before or inner, inner, key=lambda one: one[0])
                    assert (
                        one.call(lambda: (current_deadline().remaining, current_deadline().name))
                        == least
                    )
                else:
                    block = contextlib.ExitStack()
                    block.enter_context(one.guard())
                    stack.append(cleanup.enter_context(block))
                    model.limits.append((clock.now() + size, clock, str(number), size))
            _compare(model)
        while stack:
            stack.pop().close()
            model.limits.pop()
            _compare(model)


def _compare(model: Model) -> None:
    expected, seen = model.left(), current_deadline()
    if expected is None:
        assert seen is None
        return
    assert seen is not None
    assert (seen.remaining, seen.name) == (max(0, expected[0]), expected[1])
    if expected[0] > 0:
        check_deadline()
        return
    with pytest.raises(CallTimeoutError) as caught:
        check_deadline()
    assert caught.value.name == expected[1]


def test_a_deadline_that_outlives_its_call(clock: ManualClock):
    """It never says that more is left than there ever was."""
    with timeout(2, clock=clock).guard():
        seen = current_deadline()
    assert seen.remaining == 2
    assert "2 of 2 s left" in repr(seen)
