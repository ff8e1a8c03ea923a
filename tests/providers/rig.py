"""One test body in every way a call can go through a failover, and providers that are up or down.

    @every_shape
    def test_something(shape):
        line = failover(["a", "b"])
        assert shape.run(line, Providers(a=DOWN)) == "b"

What is called is given a provider and asks a `Providers` what that one does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import types
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from breakerkit import Failover, _ambient
from tests.shapes import exhaust

DOWN = ConnectionError("down")


class Providers:
    """What each provider does: answers its name, or what is set for it; an error is raised."""

    def __init__(self, **does: Any) -> None:
        self.does = does
        self.asked: list[str] = []

    def __call__(self, provider: Any) -> Any:
        self.asked.append(provider)
        does = self.does.get(provider, provider)
        if callable(does):
            does = does()
        try:
            if isinstance(does, BaseException):
                raise does.with_traceback(None)  # shared ones grow with each raise
            return does
        finally:
            del does  # an error leads to this frame: no cycle of the test's own


@contextlib.contextmanager
def within(seconds: float, clock: Any) -> Iterator[None]:
    """Let the code inside have so much time."""
    terms = _ambient.Terms(seconds, "around", clock)
    token = _ambient.limit.set(_ambient.within(None, terms, clock.now()))
    try:
        yield
    finally:
        _ambient.limit.reset(token)


@dataclass(frozen=True)
class Shape:
    """One way to call: ``bind`` returns a function of no arguments, a coroutine function if ``is_async``."""

    name: str
    bind: Callable[[Failover[Any], Callable[[Any], Any]], Callable[[], Any]]
    is_async: bool
    streams: bool

    def run(self, line: Failover[Any], behave: Callable[[Any], Any]) -> Any:
        """Make one call and bring it to its end: what it returns, or raises."""
        call = self.bind(line, behave)
        return asyncio.run(call()) if self.is_async else call()


SHAPES: list[Shape] = []


def _shape(name: str, *, is_async: bool = False, streams: bool = False) -> Any:
    def register(bind: Any) -> Any:
        SHAPES.append(Shape(name, bind, is_async, streams))
        return bind

    return register


@_shape("function")
def _function(line: Any, behave: Any) -> Any:
    @line
    def work(provider: Any) -> Any:
        return behave(provider)

    return work


@_shape("function-with-keywords")
def _keywords(line: Any, behave: Any) -> Any:
    @line
    def work(provider: Any, one: int, *, two: int) -> Any:
        assert (one, two) == (1, 2)
        return behave(provider)

    return lambda: work(1, two=2)


@_shape("coroutine-function", is_async=True)
def _coroutine(line: Any, behave: Any) -> Any:
    @line
    async def work(provider: Any) -> Any:
        await asyncio.sleep(0)
        return behave(provider)

    return work


@_shape("iterable-coroutine", is_async=True)
def _iterable(line: Any, behave: Any) -> Any:
    @line
    @types.coroutine
    def work(provider: Any) -> Iterator[Any]:
        yield
        return behave(provider)

    async def call() -> Any:
        return await work()

    return call


@_shape("generator", streams=True)
def _generator(line: Any, behave: Any) -> Any:
    @line
    def work(provider: Any) -> Iterator[Any]:
        value = behave(provider)
        yield value
        return value

    return lambda: exhaust(work())


@_shape("async-generator", is_async=True, streams=True)
def _async_generator(line: Any, behave: Any) -> Any:
    @line
    async def work(provider: Any) -> AsyncIterator[Any]:
        yield behave(provider)

    async def call() -> Any:
        return ([item async for item in work()] or [None])[-1]

    return call


@_shape("method")
def _method(line: Any, behave: Any) -> Any:
    class Service:
        @line
        def work(self, provider: Any) -> Any:
            assert isinstance(self, Service)
            return behave(provider)

    return Service().work


@_shape("async-method", is_async=True)
def _async_method(line: Any, behave: Any) -> Any:
    class Service:
        @line
        async def work(self, provider: Any, one: int = 1) -> Any:
            assert isinstance(self, Service)
            return behave(provider)

    return functools.partial(Service().work, 1)


@_shape("class-method")
def _class_method(line: Any, behave: Any) -> Any:
    class Service:
        @classmethod
        @line
        def work(cls, provider: Any) -> Any:
            assert cls is Service
            return behave(provider)

    return Service.work


@_shape("decorated-class-method")
def _decorated_class_method(line: Any, behave: Any) -> Any:
    class Service:
        @line
        @classmethod
        def work(cls, provider: Any) -> Any:
            assert cls is Service
            return behave(provider)

    return Service().work


@_shape("static-method")
def _static_method(line: Any, behave: Any) -> Any:
    class Service:
        @line
        @staticmethod
        def work(provider: Any, one: Any = None) -> Any:
            return behave(provider)

    return lambda: Service.work(Service())


@_shape("call")
def _call(line: Any, behave: Any) -> Any:
    return lambda: line.call(lambda provider, one: behave(provider), 1)


@_shape("call-of-a-bound-method")
def _call_bound(line: Any, behave: Any) -> Any:
    class Service:
        def work(self, provider: Any) -> Any:
            return behave(provider)

    return lambda: line.call(Service().work)


@_shape("call-of-an-unbound-method")
def _call_unbound(line: Any, behave: Any) -> Any:
    class Service:
        def work(self, provider: Any) -> Any:
            assert isinstance(self, Service)
            return behave(provider)

    return lambda: line.call(Service.work, Service())


@_shape("async-call", is_async=True)
def _async_call(line: Any, behave: Any) -> Any:
    async def work(provider: Any) -> Any:
        return behave(provider)

    return lambda: line.call(work)


@_shape("apply")
def _apply(line: Any, behave: Any) -> Any:
    return lambda: line.apply(lambda provider, one, two: behave(provider), (1,), {"two": 2})


@_shape("partial")
def _partial(line: Any, behave: Any) -> Any:
    return line(functools.partial(lambda provider, two: behave(provider), two=2))


@_shape("callable-object")
def _callable_object(line: Any, behave: Any) -> Any:
    class Service:
        def __call__(self, provider: Any) -> Any:
            return behave(provider)

    return line(Service())


@_shape("bound-method")
def _bound(line: Any, behave: Any) -> Any:
    class Service:
        def work(self, provider: Any) -> Any:
            return behave(provider)

    return line(Service().work)


def _over(shapes: list[Shape]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shape", shapes, ids=[shape.name for shape in shapes])


every_shape = _over(SHAPES)
async_shapes = _over([shape for shape in SHAPES if shape.is_async])
value_shapes = _over([shape for shape in SHAPES if not shape.streams])
sync_values = _over([shape for shape in SHAPES if not shape.streams and not shape.is_async])
async_values = _over([shape for shape in SHAPES if not shape.streams and shape.is_async])
