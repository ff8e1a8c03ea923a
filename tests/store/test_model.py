"""Any sequence of commands, against a small model that knows each attempt by itself."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, precondition, rule

from breakerkit import MemoryStore, RedisStore
from breakerkit.store.commands import (
    NOTHING,
    Begin,
    Entry,
    Evict,
    EvictAll,
    Invalidate,
    InvalidateAll,
    Postpone,
    Put,
    Read,
    Release,
    Write,
)
from tests.servers import Server
from tests.store.conftest import World

KEYS = ["a:1", "a:2", "b:1"]
PREFIXES = ["", "a:", "b", "c"]
#: A store forgets attempts some time after their lease; so long no example lasts.
LONGEST = 590


class Attempt:
    """One attempt: what has happened to its key since it began."""

    def __init__(self, key: str, ticket: int, order: int) -> None:
        self.key = key
        self.ticket = ticket
        self.order = order
        self.late = False  # it may not write
        self.stale = False  # what it writes is due at once


class Model:
    """What a store shall do, said differently: it marks attempts instead of comparing tickets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order = 0
        self.values: dict[str, list[Any]] = {}  # value, stored, refresh, keep, order
        self.running: dict[str, list[Attempt]] = {key: [] for key in KEYS}
        self.leases: dict[str, tuple[Attempt | None, float]] = {}
        self.owners: dict[str, int] = {}
        self.resting: set[str] = set()  # keys whose refresh time a failure has set

    def read(self, key: str) -> Entry | None:
        value, stored, refresh, keep, _ = self.values.get(key, (None, 0, 0, -math.inf, 0))
        if self.now >= keep:
            return None
        age = 0 if value is NOTHING else self.now - stored
        return Entry(value, age, refresh - self.now, key in self.resting)

    def may_begin(self, key: str, owner: int) -> bool:
        holder, until = self.leases.get(key, (None, 0))
        own = owner != 0 and self.owners.get(key) == owner
        return holder is None or self.now >= until or own

    def begin(self, key: str, lease: float, ticket: int, owner: int) -> Attempt:
        self.owners[key] = owner
        self.order += 1
        attempt = Attempt(key, ticket, self.order)
        self.running[key].append(attempt)
        self.leases[key] = attempt, self.now + lease
        return attempt

    def end(self, attempt: Attempt) -> None:
        self.running[attempt.key].remove(attempt)
        if self.leases.get(attempt.key, (None, 0))[0] is attempt:
            del self.leases[attempt.key]

    def store(self, key: str, value: Any, due: float, keep: float, order: int) -> None:
        self.values[key] = [value, self.now, self.now + due, self.now + keep, order]
        self.resting.discard(key)

    def write(self, attempt: Attempt, value: Any, due: float, keep: float) -> bool:
        self.end(attempt)
        if attempt.late:
            return False
        for other in self.running[attempt.key]:
            other.late = other.late or other.order < attempt.order
        self.store(attempt.key, value, 0 if attempt.stale else due, keep, attempt.order)
        return True

    def postpone(self, attempt: Attempt, due: float, empty: bool) -> None:
        self.end(attempt)
        there, held = self.read(attempt.key), self.values.get(attempt.key)
        if attempt.late or attempt.stale or (there and held[4] > attempt.order):
            return
        if there and there.value is not NOTHING:
            held[2] = self.now + due
            self.resting.add(attempt.key)
            held[3] = max(held[3], held[2]) if empty else held[3]
        elif empty:
            self.store(attempt.key, NOTHING, due, due, attempt.order)
            self.resting.add(attempt.key)

    def outdate(self, key: str) -> None:
        for attempt in self.running[key]:
            attempt.late = True
        self.leases.pop(key, None)
        self.values.pop(key, None)

    def put(self, key: str, value: Any, due: float, keep: float) -> None:
        self.outdate(key)
        self.order += 1
        self.store(key, value, due, keep, self.order)

    def invalidate(self, key: str) -> None:
        for attempt in self.running[key]:
            attempt.stale = True
        self.leases.pop(key, None)
        if key in self.values and self.values[key][0] is NOTHING:
            del self.values[key]
        elif key in self.values:
            self.values[key][2] = self.now


