"""Generators: another provider only before the first item; and work that plain functions return."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect

import pytest

from breakerkit import AllProvidersFailedError, failover
from tests.providers.rig import DOWN


def counted(line):
    """Return successes, failures, and what the breaker ignored, per provider."""
    return [(one.successes, one.failures, one.breaker.ignored) for one in line.snapshot().providers]


async def collect(stream):
    """Read an async stream."""
    return [item async for item in stream]


def test_c052_no_item_twice():
    """C052: a generator that fails after its second item is not begun again with another provider."""
    line = failover(["a", "b"])

    @line
    def work(provider):
        yield provider, 1
        yield provider, 2
        raise DOWN

    found = []
    with pytest.raises(ConnectionError) as caught:
        found += work()
        found.extend(work())
    assert caught.value is DOWN
    stream = work()
    assert [next(stream), next(stream)] == [("a", 1), ("a", 2)]
    with pytest.raises(ConnectionError):
        next(stream)
    assert counted(line) == [(0, 2, 0), (0, 0, 0)]


def test_c052_async():
    """C052: the same for an async generator."""
    line, found = failover(["a", "b"]), []

    @line
    async def work(provider):
        yield provider, 1
        yield provider, 2
        raise DOWN

    async def main():
        async for item in work():
            found.append(item)

    with pytest.raises(ConnectionError) as caught:
        asyncio.run(main())
    assert caught.value is DOWN
    assert found == [("a", 1), ("a", 2)]
    assert counted(line) == [(0, 1, 0), (0, 0, 0)]


@pytest.mark.parametrize("strategy", ["failback", "broadcast", "forking"])
def test_refused_at_decoration(strategy):
    """Strategies that must know at once how a call ends refuse generators, and say what to do."""
    line = failover(["a"], strategy=strategy)

    def work(provider):
        yield

    async def async_work(provider):
        yield

    for function in (work, async_work):
        with pytest.raises(TypeError, match="only before the first item"):
            line(function)
        with pytest.raises(TypeError, match="only before the first item"):
            line.call(function)


def test_a_generator_is_one():
    """What is decorated stays what it was, and nothing runs before the first step."""

    @failover(lambda: pytest.fail("asked too early"))
    def work(provider):
        yield

    @failover(lambda: pytest.fail("asked too early"))
    async def async_work(provider):
        yield

    assert inspect.isgeneratorfunction(work)
    assert inspect.isasyncgenfunction(async_work)
    work()
    async_work()


def test_send_throw_close_and_the_return_value():
    """A generator is driven as if it were the bare one."""
    line = failover(["a", "b"])

    @line
    def work(provider):
        try:
            got = yield provider
            while got != "end":
                try:
                    got = yield got
                except KeyError as error:
                    got = yield f"caught {error.args[0]}"
        finally:
            closed.append(provider)
        return "done"

    closed = []
    stream = work()
    assert [next(stream), stream.send(1), stream.throw(KeyError("k")), stream.send(2)] == [
        "a", 1, "caught k", 2,
    ]  # fmt: skip
    with pytest.raises(StopIteration) as stop:
        stream.send("end")
    assert stop.value.value == "done"
    stream = work()
    next(stream)
    stream.close()
    stream = work()
    next(stream)
    with pytest.raises(LookupError):
        stream.throw(LookupError("mine"))
    assert closed == ["a"] * 3
    assert counted(line)[0] == (1, 1, 1)


def test_asend_athrow_aclose():
    """An async generator is driven as if it were the bare one."""
    line, closed = failover(["a", "b"]), []

    @line
    async def work(provider):
        try:
            got = yield provider
            while got != "end":
                try:
                    got = yield got
                except KeyError as error:
                    got = yield f"caught {error.args[0]}"
        finally:
            closed.append(provider)

    async def main():
        stream = work()
        assert await anext(stream) == "a"
        assert await stream.asend(1) == 1
        assert await stream.athrow(KeyError("k")) == "caught k"
        with pytest.raises(StopAsyncIteration):
            await stream.asend("end")
        stream = work()
        await anext(stream)
        await stream.aclose()
        stream = work()
        await anext(stream)
        with pytest.raises(LookupError):
            await stream.athrow(LookupError("mine"))

    asyncio.run(main())
    assert closed == ["a"] * 3
    assert counted(line)[0] == (1, 1, 1)


def test_a_stream_that_ends_well_when_it_is_closed():
    """A stream that takes its being closed for its end is left early: no evidence."""
    line = failover(["a"])

    @line
    def work(provider):
        try:
            yield provider
        except GeneratorExit:
            return

    @line
    async def async_work(provider):
        try:
            yield provider
        except GeneratorExit:
            return

    stream = work()
    next(stream)
    stream.close()

    async def main():
        stream = async_work()
        await anext(stream)
        await stream.aclose()

    asyncio.run(main())
    assert counted(line) == [(0, 0, 2)]


def test_a_stream_without_items():
    """A stream that ends before its first item has ended well."""
    line = failover(["a"])

    @line
    def work(provider):
        return provider
        yield

    @line
    async def async_work(provider):
        return
        yield

    with pytest.raises(StopIteration) as stop:
        next(work())
    assert stop.value.value == "a"
    assert asyncio.run(collect(async_work())) == []
    assert counted(line) == [(2, 0, 0)]


def test_all_streams_fail():
    """When no provider gives a first item the error lists all."""

    @failover(["a", "b"])
    def work(provider):
        raise DOWN
        yield

    @failover(["a", "b"])
    async def async_work(provider):
        raise DOWN
        yield

    with pytest.raises(AllProvidersFailedError):
        next(work())
    with pytest.raises(AllProvidersFailedError):
        asyncio.run(collect(async_work()))


def test_a_stream_dropped_unread():
    """A stream that is dropped after its first item is no evidence."""
    line = failover(["a"])

    @line
    def work(provider):
        yield provider

    next(work())
    gc.collect()
    assert counted(line) == [(0, 0, 1)]


# -- what a plain function returns to be run later ---------------------------------------


def returning(make):
    """Return a failover over two providers, and a plain function that returns what ``make`` makes."""
    line = failover(["a", "b"])
    return line, line(lambda provider: make(provider))


async def answer(provider):
    """Fail with provider ``a``."""
    await asyncio.sleep(0)
    if provider == "a":
        raise DOWN
    return provider


class Request:
    """An awaitable that is no coroutine."""

    def __init__(self, provider):
        self.provider = provider

    def __await__(self):
        return answer(self.provider).__await__()


@pytest.mark.parametrize(
    "make",
    [answer, Request, lambda provider: asyncio.ensure_future(answer(provider))],
    ids=["coroutine", "awaitable", "task"],
)
def test_returned_awaitables(make):
    """A returned coroutine, future or awaitable is judged when awaited; the next provider is tried inside that."""
    line, work = returning(make)

    async def main():
        return [await work() for _ in range(2)]

    assert asyncio.run(main()) == ["b", "b"]
    assert counted(line) == [(0, 2, 0), (2, 0, 0)]


def test_returned_from_a_later_try():
    """It is the same when the first try had failed before it returned anything, or a later one returns a value."""

    @failover(["a", "b", "c"])
    def work(provider):
        if provider == "a":
            raise DOWN
        return answer("a") if provider == "b" else provider

    assert asyncio.run(work()) == "c"


def test_returned_streams():
    """A returned generator or async generator may change its provider before its first item."""

    def stream(provider):
        if provider == "a":
            raise DOWN
        yield provider

    async def async_stream(provider):
        if provider == "a":
            raise DOWN
        yield provider

    line, work = returning(stream)
    assert list(work()) == ["b"]
    async_line, async_work = returning(async_stream)
    assert asyncio.run(collect(async_work())) == ["b"]
    assert counted(line) == counted(async_line) == [(0, 1, 0), (1, 0, 0)]


def test_returned_futures_of_threads():
    """A future that cannot be awaited is the caller's as it is; its end is told to the provider's breaker."""
    future = concurrent.futures.Future()
    line, work = returning(lambda provider: future)
    assert work() is future
    future.set_exception(DOWN)
    well = concurrent.futures.Future()
    line2, work2 = returning(lambda provider: well)
    work2()
    well.set_result(1)
    gone = concurrent.futures.Future()
    line3, work3 = returning(lambda provider: gone)
    work3()
    gone.cancel()
    gone.set_running_or_notify_cancel()
    assert counted(line)[0] == (0, 1, 0)
    assert counted(line2)[0] == (1, 0, 0)
    assert counted(line3)[0] == (0, 0, 1)


@pytest.mark.parametrize("strategy", ["failback", "broadcast", "forking"])
def test_returned_work_is_refused(strategy):
    """Where it must be known at once how a call ends, returned work is a TypeError that says what to do."""
    line = failover(["a"], strategy=strategy)
    with pytest.raises(TypeError, match="decorate the coroutine function itself"):
        line(lambda provider: answer(provider))()
    future = concurrent.futures.Future()
    with pytest.raises(TypeError, match="runs later"):
        line(lambda provider: future)()
    assert counted(line) == [(0, 0, 2)]


def test_a_returned_coroutine_that_never_runs():
    """A coroutine that is never awaited holds no slot."""
    line, work = returning(Request)
    coroutine = work()
    coroutine.close()
    del coroutine
    gc.collect()
    assert line.breaker("a").snapshot().ignored == 1


class Forever:
    """An awaitable that needs no loop."""

    def __await__(self):
        while True:
            yield


def test_a_coroutine_that_is_closed():
    """A coroutine that is closed in the middle awaits nothing and is no evidence, whichever try it is at."""
    line, failing = failover(["a", "b"]), []

    @line
    async def work(provider):
        if provider in failing:
            raise DOWN
        await Forever()

    for _ in range(2):
        coroutine = work()
        coroutine.send(None)
        coroutine.close()
    failing.append("a")
    coroutine = work()
    coroutine.send(None)
    coroutine.close()
    assert counted(line) == [(0, 1, 2), (0, 0, 1)]
