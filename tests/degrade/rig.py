"""What the tests of degradation have in common: the shapes that can be answered, and short words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.shapes import SHAPES, Shape, acting


def _generator(policy: Any, behave: Any) -> Any:
    @policy
    def work() -> Iterator[Any]:
        yield behave()

    return lambda: one_of(list(work()))


def _async_generator(policy: Any, behave: Any) -> Any:
    @policy
    async def work() -> AsyncIterator[Any]:
        yield await acting(behave)

    async def call() -> Any:
        return one_of([item async for item in work()])

    return call


def one_of(items: list[Any]) -> Any:
    """Return the only item."""
    (item,) = items
    return item


#: Every way to call that gives a value; generators that fail before their first item.
ANSWERED = [
    *(one for one in SHAPES if "guard" not in one.name and "generator" not in one.name),
    Shape("first-item", _generator, False, False),
    Shape("first-async-item", _async_generator, True, False),
]


def _over(shapes: list[Shape]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shape", shapes, ids=[shape.name for shape in shapes])


answered_shapes = _over(ANSWERED)
#: Without plain functions that return work: what they return by force is not awaited.
forced_shapes = _over([one for one in ANSWERED if one.name != "returned-coroutine"])
forced_async_shapes = _over(
    [one for one in ANSWERED if one.is_async and one.name != "returned-coroutine"]
)
answered_sync_shapes = _over([one for one in ANSWERED if not one.is_async])
answered_async_shapes = _over([one for one in ANSWERED if one.is_async])


def run(call: Any) -> Any:
    """Make a call, sync or async, and bring it to its end."""
    value = call()
    return asyncio.run(value) if asyncio.iscoroutine(value) else value


def length(error: BaseException) -> int:
    """Return how many frames a traceback has."""
    trace, found = error.__traceback__, 0
    while trace is not None:
        trace, found = trace.tb_next, found + 1
    return found
