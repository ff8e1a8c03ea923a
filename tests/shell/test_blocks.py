"""Guard blocks: each owns its lease, decides at once if told, and may be left anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc

import pytest

from breakerkit import CallFailed, CallIgnored, CallSucceeded, ProbeLimitError, State
from tests.shapes import in_thread, raising


@pytest.fixture
def half_open(circuit, clock):
    """Return a breaker whose open period has just ended."""
    b = circuit(failure_threshold=1)
    with pytest.raises(ConnectionError):
        b.call(raising(ConnectionError()))
    clock.advance(10)
    return b


def test_a_block_that_ends_is_a_success(half_open):
    """A block that ends without an error is a success; the target of ``as`` is the block."""
    block = half_open.guard()
    with block as lease:
        assert lease is block
        assert half_open.snapshot().probes_active == 1
    assert half_open.state is State.CLOSED


def test_a_block_never_swallows(circuit):
    """What is raised in the block comes out of it."""
    error = ConnectionError("down")
    with pytest.raises(ConnectionError) as caught, circuit().guard():
        raise error
    assert caught.value is error


def test_fail_decides_at_once(half_open):
    """``lease.fail()`` opens while the block still runs; the slot is freed at its end."""
    told = []
    half_open.on_open(told.append)
    error = ConnectionError("the body says so")
    with half_open.guard() as lease:
        lease.fail(error)
        assert half_open.state is State.OPEN
        assert [context.error for context in told] == [error]
    assert half_open.state is State.OPEN


@pytest.mark.parametrize("end", ["ends", "raises"])
def test_the_first_decision_stands(end, circuit):
    """After ``fail`` or ``ignore`` neither the other one nor the block's end changes the outcome."""
    b = circuit(failure_threshold=5)
    with contextlib.suppress(LookupError), b.guard() as lease:
        lease.fail()
        lease.ignore()
        lease.fail()
        if end == "raises":
            raise LookupError
    with contextlib.suppress(LookupError), b.guard() as lease:
        lease.ignore()
        lease.fail()
        if end == "raises":
            raise LookupError
    seen = b.snapshot()
    assert (seen.failures, seen.ignored, seen.successes, seen.consecutive_failures) == (1, 1, 0, 1)


def test_ignore_keeps_the_slot_until_the_end(half_open):
    """``lease.ignore()`` is no evidence; the slot stays taken while the block runs."""
    with half_open.guard() as lease:
        lease.ignore()
        assert half_open.snapshot().probes_active == 1
        with pytest.raises(ProbeLimitError):
            in_thread(lambda: half_open.call(lambda: 7))
    seen = half_open.snapshot()
    assert (seen.state, seen.probes_active, seen.ignored) == (State.HALF_OPEN, 0, 1)


@pytest.mark.parametrize("decide", ["fail", "ignore"])
async def test_decisions_in_an_async_block(decide, half_open):
    """The same in ``async with``; a coroutine callback is awaited before the block is left."""
    told = []

    async def callback(context):
        told.append(context.error)

    half_open.on_open(callback)
    async with half_open.guard() as lease:
        getattr(lease, decide)()
        assert half_open.state is (State.OPEN if decide == "fail" else State.HALF_OPEN)
    assert told == ([None] if decide == "fail" else [])
    assert half_open.snapshot().probes_active == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("decide", ["fail", "ignore"])
def test_a_block_that_does_not_run_cannot_be_decided(when, decide, circuit):
    """``fail`` and ``ignore`` outside the block are an error, and count nothing."""
    b = circuit()
    block = b.guard()
    if when == "after":
        with block:
            pass
    with pytest.raises(RuntimeError, match="not running"):
        getattr(block, decide)()
    assert b.snapshot().failures == b.snapshot().ignored == 0


async def test_a_block_works_once(circuit):
    """A guard object is for one block: entering it again, or inside itself, is an error."""
    block = circuit().guard()
    with block, pytest.raises(RuntimeError, match="works once"):
        block.__enter__()
    with pytest.raises(RuntimeError, match="works once"):
        await block.__aenter__()


