"""Event loops, tasks and their cancellation: no loop is remembered, no slot is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from breakerkit import CircuitOpenError, State, breaker
from breakerkit.testing import ManualClock
from tests.concurrency.crowds import PATIENCE, Dependency, tasks, together
from tests.shapes import SHAPES, Shape, async_shapes, raising, returning

#: What is called as a plain function is refused beside a coroutine callback.
awaiting_shapes = pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES if shape.is_async and shape.name != "returned-coroutine"],
    ids=lambda shape: shape.name,
)


class _Moved(ManualClock):
    """A clock of a policy that is made when this module is imported."""


CLOCK = _Moved()
AT_IMPORT = breaker(failure_threshold=1, open_duration=1, probe_limit=3, clock=CLOCK)


def _open(guarded: Any) -> None:
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError("down")))


@async_shapes
def test_one_loop_after_another(shape: Shape) -> None:
    """A policy made at import serves twenty contending calls in one loop, then in another (C034)."""
    for _ in range(2):
        AT_IMPORT.reset()
        _open(AT_IMPORT)
        CLOCK.advance(1)
        dependency = Dependency(20)
        asyncio.run(tasks([shape.bind(AT_IMPORT, dependency.reach_async)] * 20, dependency.note))
        assert dependency.ended == {"value": 3, "ProbeLimitError": 17}
        assert AT_IMPORT.state is State.CLOSED


@async_shapes
def test_two_loops_at_the_same_time(shape: Shape) -> None:
    """Two threads with a loop each share one limit (C034)."""
    AT_IMPORT.reset()
    _open(AT_IMPORT)
    CLOCK.advance(1)
    dependency = Dependency(40)
    half = [shape.bind(AT_IMPORT, dependency.reach_async)] * 20
    faults: list[Any] = []
    together([lambda: asyncio.run(tasks(half, dependency.note))] * 2, faults.append)
    assert faults == [None, None]
    assert dependency.ended == {"value": 3, "ProbeLimitError": 37}
    assert dependency.most_running == 3


async def _by_cancel(call: Callable[[], Awaitable[Any]], inside: asyncio.Event) -> None:
    task = asyncio.ensure_future(call())
    await inside.wait()
    task.cancel("enough")
    await task


async def _by_timeout(call: Callable[[], Awaitable[Any]], inside: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(None) as limit:
            asyncio.get_running_loop().call_soon(limit.reschedule, 0)
            await call()
    except TimeoutError:
        raise asyncio.CancelledError from None


async def _by_sibling(call: Callable[[], Awaitable[Any]], inside: asyncio.Event) -> None:
    async def sibling() -> None:
        await inside.wait()
        raise ConnectionError("the sibling")

    async def cancelled() -> None:
        try:
            await call()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    seen: list[str] = []
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(cancelled())
            group.create_task(sibling())
    assert seen == ["cancelled"]
    raise asyncio.CancelledError


_ways = pytest.mark.parametrize("way", [_by_cancel, _by_timeout, _by_sibling])


@async_shapes
@_ways
def test_a_cancelled_probe_gives_its_slot_back(
    clock: ManualClock, shape: Shape, way: Callable[..., Awaitable[None]]
) -> None:
    """However a probe is cancelled, it passes and leaves half-open with a free slot (C006)."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    _open(guarded)
    clock.advance(1)

    async def main() -> None:
        inside = asyncio.Event()

        async def hang() -> None:
            inside.set()
            await asyncio.get_running_loop().create_future()

        with pytest.raises(asyncio.CancelledError):
            await way(shape.bind(guarded, hang), inside)
        seen = guarded.snapshot()
        assert (seen.state, seen.probes_active, seen.ignored) == (State.HALF_OPEN, 0, 1)
        assert await shape.bind(guarded, returning("well"))() == "well"

    asyncio.run(main())
    assert guarded.state is State.CLOSED


@async_shapes
def test_users_that_hang_up_are_no_evidence(clock: ManualClock, shape: Shape) -> None:
    """Cancelled and interrupted calls neither add to the streak nor end it (C018)."""
    guarded = breaker(failure_threshold=3, clock=clock)
    shape.fail(guarded, 2)

    async def main() -> None:
        async def hang() -> None:
            await asyncio.get_running_loop().create_future()

        callers = [asyncio.ensure_future(shape.bind(guarded, hang)()) for _ in range(5)]
        for _ in range(5):
            await asyncio.sleep(0)
        for caller in callers:
            caller.cancel()
        ended = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 5

    asyncio.run(main())
    interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        guarded.call(raising(interrupt))
    assert caught.value is interrupt
    seen = guarded.snapshot()
    assert (seen.state, seen.consecutive_failures, seen.ignored) == (State.CLOSED, 2, 6)
    shape.fail(guarded)
    assert guarded.state is State.OPEN


@awaiting_shapes
@pytest.mark.parametrize("half_open", [False, True], ids=["closed", "half-open"])
def test_cancelled_while_a_callback_is_awaited(
    clock: ManualClock, shape: Shape, half_open: bool
) -> None:
    """A cancel that meets an awaited opening callback leaves an open breaker and no slot taken."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    if half_open:
        _open(guarded)
        clock.advance(1)

    async def main() -> None:
        inside = asyncio.Event()

        @guarded.on_open
        async def slow_callback(context: Any) -> None:
            inside.set()
            await asyncio.get_running_loop().create_future()

        call = shape.bind(guarded, raising(ConnectionError("down")))
        task = asyncio.ensure_future(call())
        await inside.wait()
        assert guarded.state is State.OPEN
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(CircuitOpenError):
            await shape.bind(guarded, returning())()
        clock.advance(1)
        assert guarded.snapshot().probes_active == 0
        assert await shape.bind(guarded, returning("well"))() == "well"

    asyncio.run(main())
    assert guarded.state is State.CLOSED


@awaiting_shapes
def test_a_coroutine_callback_is_awaited_in_its_own_loop(clock: ManualClock, shape: Shape) -> None:
    """Whichever of two loops opens the breaker, its callback runs there, once."""
    ran: list[Any] = []
    guarded = breaker(failure_threshold=2, clock=clock)

    @guarded.on_open
    async def callback(context: Any) -> None:
        await asyncio.sleep(0)
        ran.append(asyncio.get_running_loop())

    met = threading.Barrier(2)
    loops: list[Any] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        with pytest.raises((ConnectionError, CircuitOpenError)):
            await shape.bind(guarded, raising(ConnectionError("down")))()

    def run() -> None:
        met.wait(PATIENCE)
        asyncio.run(main())

    together([run, run], lambda raised: None)
    assert guarded.state is State.OPEN
    assert len(ran) == 1
    assert ran[0] in loops
