"""A call in a thread and the caller who leaves it, preempted at any opcode: no place and no work is lost."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from breakerkit import LedgerFullError, Registry, _ambient, timeout
from breakerkit._abandoned import Work, ledger
from breakerkit.deadline._jobs import Job
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import AtRandom, Interleaving, NoLock, Plan, Preempt, TurnLock
from tests.concurrency.tracing import instrumented, whole


@pytest.fixture(autouse=True)
def _by_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ledger, "lock", ledger.lock)
    with instrumented():
        yield
    ledger._running.clear()  # what the broken twin has lost


class World:
    """A timeout with one place, a job that has it, and what came of them."""

    def __init__(self, locks: Sequence[TurnLock]) -> None:
        made = timeout(5, mode="abandon", max_abandoned=1, clock=ManualClock(), registry=Registry())
        self.timeout, self.guard = made, made._guard
        self.guard.lock, ledger.lock = locks[0], locks[1]
        self.told: list[str] = []
        made.subscribe(lambda event: self.told.append(type(event).__name__))
        self.inner = Work("inner", "work", threading.current_thread(), 0.0)
        self.left = self.begun = False
        self.value: Any = None
        self.waited: list[Work] = []
        self.ended: list[int] = []
        self.free = 0
        self.jobs: list[Job] = []
        self.job = self.new_job()
        self.job._turn = locks[2]
        self.guard._take(self.job)

    def new_job(self) -> Job:
        """Return a job that has no place yet."""
        limit = _ambient.within(None, self.guard.terms, 0.0)
        return Job(self.guard, self.work, (), {}, limit)

    def work(self) -> int:
        """Leave work behind in its turn, unless that has ended already."""
        ledger.add(self.inner)
        return 7

    def rest(self) -> None:
        """Hear that the thread is free."""
        self.free += 1


def worker(world: World) -> None:
    """The thread that runs the job."""
    world.job.run(world.rest)


def caller(world: World) -> None:
    """The caller, whose time is over, and who holds something until the work has ended."""
    mark = ledger.mark
    world.left = world.job.leave()
    if world.left:
        world.begun = world.job.begun
        world.waited = ledger.since(mark)
        for work in world.waited:
            work.on_end(lambda: world.ended.append(1))
    else:
        world.value = world.job.result()


def end_inner(world: World) -> None:
    """What the job left behind ends."""
    world.inner.end()


def take(world: World) -> None:
    """Another call wants a place."""
    job = world.new_job()
    try:
        world.guard._take(job)
    except LedgerFullError:
        return
    world.jobs.append(job)


def give_back(world: World) -> None:
    """The job gives its place back."""
    world.guard.give_back(world.job)


def hand_on(world: World) -> None:
    """The job gives its place back, and its caller takes one again."""
    give_back(world)
    take(world)


def all_ended(world: World) -> str | None:
    """Say what is wrong when the job is done, if anything is."""
    end_inner(world)
    seen = world.timeout.snapshot()
    if seen.working or seen.abandoned_now or ledger.works():
        return f"left: {seen}, {ledger.works()}"
    if world.free != 1 or len(world.ended) != len(world.waited):
        return f"free {world.free} times, told {world.ended} of {world.waited}"
    if world.left:
        expected = ["WorkAbandoned", "WorkEnded"] if world.begun else []
        return None if world.told == expected else f"told {world.told}"
    return None if (world.value, world.told) == (7, []) else f"{world.value}, told {world.told}"


def places_right(world: World) -> str | None:
    """Say whether as many places are taken as there are jobs."""
    taken = world.guard._places.taken
    held = len(world.jobs) + (world.job.places is not None)
    return None if taken == held <= 1 else f"{taken} places for {held} jobs"


Body = Callable[[World], None]
Check = Callable[[World], str | None]


def run(
    bodies: Sequence[Body], plan: Plan, check: Check, kind: type[TurnLock] = TurnLock
) -> str | None:
    """Run threads as planned and return what is wrong."""
    locks = [kind() for _ in range(3)]
    world = World(locks)
    turns = Interleaving([lambda body=body: body(world) for body in bodies], plan)
    for lock in locks:
        lock.turns = turns
    errors = [one for one in turns.run(locks[0]) if one is not None]
    for lock in locks:
        lock.turns = None
    return f"raised {errors}" if errors else check(world)


def faults(
    bodies: Sequence[Body], check: Check, kind: type[TurnLock] = TurnLock
) -> Iterator[tuple[int, int, str]]:
    """Preempt each thread at each opcode in turn."""
    for who in range(len(bodies)):
        for step in itertools.count(1):
            plan = Preempt(who, step)
            fault = run(bodies, plan, check, kind)
            if fault:
                yield who, step, fault
            if not plan.happened:
                break


@pytest.mark.parametrize(
    "bodies", [(worker, caller), (worker, caller, end_inner), (worker, end_inner, caller)]
)
def test_a_job_ends_or_is_left(bodies: Sequence[Body]) -> None:
    """Whoever is first, the value is there or the work is listed until its end, which is told once."""
    assert list(faults(bodies, all_ended)) == []


def test_at_random() -> None:
    """Worker, caller and left work that hand over at random lose nothing; the seeds are fixed."""
    for seed in range(150):
        plan = AtRandom(seed, every=(3, 8, 30)[seed % 3])
        assert run((worker, caller, end_inner), plan, all_ended) is None, seed


@pytest.mark.parametrize("bodies", [(take, give_back), (hand_on, take), (hand_on, give_back)])
def test_places(bodies: Sequence[Body]) -> None:
    """A place is taken and given back once, and never are there more than there may be."""
    assert list(faults(bodies, places_right)) == []


def test_a_place_is_given_back_once() -> None:
    """Two who give back the same place give back one."""
    assert list(faults((give_back, give_back), places_right)) == []


@whole
def test_the_unlocked_twin_is_caught() -> None:
    """The same checks find the faults of a timeout whose locks do nothing."""
    assert any(faults((worker, caller), all_ended, NoLock))
    assert any(faults((hand_on, take), places_right, NoLock))
