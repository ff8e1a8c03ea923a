"""What only a lost race, another process or a forked child reaches."""

from __future__ import annotations

import asyncio
import threading

import pytest

from breakerkit import MemoryStore, NoCachedValueError, StoreLost, StoreRestored, return_value
from breakerkit.stale._attempts import Attempts, Ended, Part
from breakerkit.stale._waiting import Wait, _set
from breakerkit.store.commands import NOTHING, Begin, Evict, Postpone, Put, Read, StoreBusyError
from tests.shapes import in_thread
from tests.stale.rig import Crowd, Down, FarStore, until


def test_a_value_that_is_too_old_before_it_is_due(cached, clock, origin):
    """C057: with ``raise_()`` there is nothing to serve, so the origin is asked, and its error is the cause."""
    c = cached(refresh_after=3, max_stale_in_disaster=20)
    call = c(lambda key: origin(key))
    call(1)
    origin.error = Down()
    for _ in range(3):
        clock.advance(3)
        assert call(1) == 1
    clock.advance(1)
    with pytest.raises(NoCachedValueError) as caught:
        call(1)
    assert caught.value.__cause__ is origin.error


def test_another_process_fails(cached, clock, origin):
    """Its refresh time holds here, too: the origin is not asked."""
    store = FarStore(clock)
    c = cached("fleet", store=store, disaster=return_value("x"))
    call = c(lambda key: origin(key))
    ticket = store.inner.do(Begin("fleet:k", 9))
    waiting = Crowd(1, lambda: call("k"))
    until(lambda: any(isinstance(one, Begin) for one in store.asked))
    store.inner.do(Postpone("fleet:k", ticket, 1, empty=True))
    until(lambda: clock.advance(0.01) and waiting.ended)
    assert waiting.join() == ["x"]
    assert origin.runs == 0


def test_an_interrupt_while_the_store_is_away(cached, clock, origin):
    """There is no lease to give back."""
    store = FarStore(clock)
    store.trouble = OSError()
    origin.error = KeyboardInterrupt()
    c = cached(store=store)
    with pytest.raises(KeyboardInterrupt):
        c.call(origin, "k")
    assert c.info().running == 0


def test_a_store_that_was_never_lost(cached):
    """Nothing is told."""
    c = cached()
    seen = []
    c.subscribe(seen.append)
    c._guard.shelf._answers()
    assert seen == []


async def test_an_attempt_that_has_ended_already(clock):
    """Nobody waits for it; telling it again does nothing."""
    attempts = Attempts()
    part = Part()
    one = attempts.join(part, "k", 0, 1)
    assert part.leads
    attempts.settle(one, Ended.VALUE, value=1)
    attempts.settle(one, Ended.FAILED)
    assert (one.how, one.value) == (Ended.VALUE, 1)
    assert await Wait(one, clock, 1).do_async() is True
    assert Wait(one, clock, 1).do() is True
    future = asyncio.get_running_loop().create_future()
    _set(future)
    _set(future)
    one.forget(print)
    attempts.leave(part)
    assert one.value is None


def test_a_maker_that_leaves_before_it_has_begun():
    """Somebody else may try at once."""
    attempts = Attempts()
    part = Part()
    one = attempts.join(part, "k", 0, 1)
    other = Part()
    assert attempts.join(other, "k", 0, 1) is one
    assert (part.leads, other.leads) == (True, False)
    attempts.leave(Part())  # of one who never took part
    attempts.leave(part)
    assert (one.how, len(attempts)) == (Ended.HANDED_OVER, 0)
    later = Part()
    attempts.join(later, "k", 0, 1)
    assert later.leads


def test_after_a_fork(cached):
    """The child starts with no attempt and no thread; a store in the middle of a change starts empty."""
    c = cached()
    guard = c._guard
    one = guard.attempts.join(Part(), "k", 0, 1)
    assert guard.take_place([])
    guard.attempts.after_fork()
    guard.after_fork()
    assert (c.info().running, c.info().background) == (0, 0)
    guard.attempts.settle(one, Ended.FAILED)
    store = MemoryStore()
    store.do(Put("k", 1, 5, 5))
    store.do(Begin("k", 5))
    store.after_fork()
    assert (len(store), store._open) == (1, {})
    lock = store._lock
    leave, taken = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(10)
    in_thread(store.after_fork)
    leave.set()
    thread.join()
    assert len(store) == 0
    assert store.do(Put("k", 1, 5, 5))
    assert store.do(Read("k")).value == 1


def test_a_failure_that_comes_too_late():
    """Whatever was evicted or stored meanwhile has its own refresh time."""
    store = MemoryStore()
    for act in (Evict("k"), Put("k", 1, 5, 50)):
        ticket = store.do(Begin("k", 0))
        store.do(act)
        store.do(Postpone("k", ticket, 30, empty=True))
        entry = store.do(Read("k"))
        assert entry is None or entry.due < 6
    assert repr(NOTHING) == "<nothing>"


def test_a_store_that_is_busy_is_not_lost(cached, clock, origin):
    """It says so of one command: the call goes on as if nothing were stored, and nobody is told of an outage."""
    store = FarStore(clock)
    c = cached("busy", store=store, key=lambda key: key)
    seen = []
    c.subscribe(seen.append, StoreLost, StoreRestored)
    store.trouble = StoreBusyError("too many at once")
    assert c.call(origin, "k") == 1
    store.trouble = None
    assert c.call(origin, "k") == 2
    assert (seen, c.info().store_lost) == ([], False)
