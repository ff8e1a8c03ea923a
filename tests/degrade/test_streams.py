"""Generators: other items may take over before the first one is delivered, and never after (SPEC 3)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import types

import pytest

from breakerkit import Rule, degradable, degradation, fallback

DOWN = ConnectionError("down")


def collect(stream):
    """Read a stream, sync or async, and return its items."""
    if inspect.isasyncgen(stream):
        return asyncio.run(_collect(stream))
    return list(stream)


async def _collect(stream):
    return [item async for item in stream]


def failing(policy, after, is_async):
    """Return a generator function behind a policy that fails after so many items."""

    def items():
        yield from range(after)
        raise DOWN

    async def async_items():
        for item in range(after):
            yield item
        raise DOWN

    return policy(async_items if is_async else items)


both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both
@pytest.mark.parametrize(
    ("cure", "items"),
    [
        (["a", "b"], ["a", "b"]),
        ((), []),
        (None, []),
        ("a text", ["a text"]),
        (b"bytes", [b"bytes"]),
        ({"a": 1}, [{"a": 1}]),
        (3, [3]),
        (lambda call: iter("ab"), ["a", "b"]),
        (lambda call: [type(call.error)], [ConnectionError]),
    ],
    ids=repr,
)
def test_what_takes_over(cure, items, is_async):
    """An iterable gives its items, None none; a text, a dict or what cannot be iterated is one item."""
    f = fallback(cure)
    assert collect(failing(f, 0, is_async)()) == items
    assert f.snapshot().used == 1


@both
def test_generator_functions_as_cures(is_async):
    """A cure may be a generator function; its stream takes over with send, throw and return value."""

    def cure(call):
        got = yield "first"
        try:
            yield got
        except KeyError:
            yield "caught"
        return "end"

    stream = failing(fallback(cure), 0, False)()
    assert next(stream) == "first"
    assert stream.send("sent") == "sent"
    assert stream.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(stream)
    assert stop.value.value == "end"
    assert collect(failing(fallback(cure), 0, is_async)()) == ["first", None]


def test_async_cures():
    """Under an async generator: an async generator, an async iterable, a coroutine of a list."""

    class Items:
        def __aiter__(self):
            return self.items()

        async def items(self):
            yield "item"

    async def stream(call):
        yield "item"

    async def listed(call):
        return ["item"]

    for cure in (stream, listed, lambda call: Items(), Items()):
        assert collect(failing(fallback(cure), 0, True)()) == ["item"]


@both
def test_not_after_the_first_item(is_async):
    """Once an item has been delivered the error is the reader's, and items never come twice."""
    f = fallback(["x"])
    stream, read = failing(f, 2, is_async)(), []

    async def drain():
        async for item in stream:
            read.append(item)

    with pytest.raises(ConnectionError) as caught:
        asyncio.run(drain()) if is_async else read.extend(stream)
    assert caught.value is DOWN
    if is_async:
        assert read == [0, 1]
    assert f.snapshot().used == 0


def test_the_first_two_items_come():
    """A sync reader has them before the error."""
    stream = failing(fallback(["x"]), 2, False)()
    assert (next(stream), next(stream)) == (0, 1)
    with pytest.raises(ConnectionError):
        next(stream)


@both
def test_a_business_error_passes(is_async):
    """What is not in ``on`` passes at the first item too."""
    with pytest.raises(ConnectionError):
        collect(failing(fallback(["x"], on=(KeyError,)), 0, is_async)())


@both
def test_a_cure_that_fails_at_its_first_item(is_async):
    """Then its own error is raised from the first one; later it is just its own."""

    def early(call):
        raise LookupError
        yield

    def late(call):
        yield 1
        raise LookupError

    f = fallback(early)
    with pytest.raises(LookupError) as caught:
        collect(failing(f, 0, is_async)())
    assert caught.value.__cause__ is DOWN
    assert f.snapshot().failed == 1
    with pytest.raises(LookupError) as caught:
        collect(failing(fallback(late), 0, is_async)())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@both
def test_a_cure_that_stops(is_async):
    """A StopIteration out of a cure is its failure, and no end of the stream."""

    def cure(call):
        raise StopAsyncIteration if is_async else StopIteration

    with pytest.raises(RuntimeError, match="raised Stop") as caught:
        collect(failing(fallback(cure), 0, is_async)())
    assert caught.value.__cause__.__cause__ is DOWN


def test_all_that_a_reader_does():
    """Send, throw, close and the return value go through, before and after the first plain next."""
    log = []

    @fallback("x")
    def work():
        try:
            while True:
                try:
                    log.append((yield len(log)))
                except KeyError:
                    log.append("thrown")
                if len(log) == 5:
                    return "end"
        finally:
            log.append("left")

    stream = work()
    assert isinstance(stream, types.GeneratorType)
    assert next(stream) == 0
    assert stream.send("a") == 1
    assert stream.throw(KeyError()) == 2
    assert next(stream) == 3
    assert stream.send("b") == 4
    with pytest.raises(StopIteration) as stop:
        stream.send("c")
    assert stop.value.value == "end"
    assert log == ["a", "thrown", None, "b", "c", "left"]
    log.clear()
    for steps in (1, 2):
        stream = work()
        for _ in range(steps):
            next(stream)
        stream.close()
    assert log == ["left", None, "left"]
    log.clear()
    stream = work()
    next(stream), stream.send("a"), stream.close()
    assert log == ["a", "left"]


