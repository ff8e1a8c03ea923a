"""What a newcomer and a reviewer found in the cache: what is said of a value, who waits, what is kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from breakerkit import (
    CallCancelledError,
    MemoryStore,
    NoCachedValueError,
    OriginRestingError,
    Registry,
    breaker,
    bulkhead,
    pipeline,
    raise_,
    return_value,
    stale_if_error,
)
from breakerkit.events import Event
from breakerkit.stale import _attempts, _nested, _starting
from breakerkit.stale.events import LowHitRatio, RefreshFailed, Source, StoreLost
from breakerkit.stale.guard import StaleKeeper
from breakerkit.store.commands import Begin, Entry, Read
from breakerkit.testing import capture_events, reset_all
from tests.stale.rig import Crowd, Down, FarStore, until, until_async


def text_key(*args):
    """Make a key of the last argument, as functions that share a cache need it."""
    return str(args[-1])


class Gated:
    """An origin that waits inside until it may go on."""

    def __init__(self):
        self.runs = 0
        self.inside, self.leave = threading.Semaphore(0), threading.Event()
        self.error = None

    def __call__(self, key):
        self.runs += 1
        self.inside.release()
        assert self.leave.wait(10)
        if self.error is not None:
            raise self.error
        return self.runs


@pytest.fixture
def gated():
    return Gated()


# -- what is said of a value ---------------------------------------------------------


def test_a_value_that_is_found_in_the_turn_has_its_age(cached, clock, origin):
    """Rule 12: what another has stored between the look and the turn is no fresh value."""
    store = FarStore(clock)
    c = cached("found", store=store)

    @c
    def load(key):
        return origin(key)

    def trouble(command):
        if isinstance(command, Begin):
            store.trouble = None
            c.put("k", "found")
            clock.advance(1)
        return store.inner.do(command)

    store.trouble = trouble
    found = c.fetch("k")
    assert (found.value, found.source, found.age) == ("found", Source.CACHED, 1)
    assert (origin.runs, c.info().misses) == (0, 0)


def test_a_stale_value_that_is_found_in_the_turn_is_called_stale(cached, clock, origin):
    """Rule 12: an attempt that failed meanwhile has moved its refresh time, and made it no younger."""
    store = FarStore(clock)
    c = cached("found", store=store)
    load = c(lambda key: origin(key))
    assert load("k") == 1
    clock.advance(5)
    other = stale_if_error(
        "found", refresh_after=2, max_stale=10, jitter=0, store=store, clock=clock,
        registry=Registry(),
    )  # fmt: skip

    def trouble(command):
        if isinstance(command, Begin):
            store.trouble = None
            origin.error = Down()
            assert other.call(origin, "k") == 1  # its attempt fails, and moves the refresh time
            origin.error = None
        return store.inner.do(command)

    store.trouble = trouble
    found = c.fetch("k")
    assert (found.value, found.source, found.age) == (1, Source.STALE, 5)
    assert origin.runs == 2


@pytest.mark.parametrize("far", [False, True], ids=["do", "do_async"])
async def test_the_way_back_makes_a_value_older(far, cached, clock, origin):
    """Nothing is served older than ``max_stale``: what an answer takes to come is counted."""
    store = FarStore(clock)
    c = cached("late", store=store, key=text_key)

    def late(command):
        answer = store.inner.do(command)
        if isinstance(command, Read):
            clock.advance(1.5)
        return answer

    async def load(key):
        return await origin.later(key)

    async def call():
        return c.call(origin, "k") if not far else await c.call(load, "k")

    assert await call() == 1
    clock.advance(1)
    store.trouble = late
    assert await call() == 2  # due for half a second when it came
    store.trouble = None
    clock.advance(1)
    origin.error = Down()
    store.trouble = late
    clock.advance(7.5)
    with pytest.raises(NoCachedValueError):
        await call()


def test_hits_while_jitter_lasts_are_hits(clock, origin, monkeypatch):
    """A value that is not due is served without a second look, however long chance has given it."""
    monkeypatch.setattr("random.random", lambda: 1.0)
    c = stale_if_error("jitter", refresh_after=2, max_stale=2.5, jitter=1, clock=clock)
    load = c(lambda key: origin(key))
    load("k")
    clock.advance(2.4)
    monkeypatch.setattr(StaleKeeper, "fetch", None)
    assert load("k") == 1
    clock.advance(0.1)  # not due before 4, and too old by now
    monkeypatch.undo()
    assert load("k") == 2


def test_longer_in_disaster_with_a_breaker_further_inside(cached, clock, origin):
    """Rule 6: a key that rests because a breaker refused it is served as long as in the refusal."""
    inner = breaker("inner", failure_threshold=1, open_duration=60, clock=clock)
    c = cached("outer", max_stale_in_disaster=1000, disaster=return_value("D"))
    load = pipeline(c, inner)(lambda key: origin(key))
    assert load("k") == 1
    origin.error = Down()
    clock.advance(2)
    assert load("k") == 1  # it opens
    said = []
    for _ in range(20):
        clock.advance(1)
        said.append(load("k"))
    assert said == [1] * 20
    origin.error = None
    clock.advance(60)
    assert load("k") == 3
    assert c._guard._refused == {}


def test_what_is_kept_in_mind_is_bounded(cached, clock, monkeypatch):
    """Of keys that a breaker has refused the oldest are forgotten."""
    monkeypatch.setattr("breakerkit.stale._telling.MOST_REFUSED", 3)
    inner = breaker(failure_threshold=1, clock=clock)
    inner.force_open()
    c = cached("outer", max_stale_in_disaster=1000, disaster=return_value("D"))
    load = pipeline(c, inner)(lambda key: key)
    assert [load(key) for key in range(9)] == ["D"] * 9
    assert len(c._guard._refused) == 3


def test_raise_is_asked_again_after_a_change_of_strategy(cached, clock, origin):
    """Rule 4: with ``raise_()`` the next call asks again, whatever the strategy was when it failed."""
    c = cached("changed", disaster=return_value("D"))
    load = c(lambda key: origin(key))
    origin.error = Down()
    assert (load("k"), load("k"), origin.runs) == ("D", "D", 1)
    c.reconfigure(disaster=raise_())
    origin.error = None
    assert load("k") == 2


# -- what others do meanwhile -----------------------------------------------------------


@pytest.mark.parametrize("stale", [False, True])
def test_a_put_while_an_attempt_fails(stale, cached, clock, gated):
    """Rules 4 and 9: leader and waiters get what was put, not a disaster, and nothing older."""
    c = cached("put")
    load = c(lambda key: gated(key))
    if stale:
        c.put("k", "old")
        clock.advance(5)
    gated.error = Down()
    leader = Crowd(1, lambda: load("k"))
    assert gated.inside.acquire(timeout=10)
    waiters = Crowd(0 if stale else 3, lambda: load("k"))
    if not stale:
        until(lambda: _callers(c, "k") == 4)
    c.put("k", "put")
    assert waiters.join() == [] if stale else waiters.join() == ["put"] * 3  # at once
    gated.leave.set()
    assert leader.join() == ["put"]


def test_an_eviction_while_an_attempt_fails(cached, clock, gated):
    """Rule 9: what was evicted meanwhile is served to nobody."""
    c = cached("evict")
    load = c(lambda key: gated(key))
    c.put("k", "old")
    clock.advance(5)
    gated.error = Down()
    leader = Crowd(1, lambda: load("k"))
    assert gated.inside.acquire(timeout=10)
    c.evict("k")
    gated.leave.set()
    (ended,) = leader.join()
    assert isinstance(ended, NoCachedValueError)


def test_a_store_that_dies_while_an_attempt_fails(cached, clock, origin):
    """What was read before the store died is served all the same."""
    store = FarStore(clock)
    c = cached("dies", store=store, key=text_key)
    assert c.call(origin, "k") == 1
    clock.advance(3)

    def fails(key):
        store.trouble = OSError("gone")
        raise Down

    assert c.call(fails, "k") == 1


def _callers(c, key):
    one = c._guard.attempts._running.get(c._guard.prefix + key)
    return 0 if one is None else one.callers


def test_who_waits_after_a_late_hand_over(cached, clock):
    """Rule 7: nobody waits longer than ``attempt_timeout``, whoever makes the attempt by then."""
    c = cached("late", attempt_timeout=4, refresh_after=4)
    first, second = asyncio.Event(), asyncio.Event()
    inside = []

    @c
    async def load(key):
        inside.append(key)
        if len(inside) == 1:
            await first.wait()
            raise CallCancelledError("the maker's own")
        await second.wait()

    async def main():
        leader = asyncio.create_task(load("k"))
        await until_async(lambda: inside)
        waiters = [asyncio.create_task(load("k")) for _ in range(3)]
        await until_async(lambda: _callers(c, "k") == 4)
        clock.advance(3)
        first.set()
        with pytest.raises(CallCancelledError):
            await leader
        await until_async(lambda: len(inside) == 2)
        clock.advance(1)
        ended = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(one) for one in ended] == [NoCachedValueError] * 3
        second.set()
        await until_async(lambda: not c.info().running)

    asyncio.run(main())


def test_a_cancelled_leader_leaves_no_origin_behind(cached):
    """C032: whoever cancels a caller finds the origin ended, and its slot free."""
    around, inside = bulkhead(max_concurrent=1), []
    c = cached("cancelled")

    @pipeline(c, around)
    async def load(key):
        inside.append(key)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            inside.clear()

    async def main():
        task = asyncio.create_task(load("k"))
        await until_async(lambda: inside)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (inside, around.snapshot().running) == ([], 0)

    asyncio.run(main())


# -- origins that come back to the cache --------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_origin_that_asks_for_its_own_key(kind, cached):
    """C030: it does not wait for itself: the inner call is made apart."""
    c, runs = cached("own"), []

    def answer(key):
        runs.append(key)
        return len(runs) == 2

    if kind == "sync":

        @c
        def load(key):
            return f"{key}{len(runs)}" if answer(key) else load(key)

        assert load("k") == "k2"
    else:

        @c
        async def later(key):
            return f"{key}{len(runs)}" if answer(key) else await later(key)

        assert asyncio.run(later("k")) == "k2"
    assert c.info().running == 0


def test_two_origins_that_ask_for_each_other(cached):
    """Two threads, each of whose origins needs what the other loads, in two caches: neither waits for ever."""
    gate = threading.Barrier(2)
    one, two = cached("one", key=text_key), cached("two", key=text_key)
    at = threading.local()

    def a(key):
        if getattr(at, "deep", False):
            return "a, by itself"
        at.deep = True
        gate.wait(10)
        return f"a of {two.call(b, key)}"

    def b(key):
        if getattr(at, "deep", False):
            return "b, by itself"
        at.deep = True
        gate.wait(10)
        return f"b of {one.call(a, key)}"

    first, second = Crowd(1, lambda: one.call(a, "k")), Crowd(1, lambda: two.call(b, "k"))
    (x,), (y,) = first.join(), second.join()
    assert x.startswith("a of b")
    assert y.startswith("b of a")


def test_an_async_origin_that_calls_itself_without_end(cached, monkeypatch):
    """Tasks have no stack: it is a clear error, not all the memory there is."""
    monkeypatch.setattr(_nested, "DEEPEST", 5)
    c = cached("endless")

    @c
    async def load(key):
        return await load(key)

    with pytest.raises(NoCachedValueError) as caught:
        asyncio.run(load("k"))
    error = caught.value
    while error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, RecursionError)
    assert "the origin of key 'k' calls itself" in str(error)


def test_a_sync_call_on_the_loop_that_loads_its_key(cached, origin):
    """It would hold up the very loop it waits for: it asks the origin by itself."""
    c = cached("both", key=text_key)

    async def main():
        leave = asyncio.Event()

        async def load(key):
            await leave.wait()
            return await origin.later(key)

        task = asyncio.create_task(c.call(load, "k"))
        await until_async(lambda: c.info().running)
        got = c.call(origin, "k")
        leave.set()
        return got, await task

    assert asyncio.run(main()) == (1, 2)


# -- what is kept -------------------------------------------------------------------------


def test_attempts_of_closed_loops_are_swept(cached, monkeypatch):
    """A loop that is closed under its tasks leaves nothing for good."""
    monkeypatch.setattr(_attempts, "CROWD", 4)
    monkeypatch.setattr(_starting, "_CROWD", 4)
    monkeypatch.setattr(_starting, "_crowd", 4)
    c = cached("loops")
    c._guard.attempts._crowd = 4

    @c
    async def load(key):
        await asyncio.Event().wait()

    for number in range(40):
        loop = asyncio.new_event_loop()
        task = loop.create_task(load(number))
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False
        for one in asyncio.all_tasks(loop):
            one._log_destroy_pending = False
        loop.close()
    assert c.info().running <= 10
    assert len(_starting._tasks) <= 10
    _starting._tasks.clear()
    c._guard.attempts._running.clear()
    gc.collect()


def test_decorated_functions_are_not_kept(cached):
    """A function that was decorated in a handler goes with it, and what it refers to."""
    c = cached("handlers", key=text_key)

    class Request:
        pass

    def handle():
        request = Request()

        @c
        def load(key):
            return request is not None

        load("k")
        return weakref.ref(request)

    refs = [handle() for _ in range(5)]
    c.call(lambda key: key, "other")
    gc.collect()
    assert [one() for one in refs] == [None] * 5
    assert len(c._origin._decorated) <= 1
    with pytest.raises(TypeError, match="around no function"):
        c.fetch("k")
    assert c._origin._known() is None


def test_a_callable_that_cannot_be_referred_to_weakly(cached):
    """One with ``__slots__`` is kept: it is somebody's for good."""

    class Load:
        __slots__ = ()

        def __call__(self, key):
            return key

    c = cached("slots")
    assert c(Load())("k") == "k"
    assert c.fetch("k").value == "k"


