"""The store in memory, beyond what every store must do: bounds, room, sizes, reads without a lock."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from breakerkit import ConfigError, MemoryStore
from breakerkit.store._sizes import MOST_LOOKED_AT, estimate
from breakerkit.store.commands import Begin, Evict, EvictAll, Invalidate, Postpone, Put, Read, Write
from breakerkit.store.memory import MOST_CHANCES
from tests.stale.rig import Crowd


def put(store, key, value="v", due=10, keep=100):
    return store.do(Put(key, value, due, keep))


def held(store):
    """Return the keys, and check that both books say the same."""
    assert set(store.entries) == set(store._line) == set(store._line._order)
    assert store._line.currsize == sum(one.size for one in store.entries.values())
    return sorted(store.entries)


@pytest.fixture
def store(clock):
    return MemoryStore(3, clock=clock)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"max_entries": 0}, "max_entries"), ({"max_entries": True}, "max_entries"),
        ({"max_entries": None}, "max_entries"), ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 1.5}, "max_bytes"), ({"clock": 7}, "clock"), ({"clock": threading.Event}, "clock"),
        ({"max_bytes": 9, "size_of": 7}, "size_of"), ({"size_of": len}, "size_of without max_bytes"),
    ],
)  # fmt: skip
def test_bounds_that_make_no_sense(settings, name):
    """With the setting, its value and what is allowed."""
    with pytest.raises(ConfigError, match=name):
        MemoryStore(**settings)


def test_what_is_no_command(store):
    """It is refused, and it looks like itself."""
    with pytest.raises(TypeError, match="must be a command"):
        store.do("GET k")
    assert asyncio.run(store.do_async(Read("k"))) is None
    assert repr(store) == "<MemoryStore of 0 of 3 entries>"
    assert len(store) == 0


def test_the_oldest_makes_room(store):
    """A full store holds as many as it may."""
    for key in "abcde":
        assert put(store, key)
    assert held(store) == ["c", "d", "e"]


def test_what_was_read_gets_a_second_chance(store):
    """It goes to the end of the line, once."""
    for key in "abc":
        put(store, key)
    store.do(Read("a"))
    put(store, "d")
    assert held(store) == ["a", "c", "d"]
    put(store, "e")
    put(store, "f")
    assert held(store) == ["d", "e", "f"] or held(store) == ["a", "e", "f"]


def test_a_mark_on_each_is_no_mark(clock):
    """One that stores does not look at all of them."""
    count = 10 * MOST_CHANCES
    store = MemoryStore(count, clock=clock)
    for number in range(count):
        put(store, str(number))
    for one in store.entries.values():
        one.used = True
    put(store, "new")
    assert len(held(store)) == count
    assert sum(not one.used for one in store.entries.values()) <= MOST_CHANCES + 1


def test_writing_again_takes_no_more_room(store):
    """One key, one place."""
    for _ in range(5):
        put(store, "a")
    put(store, "b")
    assert held(store) == ["a", "b"]


def test_bytes(clock):
    """They bound it, and so does the number; what is larger by itself is not stored."""
    store = MemoryStore(3, max_bytes=10, clock=clock, size_of=len)
    assert put(store, "a", "12345")
    assert put(store, "b", "12345")
    assert put(store, "c", "123")
    assert held(store) == ["b", "c"]
    assert put(store, "d", "x" * 11) is False
    assert put(store, "b", "x" * 11) is False
    assert held(store) == ["c"]
    assert put(store, "e", "")  # no value takes nothing
    assert put(store, "f", "1")
    assert put(store, "g", "1")
    assert len(held(store)) == 3
    assert put(store, "h", "x" * 10)
    assert held(store) == ["h"]


def test_a_put_that_the_store_did_not_take(cached, clock):
    """It says so; the caller gets the loaded value all the same."""
    store = MemoryStore(max_bytes=100, size_of=len, clock=clock)
    c = cached(store=store)
    assert c.put("k", "x" * 101) is False
    assert c.put("k", "x") is True
    load = cached(store=MemoryStore(max_bytes=1, size_of=len, clock=clock))(lambda: "long")
    assert load() == load() == "long"
    assert load.stale_if_error.info().misses == 2


def test_the_estimate():
    """It follows containers and attributes, counts each object once, and has an end."""

    class Thing:
        def __init__(self):
            self.data = bytes(10_000)

    class Slotted:
        __slots__ = ()

    big = "x" * 10_000
    for holder in ([big], (big,), {big: 1}, {1: big}, {big}, frozenset({big}), [[big]], Thing()):
        assert 10_000 <= estimate(holder) < 12_000
    assert estimate([big, big]) < 12_000
    assert estimate(Thing) < 10_000
    assert estimate(Slotted()) == sys.getsizeof(Slotted())
    circle = []
    circle.append(circle)
    assert estimate(circle) < 1000
    many = [object() for _ in range(3 * MOST_LOOKED_AT)]
    assert estimate(many) < sys.getsizeof(many) + 17 * MOST_LOOKED_AT
    store = MemoryStore(max_bytes=5_000)
    assert put(store, "k", big) is False
    assert put(store, "k", "x")


def test_what_nobody_wants_any_more_is_dropped(store, clock):
    """When it is asked for."""
    put(store, "a", keep=5)
    clock.advance(5)
    assert store.do(Read("a")) is None
    assert held(store) == []


def test_attempts_are_forgotten_when_they_end(store, clock):
    """Whatever came between."""
    for act in (Evict("k"), EvictAll(""), Invalidate("k"), Put("k", 1, 1, 1)):
        ticket = store.do(Begin("k", 5))
        assert store.do(Begin("k", 5)) is None
        store.do(act)
        other = store.do(Begin("k", 5))
        assert other > ticket
        store.do(Write("k", ticket, "old", 10, 100))
        store.do(Postpone("k", other, 1))
        assert not store._open
    store.do(Write("k", None, "unasked", 10, 100))
    store.do(Postpone("none", None, 1))
    assert not store._open


def test_reads_without_a_lock_while_others_write(clock):
    """Threads that look see a value or none, never half of one; the bound holds."""
    store = MemoryStore(50, clock=clock)
    done = threading.Event()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def look():
        seen = 0
        while not done.is_set():
            for number in range(100):
                one = store.entries.get(str(number))
                if one is not None:
                    one.used = True
                    assert one.value == number
                    seen += 1
        return seen

    try:
        readers = Crowd(3, look)

        def write():
            for turn in range(3000):
                put(store, str(turn % 100), turn % 100)
                assert len(store) <= 50

        writers = Crowd(2, write)
        assert writers.join() == [None, None]
        done.set()
        assert all(isinstance(seen, int) for seen in readers.join())
    finally:
        done.set()
        sys.setswitchinterval(before)
    assert len(held(store)) == 50


def test_bounded_under_many_distinct_keys(cached, origin):
    """Memory is bounded by settings, not by traffic: values, attempts, instances, leases."""
    store = MemoryStore(100)
    c = cached(store=store, warn_after=10**9)
    call = c(lambda key: origin(key))
    for key in range(20_000):
        call(key)
        assert len(store) <= 100
    assert len(held(store)) == 100
    assert (len(store._open), c.info().running) == (0, 0)


def test_room_is_made_as_fast_however_many_there_are():
    """The oldest is found at once: it takes no longer after many have gone before it."""
    store = MemoryStore(2000)
    for number in range(2000):
        put(store, str(number))
    line = store._line
    assert next(iter(line._order)) == "0"
    assert type(line._order).__name__ == "OrderedDict"
