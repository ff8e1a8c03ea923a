"""The memory store: its bounds, what goes when there is no room, threads and forks."""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
import time
import tracemalloc
import weakref
from collections import Counter, defaultdict, deque
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from wrapt import ObjectProxy

from breakerkit import ConfigError, MemoryStore, Store
from breakerkit.store._line import MOST_CHANCES
from breakerkit.store._sizes import MOST_LOOKED_AT, estimate
from breakerkit.store._tickets import LONGEST
from breakerkit.store.commands import (
    NOTHING,
    Begin,
    Evict,
    EvictAll,
    Invalidate,
    Postpone,
    Put,
    Read,
    Release,
    Write,
)
from breakerkit.testing import ManualClock


def put(store: MemoryStore, key: str, value: Any = 1, keep: float = 100) -> bool:
    """Store a value."""
    return store.do(Put(key, value, 10, keep))  # type: ignore[no-any-return]  # a bool


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_entries": 0}, "max_entries=0: must be an int of at least 1"),
        ({"max_entries": True}, "max_entries=True"),
        ({"max_entries": None}, "max_entries=None"),
        ({"max_bytes": 0}, "max_bytes=0: must be an int of at least 1, or None"),
        ({"max_bytes": 1.5}, "max_bytes=1.5"),
        ({"clock": 3}, "clock=3: must be an object with now"),
        ({"clock": ManualClock}, "clock="),
        ({"size_of": 3, "max_bytes": 5}, "size_of=3: must be a function"),
        ({"size_of": len}, "size_of without max_bytes"),
    ],
)
def test_a_wrong_setting_is_told_with_its_value_and_what_is_allowed(settings, said):
    """When the store is made."""
    with pytest.raises(ConfigError) as caught:
        MemoryStore(**settings)
    assert said in str(caught.value)


def test_it_is_a_store_and_says_how_full_it_is():
    """As the protocol wants it."""
    store = MemoryStore(max_entries=5)
    put(store, "k")
    assert isinstance(store, Store)
    assert repr(store) == "<MemoryStore of 1 of 5 entries>"
    assert len(store) == 1


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_keys_without_end_stay_within_the_bound(most):
    """At every moment, for readers and for what makes room."""
    store = MemoryStore(max_entries=most)
    for number in range(100 * most):
        put(store, str(number))
        assert len(store.entries) <= most
    assert len(store.entries) == len(store._line) == most
    assert store._open == {}


def test_memory_is_flat_once_it_is_full():
    """Keys that came and went leave nothing."""
    store = MemoryStore(max_entries=100)

    def churn(first: int) -> None:
        for number in range(first, first + 5_000):
            key = str(number)
            store.do(Write(key, store.do(Begin(key, 0)), number, 10, 100))
            store.do(Release(key, store.do(Begin(key, 0))))

    churn(0)
    gc.collect()
    tracemalloc.start()
    try:
        churn(10_000)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def held(store: MemoryStore) -> list[str]:
    """Return the keys, and check that all books say the same."""
    assert set(store.entries) == set(store._line) == set(store._line._order)
    assert store._line.currsize == sum(one.size for one in store.entries.values())
    return sorted(store.entries)


def test_what_was_read_gets_a_second_chance():
    """The oldest that nobody read goes first; a mark lasts for one look, and takes it to the end of the line."""
    store = MemoryStore(max_entries=3)
    for key in "abc":
        put(store, key)
    store.entries["a"].used = True
    put(store, "d")  # the line is c, a, d: a was looked at, b was not read
    assert held(store) == ["a", "c", "d"]
    assert store.entries["a"].used is False
    put(store, "e")
    assert held(store) == ["a", "d", "e"]
    put(store, "f")
    assert held(store) == ["d", "e", "f"]


def test_writing_again_takes_no_more_room():
    """One key, one place."""
    store = MemoryStore(max_entries=3)
    for _ in range(5):
        put(store, "a")
    put(store, "b")
    assert held(store) == ["a", "b"]


