"""Async code under a limit: cancelled in time, and nobody else's cancellation is touched."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import types
from typing import Any

import pytest

from breakerkit import (
    CallEndedLate,
    CallTimeoutError,
    DeadlineExceededError,
    _ambient,
    breaker,
    check_deadline,
    current_deadline,
    timeout,
)
from breakerkit.testing import ManualClock
from tests.deadline.test_sync import counts
from tests.shapes import Shape, async_shapes


async def forever() -> None:
    """Wait for what never comes."""
    await asyncio.get_running_loop().create_future()


@async_shapes
def test_expiry(shape: Shape):
    """Code that hangs is cancelled, its caller gets our error in time, the task is not cancelled."""
    one = timeout(0.01, name="db")
    seen: list[Any] = []

    async def hang() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        with pytest.raises(CallTimeoutError) as caught:
            await shape.bind(one, hang)()
        assert (caught.value.name, caught.value.seconds, caught.value.abandoned) == (
            "db",
            0.01,
            False,
        )
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < 1
    assert seen == ["cancelled"]
    assert counts(one) == (1, 0, 0)


@async_shapes
def test_cancelled_from_outside(shape: Shape):
    """A cancellation of the task passes as it is, and is no expiry."""
    one = timeout(30)

    async def main() -> None:
        task = asyncio.ensure_future(_await(shape.bind(one, forever)))
        await asyncio.sleep(0.01)
        task.cancel("bye")
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert caught.value.args == ("bye",)

    asyncio.run(main())
    assert counts(one) == (0, 0, 0)


async def _await(call: Any) -> Any:
    return await call()


@async_shapes
@pytest.mark.parametrize("outside_first", [False, True])
def test_both_at_once(shape: Shape, outside_first: bool):
    """A cancellation that arrives together with ours is not swallowed, whichever comes first."""
    one = timeout(0.02)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(_await(shape.bind(one, forever)))
        await asyncio.sleep(0)
        timer = next(handle for handle in loop._scheduled if not handle.cancelled())
        # In the same turn of the loop, just before or just after ours.
        loop.call_at(timer.when() + (-1e-7 if outside_first else 1e-7), task.cancel)
        time.sleep(0.03)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert counts(one) == (0, 0, 0)


@async_shapes
def test_cancelled_before_it_began(shape: Shape):
    """A cancellation that the task has not heard of yet when the limit begins is not swallowed."""
    one = timeout(0.005)

    async def body() -> None:
        asyncio.current_task().cancel()
        await shape.bind(one, slow)()

    async def slow() -> None:
        # It hears of the first cancellation only after ours.
        await asyncio.ensure_future(slow_to_end())

    async def slow_to_end() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        raise asyncio.CancelledError

    async def main() -> None:
        task = asyncio.ensure_future(body())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 1

    asyncio.run(main())
    assert one.snapshot().expired == 0


async def test_within_a_cancellation():
    """Cleanup of a cancelled task may have a limit of its own."""
    one = timeout(0.01)

    async def body() -> None:
        try:
            await forever()
        finally:
            with pytest.raises(CallTimeoutError):
                await one.call(forever)

    task = asyncio.ensure_future(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.snapshot().expired == 1


@async_shapes
def test_a_cancellation_that_is_ignored(shape: Shape):
    """Code that swallows our cancellation and answers late gets its value delivered, counted as late."""
    one = timeout(0.01)

    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await forever()
        await asyncio.sleep(0)
        return "late"

    async def main() -> None:
        assert await shape.bind(one, stubborn)() == "late"
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(main())
    assert counts(one) == (0, 1, 0)


@async_shapes
def test_another_error_from_our_cancellation(shape: Shape):
    """What code makes of our cancellation is its own error; it passes, counted as late."""
    one, error = timeout(0.01), LookupError("cleanup failed")

    async def clumsy() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            raise error from None

    async def main() -> None:
        with pytest.raises(LookupError) as caught:
            await shape.bind(one, clumsy)()
        assert caught.value is error
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(main())
    assert counts(one) == (0, 1, 0)


@async_shapes
@pytest.mark.parametrize("kind", [TimeoutError, asyncio.TimeoutError])
def test_its_own_timeout(shape: Shape, kind: type[Exception]):
    """C041: a TimeoutError of the function's, or of a limit of asyncio's inside, is its own."""
    one, error = timeout(30), kind("mine")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise error

    async def main() -> None:
        with pytest.raises(kind) as caught:
            await shape.bind(one, fails)()
        assert caught.value is error

    asyncio.run(main())

    async def limited() -> None:
        async with asyncio.timeout(0.001):
            await forever()

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(_await(shape.bind(one, limited)))
    assert type(caught.value) is TimeoutError
    assert counts(one) == (0, 0, 0)


@async_shapes
def test_nested_limits(shape: Shape):
    """Of nested limits the shorter cancels, whether inside or outside; each counts its own."""
    short, long = timeout(0.01, name="short"), timeout(30, name="long")

    async def through(outer: Any, inner: Any) -> None:
        with pytest.raises(CallTimeoutError) as caught:
            await outer.call(shape.bind(inner, forever))
        assert caught.value.name == "short"
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(through(short, long))
    asyncio.run(through(long, short))
    assert counts(short) == (2, 0, 0)
    assert counts(long) == (0, 0, 0)


async def test_inside_asyncio_timeout():
    """A limit of asyncio's around ours expires as it would alone."""
    one = timeout(30)
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.01):
            await one.call(forever)
    assert type(caught.value) is TimeoutError
    assert counts(one) == (0, 0, 0)