# -- what is told ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [Entry("v", None, 5), Entry("v", "1", 5), Entry("v", 0, None), Entry("v", float("nan"), 1)],
)
def test_an_entry_that_is_none(entry, cached, clock, origin):
    """A store of one's own that answers nonsense has failed; the caller hears nothing of it."""
    store = FarStore(clock)
    store.trouble = lambda command: entry if isinstance(command, Read) else store.inner.do(command)
    c = cached("nonsense", store=store, key=text_key)
    with capture_events(c) as log:
        assert c.call(origin, "k") == 1
    assert len(log.of(StoreLost)) >= 1


def test_a_low_ratio_is_told_once_until_it_was_better(cached, origin):
    """Rule 12: a warning, and not one for each so many calls."""
    c = cached("poor", warn_after=10, min_hit_ratio=0.5)
    load = c(lambda key: origin(key))
    with capture_events(c) as log:
        for key in range(50):
            load(key)
        for _ in range(30):
            load("same")
        load("new")
        for key in range(100, 120):
            load(key)
    assert len(log.of(LowHitRatio)) == 2


def test_values_that_are_refused_are_left_alone(cached):
    """A future or an open iterator is the user's; it is neither cancelled nor closed."""
    closed = []

    class Rows:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration

        def close(self):
            closed.append(1)

    c = cached("refused", key=text_key)
    with pytest.raises(TypeError, match="can be run or read once"):
        c.call(lambda key: Rows(), "k")
    assert closed == []