def test_a_rejected_block_is_used_up(circuit):
    """A block that was rejected has not run: it holds nothing, and a new one is needed."""
    b = circuit()
    with b.force_open():
        block = b.guard()
        with pytest.raises(Exception, match="forced"), block:
            pytest.fail("entered")
    with pytest.raises(RuntimeError, match="works once"), block:
        pytest.fail("entered")
    with pytest.raises(RuntimeError, match="not running"):
        block.fail()


def test_entered_in_one_context_and_left_in_another(half_open):
    """C035: a yield dependency in a thread pool: entered in one thread and context, left in another."""
    block = half_open.guard()
    in_thread(lambda: contextvars.Context().run(block.__enter__))
    assert half_open.snapshot().probes_active == 1
    in_thread(lambda: contextvars.Context().run(block.__exit__, None, None, None))
    assert half_open.state is State.CLOSED


async def test_entered_in_one_task_and_left_in_another(half_open):
    """C035: an async fixture: entered in one task and left in another."""
    block = half_open.guard()
    await asyncio.create_task(block.__aenter__(), context=contextvars.Context())
    await asyncio.create_task(block.__aexit__(None, None, None), context=contextvars.Context())
    assert half_open.state is State.CLOSED


@pytest.mark.parametrize("order", ["first in first out", "last in first out"])
def test_interleaved_blocks_keep_their_own_lease(order, circuit, clock):
    """C035: two blocks that overlap have a duration and an outcome of their own each."""
    b = circuit(failure_threshold=5, ignore_on=(LookupError,))
    heard = []
    b.subscribe(heard.append, CallSucceeded, CallFailed, CallIgnored)
    a, z = b.guard(), b.guard()
    a.__enter__()
    clock.advance(1)
    z.__enter__()
    clock.advance(1)
    error = ConnectionError("down")
    first, second = (a, z) if order.startswith("first") else (z, a)
    first.__exit__(ConnectionError, error, None)
    clock.advance(1)
    second.__exit__(None, None, None)
    assert [type(event) for event in heard] == [CallFailed, CallSucceeded]
    assert [event.duration for event in heard] == ([2, 2] if first is a else [1, 3])


def test_a_block_dropped_inside_gives_its_slot_back(half_open):
    """A block that is entered and never left frees its slot when it is collected."""
    block = half_open.guard()
    block.__enter__()
    del block
    gc.collect()
    seen = half_open.snapshot()
    assert (seen.probes_active, seen.ignored) == (0, 1)


@pytest.mark.parametrize("decide", ["fail", "ignore"])
def test_a_decided_block_that_is_dropped(decide, half_open, clock):
    """What was decided in a block that is then dropped stands, and is counted once."""
    block = half_open.guard()
    block.__enter__()
    getattr(block, decide)()
    del block
    gc.collect()
    seen = half_open.snapshot()
    assert seen.probes_active == 0
    assert (seen.failures, seen.ignored) == ((2, 0) if decide == "fail" else (1, 1))
    assert half_open.state is (State.OPEN if decide == "fail" else State.HALF_OPEN)


async def test_a_block_that_was_not_entered_cannot_be_left(circuit):
    """Leaving a block that does not run is an error, and counts nothing."""
    b = circuit()
    with pytest.raises(RuntimeError, match="not running"):
        b.guard().__exit__(None, None, None)
    block = b.guard()
    with block:
        pass
    with pytest.raises(RuntimeError, match="not running"):
        await block.__aexit__(None, None, None)
    assert b.snapshot().calls == 1


def test_a_block_on_the_lock_free_path_may_be_dropped(circuit):
    """On a closed breaker, too, a dropped block is counted as ignored."""
    b = circuit()
    b.guard()
    block = b.guard()
    block.__enter__()
    del block
    gc.collect()
    assert b.snapshot().ignored == 1


def test_a_block_in_an_exit_stack(half_open):
    """An ``ExitStack`` may hold it, and callbacks may close it later."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(half_open.guard())
        assert half_open.state is State.HALF_OPEN
    assert half_open.state is State.CLOSED


def test_a_block_inside_a_generator_left_early(half_open):
    """A generator left in the middle of a block ends it as neutral."""

    def work():
        with half_open.guard():
            yield 1

    stream = work()
    next(stream)
    stream.close()
    seen = half_open.snapshot()
    assert (seen.state, seen.probes_active, seen.ignored) == (State.HALF_OPEN, 0, 1)