async def test_both_limits_in_one_turn():
    """Ours and one of asyncio's around it, both over when the loop looks: the outer error comes."""
    one = timeout(0.001)

    async def slow() -> None:
        time.sleep(0.01)
        await forever()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await one.call(slow)
    assert asyncio.current_task().cancelling() == 0


async def test_task_groups():
    """In a task group a child that expires fails alone with our error; a sibling's failure cancels."""
    one, long = timeout(0.01), timeout(30)
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(one.call(forever))
            sibling = group.create_task(long.call(forever))
    assert [type(error) for error in caught.value.exceptions] == [CallTimeoutError]
    assert sibling.cancelled()
    assert counts(long) == (0, 0, 0)

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(forever())

    with pytest.raises(CallTimeoutError):
        await one.call(grouped)


async def test_a_child_task_of_a_limited_one():
    """A child takes the deadline along; its own timeout is bounded by it, and names whose it was."""
    outer, inner = timeout(0.05, name="outer"), timeout(30, name="inner")

    @outer
    async def waits() -> None:
        await asyncio.shield(asyncio.ensure_future(inner.call(forever)))

    with pytest.raises(CallTimeoutError, match="'outer'"):
        await waits()
    assert outer.snapshot().expired == 1


async def test_a_sync_limit_around_a_loop(clock: ManualClock):
    """A deadline of sync code around an event loop bounds what runs in it."""
    outer, inner = timeout(0.02, name="outer"), timeout(30, name="inner")

    def in_thread() -> None:
        with pytest.raises(CallTimeoutError) as caught:
            outer.call(lambda: asyncio.run(_await(inner(forever))))
        assert caught.value.name == "outer"

    await asyncio.to_thread(in_thread)
    assert counts(outer) == (1, 0, 0)
    assert counts(inner) == (0, 0, 0)


@async_shapes
def test_a_deadline_by_its_clock(clock: ManualClock, shape: Shape):
    """The deadline is told by the policy's clock; what cancels is the loop's own time.

    So a clock that is moved by a test, or stands still, neither ends async work
    early nor lets it hang for ever.
    """
    one = timeout(0.05, clock=clock)

    async def travelling() -> float:
        before = current_deadline().remaining
        clock.advance(3600)
        await asyncio.sleep(0)
        assert current_deadline().expired
        return before

    assert asyncio.run(_await(shape.bind(one, travelling))) == 0.05
    with pytest.raises(CallTimeoutError):
        asyncio.run(_await(shape.bind(one, forever)))  # the clock stands still


async def test_checking_in_async_code(clock: ManualClock):
    """`check_deadline` works in async code as well, and is counted the same."""
    one = timeout(30, clock=clock)

    @one
    async def work() -> None:
        clock.advance(30)
        check_deadline()

    with pytest.raises(CallTimeoutError):
        await work()
    assert counts(one) == (1, 0, 0)


def test_two_loops():
    """C034: one policy serves two loops, one after the other and at the same time."""
    one = timeout(0.02)
    barrier = threading.Barrier(2)

    async def twenty() -> list[Any]:
        calls = [one.call(forever) for _ in range(20)]
        return await asyncio.gather(*calls, return_exceptions=True)

    def run() -> None:
        barrier.wait()
        ended.append(asyncio.run(twenty()))

    ended: list[Any] = [asyncio.run(twenty()), asyncio.run(twenty())]
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for found in ended for error in found] == [CallTimeoutError] * 80
    assert one.snapshot().expired == 80


def test_outside_of_a_task():
    """Driven by hand there is no task to cancel: that is said, and nothing has begun."""
    one = timeout(1, name="db")

    @one
    async def work() -> None:
        pytest.fail("begun")

    with pytest.raises(RuntimeError, match="timeout 'db': async code is limited by cancelling"):
        work().send(None)

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def callback() -> None:
            with pytest.raises(RuntimeError, match="no task runs this"):
                work().send(None)
            done.set()

        loop.call_soon(callback)
        await done.wait()

    asyncio.run(main())
    assert one.snapshot().calls == 0


def test_an_old_coroutine():
    """A coroutine made by ``types.coroutine`` is limited like any other."""
    one = timeout(0.1)

    @one
    @types.coroutine
    def work(wait: bool) -> Any:
        if wait:
            yield from forever().__await__()
        return "value"

    async def main() -> None:
        assert await work(False) == "value"
        with pytest.raises(CallTimeoutError):
            await work(True)

    asyncio.run(main())
    assert one.snapshot().expired == 1