def test_attempts_are_forgotten_when_they_end():
    """Whatever came between."""
    store = MemoryStore()
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


def test_attempts_that_nobody_will_end_are_given_up():
    """A day after their lease: those that were interrupted leave nothing for ever."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lost = [store.do(Begin(str(number), 30)) for number in range(1000)]
    again = store.do(Begin("running", 30))
    clock.advance(LONGEST)
    for _ in range(600):
        store.do(Release("other", store.do(Begin("other", 30))))
    assert len(store._open) == 1001  # not before a day after the lease
    clock.advance(30)
    fresh = store.do(Begin("999", 30))
    for _ in range(600):
        store.do(Release("other", store.do(Begin("other", 30))))
    assert list(store._open) == ["999"]
    # What comes back after all writes nothing that may have been evicted since.
    assert store.do(Write("0", lost[0], "old", 10, 100)) is False
    store.do(Postpone("running", again, 10, empty=True))
    assert len(store) == 0
    # One whose key is known is late, or is not.
    assert store.do(Write("999", lost[999], "old", 10, 100)) is True
    put(store, "1")
    assert store.do(Write("1", lost[1], "old", 10, 100)) is False
    assert store.do(Write("999", fresh, "new", 10, 100)) is True
    assert not store._open


def test_to_read_by_command_marks_too():
    """A store that is asked does as one that is looked into."""
    store = MemoryStore(max_entries=2)
    put(store, "a")
    put(store, "b")
    store.do(Read("a"))
    put(store, "c")
    assert set(store.entries) == {"a", "c"}


def test_when_all_were_read_one_goes_all_the_same():
    """After a bounded number of looks: no put waits for a million marks."""
    store = MemoryStore(max_entries=10 * MOST_CHANCES)
    for number in range(10 * MOST_CHANCES):
        put(store, str(number))
    for held in store.entries.values():
        held.used = True
    put(store, "new")
    assert len(store.entries) == 10 * MOST_CHANCES
    assert sum(not held.used for held in store.entries.values()) == MOST_CHANCES + 1


def test_bytes_are_bounded_too():
    """By the sizes the function gives; what is too large alone is not stored, and takes the old value away."""
    store = MemoryStore(max_entries=100, max_bytes=100, size_of=len)
    assert put(store, "a", "x" * 60) is True
    assert put(store, "b", "x" * 30) is True
    assert put(store, "c", "x" * 50) is True
    assert held(store) == ["b", "c"]
    assert put(store, "d", "x" * 101) is False
    assert held(store) == ["b", "c"]
    assert put(store, "b", "x" * 101) is False
    assert held(store) == ["c"]
    assert put(store, "e", "x" * 100) is True
    assert held(store) == ["e"]
    assert put(store, "e", "") is True  # nothing takes a byte
    assert store._line.currsize == 1
    for number in range(1000):
        put(store, str(number), "x" * (number % 40))
        assert sum(one.size for one in store.entries.values()) == store._line.currsize <= 100


def test_room_is_made_as_fast_however_many_there_are():
    """The oldest is found at once: not behind all those that have gone before it."""

    def seconds(size: int) -> float:
        store = MemoryStore(size)
        for number in range(size):
            put(store, str(number))
        began = time.perf_counter()
        for number in range(40_000):
            put(store, f"new {number}")
        took = time.perf_counter() - began
        assert len(store) == size
        return took

    assert min(seconds(40_000) for _ in range(2)) < 3 * seconds(400)


def test_entries_are_bounded_beside_bytes():
    """Whichever bound is met first."""
    store = MemoryStore(max_entries=2, max_bytes=1_000_000)
    for key in "abc":
        put(store, key)
    assert len(store.entries) == 2


def test_a_refresh_time_alone_has_a_size():
    """It takes a place like a value."""
    store = MemoryStore(max_entries=10, max_bytes=10_000)
    store.do(Postpone("k", store.do(Begin("k", 5)), 10, empty=True))
    assert store.do(Read("k")).value is NOTHING
    assert store._line.currsize >= 1


class Thing:
    """An object with attributes."""

    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize("wrap", [
    lambda text: [text], lambda text: (text,), lambda text: {text}, lambda text: {"k": text}, lambda text: {text: 1}, Thing,
    lambda text: [Thing([text])], lambda text: SimpleNamespace(a=text), lambda text: MappingProxyType({1: text}),
    lambda text: Slots(text), lambda text: deque([text]), lambda text: Counter({text: 1}), lambda text: defaultdict(list, k=text),
    lambda text: Noted(text), lambda text: Record(text), lambda text: iter([text]),
    lambda text: functools.partial(print, text), lambda text: Thing(Slots(deque([text]))),
])  # fmt: skip
def test_an_estimate_sees_what_is_inside(wrap):
    """Items, keys and attributes, through each other."""
    assert 10_000 < estimate(wrap("x" * 10_000)) < 12_000


class Slots:
    """An object whose attributes lie in slots."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Noted(dict):
    """A dict with an attribute."""

    def __init__(self, note: str) -> None:
        super().__init__(k=1)
        self.note = note

    def items(self) -> Any:
        raise RuntimeError("nobody asks it")


