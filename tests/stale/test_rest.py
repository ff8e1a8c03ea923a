"""Whose refresh time it is: that of a value that came, or the rest of an origin that failed; and what that means."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import pytest

from breakerkit import (
    MemoryStore,
    NoCachedValueError,
    breaker,
    pipeline,
    raise_,
    return_value,
    stale_if_error,
)
from breakerkit.clock import WallClock
from breakerkit.stale import _telling
from breakerkit.stale.events import Source
from breakerkit.store.commands import NOTHING, Begin, Entry, Postpone, Put, Read, Write
from breakerkit.testing import ManualClock
from tests.stale.rig import Down, FarStore, every_way

STORES = pytest.mark.parametrize("far", [False, True])


def sources(c, count, key="k"):
    """Return where the values of so many calls come from."""
    return [str(c.fetch(key).source) for _ in range(count)]


class Silent(FarStore):
    """A store of somebody's that does not say whose refresh time it is."""

    def do(self, command):
        answer = super().do(command)
        return Entry(answer.value, answer.age, answer.due) if type(answer) is Entry else answer


# -- a value that came --------------------------------------------------------------------


@every_way
def test_a_shorter_period_holds_for_what_is_stored(kind, bench):
    """A value is due by the refresh period of today, and is no stale one while the origin is well."""
    b = bench(kind, refresh_after=100, max_stale=1000)
    assert b() == 1
    b.cache.reconfigure(refresh_after=10)
    b.clock.advance(9)
    assert b() == 1
    b.clock.advance(1)
    assert b() == 2
    assert (b.cache.info().stale, b.cache.info().hits) == (0, 1)


@STORES
def test_there_is_no_disaster_while_the_origin_is_well(far, cached, clock, origin):
    """Nobody has asked it since: a value that is too old is no reason for a disaster by itself."""
    store = FarStore(clock) if far else None
    c = cached("well", refresh_after=100, max_stale=100, disaster=return_value("lost"), store=store)
    c(lambda key: origin(key))
    assert sources(c, 1) == ["fresh"]
    c.reconfigure(refresh_after=1, max_stale=60)
    clock.advance(61)
    assert sources(c, 2) == ["fresh", "cached"]


def test_nor_where_chance_has_added_to_the_period(cached, clock, origin, monkeypatch):
    """The refresh time may be later than the end of the value."""
    monkeypatch.setattr("random.random", lambda: 0.9)
    c = cached(
        "late", refresh_after=10, max_stale=10, max_stale_in_disaster=100, jitter=0.5,
        disaster=return_value("lost"),
    )  # fmt: skip
    c(lambda key: origin(key))
    assert sources(c, 1) == ["fresh"]
    clock.advance(12)
    assert sources(c, 1) == ["fresh"]


# -- an origin that failed ------------------------------------------------------------------


@STORES
@pytest.mark.parametrize("jitter", [0, 0.9])
def test_a_reserve_whose_refresh_failed_is_stale_until_the_next(
    far, jitter, cached, clock, origin, monkeypatch
):
    """However young it is: not once stale, and a hit from then on."""
    monkeypatch.setattr("random.random", lambda: 0.0)
    c = cached("reserve", jitter=jitter, store=FarStore(clock) if far else None)
    call = c(lambda key: origin(key))
    call("k")
    clock.advance(0.5)
    c.invalidate("k")
    origin.error = Down()
    assert sources(c, 3) == ["stale"] * 3
    assert call("k") == 1
    assert (c.info().hits, c.info().stale, origin.runs) == (0, 4, 2)
    origin.error = None
    clock.advance(2)
    assert sources(c, 2) == ["fresh", "cached"]


def test_a_store_that_does_not_know_is_believed(cached, clock, origin):
    """An origin that failed has its rest there, too."""
    c = cached("silent", store=Silent(clock))
    c(lambda key: origin(key))
    assert sources(c, 2) == ["fresh", "cached"]
    origin.error = Down()
    clock.advance(2)
    for _ in range(3):
        assert sources(c, 1) == ["stale"]
        clock.advance(0.5)
    assert origin.runs == 2


def test_a_key_that_failed_meanwhile_rests(cached, clock, origin):
    """Who looked before another's attempt failed, and takes a turn after it, does not ask again (rule 4)."""
    c = cached("meanwhile", disaster=return_value("lost"), store=(store := FarStore(clock)))
    call = c(lambda key: origin(key))
    origin.error = Down()

    def trouble(command):
        if type(command) is Begin and threading.current_thread() is late:
            store.trouble = None
            other = threading.Thread(target=lambda: got.append(c.fetch("k")))
            c._guard.attempts._running.clear()  # as in another process
            other.start()
            other.join(10)
            store.trouble = None
        return store.inner.do(command)

    got: list = []
    late = threading.Thread(target=lambda: got.append(call("k")))
    store.trouble = trouble
    late.start()
    late.join(10)
    assert [getattr(one, "value", one) for one in got] == ["lost", "lost"]
    assert origin.runs == 1


