"""Probe slots: never one too many by any route, and each one comes back however its call ends."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from breakerkit import CircuitOpenError, ProbeLimitError, State
from tests.shapes import (
    SHAPES,
    Service,
    async_shapes,
    every_pair,
    every_shape,
    in_thread,
    raising,
    returning,
    sync_shapes,
)


@pytest.fixture
def half_open(circuit, clock):
    """Make breakers whose open period has just ended."""

    def make(**settings):
        b = circuit(failure_threshold=1, **settings)
        with pytest.raises(ConnectionError):
            b.call(raising(ConnectionError("down")))
        clock.advance(10)
        return b

    return make


@every_pair
def test_no_pair_of_routes_gives_two_probes(first, second, half_open):
    """C002: while a probe runs by one route, a caller by any other route is rejected."""
    b, service = half_open(), Service()

    def probe():
        with pytest.raises(ProbeLimitError) as caught:
            in_thread(lambda: second.run(b, service))
        assert caught.value.retry_after == 10
        return 7

    assert first.run(b, probe) == 7
    assert service.runs == 0
    assert b.state is State.CLOSED


@every_shape
def test_fifty_threads_at_the_instant_of_expiry(shape, half_open):
    """C001: of fifty threads one runs; the others are rejected at once, while the probe still runs."""
    b = half_open()
    start, rejected = threading.Barrier(50), threading.Semaphore(0)
    runs = []

    def probe():
        runs.append(1)
        for _ in range(49):
            assert rejected.acquire(timeout=30)
        raise ConnectionError("still down")

    def call():
        start.wait(30)
        try:
            shape.run(b, probe)
        except Exception as error:
            rejected.release()
            return type(error)

    with ThreadPoolExecutor(50) as pool:
        ended = [one.result() for one in [pool.submit(call) for _ in range(50)]]
    assert sorted(kind.__name__ for kind in ended) == ["ConnectionError"] + 49 * ["ProbeLimitError"]
    assert len(runs) == 1
    assert b.state is State.OPEN


@async_shapes
async def test_fifty_tasks_at_the_instant_of_expiry(shape, half_open):
    """C001: of fifty tasks of one loop one runs; the others are rejected while it still runs."""
    b, over = half_open(), asyncio.Event()
    call = shape.bind(b, over.wait)

    async def one():
        return await call()

    tasks = [asyncio.create_task(one()) for _ in range(50)]
    done = set()
    while len(done) < 49:
        await asyncio.sleep(0)
        done = {task for task in tasks if task.done()}
    assert all(isinstance(task.exception(), ProbeLimitError) for task in done)
    over.set()
    (probe,) = set(tasks) - done
    await probe
    assert b.state is State.CLOSED


@every_shape
def test_the_limit_is_a_number_at_a_time(shape, half_open):
    """``probe_limit`` probes run at once; one that ends makes room for the next."""
    b = half_open(probe_limit=2, probe_success_threshold=4)

    def first():
        assert in_thread(lambda: shape.run(b, returning(2))) == 2
        assert in_thread(lambda: shape.run(b, lambda: in_thread(third))) == 3
        return 1

    def third():
        with pytest.raises(ProbeLimitError):
            shape.run(b, returning())
        return 3

    assert shape.run(b, first) == 1
    assert b.snapshot().probe_successes == 3
    shape.run(b, returning())
    assert b.state is State.CLOSED


async def _by_its_task(call):
    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _by_a_timeout(call):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await call()


async def _by_a_sibling(call):
    async def sibling():
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(call())
            group.create_task(sibling())
    assert [type(error) for error in caught.value.exceptions] == [LookupError]


@async_shapes
@pytest.mark.parametrize("cancel", [_by_its_task, _by_a_timeout, _by_a_sibling])
async def test_a_cancelled_probe_gives_its_slot_back(shape, cancel, half_open):
    """C006: a cancellation passes unchanged, is no evidence, and the next call is admitted."""
    b = half_open()
    await cancel(shape.bind(b, asyncio.Event().wait))
    seen = b.snapshot()
    assert (seen.state, seen.probes_active, seen.ignored) == (State.HALF_OPEN, 0, 1)
    assert await shape.bind(b, returning(7))() == 7
    assert b.state is State.CLOSED


@sync_shapes
def test_a_hung_probe_loses_its_slot(shape, half_open, clock):
    """C007: after as long as the open period the slot is free; what then ends late changes nothing."""
    b = half_open()

    def hangs():
        clock.advance(9.5)
        with pytest.raises(ProbeLimitError) as caught:
            in_thread(lambda: shape.run(b, returning()))
        assert caught.value.retry_after == 0.5
        clock.advance(0.5)
        assert in_thread(lambda: shape.run(b, returning(7))) == 7
        assert b.state is State.CLOSED
        raise ConnectionError("late")

    with pytest.raises(ConnectionError):
        shape.run(b, hangs)
    assert b.state is State.CLOSED
    assert b.snapshot().consecutive_failures == 0


@every_shape
def test_a_late_failure_of_a_lapsed_probe_counts(shape, half_open, clock):
    """A probe that has lost its slot still opens again if it fails within its half-open period."""
    b = half_open(probe_timeout=2)

    def slow():
        clock.advance(2)
        assert b.snapshot().probes_active == 0
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        shape.run(b, slow)
    assert b.state is State.OPEN


BEGUN_LATER = [one for one in SHAPES if one.is_async and one.name != "returned-coroutine"]


@pytest.mark.parametrize("shape", BEGUN_LATER, ids=[shape.name for shape in BEGUN_LATER])
async def test_what_is_not_begun_holds_no_slot(shape, half_open):
    """An async call is admitted when it first runs: two made, one run, no rejection."""
    b = half_open()
    call = shape.bind(b, returning(7))
    never = call()
    assert b.snapshot().probes_active == 0
    assert await call() == 7
    never.close()
    assert b.state is State.CLOSED


@async_shapes
async def test_a_rejected_call_makes_no_coroutine(shape, circuit):
    """C021: five awaits of a failing function: two runs, three rejections, nothing never awaited."""
    b, service = circuit(), Service()
    service.error = ConnectionError("down")
    call = shape.bind(b, service)
    ended = []
    for _ in range(5):
        try:
            await call()
        except Exception as error:
            ended.append(type(error))
    assert ended == 2 * [ConnectionError] + 3 * [CircuitOpenError]
    assert service.runs == 2
    gc.collect()
