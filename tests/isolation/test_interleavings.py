"""Two threads, preempted at any opcode: no slot is lost, none is made up, nobody waits beside a free one."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from breakerkit import BulkheadFullError, CallRejectedError, FullReason, Registry, bulkhead
from breakerkit.isolation._room import Room
from breakerkit.isolation._waiters import Bell, Patience, Waiter
from breakerkit.isolation._waiting import Waiting
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import AtRandom, Interleaving, NoLock, Preempt, TurnLock
from tests.concurrency.tracing import instrumented, tick, whole
from tests.isolation.rig import idle


@pytest.fixture(scope="module", autouse=True)
def _told_of_opcodes() -> Iterator[None]:
    with instrumented():
        yield


_turns: list[TurnLock] = []


@pytest.fixture(autouse=True)
def _waits_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread that waits for a slot hand over, instead of blocking; a lost wake-up is a deadlock then."""

    rung: set[Bell] = set()

    def wait(self: Bell, patience: Patience, look: Callable[[], object]) -> None:
        while not self.decided:
            turns = _turns[-1].turns
            assert turns is not None, "it waits, and nobody else is there"
            if self not in rung:
                assert len(turns._able) > 1, "it waits for ever"
                turns.block()
            rung.discard(self)
            look()

    def ring(self: Bell) -> bool:
        rung.add(self)
        turns = _turns[-1].turns
        if turns is not None:
            turns.unblock()
        return True

    monkeypatch.setattr(Bell, "wait", wait)
    monkeypatch.setattr(Bell, "ring", ring)


class Silent(Waiter):
    """Somebody who waits without blocking a thread: he looks for himself."""

    def ring(self) -> bool:
        return True