class Record(msgspec.Struct):
    """A value of msgspec."""

    value: str


class Slotted:
    """An object without attributes."""

    __slots__ = ()


def test_an_estimate_counts_each_once_and_comes_to_an_end():
    """Also with cycles, classes and more objects than it looks at."""
    large = "x" * 10_000
    cycle: list[Any] = [large, large]
    cycle.append(cycle)
    assert 10_000 < estimate(cycle) < 11_000
    assert estimate(Thing) < 10_000
    assert estimate(Slotted()) == sys.getsizeof(Slotted())
    many = [object() for _ in range(3 * MOST_LOOKED_AT)]
    looked_at = sys.getsizeof(many) + (MOST_LOOKED_AT - 1) * sys.getsizeof(object())
    assert estimate(many) == looked_at


def test_an_estimate_believes_no_proxy():
    """What says that it is another is asked for nothing: a lazy object stays lazy."""

    class Lazy:
        @property
        def __class__(self) -> Any:
            raise AssertionError("it was looked at")

    class Said:
        @property
        def __class__(self) -> Any:
            return dict

    for odd in (Lazy(), Said(), Mock(spec=dict), weakref.proxy(Noted("x")), ObjectProxy({"k": 1})):
        assert estimate([odd]) > 0


def test_an_estimate_of_functions():
    """What they close over and their defaults are theirs, what they are part of is not."""
    large = "x" * 10_000
    assert 10_000 < estimate(lambda: large) < 12_000
    assert 10_000 < estimate(lambda text=large: text) < 12_000
    assert estimate(test_an_estimate_of_functions) < 1000
    assert estimate(print) == 0


def test_an_estimate_of_a_long_one_looks_at_its_beginning():
    """It makes no copy of what nobody looks at."""
    many = [None] * 1_000_000
    tracemalloc.start()
    try:
        assert estimate(many) > 8_000_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_expired_value_is_let_go_when_it_is_met():
    """It is not kept alive until there is no room."""
    clock = ManualClock()
    store, thing = MemoryStore(clock=clock), Thing(1)
    alive = weakref.ref(thing)
    put(store, "k", thing, keep=5)
    del thing
    clock.advance(5)
    assert store.do(Read("k")) is None
    assert alive() is None
    assert len(store._line) == 0


def test_no_value_outlives_its_replacement():
    """Writes and evictions leave nothing of what was there."""
    store = MemoryStore()
    alive = []
    for number in range(5):
        thing = Thing(number)
        alive.append(weakref.ref(thing))
        put(store, "k", thing)
    del thing
    assert [one() is None for one in alive] == [True] * 4 + [False]
    store.do(Evict("k"))
    assert alive[-1]() is None


