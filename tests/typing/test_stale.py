"""The cache's types: what is decorated keeps its own, and the verb has two forms."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import assert_type

from breakerkit import (
    CacheInfo,
    DisasterCall,
    MemoryStore,
    StaleCache,
    StaleConfig,
    Store,
    raise_,
    return_value,
    stale_if_error,
)

cache = stale_if_error("typing.stale", refresh_after=30, max_stale=timedelta(hours=1))
assert_type(cache, StaleCache)
assert_type(stale_if_error(), StaleCache)


def strategy(call: DisasterCall) -> str:
    """Say what failed."""
    return f"{call.name} {call.key} {call.error} {call.args} {call.kwargs}"


stale_if_error(disaster=raise_())
stale_if_error(disaster=return_value([]), store=MemoryStore(100), on=(OSError,))
stale_if_error(disaster=strategy, soft_timeout=None, background=True, breaker=None)
stale_if_error(config=StaleConfig(), key=lambda user: user)
store: Store = MemoryStore()


@stale_if_error
def bare(user: int, *, deep: bool = False) -> list[str]:
    """Load."""
    return [str(user)] if deep else []


@cache
async def load(user: int) -> bytes:
    """Load."""
    return b"" * user


def number(text: str) -> int:
    """Read."""
    return int(text)


class Service:
    """Has cached methods."""

    @stale_if_error(refresh_after=5)
    def read(self, key: str) -> float:
        """Read."""
        return float(key)

    @stale_if_error()
    async def read_later(self, key: str) -> complex:
        """Read."""
        return complex(key)


def test_functions() -> None:
    """Arguments and results are the function's own."""
    assert_type(bare(1, deep=True), list[str])
    assert_type(asyncio.run(load(1)), bytes)
    assert_type(Service().read("1"), float)
    assert_type(asyncio.run(Service().read_later("1")), complex)


def test_calls() -> None:
    """So they are through ``call`` and ``apply``."""
    assert_type(stale_if_error().call(number, "7"), int)
    assert_type(cache.info(), CacheInfo)
    assert_type(cache.config, StaleConfig)
    assert_type(cache.key_of(1), str)
    assert_type(cache.put("k", 1), bool)
    assert_type(cache.info().hit_ratio, float | None)


def wrong() -> None:
    """What checkers refuse."""
    bare("1")  # type: ignore[arg-type]  # an int
    stale_if_error(refresh=1)  # type: ignore[call-overload]  # no such setting
