"""What is called in each group, and the loop that times it.

Every loop passes one positional argument, so that a wrapper has something to
pass on. The cost of the empty ``for`` is in every figure alike; it is measured
too, and printed.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Refused(Exception):  # noqa: N818 - named like what it stands in for
    """The ready-made exception of the rejection baseline: four fields, set and no more."""

    # A breaker's own error may not be the measure of what an error costs.
    def __init__(self, name: str, reason: str, retry_after: float, opened_at: object) -> None:
        self.name = name
        self.reason = reason
        self.retry_after = retry_after
        self.opened_at = opened_at


class Unavailable(Exception):  # noqa: N818 - the failure of the guarded call, not of ours
    """What the guarded functions raise when they are to fail."""


def work(value: int) -> int:
    """Do nothing, as a function."""
    return value


async def awork(value: int) -> int:
    """Do nothing, as a coroutine."""
    return value


def stream(value: int) -> Iterator[int]:
    """Do nothing three times, as a generator."""
    yield value
    yield value
    yield value


async def astream(value: int) -> AsyncIterator[int]:
    """Do nothing three times, as an asynchronous generator."""
    yield value
    yield value
    yield value


def fail(value: int) -> int:
    """Fail, to get a breaker open."""
    raise Unavailable(value)


def work_or_fail(value: int) -> int:
    """Do nothing, or fail when asked for 0: for windows that need failures in them."""
    if not value:
        raise Unavailable
    return value


def function_loop(call: Callable[[int], object], count: int) -> int:
    """Time ``count`` plain calls."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        call(1)
    return perf_counter_ns() - started


def method_loop(owner: Any, count: int) -> int:
    """Time ``count`` method calls, each looked up on its object."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        owner.work(1)
    return perf_counter_ns() - started


def generator_loop(call: Callable[[int], Iterator[int]], count: int) -> int:
    """Time ``count`` generators, each made and run to its end."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        for _item in call(1):
            pass
    return perf_counter_ns() - started


async def await_loop(call: Any, count: int) -> int:
    """Time ``count`` awaited calls inside one running loop."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        await call(1)
    return perf_counter_ns() - started


async def async_generator_loop(call: Any, count: int) -> int:
    """Time ``count`` asynchronous generators inside one running loop."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        async for _item in call(1):
            pass
    return perf_counter_ns() - started


def rejection_loop(call: Callable[[int], object], count: int, error: type[Exception]) -> int:
    """Time ``count`` rejected calls, the caller's ``try`` and ``except`` included."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        try:  # noqa: SIM105 - this statement is what a caller pays for
            call(1)
        except error:
            pass
    return perf_counter_ns() - started


def empty_loop(_call: object, count: int) -> int:
    """Time the loop alone, to know what of every figure it is."""
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        pass
    return perf_counter_ns() - started


@dataclass(frozen=True, slots=True)
class Group:
    """Subjects that are compared with each other.

    Attributes:
        key: its name on the command line.
        title: its name over a column.
        what: one line for a legend.
        workload: what is guarded.
        loop: what times it.
    """

    key: str
    title: str
    what: str
    workload: Callable[..., Any]
    loop: Callable[..., Any]


GROUPS: dict[str, Group] = {
    group.key: group
    for group in (
        Group("function", "function", "a plain function, default settings", work, function_loop),
        Group("method", "method", "the same as a method, called on an object", work, method_loop),
        Group("async", "async", "a coroutine function, awaited", awork, await_loop),
        Group(
            "generator",
            "generator",
            "a generator of three items, run to its end",
            stream,
            generator_loop,
        ),
        Group(
            "async-generator", "async gen.", "an asynchronous one", astream, async_generator_loop
        ),
        Group(
            "count-window",
            "count window",
            "failure rate of the last 100 calls",
            work,
            function_loop,
        ),
        Group("time-window", "time window", "failure rate of the last 60 s", work, function_loop),
        Group(
            "slow-call",
            "slow calls",
            "slow-call rate of the last 100 calls or 60 s",
            work,
            function_loop,
        ),
        Group("listener", "listener", "one listener that hears of every call", work, function_loop),
        Group(
            "state-listener",
            "state listener",
            "one listener for changes of state",
            work,
            function_loop,
        ),
        Group("open", "rejection", "an open breaker, the caller catches", fail, rejection_loop),
        Group("bulkhead", "bulkhead", "caller isolation, a slot is free", work, function_loop),
        Group("async-bulkhead", "async bulkhead", "the same, awaited", awork, await_loop),
        Group("fallback", "fallback", "the function succeeds", work, function_loop),
        Group("degradable", "degradable", "no rule is in force", work, function_loop),
        Group("timeout", "timeout", "a plain function, cooperative", work, function_loop),
        Group(
            "async-timeout",
            "async timeout",
            "a coroutine function; the closure is one with a bare `asyncio.timeout`",
            awork,
            await_loop,
        ),
        Group("failover", "failover", "two providers, the first answers", work, function_loop),
        Group(
            "pipeline",
            "pipeline",
            "fallback, breaker, bulkhead and timeout around one function",
            work,
            function_loop,
        ),
        Group("async-pipeline", "async pipeline", "the same, awaited", awork, await_loop),
        Group(
            "stale-hit",
            "cache hit",
            "a value that is in the memory store, and younger than the refresh period",
            work,
            function_loop,
        ),
        Group("async-stale-hit", "async cache hit", "the same, awaited", awork, await_loop),
    )
}


def fresh(function: Any) -> Any:
    """Copy a function, bytecode and all.

    CPython specialises a call site for what it has seen there. In one shared
    loop every subject would pay for its neighbours; in a loop of its own it
    runs as it does in a program of its own.
    """
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)


@functools.cache
def running_loop() -> asyncio.AbstractEventLoop:
    """Return the one event loop of this run, made at its first use."""
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def on_the_loop(timer: Callable[..., Any]) -> Callable[[Any, int], int]:
    """Turn a timing coroutine into a function that runs it; its own clock runs inside."""

    def measure(call: Any, count: int) -> int:
        taken: int = running_loop().run_until_complete(timer(call, count))
        return taken

    return measure
