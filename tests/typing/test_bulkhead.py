"""What a type checker makes of bulkheads: a guarded function has the type it had."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, assert_type

from breakerkit import (
    Bulkhead,
    BulkheadConfig,
    BulkheadSnapshot,
    GuardBlock,
    ShareSnapshot,
    bulkhead,
)

db = bulkhead("db", max_concurrent=2, max_waiting=1, max_wait=0.5)
pool = bulkhead(isolation="thread")


@bulkhead
def bare(one: int) -> str:
    return str(one)


@bulkhead()
def called(one: int, *, two: str = "") -> str:
    return two * one


@db
async def later(one: int) -> str:
    return str(one)


class Service:
    @db
    def method(self, one: int) -> str:
        return str(one)

    @classmethod
    @db
    def class_method(cls, one: int) -> str:
        return str(one)

    @staticmethod
    @db
    def static_method(one: int) -> str:
        return str(one)


def test_functions() -> None:
    """Decorated functions and methods keep their types."""
    assert_type(db, Bulkhead)
    assert_type(bare(1), str)
    assert_type(called(1, two="a"), str)
    assert_type(Service().method(1), str)
    assert_type(Service.class_method(1), str)
    assert_type(Service.static_method(1), str)
    kept: Callable[[int], str] = bare
    assert kept(1) == "1"


async def test_coroutines() -> None:
    """A coroutine function stays one."""
    kept: Callable[[int], Coroutine[Any, Any, str]] = later
    assert await kept(1) == "1"
    assert_type(await later(1), str)


def test_calls() -> None:
    """Calls have the type of the function; submit gives a future of it."""
    assert_type(db.call(bare, 1), str)
    assert_type(db.apply(bare, (1,)), str)
    assert_type(db.guard(), GuardBlock)
    future = pool.submit(len, "abc")
    assert_type(future, Future[int])
    assert future.result(10) == 3


async def test_awaited() -> None:
    """Awaiting run gives the type of the function."""
    assert_type(await pool.run(len, "abc"), int)


def test_looks() -> None:
    """Snapshots and settings have their types."""
    assert_type(db.config, BulkheadConfig)
    seen = db.snapshot()
    assert_type(seen, BulkheadSnapshot)
    assert_type(seen.mean_wait, float)
    assert_type(list(seen.shares.values()), list[ShareSnapshot])
    assert_type(db.reconfigure(max_waiting=2), BulkheadConfig)
