"""Generators whose beginning may be answered by other items; once one is delivered, an error is the reader's."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from breakerkit._shell._relief import Answer, Relief

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

#: Who has answers when a generator begins, ``None`` if nobody has.
Find: TypeAlias = Callable[[], Relief | None]

#: In place of a generator: there is no first item, what was found is the return value.
_ENDED = None


def relieve_generator(find: Find, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a generator function; send, throw, close and the return value go through.

    The first item is fetched by hand, for until then another stream may take
    over; as soon as the reader asks for the next one with a plain ``next``, the
    interpreter passes on the rest by itself. What is thrown in is passed on
    outside of its handler: it shall not become the context of other errors.
    """

    def relieved(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        relief = find()
        if relief is None:
            return (yield from function(*args, **kwargs))
        if relief.forces:
            stream, item = _first(relief.begin(args, kwargs))
        else:
            try:
                stream = function(*args, **kwargs)
                item = next(stream)
            except StopIteration as stop:
                return stop.value
            except Exception as error:
                answer = relief.answer(error, args, kwargs)
                if answer is None:
                    raise
                try:
                    stream, item = _first(answer)
                finally:
                    del answer  # it leads to the error, whose traceback leads here
        if stream is _ENDED:
            return item
        thrown = sent = None
        try:
            sent = yield item
        except BaseException as error:
            thrown = error
        if thrown is not None or sent is not None:
            stream = _pass_on(stream, sent, thrown)
            thrown = None  # its traceback leads here: no cycle
        return (yield from stream)

    return relieved


def _pass_on(stream: Any, sent: Any, thrown: BaseException | None) -> Generator[Any, Any, Any]:
    """Pass on what the reader sent or threw in, and what it does from then on."""
    try:
        while thrown is not None or sent is not None:
            if isinstance(thrown, GeneratorExit):
                stream.close()
                raise thrown
            item = stream.send(sent) if thrown is None else stream.throw(thrown)
            thrown = sent = None
            try:
                sent = yield item
            except BaseException as error:
                thrown = error
    except StopIteration as stop:
        return stop.value
    finally:
        del thrown  # for the same reason
    return (yield from stream)


def _first(answer: Answer) -> tuple[Any, Any]:
    """Return the stream that an answer gives, and its first item."""
    try:
        stream = items_of(answer.make())
        try:
            found = stream, next(stream)
        except StopIteration as stop:
            found = _ENDED, stop.value
    except Exception as failure:
        answer.failed(failure)
        raise
    answer.gave()
    return found


def relieve_async_generator(find: Find, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async generator function; asend, athrow and aclose go through.

    Python has no ``yield from`` for these, hence the loop.
    """

    async def relieved(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        thrown: BaseException | None = None
        stream, item = await _begin_async(find(), function, args, kwargs)
        if stream is _ENDED:
            return
        try:
            while True:
                thrown = sent = None
                try:
                    sent = yield item
                except BaseException as error:
                    thrown = error
                step = stream.asend(sent) if thrown is None else stream.athrow(thrown)
                item = await step
                if thrown is not None and getattr(stream, "ag_frame", stream) is None:
                    raise thrown  # an event loop that ends had closed the stream before us
        except StopAsyncIteration:
            return
        finally:
            thrown = None  # its traceback leads here: no cycle

    return relieved


async def _begin_async(
    relief: Relief | None, function: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[Any, Any]:
    """Return an async stream and its first item, or `_ENDED`."""
    if relief is not None and relief.forces:
        return await _first_async(relief.begin(args, kwargs))
    try:
        stream = function(*args, **kwargs)
        return stream, await anext(stream)
    except StopAsyncIteration:
        return _ENDED, None
    except Exception as error:
        answer = None if relief is None else relief.answer(error, args, kwargs)
        if answer is None:
            raise
        try:
            return await _first_async(answer)
        finally:
            del answer  # for the same reason


async def _first_async(answer: Answer) -> tuple[Any, Any]:
    try:
        stream = async_items_of(await answer.make_async())
        try:
            found = stream, await anext(stream)
        except StopAsyncIteration:
            found = _ENDED, None
    except Exception as failure:
        answer.failed(failure)
        raise
    answer.gave()
    return found


def items_of(value: Any) -> Any:
    """Return a generator of what ``value`` means where items are asked for.

    A generator is itself, any other iterable gives its items, ``None`` gives
    none; a text, a dict, or what cannot be iterated is one item.
    """
    return value if isinstance(value, types.GeneratorType) else _items(value)


def _items(value: Any) -> Generator[Any, Any, Any]:
    if value is None:
        return None
    if isinstance(value, str | bytes | bytearray | Mapping) or not _iterable(value):
        yield value
        return None
    return (yield from value)


def _iterable(value: Any) -> bool:
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def async_items_of(value: Any) -> Any:
    """Return an async generator of the same; an async iterable gives its items too."""
    return value if isinstance(value, types.AsyncGeneratorType) else _async_items(value)


async def _async_items(value: Any) -> AsyncGenerator[Any, Any]:
    if hasattr(type(value), "__aiter__"):
        async for item in value:
            yield item
        return
    stream, thrown = items_of(value), None
    try:
        item = next(stream)
        while True:
            thrown = sent = None
            try:
                sent = yield item
            except BaseException as error:
                thrown = error
            item = stream.send(sent) if thrown is None else stream.throw(thrown)
    except StopIteration:
        return
    finally:
        thrown = None  # for the same reason
