"""Many callers at once: what comes of our own side is no outage, and an outage costs all of them one timeout."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from breakerkit import CircuitOpenError, RedisStore, State, stale_if_error
from breakerkit.store.commands import Begin, Put, Read, StoreBusyError
from breakerkit.store.redis import _places
from breakerkit.store.redis._faults import Doubt
from breakerkit.store.redis._looks import LOOKS, Beat, Looks
from breakerkit.store.redis._places import MOST_WAITED, LoopPlaces, Place, Places
from breakerkit.store.redis._replies import PIECE
from breakerkit.testing import ManualClock
from tests.concurrency import tracing
from tests.servers import Server, until

TIMEOUT = 0.1
#: That of a store whose server is gone, where it is measured what that costs: long beside what a busy machine takes.
OUTAGE = 0.4
MANY = 1000


def in_threads(count: int, call: Callable[[int], Any]) -> list[Any]:
    """Call from so many threads at once; return what each got, or what it raised."""
    got: list[Any] = [None] * count
    gate = threading.Event()

    def one(number: int) -> None:
        gate.wait(30)
        try:
            got[number] = call(number)
        except Exception as error:
            got[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(30)
    return got


async def in_tasks(count: int, call: Callable[[int], Any]) -> list[Any]:
    """Do the same from tasks."""
    return await asyncio.gather(*(call(n) for n in range(count)), return_exceptions=True)


def filled(url: str, timeout: float = 1.0) -> tuple[RedisStore, Any, list[int]]:
    """Return a store, a cache on it in which all keys are stored, and who asked the origin."""
    store, asked = RedisStore(url, timeout=timeout), []
    cache = stale_if_error("crowd", store=store, refresh_after=600)
    for number in range(MANY):
        cache.put(number, number)
    return store, cache, asked


# -- load is no outage ---------------------------------------------------------------------


def test_a_thousand_tasks_that_hit_are_all_answered_by_the_store(valkey):
    """They wait for their turn: the origin is not asked, and the breaker has nothing to say."""
    store, cache, asked = filled(valkey.url)

    @cache
    async def load(number: int) -> int:
        asked.append(number)
        return number

    async def main() -> None:
        for _ in range(2):
            assert await in_tasks(MANY, load) == list(range(MANY))
        await store.aclose()

    asyncio.run(main())
    assert asked == []
    assert store.breaker.snapshot().failures == 0
    assert cache.info().hits == 2 * MANY


def test_so_are_a_thousand_threads(valkey):
    """With fifty connections."""
    store, cache, asked = filled(valkey.url)

    @cache
    def load(number: int) -> int:
        asked.append(number)
        return number

    assert in_threads(MANY, load) == list(range(MANY))
    assert asked == []
    assert store.breaker.state is State.CLOSED
    assert len(store._clients.sync()._idle) <= 50
    store.close()


def test_a_loop_that_was_held_up_reads_its_replies_first(valkey):
    """For longer than the timeout, at whatever moment: replies lie in the socket meanwhile."""
    store, cache, asked = filled(valkey.url, TIMEOUT)

    @cache
    async def load(number: int) -> int:
        asked.append(number)
        return number

    async def main() -> None:
        for turn in range(12):
            tasks = [asyncio.ensure_future(load(n)) for n in range(20)]
            for _ in range(turn):
                await asyncio.sleep(0)
            time.sleep(1.2 * TIMEOUT)
            assert await asyncio.gather(*tasks) == list(range(20))
        await store.aclose()

    asyncio.run(main())
    assert asked == []
    assert store.breaker.snapshot().failures == 0


def borrow(kind: Any, url: str, **settings: Any) -> Any:
    """Return a client of the user's with a pool that does not wait."""
    pool = kind.ConnectionPool.from_url(url, **settings)
    return kind.Redis.from_pool(pool)


def test_a_client_with_few_connections_is_waited_for(valkey, runner):
    """Its pool would refuse: no more commands at once than it has."""
    with RedisStore(valkey.url, timeout=1) as store:
        store.do(Put("k", 1, 10, 100))
    store = RedisStore(borrow(redis, valkey.url, max_connections=2))
    assert {one.value for one in in_threads(30, lambda _: store.do(Read("k")))} == {1}
    other = RedisStore(borrow(redis.asyncio, valkey.url, max_connections=2))

    async def main() -> None:
        got = await in_tasks(30, lambda _: other.do_async(Read("k")))
        assert {one.value for one in got} == {1}
        await (await other._clients.here()).client.aclose()

    runner.run(main())
    assert store.breaker.state is other.breaker.state is State.CLOSED


