"""What the tests of the cache have in common: origins, ways to call them, and a store that is far away.

``bench`` makes a cache around an origin in one way of calling, on a clock that
stands still; ``bench(key)`` makes one call and brings it to its end.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from breakerkit import MemoryStore, bulkhead, pipeline, stale_if_error
from breakerkit.store.commands import Begin, Read
from breakerkit.testing import ManualClock


class Down(Exception):
    """What a failing origin raises."""


class Origin:
    """What stands behind a cache: counts what reaches it, answers with that number, or fails."""

    def __init__(self) -> None:
        self.error: BaseException | type[BaseException] | None = None
        self.runs = 0
        self.answer: Callable[[int], Any] = lambda number: number
        self.keys: list[Any] = []

    def __call__(self, key: Any = "k") -> Any:
        self.runs += 1
        self.keys.append(key)
        if self.error is not None:
            raise self.error
        return self.answer(self.runs)

    async def later(self, key: Any = "k") -> Any:
        await asyncio.sleep(0)
        value = self(key)
        return await value if inspect.iscoroutine(value) else value


class FarStore:
    """A store that is no part of this process: asked for everything, and it may be out of order."""

    local = False

    def __init__(self, clock: Any) -> None:
        self.inner = MemoryStore(clock=clock)
        #: ``None``: it is well; an exception is raised; what is callable answers.
        self.trouble: Any = None
        self.asked: list[Any] = []

    def do(self, command: Any) -> Any:
        self.asked.append(command)
        if isinstance(self.trouble, BaseException):
            raise self.trouble
        return self.inner.do(command) if self.trouble is None else self.trouble(command)

    async def do_async(self, command: Any) -> Any:
        await asyncio.sleep(0)
        value = self.do(command)
        return await value if inspect.iscoroutine(value) else value


def garbage(command: Any) -> Any:
    """Answer what nobody understands."""
    return object() if isinstance(command, Read | Begin) else None


@dataclass(frozen=True)
class Way:
    """One way to call an origin through a cache."""

    name: str
    is_async: bool
    bind: Callable[[Any, Origin], Callable[[Any], Any]]
    key: Callable[..., Any] | None = None  # for stores that know no instances


WAYS: list[Way] = []


def _way(name: str, *, is_async: bool = False, key: Any = None) -> Any:
    def register(bind: Any) -> Any:
        WAYS.append(Way(name, is_async, bind, key))
        return bind

    return register


@_way("function")
def _function(cache: Any, origin: Origin) -> Any:
    @cache
    def work(key: Any) -> Any:
        return origin(key)

    return work


@_way("coroutine-function", is_async=True)
def _coroutine_function(cache: Any, origin: Origin) -> Any:
    @cache
    async def work(key: Any) -> Any:
        return await origin.later(key)

    return work


@_way("method", key=lambda self, key: key)
def _method(cache: Any, origin: Origin) -> Any:
    class Service:
        @cache
        def work(self, key: Any) -> Any:
            return origin(key)

    return Service().work


@_way("async-method", is_async=True, key=lambda self, key: key)
def _async_method(cache: Any, origin: Origin) -> Any:
    class Service:
        @cache
        async def work(self, key: Any) -> Any:
            return await origin.later(key)

    return Service().work


@_way("static-method")
def _static_method(cache: Any, origin: Origin) -> Any:
    class Service:
        @cache
        @staticmethod
        def work(key: Any) -> Any:
            return origin(key)

    return Service.work


@_way("class-method", key=lambda cls, key: key)
def _class_method(cache: Any, origin: Origin) -> Any:
    class Service:
        @classmethod
        @cache
        def work(cls, key: Any) -> Any:
            return origin(key)

    Service.__qualname__ = "Service"  # one that is not local has a name of its own
    return Service.work


@_way("call")
def _call(cache: Any, origin: Origin) -> Any:
    return lambda key: cache.call(origin, key)


@_way("async-call", is_async=True)
def _async_call(cache: Any, origin: Origin) -> Any:
    async def work(key: Any) -> Any:
        return await origin.later(key)

    return lambda key: cache.call(work, key)


@_way("call-of-bound-method", key=lambda self, key: key)
def _call_bound(cache: Any, origin: Origin) -> Any:
    class Service:
        def work(self, key: Any) -> Any:
            return origin(key)

    one = Service()
    return lambda key: cache.call(one.work, key)


@_way("apply")
def _apply(cache: Any, origin: Origin) -> Any:
    return lambda key: cache.apply(origin, [key])


@_way("async-apply", is_async=True)
def _async_apply(cache: Any, origin: Origin) -> Any:
    async def work(key: Any) -> Any:
        return await origin.later(key)

    return lambda key: cache.apply(work, (), {"key": key})


@_way("partial")
def _partial(cache: Any, origin: Origin) -> Any:
    return cache(functools.partial(lambda other, key: origin(key), 1))


@_way("callable-object")
def _callable_object(cache: Any, origin: Origin) -> Any:
    return cache(origin)


@_way("pipeline")
def _pipeline(cache: Any, origin: Origin) -> Any:
    @pipeline(cache, bulkhead())
    def work(key: Any) -> Any:
        return origin(key)

    return work


@_way("async-pipeline", is_async=True)
def _async_pipeline(cache: Any, origin: Origin) -> Any:
    @pipeline(cache, bulkhead())
    async def work(key: Any) -> Any:
        return await origin.later(key)

    return work


class Bench:
    """A cache, what is behind it, and one way to call that."""

    def __init__(self, way: Way, far: bool, clock: ManualClock, **settings: Any) -> None:
        self.clock, self.origin, self.way = clock, Origin(), way
        self.store: Any = FarStore(clock) if far else None
        usual: dict[str, Any] = {"refresh_after": 2, "max_stale": 10, "jitter": 0, "clock": clock}
        if far:
            usual["store"], usual["key"] = self.store, way.key
        self.cache: Any = stale_if_error("bench", **{**usual, **settings})
        self.bound = way.bind(self.cache, self.origin)

    def __call__(self, key: Any = "k") -> Any:
        """Make one call: what it returns, or raises."""
        return asyncio.run(self.bound(key)) if self.way.is_async else self.bound(key)

    def key(self, key: Any = "k") -> str:
        """Return how the last attempt's key is stored, for there are ways that add the instance."""
        seen: list[str] = []
        undo = self.cache.subscribe(lambda event: seen.append(event.key), *self._keyed())
        self.cache.evict_all()
        before, self.origin.error = self.origin.error, None
        self(key)
        undo()
        self.origin.error = before
        self.cache.evict_all()
        self.origin.runs = 0
        return seen[-1]

    @staticmethod
    def _keyed() -> tuple[Any, ...]:
        from breakerkit import ValueRefreshed

        return (ValueRefreshed,)


def _over(ways: list[Way]) -> Any:
    both = [
        pytest.param((way, far), id=f"{way.name}-{'far' if far else 'memory'}")
        for way in ways
        for far in (False, True)
    ]
    return pytest.mark.parametrize("kind", both)


#: Run a test in every way, on a store in memory and on one that is far away; it takes ``kind``.
every_way = _over(WAYS)
sync_ways = _over([way for way in WAYS if not way.is_async])
async_ways = _over([way for way in WAYS if way.is_async])
a_few_ways = _over([way for way in WAYS if way.name in {"function", "coroutine-function"}])


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for what another thread will have done in no time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.0005)


async def until_async(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Do the same on a loop."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        await asyncio.sleep(0.0005)


class Crowd:
    """Threads that make one call each; what came of them, in no order."""

    def __init__(self, count: int, call: Callable[[], Any]) -> None:
        self.ended: list[Any] = []
        self._threads = [threading.Thread(target=self._run, args=(call,)) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self.ended.append(call())
        except BaseException as error:
            self.ended.append(error)

    def join(self) -> list[Any]:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        return self.ended