key_names = st.sampled_from(KEYS)
prefixes = st.sampled_from(PREFIXES)
owners = st.sampled_from([0, 0, 1, 2])
spans = st.sampled_from([0, 5, 20, 50])
keeps = st.sampled_from([20, 60, 200])  # the server's own expiry runs by real time
values = st.sampled_from([None, 0, "x", [1], {"a": None}])


class Machine(RuleBasedStateMachine):
    """A store and the model side by side; who makes one gives it the world."""

    world: World
    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.do = self.world.do
        self.do(EvictAll(""))

    def check(self) -> None:
        for key in KEYS:
            assert self.do(Read(key)) == self.model.read(key), key

    @rule(key=key_names, lease=spans, owner=owners, target=attempts)
    def begin(self, key: str, lease: float, owner: int) -> Any:
        free = self.model.may_begin(key, owner)
        ticket = self.do(Begin(key, lease, owner))
        assert (ticket is not None) == free
        return self.model.begin(key, lease, ticket, owner) if free else None

    @rule(key=key_names, owner=owners)
    def release_unknown(self, key: str, owner: int) -> None:
        """The attempt is not known to have ended: the model lets it lose its lease, and lets it be."""
        holder, _ = self.model.leases.get(key, (None, 0))
        if owner and holder is not None and self.model.owners[key] == owner:
            return  # whose reply was lost will not write: the bundle would
        self.do(Release(key, None, owner))
        self.check()

    @rule(attempt=consumes(attempts), value=values, due=spans, keep=keeps)
    def write(self, attempt: Any, value: Any, due: float, keep: float) -> None:
        if attempt:
            said = self.do(Write(attempt.key, attempt.ticket, value, due, keep))
            assert said is self.model.write(attempt, value, due, keep)
            self.check()

    @rule(attempt=consumes(attempts), due=spans.filter(bool), empty=st.booleans())
    def postpone(self, attempt: Any, due: float, empty: bool) -> None:
        if attempt:
            self.do(Postpone(attempt.key, attempt.ticket, due, empty))
            self.model.postpone(attempt, due, empty)
            self.check()

    @rule(attempt=consumes(attempts))
    def release(self, attempt: Any) -> None:
        if attempt:
            self.do(Release(attempt.key, attempt.ticket))
            self.model.end(attempt)
            self.check()

    @rule(key=key_names, value=values, due=spans, keep=keeps)
    def put(self, key: str, value: Any, due: float, keep: float) -> None:
        assert self.do(Put(key, value, due, keep)) is True
        self.model.put(key, value, due, keep)
        self.check()

    @rule(key=key_names)
    def evict(self, key: str) -> None:
        self.do(Evict(key))
        self.model.outdate(key)
        self.check()

    @rule(key=key_names)
    def invalidate(self, key: str) -> None:
        self.do(Invalidate(key))
        self.model.invalidate(key)
        self.check()

    @rule(prefix=prefixes, evict=st.booleans())
    def all_with_a_prefix(self, prefix: str, evict: bool) -> None:
        self.do(EvictAll(prefix) if evict else InvalidateAll(prefix))
        for key in KEYS:
            if key.startswith(prefix):
                (self.model.outdate if evict else self.model.invalidate)(key)
        self.check()

    @precondition(lambda self: self.model.now < LONGEST - 50)
    @rule(seconds=spans.filter(bool))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.model.now += seconds
        self.check()


def run(world: World, examples: int) -> None:
    """Let machines run in a world."""
    kind = type("OneMachine", (Machine,), {"world": world})
    case = kind.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=40, deadline=None)
    case().runTest()


def test_the_memory_store_does_what_the_model_does():
    """Whatever the order of commands."""
    store = MemoryStore()
    run(World(store, store.do), 100)


@pytest.mark.parametrize("way", ["do", "do_async"])
def test_the_redis_store_does_what_the_model_does(valkey: Server, way: str, runner: asyncio.Runner):
    """Whatever the order of commands."""
    with RedisStore(valkey.url, timeout=5) as store:
        ways = {"do": store.do, "do_async": lambda one: runner.run(store.do_async(one))}
        world = World(store, ways[way])
        run(world, 25)
