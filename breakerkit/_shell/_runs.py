"""What does not end at once: coroutine, generator, async generator functions; let in when they first run.

Each maker returns a function of the same kind as ``function``. ``find`` gives
the gate for the arguments of a call; ``carried`` is an entry that was let in
already, by a plain function that returned this work.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from breakerkit._outcome import NO_VALUE
from breakerkit._shell._gate import Carried, Gate, enter, enter_async, fail, succeed
from breakerkit._shell._shapes import Shape

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

Function: TypeAlias = Callable[..., Any]
#: From the arguments of a call to the gate it goes through.
Find: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Gate]


def coroutine_function(find: Find, function: Function, carried: Carried | None = None) -> Function:
    """Return a coroutine function."""

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        gate = find(args, kwargs)
        entry = carried.take() if carried else await enter_async(gate)
        try:
            value = await function(*args, **kwargs)
        except BaseException as error:
            await fail(gate, entry, error)
            raise
        if (ticket := next(entry.ticks)) >= entry.attention:
            await succeed(gate, entry, ticket, value)
        return value

    return guarded


def generator_function(find: Find, function: Function, carried: Carried | None = None) -> Function:
    """Return a generator function; send, throw, close and the return value go through."""

    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        gate = find(args, kwargs)
        entry = carried.take() if carried else enter(gate)
        try:
            value = yield from function(*args, **kwargs)
        except BaseException as error:
            gate.failed(entry, error)
            raise
        if (ticket := next(entry.ticks)) >= entry.attention:
            gate.succeeded(entry, ticket, value)
        return value

    return guarded


def iterable_coroutine_function(
    find: Find, function: Function, carried: Carried | None = None
) -> Function:
    """Return a coroutine function of the old kind, as ``types.coroutine`` makes it."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    run = coroutine_function(find, call, carried)

    @types.coroutine
    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from run(*args, **kwargs).__await__())

    return guarded


def async_generator_function(
    find: Find, function: Function, carried: Carried | None = None
) -> Function:
    """Return an async generator function; asend, athrow and aclose go through.

    Python has no ``yield from`` for these, hence the loop. What is thrown in is
    passed on outside of its handler: it shall not become the context of errors
    that have nothing to do with it. The entry is carried because a generator
    that is dropped where no event loop finalises it runs no more code at all.
    """

    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        gate = find(args, kwargs)
        held = carried or Carried(gate, await enter_async(gate))
        thrown: BaseException | None = None
        try:
            stream = function(*args, **kwargs)
            item = await anext(stream)
            while True:
                thrown = sent = None
                try:
                    sent = yield item
                except BaseException as error:
                    thrown = error
                step = stream.asend(sent) if thrown is None else stream.athrow(thrown)
                item = await step
                if thrown is not None and stream.ag_frame is None:
                    raise thrown  # an event loop that ends had closed the stream before us
        except StopAsyncIteration:
            if isinstance(thrown, GeneratorExit):
                gate.failed(held.take(), thrown)  # left early, though it ended well
                return
            entry = held.take()
            if (ticket := next(entry.ticks)) >= entry.attention:
                await succeed(gate, entry, ticket, NO_VALUE)
        except BaseException as error:
            await fail(gate, held.take(), error)
            raise
        finally:
            thrown = None  # its traceback leads here: no cycle

    return guarded


def named_after(source: Any, made: Any) -> Any:
    """Name a coroutine or generator after the user's: "never awaited" warnings and tasks show it."""
    if isinstance(name := getattr(source, "__qualname__", None), str):
        made.__name__, made.__qualname__ = name.rpartition(".")[2], name
    return made


MAKERS: dict[Shape, Callable[..., Function]] = {
    Shape.COROUTINE: coroutine_function,
    Shape.GENERATOR: generator_function,
    Shape.ASYNC_GENERATOR: async_generator_function,
    Shape.ITERABLE_COROUTINE: iterable_coroutine_function,
}
