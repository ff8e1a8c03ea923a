"""Plain functions that return work that is yet to run: that is limited, too."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from breakerkit import (
    CallTimeoutError,
    DeadlineExceededError,
    check_deadline,
    current_deadline,
    timeout,
)
from breakerkit.testing import ManualClock
from tests.deadline.test_async import forever
from tests.deadline.test_sync import counts
from tests.shapes import in_thread

MODES = pytest.mark.parametrize("mode", ["auto", "abandon"])


class Request:
    """An awaitable that is no coroutine, such as HTTP clients return."""

    def __init__(self, answer: Any = None) -> None:
        self.url = "somewhere"
        self.closed = False
        self._answer = answer

    def __await__(self) -> Any:
        if self._answer is None:
            yield from forever().__await__()
        else:
            yield from asyncio.sleep(0).__await__()
        return self._answer

    async def __aenter__(self) -> Any:
        return await self

    async def __aexit__(self, *details: Any) -> None:
        self.closed = True


@MODES
async def test_a_coroutine(mode: Any):
    """Awaiting a returned coroutine has the whole limit."""
    one = timeout(0.1, mode=mode)
    make = one(lambda value: forever() if value is None else asyncio.sleep(0, value))
    assert await make("value") == "value"
    with pytest.raises(CallTimeoutError):
        await make(None)
    assert one.snapshot().expired == 1


@MODES
async def test_an_awaitable(mode: Any):
    """What can be awaited or entered looks as before, and both are limited."""
    one = timeout(0.1, mode=mode)
    request = one(lambda *answer: Request(*answer))
    made = request("value")
    assert isinstance(made, Request)
    assert made.url == "somewhere"
    assert await made == "value"
    async with request("value") as got:
        assert got == "value"
    with pytest.raises(CallTimeoutError):
        await request()
    with pytest.raises(CallTimeoutError):
        async with request():
            pytest.fail("entered")
    assert one.snapshot().expired == 2


async def test_an_awaitable_as_a_task():
    """A loop may drive it as a coroutine."""

    class Coroutine(Request):
        def send(self, value: Any) -> Any:
            pytest.fail("driven past the limit")

        def throw(self, *details: Any) -> Any:
            pytest.fail("driven past the limit")

        def close(self) -> None:
            self.closed = True

    made: Any = []
    one = timeout(0.1)

    @one
    def request(*answer: Any) -> Any:
        made.append(Coroutine(*answer))
        return made[-1]

    driven = request("value")

    async def drive() -> Any:
        return await _Driver(driven)

    assert await drive() == "value"
    driven.close()
    assert made[0].closed
    request("value").close()
    assert made[1].closed
    with pytest.raises(CallTimeoutError):
        await _Driver(request())


class _Driver:
    """Drive a coroutine-like object as ``yield from`` drives an iterator."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Any:
        value, error = None, None
        while True:
            try:
                given = self._coroutine.throw(error) if error else self._coroutine.send(value)
            except StopIteration as end:
                return end.value
            error = value = None
            try:
                value = yield given
            except BaseException as raised:
                error = raised


@MODES
def test_a_generator(clock: ManualClock, mode: Any):
    """A returned generator has a limit per item."""
    one = timeout(5, clock=clock, mode=mode)

    def items() -> Iterator[Any]:
        yield current_deadline().remaining

    stream = one(lambda: items())()
    clock.advance(100)
    assert list(stream) == [5]
    with timeout(9, clock=clock).guard():
        assert list(one(lambda: items())()) == [5]


async def test_an_async_generator():
    """A returned async generator has a limit per item."""
    one = timeout(0.1)

    async def items() -> AsyncIterator[Any]:
        yield 1
        await forever()

    stream = one(lambda: items())()
    assert await anext(stream) == 1
    with pytest.raises(CallTimeoutError):
        await anext(stream)


