"""Two or three threads at one cache, preempted at any opcode: one load, nothing outdated, books that agree."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from breakerkit import MemoryStore, Registry, return_value, stale_if_error
from breakerkit._shell import _proxies  # noqa: F401  # so that its opcodes are told too
from breakerkit.stale import _waiting
from breakerkit.stale._attempts import Attempts
from breakerkit.stale.events import Source
from breakerkit.store._tickets import Tickets
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import AtRandom, Interleaving, NoLock, Plan, Preempt, TurnLock
from tests.concurrency.tracing import instrumented, tick, whole
from tests.stale.rig import Down


class Gate:
    """The lock on which a thread waits for an attempt; who waits hands over."""

    turns: Interleaving | None = None

    def __init__(self) -> None:
        self._closed = False

    def acquire(self, timeout: float = 0) -> bool:
        """Wait until it is open; one that stays closed for ever is a deadlock."""
        while self._closed:
            assert Gate.turns is not None, "waited for what will never come"
            Gate.turns.block()
        self._closed = True
        return True

    def release(self) -> None:
        """Open it."""
        self._closed = False
        if Gate.turns is not None:
            Gate.turns.unblock()


@pytest.fixture(autouse=True)
def _by_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_waiting, "threading", types.SimpleNamespace(Lock=Gate))
    with instrumented():
        yield


class World:
    """A cache around an origin with versions, and what is wrong with what the threads saw of it."""

    def __init__(self, lock: Callable[[], TurnLock] = TurnLock, **settings: Any) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(settings.pop("most", 9), clock=self.clock)
        usual = {"refresh_after": 2, "max_stale": 10, "jitter": 0}
        self.cache: Any = stale_if_error(
            "w", store=self.store, clock=self.clock, registry=Registry(), **{**usual, **settings}
        )
        self.call = self.cache(lambda key: self.serve(key))
        self.guard = self.cache._guard
        self.version = self.runs = self.calls = 0
        self.down = False
        self.wrong: list[str] = []
        self.locks = [lock() for _ in range(3)]

    def serve(self, key: str) -> int:
        """Answer with the version there is when asked, or fail."""
        self.runs += 1
        version, down = self.version, self.down
        tick()
        if down:
            raise Down
        return version

    def load(self, key: str = "k") -> int:
        """Make a call."""
        self.calls += 1
        value: int = self.call(key)
        return value

    def change(
        self, tell: Callable[[], object], *, look: bool = True, reserve: bool = False
    ) -> None:
        """Change what the origin says, tell the cache, and look: the old one is gone, or a reserve."""
        self.version += 1
        version = self.version
        tell()
        if not look:
            return
        self.calls += 1
        seen = self.cache.fetch("k")
        if seen.value < version and not (reserve and seen.source is Source.STALE):
            self.wrong.append(f"{seen} was served after {version} had been told")

    def run(self, bodies: Sequence[Body], plan: Plan) -> str | None:
        """Run the threads as planned and return what is wrong, if anything is."""
        self.guard.lock, self.guard.attempts._turn, self.store._lock = self.locks
        turns = Interleaving([lambda body=body: body(self) for body in bodies], plan)
        Gate.turns = turns
        for lock in self.locks:
            lock.turns = turns
        try:
            errors = [one for one in turns.run(self.locks[0]) if one is not None]
        finally:
            Gate.turns = None
            for lock in self.locks:
                lock.turns = None
        return f"raised {errors}" if errors else self._left()

    def _left(self) -> str | None:
        """Say what is wrong with what is left: nothing runs, all is counted, the books agree."""
        info, line = self.cache.info(), self.store._line
        if info.running or self.store._open:
            return f"left: {info.running} attempts, {self.store._tickets.keys()} in the store"
        if info.calls != self.calls or info.refreshes + info.failures != self.runs:
            return f"{self.calls} calls and {self.runs} runs, counted: {info}"
        if not set(self.store.entries) == set(line) == set(line._order):
            return f"books: {set(self.store.entries)}, {set(line)}, {set(line._order)}"
        if len(self.store) > self.store._max or line.currsize != len(line):
            return f"{len(self.store)} entries of {self.store._max}, size {line.currsize}"
        if info.store_lost:
            return "the store failed"
        return "; ".join(self.wrong) or None


Body = Callable[[World], Any]
Make = Callable[..., World]
Check = Callable[[World], object]


def empty(lock: Callable[[], TurnLock] = TurnLock, **settings: Any) -> World:
    """Nothing is stored."""
    return World(lock, **settings)


def young(lock: Callable[[], TurnLock] = TurnLock, **settings: Any) -> World:
    """A value is stored, and is not due."""
    world = World(lock, **settings)
    world.load()
    return world


def due(lock: Callable[[], TurnLock] = TurnLock, **settings: Any) -> World:
    """A value is stored, and is due."""
    world = young(lock, **settings)
    world.clock.advance(2)
    return world


def failing(lock: Callable[[], TurnLock] = TurnLock, **settings: Any) -> World:
    """A value is due, and the origin has just gone down."""
    world = due(lock, **settings)
    world.down = True
    return world


def full(lock: Callable[[], TurnLock] = TurnLock, **settings: Any) -> World:
    """A store of two holds two."""
    world = World(lock, most=2, **settings)
    for key in "kl":
        world.load(key)
    return world


def load(world: World) -> None:
    """Somebody calls."""
    world.load()


def load_other(world: World) -> None:
    """Somebody calls with another key."""
    world.load("other")


def load_both(world: World) -> None:
    """Somebody calls with two keys."""
    world.load("l")
    world.load()


def fetch(world: World) -> None:
    """Somebody wants to know where the value comes from."""
    world.calls += 1
    assert world.cache.fetch("k").error is None


def invalidate(world: World) -> None:
    """The origin says something new; the value is due."""
    world.change(lambda: world.cache.invalidate("k"), reserve=True)


def invalidate_all(world: World) -> None:
    """The same, by prefix."""
    world.change(lambda: world.cache.invalidate_all(), reserve=True)


def evict(world: World) -> None:
    """The origin says something new; the value is gone."""
    world.change(lambda: world.cache.evict("k"))


def evict_all(world: World) -> None:
    """The same, by prefix."""
    world.change(lambda: world.cache.evict_all("k"))


def put(world: World) -> None:
    """The origin says something new; the value is there."""
    world.change(lambda: world.cache.put("k", world.version))


def only_invalidate(world: World) -> None:
    """The origin says something new, and nobody looks yet."""
    world.change(lambda: world.cache.invalidate("k"), look=False)


def only_evict(world: World) -> None:
    """The same, and the value is gone."""
    world.change(lambda: world.cache.evict("k"), look=False)


def only_put(world: World) -> None:
    """The same, and the value is there."""
    world.change(lambda: world.cache.put("k", world.version), look=False)


def mend_and_invalidate(world: World) -> None:
    """The origin is well again and says something new."""
    world.down = False
    invalidate(world)


def put_others(world: World) -> None:
    """Two values make others go."""
    world.cache.put("m", 7)
    world.cache.put("n", 8)


def drop_all(world: World) -> None:
    """Everything goes."""
    world.cache.evict_all()


def reconfigure(world: World) -> None:
    """A longer refresh period, and values that may grow older."""
    world.cache.reconfigure(refresh_after=5, max_stale=20)


def look(world: World) -> None:
    """Somebody looks at the numbers."""
    info = world.cache.info()
    assert 0 <= info.running <= 1


def faults(
    make: Make, bodies: Sequence[Body], check: Check, every: int = 2, **settings: Any
) -> Iterator[tuple[Any, ...]]:
    """Preempt each thread at each of its opcodes in turn, or at one of so many."""
    for who in range(len(bodies)):
        for step in itertools.count(1, every):
            world, plan = make(**settings), Preempt(who, step)
            fault = world.run(bodies, plan) or check(world)
            if fault:
                yield who, step, fault
            if not plan.happened:
                break


def one_run(world: World) -> str | None:
    """The origin was asked once."""
    return None if world.runs == 1 else f"{world.runs} runs"


def one_more_run(world: World) -> str | None:
    """The origin was asked once, and once before."""
    return None if world.runs == 2 else f"{world.runs} runs"


def newest(world: World) -> str | None:
    """Whoever calls from now on gets what the origin says now."""
    world.down = False
    seen = world.call("k")
    return None if seen == world.version else f"{seen} at the end, not {world.version}"


def as_told(world: World) -> str | None:
    """The new settings are in force, and the value is due by the old ones or by them."""
    if world.cache.config.refresh_after != 5 or world.guard.fresh != 5:
        return f"{world.cache.config}, fresh for {world.guard.fresh}"
    at = world.store.entries["w:k"].refresh_at
    return one_more_run(world) or (None if at in {4.0, 7.0} else f"due at {at}")


SCENES: list[tuple[Make, tuple[Body, ...], Check]] = [
    (empty, (load, load), one_run), (due, (load, load), one_more_run),
    (empty, (load, fetch), one_run), (young, (load, fetch), one_run),
    (empty, (load, invalidate), newest), (due, (load, invalidate), newest),
    (empty, (load, invalidate_all), newest), (empty, (load, evict), newest),
    (due, (load, evict), newest), (due, (load, evict_all), newest),
    (empty, (load, put), newest), (due, (load, put), newest),
    (young, (load, evict), newest), (young, (load, invalidate), newest),
    (young, (load, put), newest), (failing, (load, mend_and_invalidate), newest),
    (empty, (load, only_invalidate), newest), (due, (load, only_invalidate), newest),
    (empty, (load, only_evict), newest), (due, (load, only_evict), newest),
    (due, (load, only_put), newest), (young, (load, only_put), newest),
    (empty, (invalidate, evict), newest), (due, (evict, invalidate_all), newest),
    (full, (load_both, put_others), newest), (full, (load_other, put_others), newest),
    (full, (put_others, put_others), newest), (full, (load_both, drop_all), newest),
    (due, (load, reconfigure), as_told), (due, (load, look), one_more_run),
]  # fmt: skip


def _name(scene: Any) -> str:
    make, bodies, _ = scene
    return "-".join(one.__name__ for one in (make, *bodies))


@pytest.mark.parametrize("scene", SCENES, ids=[_name(scene) for scene in SCENES])
def test_any_preemption(scene: tuple[Make, tuple[Body, ...], Check]) -> None:
    """Wherever a thread is preempted: one load where one is due, nothing outdated afterwards, nothing left."""
    make, bodies, check = scene
    assert list(faults(make, bodies, check, 4)) == []


@pytest.mark.parametrize("body", [put, invalidate, evict], ids=lambda body: body.__name__)
def test_a_failure_is_not_kept_where_something_was_told(body: Body) -> None:
    """A refresh that fails does not move the refresh time of what was put or invalidated meanwhile."""

    def mended(world: World) -> None:
        world.down = False
        body(world)

    assert list(faults(failing, (load, mended), newest, 5)) == []


def test_the_key_of_a_failure() -> None:
    """A failure with nothing stored leaves the origin alone, but not if the key was told of meanwhile."""

    def make(**settings: Any) -> World:
        world = World(disaster=return_value(0), **settings)
        world.down = True
        return world

    assert list(faults(make, (load, mend_and_invalidate), newest, 3)) == []


TRIOS: list[tuple[Make, tuple[Body, ...], Check]] = [
    (empty, (load, load, load), one_run),
    (empty, (load, invalidate, load), newest),
    (due, (load, evict, invalidate), newest),
    (full, (load_both, put_others, load_other), newest),
]


@pytest.mark.parametrize("scene", TRIOS, ids=[_name(scene) for scene in TRIOS])
def test_three_threads_at_random(scene: tuple[Make, tuple[Body, ...], Check]) -> None:
    """Three threads that hand over at random do no harm either; the seeds are fixed."""
    make, bodies, check = scene
    for seed in range(45):
        world = make()
        plan = AtRandom(seed, every=(5, 20, 60)[seed % 3])
        assert (world.run(bodies, plan) or check(world)) is None, seed


@whole
def test_the_unlocked_twin_is_caught() -> None:
    """The same checks find the faults of a cache whose locks do nothing."""
    assert any(faults(full, (put_others, drop_all), newest, 1, lock=NoLock))
    worlds = [(seed, empty(NoLock)) for seed in range(100)]
    assert any(
        world.run((load, load), AtRandom(seed, 10)) or one_run(world) for seed, world in worlds
    )


@whole
def test_a_twin_that_drops_no_attempt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who calls after an invalidation must not wait for an attempt that began before it."""
    monkeypatch.setattr(Attempts, "drop", lambda self, prefix, exact: [])
    assert any(faults(empty, (load, invalidate), newest, 1))


@whole
def test_a_twin_whose_late_values_are_stored_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that began before an eviction must not bring the old value back."""
    monkeypatch.setattr(Tickets, "outdate", lambda self, key: self.draw())
    assert any(faults(due, (load, only_evict), newest, 1))
