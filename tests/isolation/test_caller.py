"""Caller isolation: so many calls at a time, over all ways to call, and each gives its slot back once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import weakref

import pytest

from breakerkit import BulkheadFullError, CallCancelledError, CancelSignal, FullReason, bulkhead
from tests.isolation.rig import Background, end, full, idle, until
from tests.shapes import SHAPES, every_pair, every_shape, raising, returning


@every_shape
def test_a_call_goes_through(shape):
    """A call returns what the function returns, and its slot is free again."""
    b = bulkhead(max_concurrent=1)
    for _ in range(3):
        assert shape.run(b, returning(7)) == 7
    assert b.snapshot().completed == 3
    idle(b)


@every_shape
def test_an_exception_passes_unchanged(shape):
    """What the function raises reaches the caller, the very object, and frees the slot."""
    b = bulkhead(max_concurrent=1)
    for kind in (ConnectionError, KeyboardInterrupt, SystemExit):
        error = kind("down")
        with pytest.raises(kind) as caught:
            shape.run(b, raising(error))
        assert caught.value is error
    idle(b)


@every_shape
def test_a_full_bulkhead_rejects_at_once(shape):
    """With no place to wait, a call beyond the limit is not run; the error says who and why."""
    b = bulkhead("db", max_concurrent=2)
    ran = []
    with full(b), pytest.raises(BulkheadFullError) as caught:
        shape.run(b, lambda: ran.append(1))
    assert (caught.value.name, caught.value.reason) == ("db", FullReason.QUEUE_FULL)
    assert caught.value.retry_after is None
    assert caught.value.__context__ is None
    assert not ran
    assert b.snapshot().rejected == 1
    idle(b)


@every_pair
def test_all_ways_are_counted_together(first, second):
    """While a call of any kind runs, one of any kind finds its slot taken."""
    b = bulkhead(max_concurrent=1)
    answers = []

    def inside():
        try:
            call = second.bind(b, returning())
            answers.append(in_another_thread(second, call))
        except BulkheadFullError as error:
            answers.append(error.reason)
        return "value"

    def in_another_thread(shape, call):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(call()) if shape.is_async else call()).result()

    first.run(b, inside)
    assert answers == [FullReason.QUEUE_FULL]
    idle(b)


@every_shape
def test_a_slot_is_held_while_the_call_runs(shape):
    """The snapshot counts the call while it runs, not before and not after."""
    b = bulkhead(max_concurrent=3)
    call, seen = shape.bind(b, lambda: seen.append(b.snapshot().running)), []
    assert b.snapshot().running == 0
    asyncio.run(call()) if shape.is_async else call()
    assert seen == [1]
    idle(b)


def test_a_rejected_coroutine_function_makes_no_coroutine():
    """A rejected async call makes no coroutine of the function, so nothing is never awaited."""
    b = bulkhead(max_concurrent=1)

    @b
    async def work():
        return 1

    with full(b), pytest.raises(BulkheadFullError):
        asyncio.run(work())
    gc.collect()


def test_threads_and_tasks_share_one_count():
    """Two threads inside, a task is rejected; a task inside, a thread is (C039)."""
    b = bulkhead(max_concurrent=2)
    inside, leave = threading.Barrier(3), threading.Event()

    @b
    def block():
        inside.wait(10)
        assert leave.wait(10)

    @b
    async def work():
        return await asyncio.to_thread(b.call, len, "abc")

    background = Background()
    background.call(block)
    background.call(block)
    inside.wait(10)
    with pytest.raises(BulkheadFullError):
        asyncio.run(work())
    leave.set()
    assert background.join() == [None, None]
    assert asyncio.run(work()) == 3
    b.reconfigure(max_concurrent=1)
    with pytest.raises(BulkheadFullError):
        asyncio.run(work())
    idle(b)


def test_generators_hold_their_slot_from_the_first_item_to_the_end():
    """A generator takes its slot when it is first read; dropped, left or never begun it holds none."""
    b = bulkhead(max_concurrent=1)

    @b
    def items():
        yield 1
        yield 2

    never, read = items(), items()
    assert b.snapshot().running == 0
    assert next(read) == 1
    assert b.snapshot().running == 1
    with pytest.raises(BulkheadFullError):
        next(items())
    del read
    idle(b)
    for item in items():
        break
    assert item == 1
    del never
    idle(b)


def test_async_generators_that_are_dropped():
    """An async generator that is dropped half read gives its slot back."""
    b = bulkhead(max_concurrent=1)

    @b
    async def items():
        yield 1
        yield 2

    async def main():
        stream = items()
        assert await anext(stream) == 1
        assert b.snapshot().running == 1
        await stream.aclose()
        stream = items()
        await anext(stream)

    asyncio.run(main())
    gc.collect()
    idle(b)


@pytest.mark.parametrize("ending", ["value", "error", "cancelled", "dropped"])
def test_futures_hold_their_slot_until_they_are_done(ending):
    """A function that returns a future is inside until that future is done."""
    b = bulkhead(max_concurrent=1)
    futures = []

    @b
    def begin():
        futures.append(concurrent.futures.Future())
        return futures[-1]

    future = begin()
    assert b.snapshot().running == 1
    if ending == "value":
        future.set_result(1)
    elif ending == "error":
        future.set_exception(ConnectionError("down"))
    elif ending == "cancelled":
        future.cancel()
    else:
        del future
        futures.clear()
    gc.collect()
    idle(b)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_returned_coroutine_that_is_never_awaited():
    """A coroutine that a plain function returned holds the slot until it is closed or dropped."""
    b = bulkhead(max_concurrent=1)

    async def work():
        return 1

    @b
    def make():
        return work()

    made = make()
    assert b.snapshot().running == 1
    made.close()
    del made
    gc.collect()
    idle(b)


def test_a_cancelled_call_gives_its_slot_back():
    """A task that is cancelled in the middle leaves; the cancellation passes unchanged."""
    b = bulkhead(max_concurrent=1)

    @b
    async def work():
        await asyncio.sleep(60)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        assert b.snapshot().running == 1
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task

    asyncio.run(main())
    idle(b)


def test_apply_with_a_signal():
    """The signal is looked at after admission: the slot is free again, and nothing has run."""
    b = bulkhead(max_concurrent=1)
    signal = CancelSignal()
    assert b.apply(pow, (2,), {"exp": 3}, cancel=signal) == 8
    signal.cancel("no")
    with pytest.raises(CallCancelledError) as caught:
        b.apply(pow, (2, 3), cancel=signal)
    assert not caught.value.begun
    with full(b), pytest.raises(BulkheadFullError):
        b.apply(pow, (2, 3), cancel=signal)
    idle(b)


def test_a_block_decides_nothing():
    """A block may fail or ignore itself; to a bulkhead it is a block, and holds its slot to its end."""
    b = bulkhead(max_concurrent=1)
    with b.guard() as block:
        block.fail(ConnectionError("down"))
        assert b.snapshot().running == 1
    with b.guard() as block:
        block.ignore()
    idle(b)


def test_blocks_end_where_they_like():
    """A block entered in one thread and left in another gives one slot back, once (C035)."""
    b = bulkhead(max_concurrent=2)
    first, second = b.guard(), b.guard()
    first.__enter__()
    threads = Background()
    threads.call(second.__enter__)
    threads.join()
    assert b.snapshot().running == 2
    threads.call(first.__exit__, None, None, None)
    threads.join()
    assert b.snapshot().running == 1
    second.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="not running"):
        second.__exit__(None, None, None)
    idle(b)


def test_a_dropped_block_gives_its_slot_back():
    """A block that nobody leaves gives its slot back when it goes."""
    b = bulkhead(max_concurrent=1)
    block = b.guard()
    block.__enter__()
    del block
    gc.collect()
    idle(b)


def test_nested_calls_take_a_slot_each():
    """A guarded function that calls another of the same bulkhead holds two slots."""
    b = bulkhead(max_concurrent=2)

    @b
    def inner():
        return b.snapshot().running

    @b
    def outer():
        return inner()

    assert outer() == 2
    b.reconfigure(max_concurrent=1)
    with pytest.raises(BulkheadFullError):
        outer()
    idle(b)


def test_a_hook_that_raises_takes_and_gives_nothing():
    """A share_of that raises reaches the caller before admission: nothing is given back (C037)."""
    b = bulkhead(max_concurrent=2, shares={"a": 0.5}, share_of=lambda fail: 1 / fail)

    @b
    def work(fail):
        running.append(b.snapshot().running)
        assert leave.wait(10)

    running, leave = [], threading.Event()
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            work(0)
    background = Background()
    for _ in range(10):
        background.call(work, 1)
    until(lambda: b.snapshot().rejected == 8)
    assert max(running) == 2
    leave.set()
    background.join()
    idle(b)


@every_shape
def test_a_slow_crowd_stays_within_the_limit(shape):
    """Many threads at once: never more inside than the limit, and all slots are back."""
    b = bulkhead(max_concurrent=3, max_waiting=100)
    lock, inside, most = threading.Lock(), 0, 0

    def behave():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.001)
        with lock:
            inside -= 1
        return "value"

    call = shape.bind(b, behave)
    background = Background()
    for _ in range(12):
        background.call(lambda: asyncio.run(call()) if shape.is_async else call())
    assert background.join() == ["value"] * 12
    assert most <= 3
    idle(b)


def test_resizing_while_calls_run():
    """A smaller limit lets those inside end and admits nobody before; a larger one admits at once."""
    b = bulkhead(max_concurrent=3)
    with full(b) as blocks:
        b.reconfigure(max_concurrent=1)
        for left in (2, 1):
            end(blocks)
            with pytest.raises(BulkheadFullError):
                b.call(int)
            assert b.snapshot().running == left
        end(blocks)
        assert b.call(int) == 0
        b.reconfigure(max_concurrent=2)
    with full(b), pytest.raises(BulkheadFullError):
        b.call(int)
    idle(b)


def test_resizing_retires_free_slots():
    """Free slots above a new limit are gone at once, whatever was minted before."""
    b = bulkhead(max_concurrent=5)
    with full(b):
        pass
    b.reconfigure(max_concurrent=2)
    idle(b)
    assert b.snapshot().completed == 5 + 2
    gc.collect()
    idle(b)


def test_every_shape_is_known():
    """The bodies above ran in each way to call there is."""
    assert len(SHAPES) >= 17


def test_a_dropped_bulkhead_is_gone():
    """A bulkhead that nobody holds goes with all its slots, in a garbage cycle too."""
    b = bulkhead(max_concurrent=3)

    work = b(lambda: 7)
    with full(b):
        pass
    refs = [weakref.ref(one) for one in (b._guard, *b._guard.slots())]
    assert work() == 7
    cycle = [b, work]
    cycle.append(cycle)
    del b, work, cycle
    gc.collect()
    assert [ref() for ref in refs] == [None] * 4