def test_a_pool_that_others_have_emptied_is_no_outage(valkey, runner):
    """The command is not carried out, and the breaker stays closed."""
    client = borrow(redis, valkey.url, max_connections=1)
    store = RedisStore(client)
    taken = client.connection_pool.get_connection()
    with pytest.raises(StoreBusyError, match="Too many connections"):
        store.do(Read("k"))
    with pytest.raises(StoreBusyError, match="Too many connections"):
        store.do(Begin("k", 5))
    client.connection_pool.release(taken)
    assert store.do(Read("k")) is None
    blocking = redis.BlockingConnectionPool.from_url(valkey.url, max_connections=1, timeout=0.01)
    store = RedisStore(redis.Redis.from_pool(blocking))
    taken = blocking.get_connection()
    with pytest.raises(StoreBusyError, match="No connection available"):
        store.do(Read("k"))
    blocking.release(taken)

    async def main() -> None:
        own = borrow(redis.asyncio, valkey.url, max_connections=1)
        other = RedisStore(own)
        held = await own.connection_pool.get_connection()
        with pytest.raises(StoreBusyError):
            await other.do_async(Read("k"))
        await own.connection_pool.release(held)
        assert await other.do_async(Read("k")) is None
        assert other.breaker.state is State.CLOSED
        await own.aclose()

    runner.run(main())
    assert store.breaker.state is State.CLOSED


# -- an outage costs one timeout -----------------------------------------------------------------


@pytest.fixture
def frozen():
    """A server that will answer nothing, and a store that has been connected to it."""
    with Server() as server:
        yield server


def costs(took: list[float], calls: int) -> None:
    """Assert that nobody waited for two timeouts; what so many calls take by themselves is not the store's."""
    assert len(took) == calls
    assert max(took) < 1.9 * OUTAGE


def test_a_crowd_at_a_frozen_server_waits_for_one_timeout(frozen, runner):
    """Those in line too: the first that waits in vain opens the breaker, which lets go of them."""
    store = RedisStore(frozen.url, timeout=OUTAGE, max_connections=10, clock=ManualClock())
    in_threads(10, lambda number: store.do(Put(str(number), 1, 10, 100)))
    runner.run(in_tasks(10, lambda number: store.do_async(Put(str(number), 1, 10, 100))))
    frozen.freeze()
    took: list[float] = []

    def timed(number: int) -> None:
        began = time.monotonic()
        try:
            store.do(Read(str(number)))
        finally:
            took.append(time.monotonic() - began)

    raised = in_threads(100, timed)
    costs(took, 100)
    assert sum(isinstance(one, redis.TimeoutError) for one in raised) <= 10
    assert sum(isinstance(one, CircuitOpenError) for one in raised) >= 90
    store.breaker.reset()
    took.clear()

    async def timed_async(number: int) -> None:
        began = time.monotonic()
        try:
            await store.do_async(Read(str(number)))
        finally:
            took.append(time.monotonic() - began)

    raised = runner.run(in_tasks(100, timed_async))
    costs(took, 100)
    assert sum(isinstance(one, redis.TimeoutError) for one in raised) <= 10
    assert sum(isinstance(one, CircuitOpenError) for one in raised) >= 90
    frozen.thaw()
    runner.run(store.aclose())
    store.close()


@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_a_call_of_a_cache_waits_for_one_timeout(frozen, runner, way):
    """Whatever the call would ask the store for after it."""
    store = RedisStore(frozen.url, timeout=OUTAGE, clock=ManualClock())
    cache = stale_if_error("slow", store=store, refresh_after=600, key=lambda key: key)
    sync = cache(lambda key: key)

    @cache
    async def coroutine(key: int) -> int:
        return key

    def call(key: int) -> int:
        return sync(key) if way == "threads" else runner.run(coroutine(key))

    call(0)
    frozen.freeze()
    took = []
    for key in range(1, 5):
        began = time.monotonic()
        assert call(key) == key
        took.append(time.monotonic() - began)
    assert OUTAGE * 0.9 < took[0] < 1.9 * OUTAGE
    assert max(took[1:]) < OUTAGE / 2
    frozen.thaw()
    runner.run(store.aclose())
    store.close()


