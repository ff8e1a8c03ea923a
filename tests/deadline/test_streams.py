"""Generators under a limit: one per item, and nothing is in force while the reader has the word."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
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

MODES = pytest.mark.parametrize("mode", ["cooperative", "abandon"])


@MODES
def test_a_limit_per_item(clock: ManualClock, mode: Any):
    """Each item has the whole time; the reader's own time between two items is not counted."""
    one = timeout(5, clock=clock, mode=mode)

    @one
    def items() -> Iterator[Any]:
        yield current_deadline().remaining
        clock.advance(4)
        yield current_deadline().remaining
        clock.advance(6)
        yield "late"

    stream = items()
    assert next(stream) == 5
    assert current_deadline() is None
    clock.advance(100)
    assert next(stream) == 1
    clock.advance(100)
    assert next(stream) == "late"
    assert counts(one) == (0, 1, 0)
    assert list(stream) == []
    assert one.snapshot().calls == 4


@MODES
def test_the_whole_protocol(mode: Any):
    """What is sent and thrown goes in, what is returned comes out, closing runs the cleanup once."""
    closed: list[int] = []

    @timeout(5, mode=mode)
    def echo(first: Any) -> Any:
        try:
            got = yield first
            try:
                yield got
            except LookupError as error:
                yield error
            return "returned"
        finally:
            closed.append(1)

    stream, error = echo("first"), LookupError("thrown")
    assert next(stream) == "first"
    assert stream.send("sent") == "sent"
    assert stream.throw(error) is error
    with pytest.raises(StopIteration) as caught:
        next(stream)
    assert caught.value.value == "returned"
    stream = echo("first")
    next(stream)
    stream.close()
    assert closed == [1, 1]
    stream = echo("dropped half read")
    next(stream)
    del stream
    gc.collect()
    assert closed == [1, 1, 1]
    echo("never started")


def test_thrown_errors_keep_nothing_alive():
    """An error that is thrown in and comes out again is no part of a cycle."""

    class Big:
        pass

    @timeout(5)
    def pass_on() -> Iterator[None]:
        yield

    def once() -> weakref.ref[Big]:
        big = Big()
        stream = pass_on()
        next(stream)
        with contextlib.suppress(LookupError):
            stream.throw(LookupError(big))
        return weakref.ref(big)

    gc.collect()
    gc.disable()
    try:
        assert once()() is None
    finally:
        gc.enable()


def test_between_threads(clock: ManualClock):
    """Items may be asked for from different threads and contexts."""

    @timeout(5, clock=clock)
    def items() -> Iterator[Any]:
        for _ in range(3):
            yield current_deadline().remaining

    stream = items()
    assert next(stream) == 5
    assert in_thread(lambda: next(stream)) == 5
    assert next(stream) == 5
    assert current_deadline() is None


def test_it_checks(clock: ManualClock):
    """An item that checks the deadline ends the stream with our error."""
    one = timeout(5, clock=clock)

    @one
    def items() -> Iterator[Any]:
        yield 1
        clock.advance(5)
        check_deadline()

    stream = items()
    assert next(stream) == 1
    with pytest.raises(CallTimeoutError):
        next(stream)
    assert list(stream) == []
    assert counts(one) == (1, 0, 0)


def test_abandoned_item():
    """An item that hangs is left behind; the stream has ended, its thread ends with it."""
    one = timeout(0.1, mode="abandon")
    go = threading.Event()

    @one
    def items() -> Iterator[Any]:
        yield 1
        go.wait(30)
        yield 2

    stream = items()
    assert next(stream) == 1
    with pytest.raises(CallTimeoutError) as caught:
        next(stream)
    assert caught.value.abandoned
    assert list(stream) == []
    (work,) = one.snapshot().abandoned_now
    assert work.function.endswith("items")
    go.set()


def test_a_context_manager(clock: ManualClock):
    """Under ``@contextmanager`` entering and leaving are limited, the block is not."""
    one = timeout(5, clock=clock)
    seen: list[Any] = []

    @contextlib.contextmanager
    @one
    def manager() -> Iterator[Any]:
        try:
            yield current_deadline().remaining
        except LookupError as error:
            seen.append((error, current_deadline().remaining))

    error = LookupError()
    with manager() as left:
        assert left == 5
        clock.advance(100)
        assert current_deadline() is None
        raise error
    assert seen == [(error, 5)]
    assert counts(one) == (0, 0, 0)


