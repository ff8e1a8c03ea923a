"""The type of a decorated function is that of the bare one, in every form of the decorator."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar, assert_type, overload

from breakerkit import BreakerConfig, CircuitBreaker, Guarded, breaker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

shared: CircuitBreaker = breaker("typing.shared")
assert_type(shared, CircuitBreaker)


@breaker
def bare(number: int, *, text: str = "") -> str:
    return text * number


@breaker()
def called(number: int, *, text: str = "") -> str:
    return text * number


@breaker("typing.named", failure_threshold=3, open_duration=5, failure_on=(OSError,))
def named(number: int, *, text: str = "") -> str:
    return text * number


@breaker(config=BreakerConfig(failure_threshold=3))
def configured(number: int, *, text: str = "") -> str:
    return text * number


@shared
def by_object(number: int, *, text: str = "") -> str:
    return text * number


def test_functions() -> None:
    """Bare, called, named, configured, by object: arguments and result as before, ``.breaker`` known."""
    assert_type(bare(2, text="a"), str)
    assert_type(bare(number=2), str)
    assert_type(called(2), str)
    assert_type(named(2), str)
    assert_type(configured(2), str)
    assert_type(by_object(2, text="a"), str)
    assert_type(bare.breaker, CircuitBreaker)
    assert_type(called.breaker, CircuitBreaker)
    assert_type(named.breaker, CircuitBreaker)
    assert_type(by_object.breaker, CircuitBreaker)
    assert_type(bare.__name__, str)
    assert_type(bare.__wrapped__(2), str)


def plain(number: int, /) -> str:
    return str(number)


def test_the_type_can_be_named() -> None:
    """`Guarded` is the type, with parameters and result."""
    guarded: Guarded[[int], str] = breaker(plain)
    assert_type(guarded(1), str)
    assert_type(breaker(plain), Guarded[[int], str])
    assert_type(shared(plain), Guarded[[int], str])


def takes(callback: Callable[[int], str]) -> str:
    return callback(1)


def listed(function: Callable[P, R]) -> Callable[P, list[R]]:
    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> list[R]:
        return [function(*args, **kwargs)]

    return inner


def test_as_a_callback() -> None:
    """It is a callable of its type, for whoever takes one, and other decorators see its parameters."""
    assert_type(takes(bare), str)
    assert_type(list(map(bare, [1])), list[str])
    assert_type(listed(bare)(2, text="a"), list[str])
    assert_type(functools.partial(bare, 2)(), str)


@breaker
async def coroutine(number: int) -> str:
    return str(number)


@shared
async def coroutine_by_object(number: int) -> str:
    return str(number)


@breaker
def generator(number: int) -> Iterator[str]:
    yield str(number)


@breaker
async def async_generator(number: int) -> AsyncIterator[str]:
    yield str(number)


@breaker
def returns_awaitable(number: int) -> Awaitable[str]:
    return coroutine(number)


async def use() -> None:
    assert_type(await coroutine(1), str)
    assert_type(await coroutine_by_object(1), str)
    assert_type(await returns_awaitable(1), str)
    assert_type(coroutine.breaker, CircuitBreaker)
    for item in generator(1):
        assert_type(item, str)
    async for item in async_generator(1):
        assert_type(item, str)
    assert_type(await asyncio.create_task(_coroutine(coroutine(1))), str)


async def _coroutine(made: Coroutine[Any, Any, T]) -> T:
    return await made


def test_what_is_awaited_or_iterated() -> None:
    """``await`` and iteration give the real types."""
    asyncio.run(use())


@breaker
def first(items: Sequence[T]) -> T:
    return items[0]


@overload
def convert(value: int) -> str: ...
@overload
def convert(value: str) -> int: ...
@breaker
def convert(value: int | str) -> int | str:
    return int(value) if isinstance(value, str) else str(value)


def test_generic_and_overloaded_functions() -> None:
    """Type variables and overloads come through."""
    assert_type(first([1]), int)
    assert_type(first("a"), str)
    assert_type(convert(1), str)
    assert_type(convert("1"), int)


class Caller:
    def __call__(self, number: int) -> str:
        return str(number)


def test_objects_and_partials() -> None:
    """Callable objects, partials, lambdas and builtins have the type of their call."""
    assert_type(breaker(Caller())(1), str)
    assert_type(breaker(functools.partial(bare, 2))(), str)
    assert_type(breaker(len)("abc"), int)
    assert_type(shared(len).breaker, CircuitBreaker)