def test_mocks_are_values(cached):
    """A mock has every method there is, those of iterators too."""
    from unittest.mock import MagicMock

    c, value = cached("mock", key=text_key), MagicMock()
    assert c.call(lambda key: value, "k") is value
    assert c.call(lambda key: value, "k") is value


def test_wrong_arguments_name_the_function(cached):
    """As without the cache."""

    def price(user, item):
        return user

    with pytest.raises(TypeError, match=r"price\(\) missing a required argument: 'item'"):
        cached("named").call(price, 1)


def test_a_keyed_breaker_behind_a_method(cached):
    """A family's key is made of the arguments, not of the instance."""
    keys = []

    def key_of(user):
        keys.append(user)
        return user

    family = breaker("family", key=key_of)
    c = cached("method", breaker=family, key=lambda self, user: user)

    class Service:
        @c
        def load(self, user):
            return f"value of {user}"

    assert Service().load("ann") == "value of ann"
    assert keys == ["ann"]


def test_tests_begin_with_empty_caches(cached, origin):
    """``reset_all``, which the pytest plugin calls, forgets values and numbers."""
    c = cached("reset")
    load = c(lambda key: origin(key))
    assert (load("k"), load("k"), c.info().hits) == (1, 1, 1)
    reset_all()
    assert (load("k"), c.info().hits, c.info().misses) == (2, 0, 1)


