"""Methods, class and static methods: no missing ``self``, the decorator on either side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar, assert_type

from breakerkit import CircuitBreaker, breaker, breaker_methods, protect

T = TypeVar("T")

shared = breaker("typing.methods")


class Service:
    @breaker
    def method(self, number: int, *, text: str = "") -> str:
        return text * number

    @shared
    def by_object(self, number: int) -> str:
        return str(number)

    @breaker("typing.methods.named", failure_threshold=3)
    def named(self, number: int) -> str:
        return str(number)

    @breaker
    async def coroutine(self, number: int) -> str:
        return str(number)

    @breaker
    def generator(self) -> Iterator[str]:
        yield ""

    @breaker
    async def async_generator(self) -> AsyncIterator[str]:
        yield ""

    @breaker
    @classmethod
    def class_under(cls, number: int) -> str:
        return str(number)

    @classmethod
    @breaker
    def class_over(cls, number: int) -> str:
        return str(number)

    @shared
    @classmethod
    def class_by_object(cls, number: int) -> str:
        return str(number)

    @classmethod
    @shared
    async def class_coroutine(cls) -> str:
        return ""

    @breaker
    @staticmethod
    def static_under(number: int) -> str:
        return str(number)

    @staticmethod
    @breaker
    def static_over(number: int) -> str:
        return str(number)

    @shared
    @staticmethod
    async def static_coroutine() -> str:
        return ""

    def inside(self) -> None:
        assert_type(self.method(1), str)
        assert_type(self.static_under(1), str)
        assert_type(self.class_over(1), str)


class Derived(Service):
    def up(self) -> str:
        return super().method(1)


def test_methods() -> None:
    """On instance, class and subclass arguments and result are those of the bare method."""
    for one in (Service(), Derived()):
        assert_type(one.method(2, text="a"), str)
        assert_type(one.by_object(1), str)
        assert_type(one.named(1), str)
        assert_type(one.method.breaker, CircuitBreaker)
        assert_type(one.by_object.breaker, CircuitBreaker)
        for item in one.generator():
            assert_type(item, str)
        one.inside()
    assert_type(Service.method(Service(), 1), str)
    assert_type(Service.method.breaker, CircuitBreaker)
    assert_type(Derived().up(), str)


def test_class_methods() -> None:
    """Class methods, the decorator over or under, on the class, a subclass, an instance."""
    assert_type(Service.class_under(1), str)
    assert_type(Service.class_over(1), str)
    assert_type(Service.class_by_object(1), str)
    assert_type(Derived.class_under(1), str)
    assert_type(Derived.class_over(number=1), str)
    assert_type(Service().class_under(1), str)
    assert_type(Derived().class_over(1), str)
    assert_type(Service.class_under.breaker, CircuitBreaker)
    assert_type(Service.class_over.breaker, CircuitBreaker)
    assert_type(Service().class_by_object.breaker, CircuitBreaker)


def test_static_methods() -> None:
    """Static methods, the decorator over or under, on the class, a subclass, an instance."""
    assert_type(Service.static_under(1), str)
    assert_type(Service.static_over(1), str)
    assert_type(Derived.static_under(number=1), str)
    assert_type(Service().static_under(1), str)
    assert_type(Derived().static_over(number=1), str)
    assert_type(Service.static_under.breaker, CircuitBreaker)
    assert_type(Service().static_over.breaker, CircuitBreaker)


async def use(one: Service) -> None:
    assert_type(await one.coroutine(1), str)
    assert_type(await Service.class_coroutine(), str)
    assert_type(await Service.static_coroutine(), str)
    assert_type(await one.static_coroutine(), str)
    async for item in one.async_generator():
        assert_type(item, str)


def test_async_methods() -> None:
    """``await`` and ``async for`` give the real types."""
    asyncio.run(use(Service()))


def takes(callback: Callable[[int], str]) -> str:
    return callback(1)


def test_bound_methods_as_callbacks() -> None:
    """A bound method is a callable without ``self``."""
    assert_type(takes(Service().method), str)
    assert_type(takes(Service.class_over), str)
    assert_type(takes(Service().static_under), str)


class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value

    @breaker
    def get(self) -> T:
        return self.value

    @breaker
    async def get_async(self, other: T) -> list[T]:
        return [self.value, other]


def test_generic_classes() -> None:
    """The type variables of a class come through."""
    assert_type(Box(1).get(), int)
    assert_type(Box("a").get(), str)
    assert_type(asyncio.run(_both()), list[int])


async def _both() -> list[int]:
    return await Box(1).get_async(2)


@breaker_methods("typing.inventory", exclude=("close",), failure_threshold=3)
class Inventory:
    def stock(self, number: int) -> str:
        return str(number)

    def close(self) -> None:
        """Close it."""


@breaker_methods(scope="instance", include=["stock"])
class Each:
    def stock(self, number: int) -> str:
        return str(number)


def test_a_decorated_class() -> None:
    """A class keeps its type, and so do its methods."""
    assert_type(Inventory(), Inventory)
    assert_type(Inventory().stock(1), str)
    assert_type(Inventory().close(), None)
    assert_type(Each().stock(1), str)
    assert_type(breaker_methods("typing.other")(Plain), type[Plain])
    assert_type(Plain().work(), int)


class Plain:
    def work(self) -> int:
        return 1


def test_protect() -> None:
    """``protect`` takes any decorator and returns what takes it back."""
    undo = protect("nowhere.to.be.found:Client.send", shared)
    assert_type(undo(), None)
    assert_type(protect("nowhere.to.be.found:send", breaker(key=len))(), None)