class World:
    """One bulkhead, and how many were inside."""

    def __init__(self, lock: TurnLock, **settings: Any) -> None:
        self.bulkhead = bulkhead(clock=ManualClock(), registry=Registry(), **settings)
        self.guard = self.bulkhead._guard
        self.inside = self.most = 0
        self.limit = self.bulkhead.config.max_concurrent
        self.waiters: list[Silent] = []
        self.blocks: list[Any] = []

        @self.bulkhead
        def work() -> None:
            self.enter()

        self.work = work
        work()
        self.guard.lock = lock
        _turns[:] = [lock]

    def enter(self) -> None:
        """Be inside for a moment."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        tick()
        self.inside -= 1

    def faults(self) -> str | None:
        """Say what is wrong after all have gone, if anything is."""
        end(self)
        self.waiters = [one for one in self.waiters if one.refused is None]
        for _ in range(len(self.waiters)):
            for waiter in [one for one in self.waiters if one.slot is not None]:
                self.waiters.remove(waiter)
                self.guard.release(waiter.slot)
                waiter.slot = None
        if self.waiters:
            return f"{len(self.waiters)} wait beside free slots"
        if self.most > self.limit:
            return f"{self.most} were inside"
        try:
            idle(self.bulkhead)
        except (AssertionError, BulkheadFullError) as error:
            return f"not idle: {error}"
        return None


def call(world: World) -> None:
    """A call through a decorated function."""
    try:
        world.work()
    except BulkheadFullError:
        pass


def block(world: World) -> None:
    """A call through a block."""
    try:
        with world.bulkhead.guard():
            world.enter()
    except BulkheadFullError:
        pass


def wait(world: World) -> None:
    """A call that waits, as the shell makes it."""
    entry = world.guard.admit()
    if not isinstance(entry, CallRejectedError):
        world.enter()
        world.guard.release(entry)


def queue(world: World, *, leave: bool = False) -> None:
    """Ask for a slot, and stay in the queue if need be; or go away again."""
    guard = world.guard
    entry = guard.ask(None)
    waiter = Silent(None, 0.0)
    if entry is None:
        entry = guard.join(waiter, Patience(guard.clock, None))
    guard.tell()
    if isinstance(entry, CallRejectedError):
        return
    if entry is not None:
        world.enter()
        guard.release(entry)
    elif leave:
        tick()
        guard.forsake(waiter)
    else:
        world.waiters.append(waiter)


def go_away(world: World) -> None:
    """Wait and give up."""
    queue(world, leave=True)


def take(world: World, number: int = 0) -> None:
    """A waiter looks, and has its slot or gives up."""
    waiter = world.waiters[number]
    entry = world.guard.left(waiter, Patience(world.guard.clock, 1))
    waiter.refused = FullReason.MAX_WAIT
    if not isinstance(entry, CallRejectedError):
        world.enter()
        world.guard.release(entry)


def take_other(world: World) -> None:
    """Another waiter does."""
    take(world, 1)


def shrink(world: World) -> None:
    """A smaller limit."""
    world.bulkhead.reconfigure(max_concurrent=1)


def grow(world: World) -> None:
    """A larger limit."""
    world.limit = 3
    world.bulkhead.reconfigure(max_concurrent=3)


def end(world: World) -> None:
    """A block that was entered before ends."""
    while world.blocks:
        world.blocks.pop().__exit__(None, None, None)


def look(world: World) -> None:
    """Somebody asks how it stands."""
    seen = world.bulkhead.snapshot()
    assert 0 <= seen.running <= 3


def held(world: World) -> None:
    """All slots are taken, by blocks."""
    for _ in range(world.bulkhead.config.max_concurrent):
        world.blocks.append(world.bulkhead.guard())
        world.blocks[-1].__enter__()


def queued(world: World) -> None:
    """All slots are taken, and two wait."""
    held(world)
    queue(world)
    queue(world)


def _let_go(turns: Interleaving) -> None:
    """Let threads that wait for ever end: the turns are over, and they see that."""
    while turns._blocked:
        turns._go[turns._blocked.pop()].release()


@dataclass(frozen=True)
class Scene:
    """Threads, and how the world is before."""

    bodies: tuple[Callable[[World], None], ...]
    before: Callable[[World], None] = lambda world: None
    limit: int = 1
    places: int = 3

    @property
    def name(self) -> str:
        return "-".join(one.__name__ for one in (self.before, *self.bodies)).replace(
            "<lambda>-", ""
        )

    def world(self, lock: TurnLock) -> World:
        world = World(lock, max_concurrent=self.limit, max_waiting=self.places)
        self.before(world)
        return world

    def run(self, plan: Any, lock: TurnLock) -> str | None:
        """Run the threads as planned and return what is wrong."""
        world = self.world(lock)
        bodies = [lambda body=body: body(world) for body in self.bodies]
        turns = Interleaving(bodies, plan)
        results = turns.run(lock)
        world.guard.lock = TurnLock()
        if turns._blocked:
            _let_go(turns)
            return "a thread waits for ever"
        errors = [one for one in results if one is not None]
        return f"raised {errors}" if errors else world.faults()

    def faults(self, lock: Callable[[], TurnLock], every: int = 1) -> Iterator[tuple[Any, ...]]:
        """Preempt each thread at each opcode in turn."""
        for who in range(len(self.bodies)):
            for step in itertools.count(1, every):
                plan = Preempt(who, step)
                fault = self.run(plan, lock())
                if fault:
                    yield who, step, fault
                if not plan.happened:
                    break


SCENES = [
    Scene((call, call)), Scene((call, wait)), Scene((call, call), limit=2), Scene((block, wait)),
    Scene((call, go_away)), Scene((wait, wait)), Scene((end, wait), held), Scene((end, go_away), held),
    Scene((end, queue), held), Scene((end, take), queued), Scene((take, take_other), queued),
    Scene((call, shrink), limit=2), Scene((call, grow)), Scene((grow, wait), held),
    Scene((end, shrink), held, limit=2), Scene((end, grow), queued), Scene((call, look)),
]  # fmt: skip


@pytest.mark.parametrize("scene", SCENES, ids=[one.name for one in SCENES])
def test_any_preemption_leaves_all_slots(scene: Scene) -> None:
    """Wherever a thread is preempted: never too many inside, all slots back, nobody left waiting."""
    assert list(scene.faults(TurnLock)) == []


@pytest.mark.parametrize("scene", [Scene((call, wait)), Scene((call, wait, end), held), Scene((wait, go_away, call))], ids=lambda one: one.name)  # fmt: skip
def test_threads_at_random(scene: Scene) -> None:
    """Threads that hand over at random leave all as it was; the seeds are fixed."""
    for seed in range(100):
        plan = AtRandom(seed, every=(5, 20, 60)[seed % 3])
        assert scene.run(plan, TurnLock()) is None, seed


class Twice:
    """The first thread is preempted at a step, the second at one of its own, then they go on in turn."""

    def __init__(self, *steps: int) -> None:
        self._steps: list[int | None] = list(steps)
        self.happened = False

    def gap(self, running: int) -> int | None:
        """Return the one step of each."""
        step, self._steps[running] = self._steps[running], None
        self.happened = self._steps == [None, None]
        return step

    def choose(self, running: int, able: Sequence[int]) -> int:
        """Return the other."""
        if running < 0:
            return 0
        return next((one for one in able if one != running), running)


def twice(scene: Scene, every: int = 3) -> Iterator[tuple[Any, ...]]:
    """Preempt both threads, at each pair of opcodes of which the first is in the call."""
    for first, second in itertools.product(range(2, 26), range(4, 240, every)):
        fault = scene.run(Twice(first, second), TurnLock())
        if fault:
            yield first, second, fault


def test_a_slot_that_comes_free_while_somebody_joins() -> None:
    """A call that ends between two steps of one who begins to wait is seen by him, or sees him."""
    assert list(twice(Scene((call, wait)))) == []


def caught(scenes: list[Scene], lock: Callable[[], TurnLock] = TurnLock) -> bool:
    """Tell whether a broken bulkhead is found out."""
    return any(any(scene.faults(lock, every)) for every in (7, 1) for scene in scenes)


@whole
def test_the_unlocked_twin_is_caught() -> None:
    """The same check finds the faults of a bulkhead whose lock does nothing."""
    assert caught([Scene((end, queue), held), Scene((end, take), queued)], NoLock)


@whole
def test_a_twin_that_does_not_look_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins to wait and does not look at the free slots again misses one that has just come."""

    def enqueue(self: Any, waiter: Any) -> None:
        waiter.queued = True
        self.queue.add(waiter)
        self._tune()

    monkeypatch.setattr(Waiting, "_enqueue", enqueue)
    monkeypatch.setattr(Waiting, "tell", lambda self: None)  # where it looks once more
    assert any(twice(Scene((call, wait)), 1))


@whole
def test_a_twin_whose_calls_do_not_look_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives a slot back and does not look whether somebody waits leaves him waiting."""
    original = Room._tune

    def tune(self: Any) -> None:
        original(self)
        self.busy = False

    monkeypatch.setattr(Room, "_tune", tune)
    assert caught([Scene((call, wait))])


@whole
def test_a_twin_that_lets_newcomers_overtake_is_caught() -> None:
    """A slot that comes free while somebody waits is not there for the next who comes."""

    def overtakes(barging: bool) -> bool:
        world = World(TurnLock(), max_concurrent=1, max_waiting=3)
        queued(world)
        guard = world.guard
        assert isinstance(guard.open, deque)
        if barging:
            guard.open = guard.free
        guard.free.append(guard._mint())  # as a call does, before it looks whether anybody waits
        try:
            guard.open.pop()
        except IndexError:
            return False
        return True

    assert (overtakes(False), overtakes(True)) == (False, True)