def test_a_dead_store_is_let_go():
    """It is remembered weakly for forks."""
    store = MemoryStore()
    alive = weakref.ref(store)
    del store
    assert alive() is None


def test_threads_neither_break_it_nor_its_bounds():
    """Readers take no lock and see whole entries."""
    store, faults = MemoryStore(max_entries=50), []
    barrier = threading.Barrier(6)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def write(seed: int) -> None:
        barrier.wait(10)
        for number in range(2_000):
            key = str((number * seed) % 120)
            ticket = store.do(Begin(key, 0))
            store.do(Write(key, ticket, key, 10, 100))

    def read() -> None:
        barrier.wait(10)
        for number in range(10_000):
            held = store.entries.get(str(number % 120))
            if held is not None:
                held.used = True
                if held.value != str(number % 120):
                    faults.append(held.value)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 7, 11)]
    threads += [threading.Thread(target=read) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert faults == []
    assert len(store.entries) == len(store._line) == 50
    assert dict(store._line) == store.entries
    assert store._open == {}


@pytest.mark.parametrize("busy", [False, True])
def test_a_child_has_a_lock_and_a_line_that_fit(busy):
    """Also if another thread was in the middle of a change when the process forked."""
    store = MemoryStore(max_entries=5)
    put(store, "k")
    store.do(Begin("k", 100))
    entries = store.entries
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store._lock:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    if busy:
        thread.start()
        assert inside.wait(10)
    store.after_fork()  # what the child does
    leave.set()
    if busy:
        thread.join()
    assert store.entries is entries
    assert len(entries) == len(store._line) == (0 if busy else 1)
    assert store.do(Begin("k", 100)) is not None
    for number in range(10):
        put(store, str(number))
    assert len(entries) == 5


def test_a_child_goes_on_with_what_was_stored():
    """And with a lease that the parent's attempts do not hold."""
    store = MemoryStore()
    put(store, "k", "value")
    store.do(Begin("k", 100))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = store.do(Read("k")).value == "value" and store.do(Begin("k", 100)) is not None
            os.write(writing, b"1" if told else b"0")
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 10) == b"1"
    os.close(reading)
    os.waitpid(child, 0)
    assert store.do(Begin("k", 100)) is None


@pytest.mark.parametrize("odd", ["raises", None, "7", float("nan")], ids=str)
def test_a_value_that_cannot_be_measured(odd, caplog):
    """It is not stored, and the function is named in the log, now and then.

    What was there before rests if an attempt brought it, and is outdated if it was put.
    """

    def size_of(value):
        if value == "odd" and odd == "raises":
            raise ValueError("no idea")
        return odd if value == "odd" else 1

    store = MemoryStore(max_bytes=10, size_of=size_of)
    assert store.do(Put("k", "good", 5, 50)) is True
    for key in ("k", "new"):
        assert store.do(Write(key, store.do(Begin(key, 0)), "odd", 7, 70)) is False
    entry = store.do(Read("k"))
    assert (entry.value, entry.rests, round(entry.due), store.do(Read("new"))) == (
        "good", True, 7, None,
    )  # fmt: skip
    assert store.do(Put("k", "odd", 5, 50)) is False
    assert store.do(Read("k")) is None
    assert "size_of" in caplog.text
    assert store.do(Put("k", "better", 5, 50)) is True


def test_a_change_that_did_not_end_is_mended():
    """An interrupt may come between any two steps: the next command finds books that agree."""
    store = MemoryStore(max_entries=3)
    for key in "abc":
        store.do(Put(key, key, 5, 50))
    del store._line["b"]
    store.entries["d"] = store.entries.pop("a")
    store.entries["e"] = store.entries["f"] = store.entries["d"]
    store._torn = True
    store._max = 2  # as where bytes are counted, and many small values are held
    store.do(Read("c"))
    assert len(store) == 2
    store._max = 3
    assert set(store._line) == set(store.entries)
    for key in "xyz":
        store.do(Put(key, key, 5, 50))
    assert sorted(store.entries) == ["x", "y", "z"]