async def test_a_value_from_code_that_kept_the_loop(clock: ManualClock):
    """A coroutine that never lets the loop cancel it in time is late, and its event is told."""
    one, seen = timeout(5, clock=clock), []
    one.subscribe(seen.append)

    async def blocks() -> int:
        clock.advance(5)
        return 1

    assert await one.call(blocks) == 1
    assert counts(one) == (0, 1, 0)
    assert [type(event) for event in seen] == [CallEndedLate]


async def test_an_interrupt_leaves_no_timer():
    """What ends the loop's own call of a timer cannot cancel a task later."""
    one = timeout(0.01)

    class Broken(Exception):
        pass

    loop = asyncio.get_running_loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_at", lambda *_: (_ for _ in ()).throw(Broken()))
        with pytest.raises(Broken):
            await one.call(forever)
    assert current_deadline() is None
    from breakerkit._shell._timed_async import Expiry

    left_behind = Expiry(asyncio.current_task(), one._guard.terms)
    left_behind.task = None
    left_behind()
    await asyncio.sleep(0)


async def test_a_breaker_around_and_a_limit_around_that():
    """C032: a limit around a breaker ends the call in time; the breaker counts no failure.

    The limit is the caller's: to the breaker inside it is a cancellation.
    """
    guarded = breaker(failure_threshold=1)
    runs: list[int] = []

    @timeout(0.02, name="limit")
    @guarded
    async def work() -> None:
        runs.append(1)
        await asyncio.sleep(3)

    started = time.monotonic()
    with pytest.raises(CallTimeoutError, match="'limit'"):
        await work()
    assert time.monotonic() - started < 1
    assert runs == [1]
    seen = guarded.snapshot()
    assert (seen.failures, seen.ignored) == (0, 1)


async def test_no_time_around():
    """An async call with no time left around it is not begun, and no coroutine of it is made."""
    clock = ManualClock()
    with timeout(1, clock=clock).guard():
        clock.advance(1)
        with pytest.raises(DeadlineExceededError):
            await timeout(5).call(forever)


async def test_what_outlives_a_call(clock: ManualClock):
    """A task that outlives the limited call it was started in is under that limit no more, however that ended."""
    outer, inner = timeout(30, name="outer", clock=clock), timeout(20, name="inner", clock=clock)
    go = asyncio.Event()
    seen: list[Any] = []

    async def child() -> None:
        seen.append(current_deadline().name)
        await go.wait()
        seen.append(current_deadline())

    @inner
    async def parent(error: Exception | None) -> asyncio.Task[None]:
        task = asyncio.ensure_future(child())
        tasks.append(task)
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return task

    tasks: list[asyncio.Task[None]] = []
    await parent(None)
    with pytest.raises(LookupError):
        await parent(LookupError())
    async with outer.guard():
        await parent(None)
    go.set()
    await asyncio.gather(*tasks)
    assert seen == ["inner"] * 3 + [None] * 3
    expiring = timeout(0.01, name="expiring", clock=clock)
    go.clear()

    @expiring
    async def hangs() -> None:
        tasks.append(asyncio.ensure_future(child()))
        await forever()

    with pytest.raises(CallTimeoutError):
        await hangs()
    go.set()
    await tasks[-1]
    assert seen[-2:] == ["expiring", None]


@pytest.mark.parametrize("how", ["call", "block", "future"])
async def test_a_limit_that_began_under_a_shorter_one(how: str):
    """A limited call that outlives the limited one around it is under its own limit from then on."""
    outer, inner = timeout(0.02, name="outer"), timeout(0.1, name="inner")
    began = asyncio.Event()
    seen: list[Any] = []

    async def hang() -> None:
        began.set()
        seen.append(current_deadline().name if how != "future" else "outer")
        try:
            await forever()
        finally:
            seen.append(current_deadline().name if how != "future" else "inner")

    async def child() -> None:
        if how == "call":
            await inner.call(hang)
        elif how == "block":
            async with inner.guard():
                await hang()
        else:
            await inner(lambda: asyncio.ensure_future(hang()))()

    async with outer.guard():
        task = asyncio.ensure_future(child())
        await began.wait()
    with pytest.raises(CallTimeoutError, match="'inner'"):
        await task
    assert seen[:1] == ["outer"]
    assert counts(outer) == (0, 0, 0)
    assert counts(inner) == (1, 0, 0)
    await asyncio.sleep(0)
    assert seen == ["outer", "inner"]


async def test_calls_that_outlive_each_other_keep_no_chain():
    """Tasks that each start the next from within a limited call keep nothing of the first."""
    one = timeout(30)
    depth: list[int] = []

    @one
    async def generation(left: int) -> None:
        count, around = 0, _ambient.limit.get()
        while around is not None:
            count, around = count + 1, around[_ambient.AROUND]
        depth.append(count)
        if left:
            tasks.append(asyncio.ensure_future(generation(left - 1)))

    tasks: list[Any] = [asyncio.ensure_future(generation(50))]
    while len(depth) < 51:
        await tasks[-1]
    assert max(depth) <= 2