def test_with_raise_there_is_no_rest_without_a_value(cached, clock, origin):
    """Rule 4: each call asks again."""
    c = cached("asks", disaster=raise_())
    call = c(lambda key: origin(key))
    origin.error = Down()
    for runs in (1, 2):
        with pytest.raises(NoCachedValueError):
            call("k")
        assert origin.runs == runs


def test_a_failed_key_rests_whatever_size_of_says(clock, origin):
    """The user's function is asked for the size of values, and a refresh time alone is none."""
    seen = []

    def size_of(value):
        seen.append(value)
        return len(value)

    store = MemoryStore(max_bytes=100, size_of=size_of, clock=clock)
    c = stale_if_error("sizes", disaster=return_value("lost"), store=store, clock=clock)
    c(lambda key: origin(key))
    origin.error = Down()
    assert sources(c, 3) == ["disaster"] * 3
    assert (origin.runs, seen) == (1, [])


def test_a_value_that_is_too_large_lets_its_origin_rest(clock, origin):
    """It was asked: the older value is served until it may be again."""
    store = MemoryStore(max_bytes=100, size_of=lambda value: 1000 if value == 2 else 1, clock=clock)
    c = stale_if_error("large", refresh_after=2, jitter=0, store=store, clock=clock)
    c(lambda key: origin(key))
    assert sources(c, 1) == ["fresh"]
    clock.advance(2)
    assert [c.fetch("k").value for _ in range(3)] == [2, 1, 1]
    assert sources(c, 1) == ["stale"]
    assert origin.runs == 2
    assert c.put("k", 2) is False
    assert len(store) == 0  # what is put outdates what was there


def test_a_key_that_is_invalidated_while_it_is_read(origin):
    """Between looking for it and looking at it: nobody gets what stands for no value."""
    meanwhile = []

    class Clock(ManualClock):
        def now(self):
            moment = super().now()
            while meanwhile:
                meanwhile.pop()()
            return moment

    clock = Clock()
    c = stale_if_error("read", disaster=return_value("lost"), jitter=0, clock=clock)
    call = c(lambda key: origin(key))
    origin.error = Down()
    assert call("k") == "lost"
    meanwhile.append(lambda: c.invalidate("k"))
    assert call("k") == "lost"
    origin.error = None
    c.invalidate("k")
    assert call("k") == 3
    origin.error = Down()
    c.invalidate("k")
    assert call("k") == 3
    hits = c.info().hits
    meanwhile.append(lambda: c.invalidate("k"))
    assert call("k") == 3
    assert c.info().hits == hits


# -- breakers that stand open, and let calls through ----------------------------------------


@pytest.mark.parametrize("mode", ["disable", "observe"])
def test_a_breaker_that_lets_calls_through_is_no_disaster(mode, cached, clock, origin):
    """Wherever it stands: the longer life of values is for when one cannot ask."""
    b = breaker("lets", failure_threshold=1, open_duration=1000, clock=clock)
    c = cached("lets", max_stale_in_disaster=1000, breaker=b)
    call = c(lambda key: origin(key))
    call("k")
    origin.error = Down()
    clock.advance(2)
    assert call("k") == 1
    assert b.state == "open"
    with getattr(b, mode)():
        clock.advance(20)
        with pytest.raises(NoCachedValueError):
            call("k")
    assert call("k") == 1


def test_a_probe_that_fails_is_no_end_of_a_disaster(cached, clock, origin):
    """The caller that probes for all the others has what they have."""
    b = breaker("probe", failure_threshold=1, open_duration=5, clock=clock)
    c = cached("probe", max_stale_in_disaster=1000)
    call = pipeline(c, b)(lambda key: origin(key))
    call("k")
    origin.error = Down()
    clock.advance(2)
    assert call("k") == 1
    for _ in range(60):
        clock.advance(1)
        assert call("k") == 1
    assert origin.runs > 8
    b.disable()  # the origin fails by itself now: one such failure may be a probe's
    clock.advance(5)
    with contextlib.suppress(NoCachedValueError):
        call("k")
    clock.advance(5)
    with pytest.raises(NoCachedValueError):
        call("k")