def test_a_reader_under_a_limit(clock: ManualClock):
    """A reader's own deadline bounds each item, and is back between them."""

    @timeout(5, clock=clock)
    def items() -> Iterator[Any]:
        while True:
            yield current_deadline().remaining

    stream = items()
    assert next(stream) == 5
    with timeout(2, clock=clock).guard():
        assert next(stream) == 2
        assert current_deadline().remaining == 2
    assert next(stream) == 5


async def test_async_in_two_tasks():
    """C043: read half in one task, half in another, with the reader's own work between; nobody is cancelled."""
    one = timeout(0.2)

    @one
    async def items() -> AsyncIterator[Any]:
        for number in range(4):
            await asyncio.sleep(0)
            assert current_deadline() is not None
            yield number

    stream = items()

    async def two() -> list[Any]:
        first = await anext(stream)
        assert current_deadline() is None
        await asyncio.sleep(0.3)
        return [first, await anext(stream)]

    assert await asyncio.create_task(two()) == [0, 1]
    assert await asyncio.create_task(two()) == [2, 3]
    with pytest.raises(StopAsyncIteration):
        await asyncio.create_task(_next(stream))
    assert counts(one) == (0, 0, 0)
    assert one.snapshot().calls == 5


async def _next(stream: Any) -> Any:
    return await anext(stream)


async def test_async_item_that_hangs():
    """An item that hangs is cancelled, and the stream has ended."""
    one = timeout(0.1)
    cleaned: list[int] = []

    @one
    async def items() -> AsyncIterator[Any]:
        try:
            yield 1
            await forever()
        finally:
            cleaned.append(1)

    stream = items()
    assert await anext(stream) == 1
    with pytest.raises(CallTimeoutError):
        await anext(stream)
    assert cleaned == [1]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert one.snapshot().expired == 1


async def test_the_whole_async_protocol():
    """What is sent and thrown goes in, closing runs the cleanup once, also of one dropped half read."""
    closed: list[int] = []

    @timeout(5)
    async def echo(first: Any) -> Any:
        try:
            got = yield first
            try:
                yield got
            except LookupError as error:
                yield error
        finally:
            await asyncio.sleep(0)
            closed.append(1)

    stream, error = echo("first"), LookupError("thrown")
    assert await anext(stream) == "first"
    assert await stream.asend("sent") == "sent"
    assert await stream.athrow(error) is error
    with pytest.raises(LookupError) as caught:
        await stream.athrow(error)
    assert caught.value is error
    stream = echo("first")
    await anext(stream)
    await stream.aclose()
    assert closed == [1, 1]
    stream = echo("dropped")
    await anext(stream)
    del stream
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)
    assert closed == [1, 1, 1]
    echo("never started")


async def test_an_async_context_manager():
    """Under ``@asynccontextmanager`` the block may take as long as it likes and fail as it likes."""
    one = timeout(0.1)
    seen: list[Any] = []

    @contextlib.asynccontextmanager
    @one
    async def manager() -> AsyncIterator[str]:
        try:
            yield "entered"
        except LookupError as error:
            seen.append(error)

    error = LookupError()
    async with manager() as text:
        assert text == "entered"
        await asyncio.sleep(0.15)
        raise error
    assert seen == [error]
    assert counts(one) == (0, 0, 0)


@MODES
def test_a_stream_that_is_refused_is_closed(clock: ManualClock, mode: Any):
    """Where no time is left for an item, the generator's cleanup runs at once, though the error is kept."""
    outer, inner = timeout(10, clock=clock), timeout(5, clock=clock, mode=mode)
    seen: list[str] = []

    @inner
    def items() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            seen.append("closed")

    @inner
    async def async_items() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    with outer.guard():
        stream = items()
        assert next(stream) == 1
        clock.advance(10)
        with pytest.raises(DeadlineExceededError) as kept:
            next(stream)
        assert seen == ["closed"]

    async def main() -> None:
        with outer.guard():
            stream = async_items()
            assert await anext(stream) == 1
            clock.advance(10)
            with pytest.raises(DeadlineExceededError) as kept:
                await anext(stream)
            assert seen == ["closed", "closed"]
            assert kept.tb

    asyncio.run(main())
    assert kept.tb


@pytest.mark.parametrize("error", [GeneratorExit, KeyError])
async def test_a_stream_that_was_closed_behind_our_back(error: type[BaseException]):
    """What is thrown in comes out, also where an event loop that ends has closed the stream inside."""

    async def items() -> Any:
        yield 1
        yield 2

    inner = items()
    stream = timeout(5)(lambda: inner)()
    assert await anext(stream) == 1
    await inner.aclose()
    with pytest.raises(error):
        await stream.athrow(error)
    assert [item async for item in stream] == []
