"""One test body in every way a call can go through a breaker.

    @every_shape
    def test_something(shape):
        b = breaker(failure_threshold=2)
        assert shape.run(b, returning(7)) == 7
        with pytest.raises(ConnectionError):
            shape.run(b, raising(ConnectionError("down")))

``shape.run(breaker, behave)`` makes one guarded call and brings it to its end;
``shape.bind(breaker, behave)`` only makes what is called: a function without
arguments, a coroutine function where ``shape.is_async``. `sync_shapes` and
`async_shapes` are the two halves, `every_pair` all pairs of routes. An awaitable
that a behaviour returns is awaited inside the guarded code of an async shape.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from breakerkit import CircuitBreaker

#: What the guarded code does: returns a value or raises.
Behave = Callable[[], Any]


async def acting(behave: Behave) -> Any:
    """Do what async guarded code does: behave, and await what that returns if it must be."""
    value = behave()
    return await value if inspect.isawaitable(value) else value


def returning(value: Any = "value") -> Behave:
    """Return a behaviour that answers ``value``."""
    return lambda: value


def raising(error: BaseException) -> Behave:
    """Return a behaviour that raises ``error``, the very object."""

    def behave() -> Any:
        raise error

    return behave


@dataclass(frozen=True)
class Shape:
    """One way to call.

    Attributes:
        name: for the test's id.
        bind: from a breaker and a behaviour to a function of no arguments.
        is_async: whether that function is a coroutine function.
        judges_values: whether the breaker sees the returned value (``failure_if``).
    """

    name: str
    bind: Callable[[CircuitBreaker, Behave], Callable[[], Any]]
    is_async: bool
    judges_values: bool

    def run(self, breaker: CircuitBreaker, behave: Behave) -> Any:
        """Make one call and bring it to its end: what it returns, or raises."""
        call = self.bind(breaker, behave)
        return asyncio.run(call()) if self.is_async else call()

    def fail(self, breaker: CircuitBreaker, times: int = 1) -> None:
        """Make calls that fail with an error of their own each."""
        for _ in range(times):
            error = ConnectionError("down")
            with pytest.raises(ConnectionError) as caught:
                self.run(breaker, raising(error))
            assert caught.value is error


SHAPES: list[Shape] = []


def _shape(name: str, *, is_async: bool = False, judges_values: bool = True) -> Any:
    def register(bind: Any) -> Any:
        SHAPES.append(Shape(name, bind, is_async, judges_values))
        return bind

    return register


@_shape("function")
def _function(breaker: CircuitBreaker, behave: Behave) -> Any:
    @breaker
    def work() -> Any:
        return behave()

    return work


@_shape("coroutine-function", is_async=True)
def _coroutine_function(breaker: CircuitBreaker, behave: Behave) -> Any:
    @breaker
    async def work() -> Any:
        await asyncio.sleep(0)
        return await acting(behave)

    return work


@_shape("generator")
def _generator(breaker: CircuitBreaker, behave: Behave) -> Any:
    @breaker
    def work() -> Iterator[Any]:
        yield "an item"
        return behave()

    return lambda: exhaust(work())


@_shape("async-generator", is_async=True, judges_values=False)
def _async_generator(breaker: CircuitBreaker, behave: Behave) -> Any:
    @breaker
    async def work() -> AsyncIterator[Any]:
        yield "an item"
        yield await acting(behave)

    async def call() -> Any:
        return [item async for item in work()][-1]

    return call


@_shape("method")
def _method(breaker: CircuitBreaker, behave: Behave) -> Any:
    class Service:
        @breaker
        def work(self) -> Any:
            return behave()

    return Service().work


@_shape("async-method", is_async=True)
def _async_method(breaker: CircuitBreaker, behave: Behave) -> Any:
    class Service:
        @breaker
        async def work(self) -> Any:
            return await acting(behave)

    return Service().work


@_shape("class-method")
def _class_method(breaker: CircuitBreaker, behave: Behave) -> Any:
    class Service:
        @classmethod
        @breaker
        def work(cls) -> Any:
            return behave()

    return Service.work


@_shape("static-method")
def _static_method(breaker: CircuitBreaker, behave: Behave) -> Any:
    class Service:
        @breaker
        @staticmethod
        def work() -> Any:
            return behave()

    return Service.work


@_shape("call")
def _call(breaker: CircuitBreaker, behave: Behave) -> Any:
    return lambda: breaker.call(behave)


@_shape("async-call", is_async=True)
def _async_call(breaker: CircuitBreaker, behave: Behave) -> Any:
    async def work() -> Any:
        return await acting(behave)

    return lambda: breaker.call(work)


@_shape("apply")
def _apply(breaker: CircuitBreaker, behave: Behave) -> Any:
    return lambda: breaker.apply(behave)


@_shape("async-apply", is_async=True)
def _async_apply(breaker: CircuitBreaker, behave: Behave) -> Any:
    async def work() -> Any:
        return await acting(behave)

    return lambda: breaker.apply(work)


@_shape("guard-block", judges_values=False)
def _guard_block(breaker: CircuitBreaker, behave: Behave) -> Any:
    def call() -> Any:
        with breaker.guard():
            return behave()

    return call


@_shape("async-guard-block", is_async=True, judges_values=False)
def _async_guard_block(breaker: CircuitBreaker, behave: Behave) -> Any:
    async def call() -> Any:
        async with breaker.guard():
            return await acting(behave)

    return call


@_shape("partial")
def _partial(breaker: CircuitBreaker, behave: Behave) -> Any:
    return breaker(functools.partial(lambda what: what(), behave))


@_shape("callable-object")
def _callable_object(breaker: CircuitBreaker, behave: Behave) -> Any:
    class Service:
        def __call__(self) -> Any:
            return behave()

    return breaker(Service())


@_shape("returned-coroutine", is_async=True)
def _returned_coroutine(breaker: CircuitBreaker, behave: Behave) -> Any:
    async def work() -> Any:
        return await acting(behave)

    @breaker
    def make() -> Any:
        return work()

    return make


def in_thread(call: Callable[[], Any]) -> Any:
    """Make a call in a thread of its own: what it returns, or raises."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append((call(), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = ended.pop()
    if error is not None:
        raise error
    return value


def exhaust(generator: Any) -> Any:
    """Read a generator to its end and return its return value."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value


def _over(shapes: list[Shape], argument: str = "shape") -> pytest.MarkDecorator:
    return pytest.mark.parametrize(argument, shapes, ids=[shape.name for shape in shapes])


every_shape = _over(SHAPES)
sync_shapes = _over([shape for shape in SHAPES if not shape.is_async])
async_shapes = _over([shape for shape in SHAPES if shape.is_async])
#: For policies that have no blocks.
policy_shapes = _over([shape for shape in SHAPES if not shape.name.endswith("guard-block")])
value_shapes = _over([shape for shape in SHAPES if shape.judges_values])


def every_pair(test: Any) -> Any:
    """Run a test with ``first`` and ``second`` as every pair of shapes."""
    return _over(SHAPES, "first")(_over(SHAPES, "second")(test))


class Service:
    """What a test stands in for a dependency: up or down, and it counts what reaches it."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.runs = 0

    def __call__(self) -> Any:
        self.runs += 1
        if self.error is not None:
            raise self.error
        return self.runs