def test_of_refused_keys_the_oldest_is_forgotten(cached, clock, origin, monkeypatch):
    """One that is refused again is the newest, and costs no other one its place."""
    monkeypatch.setattr(_telling, "MOST_REFUSED", 2)
    b = breaker("many", failure_threshold=1, open_duration=1000, clock=clock)
    c = cached("many", max_stale_in_disaster=1000)
    call = pipeline(c, b)(lambda key: origin(key))
    for key in "xyz":
        call(key)
    b.force_open()
    clock.advance(2)
    for key in "xyx":
        call(key)
        clock.advance(2)
    assert [key[-1] for key in c._guard._refused] == ["y", "x"]
    call("z")
    assert [key[-1] for key in c._guard._refused] == ["x", "z"]


# -- clocks that step, forks -------------------------------------------------------------------


def test_a_step_back_of_a_wall_clock_costs_one_load(time_machine):
    """Of a value from the future nobody knows how old it is."""
    time_machine.move_to(1_000_000, tick=False)
    runs = []
    c = stale_if_error("wall", refresh_after=30, max_stale=60, jitter=0, clock=WallClock())
    call = c(lambda key: runs.append(key) or len(runs))
    assert call("k") == 1
    time_machine.move_to(1_000_000 - 0.5, tick=False)
    assert (call("k"), c.fetch("k").age) == (1, 0.0)
    time_machine.move_to(1_000_000 - 86_400, tick=False)
    assert [call("k"), call("k")] == [2, 2]
    time_machine.move_to(1_000_000 - 86_400 + 30, tick=False)
    assert call("k") == 3


def test_a_step_back_ends_a_rest(time_machine):
    """A key alone, whose origin failed, too."""
    time_machine.move_to(1_000_000, tick=False)
    store = MemoryStore(clock=WallClock())
    ticket = store.do(Begin("k", 0))
    store.do(Postpone("k", ticket, 30, empty=True))
    entry = store.do(Read("k"))
    assert entry == Entry(NOTHING, 0, 30, rests=True)
    time_machine.move_to(1_000_000 - 86_400, tick=False)
    assert store.do(Read("k")) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_over_what_it_inherited(cached, clock, origin):
    """Its tickets go on where those of the parent were: one attempt per period there, too."""
    store = MemoryStore(clock=clock)
    c = cached("forked", store=store)
    c(lambda key: origin(key))
    for key in range(20):
        c.fetch(key)
    clock.advance(2)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            origin.runs = 0
            seen = [*sources(c, 3, 19), str(origin.runs)]
            origin.error = Down()
            seen += [*sources(c, 3, 18), str(origin.runs)]
            os.write(writing, " ".join(seen).encode())
        finally:
            os._exit(0)
    os.close(writing)
    said = os.read(reading, 1000).decode().split()
    os.close(reading)
    os.waitpid(child, 0)
    assert said == ["fresh", "cached", "cached", "1", "stale", "stale", "stale", "2"]


# -- stores ---------------------------------------------------------------------------------


def test_a_slow_measure_holds_nobody_up(clock):
    """Values are measured before the store's lock is taken."""
    inside, leave = threading.Event(), threading.Event()

    def size_of(value):
        if value == "slow":
            inside.set()
            assert leave.wait(10)
        return 1

    store = MemoryStore(max_bytes=100, size_of=size_of, clock=clock)
    slow = threading.Thread(target=lambda: store.do(Put("a", "slow", 5, 50)))
    slow.start()
    assert inside.wait(10)
    assert store.do(Put("b", "quick", 5, 50)) is True
    leave.set()
    slow.join(10)
    assert len(store) == 2


def test_a_late_write_that_is_refused_lets_an_older_value_rest(clock):
    """As a failure would; an invalidated one is due at once."""
    store = MemoryStore(max_bytes=10, size_of=lambda value: value, clock=clock)
    store.do(Put("k", 1, 5, 50))
    first, second = store.do(Begin("k", 0)), store.do(Begin("k", 0))
    assert store.do(Write("k", second, 99, 7, 70)) is False
    assert (store.do(Read("k")).due, store.do(Read("k")).rests) == (7, True)
    store.do(Write("k", first, 2, 5, 50))
    assert store.do(Read("k")).value == 1  # the later attempt has ended
    third = store.do(Begin("k", 0))
    assert store.do(Write("k", third, 3, 5, 50)) is True
    assert (store.do(Read("k")).value, store.do(Read("k")).rests) == (3, False)


def test_the_sources_of_an_async_origin(cached, clock, origin):
    """One rule for both ways of calling."""
    c = cached("async")

    @c
    async def load(key):
        return await origin.later(key)

    async def main():
        await load("k")
        c.invalidate("k")
        origin.error = Down()
        return [(await c.fetch("k")).source for _ in range(2)]

    assert asyncio.run(main()) == [Source.STALE] * 2