def test_a_stream_that_ends_when_spoken_to():
    """What a send or a throw ends has ended: its return value comes."""

    @fallback("x")
    def work():
        with contextlib.suppress(KeyError):
            yield 1
        return "end"

    for speak in (lambda stream: stream.send(2), lambda stream: stream.throw(KeyError())):
        stream = work()
        next(stream)
        with pytest.raises(StopIteration) as stop:
            speak(stream)
        assert stop.value.value == "end"


def test_an_empty_stream():
    """A stream without items is a good one, and its return value comes."""

    @fallback("x")
    def work():
        return "end"
        yield

    @fallback("x")
    async def async_work():
        return
        yield

    with pytest.raises(StopIteration) as stop:
        next(work())
    assert stop.value.value == "end"
    assert collect(async_work()) == []


def test_all_that_an_async_reader_does():
    """asend, athrow and aclose go through."""
    log = []

    @fallback("x")
    async def work():
        try:
            while True:
                try:
                    log.append((yield len(log)))
                except KeyError:
                    log.append("thrown")
        finally:
            log.append("left")

    async def read():
        stream = work()
        assert await anext(stream) == 0
        assert await stream.asend("a") == 1
        assert await stream.athrow(KeyError()) == 2
        await stream.aclose()

    asyncio.run(read())
    assert log == ["a", "thrown", "left"]


@both
def test_under_a_context_manager(is_async):
    """C026: what the body raises goes into the generator that is running, be it the cure's."""
    log = []

    def session(call=None):
        try:
            yield "local" if call else pytest.fail("not reached")
        except KeyError:
            log.append("handled")
        finally:
            log.append("left")

    @fallback(session)
    def connect():
        raise DOWN
        yield

    @fallback(session)
    async def connect_async():
        raise DOWN
        yield

    async def enter():
        async with contextlib.asynccontextmanager(connect_async)() as name:
            log.append(name)
            raise KeyError

    if is_async:
        asyncio.run(enter())
    else:
        with contextlib.contextmanager(connect)() as name:
            log.append(name)
            raise KeyError
    assert log == ["local", "handled", "left"]


@both
def test_the_error_of_a_body_is_never_answered(is_async):
    """C026: an error of the ``with`` body is none of the dependency's: it passes."""
    f = fallback("x")

    @f
    def connect():
        yield 1

    @f
    async def connect_async():
        yield 1

    async def enter():
        async with contextlib.asynccontextmanager(connect_async)():
            raise DOWN

    with pytest.raises(ConnectionError) as caught:
        if is_async:
            asyncio.run(enter())
        else:
            with contextlib.contextmanager(connect)():
                raise DOWN
    assert caught.value is DOWN
    assert f.snapshot().used == 0


# -- under rules -------------------------------------------------------------------


@both
def test_streams_under_rules(is_async):
    """Force gives other items in place of all; fail those in place of a stream that never began."""
    d = degradable("items", mock=lambda: ["mock"])
    empty, good = failing(d, 0, is_async), failing(d, 2, is_async)
    for rule, items in (
        (Rule.force_return([7, 8]), [7, 8]),
        (Rule.force_return(None), []),
        (Rule.force_return("a text"), ["a text"]),
        (Rule.force_call(), ["mock"]),
        (Rule.fail_call(), ["mock"]),
    ):
        degradation.set("items", rule)
        assert collect(empty()) == items
    with pytest.raises(ConnectionError):
        collect(good())
    for rule in (Rule.force_raise(KeyError("no")), Rule.fail_raise(KeyError("no"))):
        degradation.set("items", rule)
        with pytest.raises(KeyError):
            collect(empty())
    degradation.clear("items")
    with pytest.raises(ConnectionError):
        collect(empty())
    with pytest.raises(ConnectionError):
        collect(good())


def test_a_forced_stream_is_used_like_any_other():
    """send, throw and close reach the mock's stream."""
    log = []

    def mock():
        try:
            log.append((yield 1))
            yield 2
        finally:
            log.append("left")

    @degradable("items", mock=mock)
    def items():
        yield pytest.fail("it ran")

    degradation.set("items", Rule.force_call())
    stream = items()
    assert next(stream) == 1
    assert stream.send("a") == 2
    stream.close()
    assert log == ["a", "left"]


def test_a_mock_that_stops():
    """A StopIteration out of a mock is its failure, and no end of the stream."""

    def mock():
        raise StopIteration

    @degradable("items", mock=mock)
    def items():
        yield pytest.fail("it ran")

    degradation.set("items", Rule.force_call())
    with pytest.raises(RuntimeError):
        list(items())


@both
def test_a_rule_is_looked_at_when_the_stream_begins(is_async):
    """It decides a stream that has not begun, and none that has."""
    d = degradable("items")

    @d
    def items():
        yield 1
        yield 2

    @d
    async def async_items():
        yield 1
        yield 2

    made = async_items() if is_async else items()
    begun = items()
    assert next(begun) == 1
    degradation.set("items", Rule.force_return([9]))
    assert next(begun) == 2
    assert collect(made) == [9]


@pytest.mark.parametrize("error", [GeneratorExit, KeyError])
def test_a_stream_that_was_closed_behind_our_back(error):
    """What is thrown in comes out, also where an event loop that ends has closed the stream inside."""

    async def items():
        yield 1
        yield 2

    async def main():
        inner = items()
        stream = fallback(["x"])(lambda: inner)()
        assert await anext(stream) == 1
        await inner.aclose()
        with pytest.raises(error):
            await stream.athrow(error)
        assert [item async for item in stream] == []

    asyncio.run(main())
