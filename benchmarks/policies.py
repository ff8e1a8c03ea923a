"""The other policies, alone and in a pipeline, beside those libraries that have the like of them."""

from __future__ import annotations

import asyncio
import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

import breakerkit

if TYPE_CHECKING:
    from collections.abc import Callable

#: A limit that no call here comes near to, in seconds.
LONG = 60.0
#: Slots that are never all taken: each is used by one call at a time.
SLOTS = 10
#: Seconds for which a cached value is fresh: longer than any run.
KEPT = 3600.0


def under_asyncio_timeout(function: Callable[..., Any]) -> Any:
    """Wrap a coroutine function in what asyncio itself offers: the measure of an async limit."""

    @functools.wraps(function)
    async def inner(*args: Any, **kwargs: Any) -> Any:
        async with asyncio.timeout(LONG):
            return await function(*args, **kwargs)

    return inner


def _stack() -> Any:
    return breakerkit.pipeline(
        breakerkit.fallback(0, name="benchmark"),
        breakerkit.breaker("benchmark-stack", registry=breakerkit.Registry()),
        breakerkit.bulkhead(max_concurrent=SLOTS),
        breakerkit.timeout(LONG),
    )


def _cache() -> Any:
    return breakerkit.stale_if_error(
        "benchmark-cache", registry=breakerkit.Registry(), refresh_after=KEPT, max_stale=KEPT
    )


def _providers() -> Any:
    return breakerkit.failover(("first", "second"), name="benchmark")


def _second(function: Callable[[int], int]) -> Callable[..., int]:
    """Turn a workload of one argument into one that gets its provider first."""

    def served(_provider: str, value: int) -> int:
        return function(value)

    return served


#: What makes each policy of ours; a fresh one for each group.
OURS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "bulkhead": lambda: breakerkit.bulkhead(max_concurrent=SLOTS),
    "async-bulkhead": lambda: breakerkit.bulkhead(max_concurrent=SLOTS),
    "fallback": lambda: breakerkit.fallback(0),
    "degradable": lambda: breakerkit.degradable("benchmark"),
    "timeout": lambda: breakerkit.timeout(LONG),
    "async-timeout": lambda: breakerkit.timeout(LONG),
    "failover": lambda: lambda function: _providers()(_second(function)),
    "pipeline": _stack,
    "async-pipeline": _stack,
    "stale-hit": _cache,
    "async-stale-hit": _cache,
}


def nopanic() -> dict[str, Callable[[Any], Any]]:
    """Return nopanic's decorators by group."""
    lib = import_module("nopanic")

    def stack() -> Any:
        return lib.compose(
            lib.fallback(0),
            lib.circuit_breaker(),
            lib.bulkhead(SLOTS, max_wait=0),
            lib.timeout(LONG),
        )

    return {
        "bulkhead": lib.bulkhead(SLOTS, max_wait=0),
        "async-bulkhead": lib.bulkhead(SLOTS, max_wait=0),
        "fallback": lib.fallback(0),
        "async-timeout": lib.timeout(LONG),
        "pipeline": stack(),
        "async-pipeline": stack(),
        "stale-hit": lib.cache(KEPT, stale_ttl=KEPT),
        "async-stale-hit": lib.cache(KEPT, stale_ttl=KEPT),
    }


def pyresilience() -> dict[str, Callable[[Any], Any]]:
    """Return pyresilience's decorators by group."""
    lib = import_module("pyresilience")
    slots = lib.BulkheadConfig(max_concurrent=SLOTS)
    cure, limit = lib.FallbackConfig(handler=0), lib.TimeoutConfig(seconds=LONG)

    def stack() -> Any:
        return lib.resilient(
            fallback=cure,
            circuit_breaker=lib.CircuitBreakerConfig(),
            bulkhead=slots,
            timeout=limit,
        )

    return {
        "bulkhead": lib.resilient(bulkhead=slots),
        "async-bulkhead": lib.resilient(bulkhead=slots),
        "fallback": lib.resilient(fallback=cure),
        "async-timeout": lib.resilient(timeout=limit),
        "pipeline": stack(),
        "async-pipeline": stack(),
    }


def resilix() -> dict[str, Callable[[Any], Any]]:
    """Return resilix's decorators by group."""
    lib = import_module("resilix")
    protect = lib.protect

    def stack(**settings: Any) -> Any:
        # The first is the innermost with it: decorated from the inside out.
        layers = (
            protect.timeout(LONG, **settings),
            protect.bulkhead(SLOTS, wait=False),
            protect.circuit(),
            protect.when(Exception, return_=0),
        )
        return lambda function: functools.reduce(
            lambda inner, layer: layer(inner), layers, function
        )

    return {
        "bulkhead": protect.bulkhead(SLOTS, wait=False),
        "async-bulkhead": protect.bulkhead(SLOTS, wait=False),
        "fallback": protect.when(Exception, return_=0),
        "async-timeout": protect.timeout(LONG),
        "pipeline": stack(allow_sync=True),
        "async-pipeline": stack(),
    }
