"""The queue: who waits, in which order they are served, and every way in which a wait ends."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from breakerkit import (
    BulkheadFullError,
    BulkheadRejected,
    CallCancelledError,
    CallDequeued,
    CancelSignal,
    DeadlineExceededError,
    FullReason,
    SystemClock,
    bulkhead,
)
from breakerkit import (
    _ambient as ambient,
)
from tests.isolation.rig import Background, end, full, idle, until, until_async, waiting
from tests.shapes import every_shape, returning


class Monotonic(SystemClock):
    """The clock of production, which the test plugin has replaced."""

    def __init__(self):
        self.now = time.monotonic


@every_shape
def test_a_call_waits_for_a_slot(shape):
    """With a place in the queue a call waits, and runs when a slot comes free."""
    b = bulkhead(max_concurrent=1, max_waiting=1)
    call, background = shape.bind(b, returning(7)), Background()
    with full(b):
        background.call(lambda: asyncio.run(call()) if shape.is_async else call())
        until(lambda: waiting(b) == 1)
        with pytest.raises(BulkheadFullError) as caught:
            shape.run(b, returning())
        assert caught.value.reason is FullReason.QUEUE_FULL
    assert background.join() == [7]
    assert b.snapshot().waits == 1
    idle(b)


@every_shape
@pytest.mark.parametrize("monotonic", [True, False])
def test_max_wait_by_real_time(shape, monotonic):
    """A call that gets no slot within max_wait is rejected, and leaves the queue."""
    settings = {"clock": Monotonic()} if monotonic else {}
    b = bulkhead(max_concurrent=1, max_waiting=1, max_wait=0.02, **settings)
    with full(b):
        began = time.monotonic()
        with pytest.raises(BulkheadFullError) as caught:
            shape.run(b, returning())
        assert 0.02 <= time.monotonic() - began + 0.005
    assert caught.value.reason is FullReason.MAX_WAIT
    assert (b.snapshot().timed_out, b.snapshot().rejected) == (1, 1)
    idle(b)


@every_shape
def test_max_wait_on_a_clock_that_is_moved_by_hand(shape, clock):
    """On a manual clock a wait is over when the clock says so, and not before."""
    b = bulkhead(max_concurrent=1, max_waiting=1, max_wait=30, clock=clock)
    call, background = shape.bind(b, returning(7)), Background()
    with full(b):
        background.call(lambda: asyncio.run(call()) if shape.is_async else call())
        until(lambda: waiting(b) == 1)
        clock.advance(29)
        threading.Event().wait(0.03)
        assert waiting(b) == 1
        clock.advance(1)
        (error,) = background.join()
    assert error.reason is FullReason.MAX_WAIT
    seen = b.snapshot()
    assert (seen.waits, seen.total_wait, seen.longest_wait, seen.mean_wait) == (1, 30, 30, 30)
    idle(b)


def test_c036_eight_give_up():
    """Eight inside, eight more wait and give up, then all go: eight slots are free (C036)."""
    b = bulkhead(max_concurrent=8, max_waiting=8, max_wait=0.05)

    async def ask():
        return await b.call(work)

    async def work():
        return 7

    background = Background()
    with full(b):
        for _ in range(4):
            background.call(b.call, int)
            background.call(lambda: asyncio.run(ask()))
        reasons = [error.reason for error in background.join()]
    assert reasons == [FullReason.MAX_WAIT] * 8
    assert b.snapshot().timed_out == 8
    idle(b)


def test_c036_eight_are_cancelled():
    """Waiters that are cancelled leave the queue, and no slot goes to any of them (C036)."""
    b = bulkhead(max_concurrent=8, max_waiting=8, max_wait=5)

    async def work():
        ran.append(1)

    async def main():
        tasks = [asyncio.create_task(b.call(work)) for _ in range(8)]
        await until_async(lambda: waiting(b) == 8)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)
        assert waiting(b) == 0

    ran = []
    with full(b):
        asyncio.run(main())
    assert not ran
    assert b.snapshot().rejected == 0
    idle(b)


def test_a_slot_handed_to_a_cancelled_waiter_passes_on():
    """A waiter that is cancelled in the instant it was handed a slot gives it to the next."""
    b = bulkhead(max_concurrent=1, max_waiting=2)

    async def work(name):
        return name

    async def main():
        with full(b) as blocks:
            first = asyncio.create_task(b.call(work, "first"))
            second = asyncio.create_task(b.call(work, "second"))
            await until_async(lambda: waiting(b) == 2)
            end(blocks)  # the slot is the first one's from here on
            assert (waiting(b), b.snapshot().running) == (1, 1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert await second == "second"

    asyncio.run(main())
    idle(b)


@pytest.mark.parametrize(("order", "served"), [("fifo", [0, 1, 2, 3]), ("lifo", [3, 2, 1, 0])])
def test_the_order_of_the_queue(order, served):
    """First come, first served; or the newest first."""
    b = bulkhead(max_concurrent=1, max_waiting=9, order=order)
    got, background = [], Background()
    with full(b):
        for number in range(4):
            background.call(b.call, got.append, number)
            until(lambda: waiting(b) == number + 1)
    background.join()
    assert got == served
    idle(b)


def test_nobody_overtakes_who_waits():
    """A slot that comes free while somebody waits is his, though he has not woken yet."""
    b = bulkhead(max_concurrent=1, max_waiting=1)

    async def work():
        return 7

    async def main():
        with full(b) as blocks:
            waiter = asyncio.create_task(b.call(work))
            await until_async(lambda: waiting(b) == 1)
            b.reconfigure(max_waiting=0)
            end(blocks)
            with pytest.raises(BulkheadFullError):
                b.call(int)
            assert await waiter == 7

    asyncio.run(main())
    idle(b)


def test_more_slots_serve_who_waits():
    """A larger limit is handed to the waiters at once, in a live bulkhead."""
    b = bulkhead(max_concurrent=1, max_waiting=5)
    background = Background()
    with full(b):
        for _ in range(3):
            background.call(b.call, int)
        until(lambda: waiting(b) == 3)
        b.reconfigure(max_concurrent=4)
        assert background.join() == [0, 0, 0]
    idle(b)


def test_fewer_slots_pay_before_they_serve():
    """After a shrink, slots that come back are given up first, then handed on."""
    b = bulkhead(max_concurrent=3, max_waiting=5)
    background = Background()
    with full(b) as blocks:
        background.call(b.call, int)
        until(lambda: waiting(b) == 1)
        b.reconfigure(max_concurrent=1)
        end(blocks)
        end(blocks)
        assert waiting(b) == 1
        end(blocks)
        assert background.join() == [0]
    idle(b)


def test_a_shorter_queue_lets_those_in_it_wait():
    """A smaller max_waiting turns newcomers away, not those who wait already."""
    b = bulkhead(max_concurrent=1, max_waiting=3)
    background = Background()
    with full(b):
        for _ in range(3):
            background.call(b.call, int)
        until(lambda: waiting(b) == 3)
        b.reconfigure(max_waiting=0)
        assert waiting(b) == 3
        with pytest.raises(BulkheadFullError):
            b.call(int)
    assert background.join() == [0, 0, 0]
    idle(b)


def limited(seconds, call, clock=None, signal=None):
    """Call under a limit of a timeout around."""
    clock = clock or Monotonic()
    end, terms = clock.now() + seconds, ambient.Terms(seconds, "around", clock)
    token = ambient.limit.set([end, terms, None, signal, False])
    try:
        return call()
    finally:
        ambient.limit.reset(token)


@every_shape
def test_the_deadline_around_ends_a_wait(shape):
    """A wait ends at the deadline of the calls around, and the rejection says so."""
    b = bulkhead(max_concurrent=1, max_waiting=1, max_wait=60)
    heard = []
    b.subscribe(heard.append, BulkheadRejected)
    with full(b), pytest.raises(DeadlineExceededError) as caught:
        limited(0.02, lambda: shape.run(b, returning()))
    assert caught.value.name == "around"
    assert [event.reason for event in heard] == [FullReason.DEADLINE]
    idle(b)


@every_shape
def test_of_two_limits_the_shorter(shape):
    """A max_wait that is shorter than the deadline around ends the wait."""
    b = bulkhead(max_concurrent=1, max_waiting=1, max_wait=0.01)
    with full(b), pytest.raises(BulkheadFullError) as caught:
        limited(60, lambda: shape.run(b, returning()))
    assert caught.value.reason is FullReason.MAX_WAIT
    idle(b)


@every_shape
def test_with_no_time_left_a_call_does_not_wait(shape, clock):
    """A call whose deadline has passed does not begin to wait."""
    b = bulkhead(max_concurrent=1, max_waiting=1)

    def call():
        clock.advance(2)
        return shape.run(b, returning())

    with full(b), pytest.raises(DeadlineExceededError):
        limited(1, call, clock)
    assert b.snapshot().waits == 0
    idle(b)


@every_shape
def test_the_signal_around_ends_a_wait(shape):
    """A wait ends when the signal of the calls around is set; nothing has run."""
    b = bulkhead(max_concurrent=1, max_waiting=1)
    signal, background = CancelSignal(), Background()

    def call():
        return limited(60, lambda: shape.run(b, returning()), signal=signal)

    with full(b):
        background.call(call)
        until(lambda: waiting(b) == 1)
        signal.cancel("the user hung up")
        (error,) = background.join()
    assert type(error) is CallCancelledError
    assert (error.begun, error.reason) == (False, "the user hung up")
    idle(b)


def test_two_loops_at_once_and_twice():
    """One bulkhead serves two event loops at the same time, and loops one after another (C034)."""
    b = bulkhead(max_concurrent=3, max_waiting=100)
    lock, inside, most = threading.Lock(), 0, 0

    @b
    async def work():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        await asyncio.sleep(0.001)
        with lock:
            inside -= 1
        return 1

    async def main():
        return sum(await asyncio.gather(*[work() for _ in range(20)]))

    assert asyncio.run(main()) == 20
    assert asyncio.run(main()) == 20
    background = Background()
    for _ in range(2):
        background.call(lambda: asyncio.run(main()))
    assert background.join() == [20, 20]
    assert most == 3
    idle(b)


def test_a_waiter_whose_loop_is_closed_is_passed_over():
    """A task whose loop was closed while it waited is never handed a slot, and takes no place."""
    b = bulkhead(max_concurrent=1, max_waiting=1)

    async def work():
        pytest.fail("nobody waits for this")

    def leave_behind():
        loop = asyncio.new_event_loop()
        tasks.append(loop.create_task(b.call(work)))
        loop.run_until_complete(asyncio.sleep(0.001))
        assert waiting(b) == 1
        loop.close()

    tasks, background = [], Background()
    with full(b):
        leave_behind()
        background.call(b.call, int)
        until(lambda: b.snapshot().waiting == 1)
    assert background.join() == [0]
    with full(b):
        leave_behind()
        # Not looked at before its turn comes.
    assert b._guard.queue.size == 0
    assert b.call(int) == 0
    for task in tasks:
        task._log_destroy_pending = False
    tasks.clear()
    gc.collect()
    idle(b)


def test_a_waiting_task_that_is_dropped():
    """A coroutine that waits and is closed leaves the queue."""
    b = bulkhead(max_concurrent=1, max_waiting=1)

    async def work():
        return 1

    async def main():
        waiter = b.call(work)
        waiter.send(None)
        assert waiting(b) == 1
        waiter.close()
        assert waiting(b) == 0

    with full(b):
        asyncio.run(main())
    idle(b)


def test_ten_thousand_wait_as_ten_do():
    """Joining and leaving a queue of ten thousand costs what it costs in one of ten."""

    def cost(length):
        b = bulkhead(max_concurrent=1, max_waiting=20_000)

        async def work():
            return 1

        async def main():
            with full(b):
                tasks = [asyncio.ensure_future(b.call(work)) for _ in range(length)]
                await until_async(lambda: b._guard.queue.size == length)
                best = float("inf")
                for _ in range(30):
                    began = time.perf_counter()
                    one = asyncio.ensure_future(b.call(work))
                    await asyncio.sleep(0)
                    one.cancel()
                    await asyncio.gather(one, return_exceptions=True)
                    best = min(best, time.perf_counter() - began)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            return best

        took = asyncio.run(main())
        idle(b)
        return took

    few, many = cost(10), cost(10_000)
    assert many < 5 * few + 0.0005


def test_a_broken_clock_leaks_no_place():
    """A clock of the user's that raises in the middle of a wait: the caller hears it, the place is free."""

    class Broken:
        broken = False

        def now(self):
            if self.broken:
                raise ArithmeticError("no time")
            return time.monotonic()

    clock = Broken()
    b = bulkhead(max_concurrent=1, max_waiting=1, max_wait=60, clock=clock)
    background = Background()
    with full(b):
        background.call(b.call, int)
        until(lambda: b._guard.queue.size == 1)
        clock.broken = True
        (error,) = background.join()
        clock.broken = False
    assert type(error) is ArithmeticError
    idle(b)


def test_a_listener_that_ends_the_program_leaks_nothing():
    """A listener that raises KeyboardInterrupt in the middle of an admission leaves nothing behind."""
    b = bulkhead(max_concurrent=1, max_waiting=1)

    async def work():
        return 1

    def interrupt(event):
        raise KeyboardInterrupt

    with full(b):
        unsubscribe = b.subscribe(interrupt)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                b.call(int)
            with pytest.raises(KeyboardInterrupt):
                asyncio.run(b.call(work))
        unsubscribe()
        assert waiting(b) == 0
    b.subscribe(interrupt, CallDequeued)
    background = Background()
    with full(b):
        background.call(b.call, int)
        until(lambda: waiting(b) == 1)
    (error,) = background.join()
    assert type(error) is KeyboardInterrupt
    b.reconfigure(max_waiting=0)
    b.subscribe(interrupt)
    with full(b), pytest.raises(KeyboardInterrupt):
        b.call(int)
    idle(b)