async def test_a_future_in_time():
    """A future of the loop gives its value, its error, and its cancellation."""
    one, loop = timeout(5, name="db"), asyncio.get_running_loop()
    made: list[asyncio.Future[Any]] = []

    @one
    def make() -> asyncio.Future[Any]:
        made.append(loop.create_future())
        return made[-1]

    future = make()
    assert asyncio.isfuture(future)
    made[0].set_result("value")
    assert await future == "value"
    future, error = make(), TimeoutError("mine")
    made[1].set_exception(error)
    with pytest.raises(TimeoutError) as caught:
        await future
    assert caught.value is error
    future = make()
    made[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    future = make()
    future.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert made[3].cancelled()
    assert counts(one) == (0, 0, 0)
    assert all(handle.cancelled() for handle in loop._scheduled)


async def test_a_future_that_is_done():
    """One that is done already is given as it is."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(1)
    assert timeout(5)(lambda: future)() is future


async def test_a_future_that_takes_too_long():
    """Its time runs from the call; then it is cancelled, whether it heeds that or not."""
    one = timeout(0.01, name="db")
    ended: list[str] = []

    async def stubborn() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            ended.append("cancelled")
        return "late"

    future = one(lambda: asyncio.ensure_future(stubborn()))()
    with pytest.raises(CallTimeoutError, match="'db'"):
        await future
    await asyncio.sleep(0)
    assert ended == ["cancelled"]
    assert counts(one) == (1, 0, 0)
    failing = one(lambda: asyncio.ensure_future(_fails_when_cancelled()))()
    with pytest.raises(CallTimeoutError):
        await failing
    await asyncio.sleep(0.01)


async def test_a_future_that_its_caller_cancels_as_it_expires():
    """Cancelled in the very turn of the loop in which its time is over, it is cancelled, and no expiry."""
    one, loop = timeout(0.02), asyncio.get_running_loop()
    future = one(lambda: asyncio.ensure_future(forever()))()
    timer = next(handle for handle in loop._scheduled if not handle.cancelled())
    loop.call_at(timer.when() - 1e-7, future.cancel)
    time.sleep(0.03)
    with pytest.raises(asyncio.CancelledError):
        await future
    assert counts(one) == (0, 0, 0)
    await asyncio.sleep(0)


async def _fails_when_cancelled() -> None:
    try:
        await forever()
    finally:
        raise LookupError("nobody shall hear that it was never retrieved")


async def test_a_future_that_checks(clock: ManualClock):
    """A task that checks the deadline it was made under is an expiry of that limit."""
    one = timeout(5, clock=clock)

    async def work() -> None:
        clock.advance(5)
        check_deadline()

    with pytest.raises(CallTimeoutError):
        await one(lambda: asyncio.ensure_future(work()))()
    assert one.snapshot().late == 0


async def test_a_future_under_a_shorter_limit():
    """The shorter limit around bounds it, and counts it."""
    outer, inner = timeout(0.02, name="outer"), timeout(5, name="inner")
    make = inner(lambda: asyncio.ensure_future(forever()))
    with pytest.raises(CallTimeoutError, match="'outer'"):
        async with outer.guard():
            await asyncio.shield(make())
    assert counts(outer) == (1, 0, 0)
    assert counts(inner) == (0, 0, 0)
    await asyncio.sleep(0.01)


async def test_a_future_of_another_loop():
    """It is refused, and cancelled over there: nobody here could limit it."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    with pytest.raises(TypeError, match="a future of an event loop that does not run here"):
        await asyncio.to_thread(timeout(5)(lambda: future))
    await asyncio.sleep(0)
    assert future.cancelled()


def test_a_future_of_an_executor():
    """It is refused and cancelled, with advice: a limit on it would be none."""
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    with pytest.raises(TypeError, match=r"put the timeout on what runs in the executor"):
        timeout(5)(lambda: future)()
    assert future.cancelled()


def test_something_that_looks_like_a_future():
    """An object with a method of that name and other manners is the caller's."""

    class Signal:
        def add_done_callback(self) -> None:
            pytest.fail("called")

    signal = Signal()
    assert timeout(5)(lambda: signal)() is signal


def test_in_a_thread_without_a_loop():
    """A coroutine that is made where no loop runs is limited where it is awaited."""
    one = timeout(0.01)
    made = in_thread(one(forever_made))

    async def main() -> None:
        with pytest.raises(CallTimeoutError):
            await made

    asyncio.run(main())
    assert threading.active_count() >= 1


def forever_made() -> Any:
    return forever()


@pytest.mark.parametrize("mode", ["cooperative", "abandon"])
async def test_a_coroutine_that_is_refused(clock: ManualClock, mode: Any):
    """A returned coroutine for which no time is left is closed: no warning says it was never awaited."""
    one, outer = timeout(5, clock=clock, mode=mode), timeout(2, clock=clock)
    make = one(lambda: forever())
    with outer.guard():
        refused = make()
        clock.advance(2)
        with pytest.raises(DeadlineExceededError):
            await refused


async def test_a_future_for_which_no_time_is_left(clock: ManualClock):
    """It was begun, so that is no rejection; it is cancelled."""
    one, outer = timeout(60, clock=clock), timeout(5, name="outer", clock=clock)
    tasks: list[Any] = []

    def slow() -> Any:
        tasks.append(asyncio.ensure_future(asyncio.sleep(60)))
        clock.advance(5)
        return tasks[0]

    with pytest.raises(CallTimeoutError, match="'outer'"), outer.guard():
        await one.call(slow)
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()
