"""Plain functions that return work to be run later: it is answered when it has run (SPEC 3)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import types

import pytest

from breakerkit import Rule, degradable, degradation, fallback

DOWN = ConnectionError("down")


async def fail():
    raise DOWN


async def succeed():
    return "value"


class Request:
    """A client's request object: awaited, or entered."""

    def __init__(self, error=None):
        self.error = error
        self.left = 0
        self.url = "/"

    def __await__(self):
        return self.get().__await__()

    async def get(self):
        if self.error:
            raise self.error
        return "value"

    async def __aenter__(self):
        return await self.get()

    async def __aexit__(self, *details):
        self.left += 1


def test_a_returned_coroutine():
    """It comes back as a coroutine of the same name, answered when it is awaited."""
    f = fallback("x")
    made = f(lambda: fail())()
    assert isinstance(made, types.CoroutineType)
    assert made.__qualname__ == "fail"
    assert f.snapshot().used == 0
    assert asyncio.run(made) == "x"
    assert asyncio.run(f(lambda: succeed())()) == "value"
    assert f.snapshot().used == 1


def test_an_iterable_coroutine():
    """A coroutine of the old kind is answered like any other, decorated or returned."""

    @types.coroutine
    def old():
        raise DOWN
        yield

    async def wait(made):
        return await made

    f = fallback("x")
    assert asyncio.run(wait(f(old)())) == "x"
    assert asyncio.run(wait(f(lambda: old())())) == "x"
    degradation.set("old", Rule.force_return(7))
    assert asyncio.run(wait(degradable("old")(old)())) == 7


def test_returned_generators():
    """They are answered before their first item."""

    def items():
        raise DOWN
        yield

    async def async_items():
        raise DOWN
        yield

    async def collect(stream):
        return [item async for item in stream]

    f = fallback(["x"])
    assert list(f(lambda: items())()) == ["x"]
    assert asyncio.run(collect(f(lambda: async_items())())) == ["x"]


def test_an_awaitable_object():
    """It looks the same, and is answered when it is awaited or entered."""
    f, request = fallback("x"), Request(DOWN)
    made = f(lambda: request)()
    assert made.url == "/"

    async def use(made):
        async with made as value:
            return value

    async def wait(made):
        return await made

    assert asyncio.run(wait(made)) == "x"
    assert asyncio.run(use(made)) == "x"
    assert request.left == 0  # it was never entered
    request.error = None
    assert asyncio.run(wait(made)) == "value"
    assert asyncio.run(use(made)) == "value"
    assert request.left == 1


def test_a_future_of_a_loop():
    """An asyncio future is answered; one that is well already is itself; to cancel is to cancel it."""
    f = fallback("x")

    async def main():
        loop = asyncio.get_running_loop()
        good = loop.create_future()
        good.set_result("value")
        assert f(lambda: good)() is good
        bad = loop.create_future()
        bad.set_exception(DOWN)
        assert await f(lambda: bad)() == "x"
        later = loop.create_future()
        made = f(lambda: later)()
        loop.call_soon(later.set_exception, ConnectionError())
        assert await made == "x"
        pending = loop.create_future()
        made = f(lambda: pending)()
        await asyncio.sleep(0)
        made.cancel()
        with pytest.raises(asyncio.CancelledError):
            await made
        assert pending.cancelled()
        gone = loop.create_future()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await f(lambda: gone)()

    asyncio.run(main())
    assert f.snapshot().used == 2


def test_a_future_of_a_closed_loop(caplog):
    """A loop that is closed can answer nothing: the future is given as it is, and that is logged."""
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    assert fallback("x")(lambda: future)() is future
    assert "future returned through" in caplog.text


def test_a_future_of_a_pool():
    """It is answered in the thread that ended the work; what is well comes as it is."""
    threads = []
    f = fallback(lambda call: threads.append(threading.current_thread()) or call.args)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        go = threading.Event()
        made = f(lambda x: pool.submit(lambda: go.wait() and x / 0))(3)
        assert made.running() or not made.done()
        go.set()
        assert made.result(5) == (3,)
        assert not made.running()
        good = f(lambda: pool.submit(lambda: go.wait() and "value"))()
        assert good.result(5) == "value"
        go.clear()
        slow = f(lambda: pool.submit(lambda: go.wait() and "late"))()
        go.set()
        assert slow.result(5) == "late"
    assert threads[0] is not threading.current_thread()


def test_cancelling_a_future_of_a_pool():
    """To cancel the answer is to cancel the work, if it has not begun; a cancellation is no failure."""
    f = fallback(pytest.fail)
    go = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        busy = f(lambda: pool.submit(go.wait))()
        queued = f(lambda: pool.submit(pytest.fail))()
        assert queued.cancel()
        assert queued.cancelled()
        assert concurrent.futures.wait([queued], 5).done == {queued}
        with pytest.raises(concurrent.futures.CancelledError):
            queued.result(0)
        assert not busy.cancel() or busy.cancelled()
        go.set()


def test_what_a_pool_s_work_raises():
    """An error that is not answered, and one that ends programs, come to who asks for the result."""
    f = fallback("x", on=(KeyError,))
    for error in (DOWN, KeyboardInterrupt()):
        inner = concurrent.futures.Future()
        made = f(lambda inner=inner: inner)()
        inner.set_running_or_notify_cancel()
        inner.set_exception(error)
        assert made.exception() is error


def test_other_manners(caplog):
    """Something with such a method and other manners is the caller's all the same."""

    class Odd:
        def add_done_callback(self, callback):
            raise AssertionError

        def done(self):
            raise AttributeError

    odd = Odd()
    assert fallback("x")(lambda: odd)() is odd
    assert "future returned through" in caplog.text


def test_a_plain_function_that_fails_itself():
    """It is answered at once, whatever it would have returned."""

    def get():
        raise DOWN

    assert fallback("x")(get)() == "x"


def test_work_under_rules():
    """A ``fail:`` rule answers returned work when it has run; force is decided by the call."""
    d = degradable("work", mock=lambda: succeed())

    @d
    def work():
        return fail()

    degradation.set("work", Rule.fail_call())
    assert asyncio.run(work()) == "value"
    degradation.set("work", Rule.force_call())
    assert asyncio.run(work()) == "value"
    degradation.clear()
    with pytest.raises(ConnectionError):
        asyncio.run(work())
