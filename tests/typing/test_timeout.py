"""The type of a limited function is that of the bare one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, assert_type

from breakerkit import (
    AbandonedWork,
    Deadline,
    Timeout,
    TimeoutBlock,
    TimeoutConfig,
    TimeoutSnapshot,
    abandoned_work,
    current_deadline,
    timeout,
)

shared = timeout("typing.timeout", seconds=2, mode="abandon", max_abandoned=3)
assert_type(shared, Timeout)
assert_type(timeout(2.0, name="typing.other"), Timeout)
assert_type(timeout(timedelta(seconds=2), config=TimeoutConfig()), Timeout)
assert_type(timeout(), Timeout)


@timeout
def bare(number: int, *, text: str = "") -> str:
    return text * number


@timeout(2.0)
def called(number: int, *, text: str = "") -> str:
    return text * number


@shared
async def later(number: int) -> float:
    return float(number)


@shared
def items(number: int) -> Iterator[int]:
    yield number


@shared
async def async_items(number: int) -> AsyncIterator[int]:
    yield number


class Service:
    @timeout(2.0)
    def method(self, number: int) -> str:
        return str(number)

    @classmethod
    @timeout(2.0)
    def of_class(cls, number: int) -> str:
        return str(number)

    @timeout(2.0)
    @staticmethod
    def static(number: int) -> str:
        return str(number)


def test_types() -> None:
    """What comes out is what went in, for a checker and when it runs."""
    assert_type(bare(2, text="a"), str)
    assert_type(called(2, text="a"), str)
    assert_type(Service().method(1), str)
    assert_type(Service.of_class(1), str)
    assert_type(Service.static(1), str)
    assert_type(shared.call(len, "text"), int)
    assert_type(items(1), Iterator[int])
    assert_type(async_items(1), AsyncIterator[int])
    made: Callable[[int], Coroutine[Any, Any, float]] = later
    assert made is later
    assert_type(current_deadline(), Deadline | None)
    assert_type(abandoned_work(), list[AbandonedWork])
    assert_type(shared.snapshot(), TimeoutSnapshot)
    assert_type(shared.config, TimeoutConfig)
    with shared.guard() as block:
        assert_type(block, TimeoutBlock)


async def test_async_types() -> None:
    """Awaiting gives the real type."""
    assert_type(await later(1), float)
    assert_type(await shared.call(later, 1), float)
    async with shared.guard() as block:
        assert_type(block, TimeoutBlock)
