"""Nothing of a caller's is kept: no frame, argument or error, and no cycle, whatever a call came to."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest

from breakerkit import NoCachedValueError, return_value
from tests.stale.rig import Down, async_ways, sync_ways


class Local:
    """Something that only a frame holds."""


def one_of_each(b, seen):
    """Make a call that misses, one that hits, a refresh that fails, and disasters of each kind."""

    def behave(number):
        local = Local()
        seen.append(weakref.ref(local))
        if failing:
            raise failing(number)
        return number

    failing = None
    b.origin.answer = behave
    errors = (Down, NoCachedValueError, KeyError, TypeError, StopIteration)
    b()
    b()
    b.clock.advance(2)
    failing = Down
    b()
    b.clock.advance(50)
    for error in (Down, KeyError):
        failing = error
        with contextlib.suppress(*errors):
            b()
    failing = None
    b.cache.reconfigure(disaster=return_value("x"))
    failing = Down
    with contextlib.suppress(*errors):
        b()

    def strategy(call):
        local = Local()
        seen.append(weakref.ref(local))
        raise LookupError

    b.clock.advance(2)
    b.cache.reconfigure(disaster=strategy)
    with contextlib.suppress(LookupError):
        b()
    b.clock.advance(2)
    failing = None
    b.origin.answer = lambda number: behave(number) and iter("ab")
    with contextlib.suppress(TypeError):
        b()


@sync_ways
def test_a_frame_is_free_at_once(kind, bench):
    """C066: nothing of ours is in a cycle with a frame: it is free before the collector runs."""
    seen = []
    b = bench(kind, on=(Down,))
    b.cache.subscribe(lambda event: None)
    gc.collect()
    gc.disable()
    try:
        one_of_each(b, seen)
        assert [one() for one in seen] == [None] * len(seen)
        assert len(seen) >= 7
    finally:
        gc.enable()


@async_ways
def test_a_frame_is_free(kind, bench):
    """The same in async code, where asyncio itself makes cycles."""
    seen = []
    b = bench(kind, on=(Down,))
    one_of_each(b, seen)
    gc.collect()
    assert [one() for one in seen] == [None] * len(seen)


def test_arguments_are_not_kept(cached, origin):
    """Whatever the key is made of: only its text is."""

    class Request:
        user = 1

    seen = []
    call = cached(key=lambda request: request.user, background=True)(lambda request: origin())
    for error in (None, Down()):
        origin.error = error
        request = Request()
        seen.append(weakref.ref(request))
        call(request)
        del request
    assert [one() for one in seen] == [None, None]


async def test_tasks_and_attempts_are_not_kept(cached):
    """Of an attempt that was given up nothing is left."""
    from breakerkit.stale import _starting

    c = cached()

    @c
    async def load(key):
        await asyncio.Event().wait()

    for number in range(20):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(load(number), 0.001)
    await asyncio.sleep(0.001)
    assert (c.info().running, _starting._tasks, c.store._open) == (0, set(), {})


def test_a_retry_loop_makes_no_chain(cached, origin):
    """C067: raised inside the handler of the last, each disaster is new and of constant length."""
    origin.error = Down()
    call = cached()(lambda key: origin(key))
    seen = []

    def again(tries):
        try:
            call(1)
        except NoCachedValueError as error:
            seen.append(error)
            if tries:
                again(tries - 1)

    again(10)
    assert len({id(error) for error in seen}) == 11
    assert all(error.__cause__ is origin.error for error in seen)