def test_a_far_store_is_left_alone_by_a_reset(cached, clock, origin):
    """What another server keeps is not a test's to forget."""
    c = cached("far", store=FarStore(clock), key=text_key)
    assert c.call(origin, "k") == 1
    reset_all()
    assert c.call(origin, "k") == 1
    assert c.info().hits == 1


def test_a_listener_that_calls_the_function_again(cached, origin):
    """What hears of a failure may ask for the same key: it is no wait for itself."""
    c = cached("listener", disaster=return_value("D"))
    load = c(lambda key: origin(key))
    heard: list[Event] = []

    def again(event):
        if not heard:
            heard.append(event)
            assert load("k") == "D"

    c.subscribe(again, RefreshFailed)
    origin.error = Down()
    assert load("k") == "D"
    assert len(heard) == 1


def test_a_rejection_says_when(cached, clock, origin):
    """What a breaker inside refuses says when it may be tried again."""
    inner = breaker("inner", failure_threshold=1, open_duration=30, clock=clock)
    load = pipeline(cached("said"), inner)(lambda key: origin(key))
    origin.error = Down()
    with pytest.raises(NoCachedValueError):
        load("k")
    clock.advance(10)
    with pytest.raises(OriginRestingError) as caught:
        load("k")
    assert caught.value.retry_after == 20


def test_memory_needs_no_store(cached):
    """A store given twice is one store."""
    store = MemoryStore()
    a, b = cached("a", store=store), cached("b", store=store)
    assert (a.call(lambda key: 1, "k"), b.call(lambda key: 2, "k")) == (1, 2)