# -- places --------------------------------------------------------------------------------


def test_who_waits_in_vain_for_a_place_says_so(runner):
    """After a bounded time, and as what it is: too many at once."""
    places = Places(1, 0.001)
    place = places.enter()
    with pytest.raises(StoreBusyError, match=f"all 1 connections .* {MOST_WAITED} timeouts"):
        places.enter()
    places.leave(place)
    assert places.enter() is place

    async def main() -> None:
        few = LoopPlaces(1, 0.001)
        first = few.take()
        assert first is not None
        assert few.take() is None
        with pytest.raises(StoreBusyError, match="max_connections"):
            await few.enter()
        few.leave(first)
        assert few.take() is first

        turn = asyncio.get_running_loop().create_future()
        _places._end(turn)
        _places._end(turn)  # it came as its time was over
        assert turn.result() is None

    runner.run(main())


def test_places_are_given_in_turn(runner):
    """Whoever came first goes first; one that was cancelled is passed over."""

    async def main() -> None:
        places, order = LoopPlaces(1, 1), []
        place = places.take()

        async def visit(number: int) -> None:
            mine = places.take() or await places.enter()
            order.append(number)
            await asyncio.sleep(0)
            places.leave(mine)

        tasks = [asyncio.ensure_future(visit(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        places.leave(place)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [0, 2, 3, 4]
        assert places.take() is place

    runner.run(main())


def test_a_place_that_comes_as_a_task_is_cancelled_goes_to_the_next(runner):
    """None is lost between the two."""

    async def main() -> None:
        places = LoopPlaces(1, 1)
        place = places.take()
        task = asyncio.ensure_future(places.enter())
        await asyncio.sleep(0)
        places.leave(place)  # it has it, and does not run yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert places.take() is place

    runner.run(main())


def test_a_place_that_is_forgotten_comes_back(runner):
    """Nothing that stops whoever has it can lose it; with its places gone it goes, too."""
    places = Places(1, 0.001)
    place: Place | None = places.enter()
    del place
    place = places.enter()
    del places
    del place
    few = LoopPlaces(1, 0.001)
    place = few.take()
    assert few.take() is None
    del place
    assert few.take() is not None
    gc.collect()


def test_a_signal_at_any_moment_loses_no_place(valkey):
    """Nor does the next caller get a reply that was somebody else's."""
    with RedisStore(valkey.url, timeout=1, max_connections=1) as store:
        store.do(Put("k", 1, 10, 100))
        store.do(Put("other", 2, 10, 100))
        tried, reached = 0, True
        while reached:
            tried += 1
            with tracing.signalled(tried) as reached, contextlib.suppress(KeyboardInterrupt):
                store.do(Read("k"))
            store.breaker.reset()
            assert store._clients.sync().places._free.qsize() == 1, reached
            assert store.do(Read("other")).value == 2
        assert tried > 20


# -- clocks --------------------------------------------------------------------------------


class Loop:
    """A loop whose time the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Any) -> Any:
        return self.call_at(self.now + seconds, call)

    def call_at(self, when: float, call: Any) -> Any:
        timer = Timer(when, call)
        self.timers.append(timer)
        return timer

    def turn(self, now: float) -> None:
        """Run what is due."""
        self.now = now
        due = [timer for timer in self.timers if timer.when <= now]
        self.timers = [timer for timer in self.timers if timer.when > now]
        for timer in due:
            timer.call()


class Timer:
    """A call that waits."""

    def __init__(self, when: float, call: Any) -> None:
        self.when = when
        self.call = call

    def cancel(self) -> None:
        self.call = lambda: None


def test_a_time_is_over_after_so_many_looks():
    """Whatever the clock says: a loop that was held up looks once."""
    loop: Any = Loop()
    over: list[int] = []
    looks = Looks(loop, 1.0, lambda: over.append(1))
    loop.turn(50)
    assert (looks.over, over) == (False, [])
    for number in range(1, LOOKS):
        assert over == []
        loop.turn(50 + number)
    assert (looks.over, over) == (True, [1])


def test_a_time_is_longer_by_what_comes():
    """Each megabyte of a reply has as long again; what is less than that has no more time."""
    loop: Any = Loop()
    size = 0
    looks = Looks(loop, 1.0, lambda: None, lambda: size)
    for number in range(1, 20):
        size = number * PIECE // LOOKS
        loop.turn(number)
    assert looks.over is False
    for number in range(20, 20 + 2 * LOOKS):
        size += 1
        loop.turn(number)
    assert looks.over is True
    looks.stop()


def test_a_beat_knows_whether_the_loop_kept_time():
    """Also if it was late once, or is late now."""
    loop: Any = Loop()
    beat = Beat(loop, 1.0)
    loop.turn(0.25)
    loop.now = 0.5
    assert beat.late is False
    loop.now = 0.76
    assert beat.late is True
    loop.turn(0.9)
    loop.turn(1.16)
    assert beat.late is True
    beat.stop()


def test_doubt(monkeypatch):
    """A timeout of one who was held up counts when another one follows it, and not if an answer does."""
    late, lost = redis.TimeoutError("late"), redis.ConnectionError("lost")
    monkeypatch.setattr("breakerkit.store.redis._faults.monotonic", lambda: 10.0)
    doubt = Doubt()
    assert doubt.about(lost, 1, late=True) is lost
    assert doubt.about(late, 1, late=False) is late
    doubt.answered()
    assert isinstance(doubt.about(late, 1, late=True), StoreBusyError)
    assert isinstance(doubt.about(late, 2, late=True), StoreBusyError)  # sent before that
    assert doubt.about(late, 11, late=True) is late
    doubt.answered()
    assert isinstance(doubt.about(late, 12, late=True), StoreBusyError)


def test_a_thread_that_was_held_up_does_not_blame_the_server(frozen, monkeypatch):
    """Its wait took longer than it should: the second that waits in vain does."""
    ticks = iter(range(0, 1000, 5))
    store = RedisStore(frozen.url, timeout=0.02, clock=ManualClock())
    store.do(Put("k", 1, 10, 100))
    frozen.freeze()
    monkeypatch.setattr(
        "breakerkit.store.redis._lane.monotonic", lambda: time.monotonic() + next(ticks)
    )
    with pytest.raises(StoreBusyError, match="while this process was held up"):
        store.do(Read("k"))
    assert store.breaker.state is State.CLOSED
    with pytest.raises(redis.TimeoutError):
        store.do(Read("k"))
    assert store.breaker.state is State.OPEN
    frozen.thaw()
    store.close()


def test_a_loop_that_was_held_up_does_not_blame_the_server_of_a_client(frozen, runner):
    """A client of the user's has clocks of its own, which do not know."""
    client = redis.asyncio.Redis.from_url(frozen.url, socket_timeout=0.05, protocol=2)
    store = RedisStore(client, timeout=0.05, clock=ManualClock())

    async def main() -> None:
        await store.do_async(Put("k", 1, 10, 100))
        frozen.freeze()
        task = asyncio.ensure_future(store.do_async(Read("k")))
        for _ in range(5):
            await asyncio.sleep(0)
        time.sleep(0.08)
        with pytest.raises(StoreBusyError, match="held up"):
            await task
        assert store.breaker.state is State.CLOSED
        with pytest.raises((redis.TimeoutError, redis.ConnectionError), match="Timeout"):
            await store.do_async(Read("k"))
        assert store.breaker.state is State.OPEN
        frozen.thaw()
        await client.aclose()

    runner.run(main())


# -- cancellation ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [False, True])
def test_a_cancelled_caller_is_cancelled(valkey, runner, given):
    """At whatever moment of its command: also where its client takes it for an answer (Python 3.11)."""
    client = redis.asyncio.Redis.from_url(valkey.url, socket_timeout=5, protocol=2)
    store = RedisStore(client if given else valkey.url, timeout=5)

    async def main() -> list[str]:
        ends = []
        await store.do_async(Read("k"))
        for turn in range(200):
            task = asyncio.ensure_future(store.do_async(Read("k")))
            for _ in range(turn % 8):
                await asyncio.sleep(0)
            if turn % 3:
                time.sleep(0.0005)  # the reply is there when the task is cancelled
            if task.cancel():
                (end,) = await asyncio.gather(task, return_exceptions=True)
                ends.append(type(end).__name__)
        await store.aclose()
        await client.aclose()
        return ends

    ends = runner.run(main())
    assert set(ends) == {"CancelledError"}
    assert len(ends) > 100
    assert store.breaker.state is State.CLOSED
    until(lambda: len(valkey.client.client_list()) == 1)
