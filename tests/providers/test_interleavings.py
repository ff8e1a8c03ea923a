"""Forks and calls that wait for a retry, preempted at any opcode: each is counted, and heard of once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from breakerkit import Registry, failover
from breakerkit._abandoned import ledger
from breakerkit._shell import _proxies  # noqa: F401  # so that its opcodes are told too
from breakerkit._shell._tries import Work
from breakerkit.events import Event
from breakerkit.providers._waiting import Queue
from breakerkit.providers.events import RetryGivenUp, RetrySucceeded
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import Interleaving, NoLock, Preempt, TurnLock
from tests.concurrency.tracing import instrumented, whole


@pytest.fixture(autouse=True)
def _by_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with instrumented():  # before it is patched: afterwards nobody finds its opcodes
        # The one thread that serves the queue is one of those that run by turns.
        monkeypatch.setattr(Queue, "work", lambda self, name, clock: None)
        monkeypatch.setattr(ledger, "lock", ledger.lock)
        yield
    ledger._running.clear()  # what the broken twin left


class Changed(TurnLock):
    """The condition of a queue, on which nobody waits here."""

    def notify_all(self) -> None:
        """Wake nobody."""


class Unchanged(NoLock):
    """The one of the broken twin."""

    def notify_all(self) -> None:
        """Wake nobody."""


class Retried:
    """A failover whose calls wait for a retry, and how the ends of these were told."""

    def __init__(self, calls: int, retries: int = 3, max_pending: int = 9) -> None:
        self.clock, self.calls, self.made = ManualClock(), calls, 0
        self.line: Any = failover(
            ["a", "b"],
            strategy="failback",
            retries=retries,
            max_pending=max_pending,
            background=False,
            retry_interval=5,
            breaker=None,
            clock=self.clock,
            registry=Registry(),
        )
        self.down, self.ends = True, 0
        self.line.subscribe(self.count, RetrySucceeded, RetryGivenUp)
        self.work = self.line(self.serve)
        self.guard, self.retries = self.line._guard, self.line._guard.retries
        for _ in range(calls):
            self.work()

    def serve(self, provider: str) -> str:
        """Answer, or fail."""
        self.made += 1
        if self.down:
            raise ConnectionError(provider)
        return provider

    def count(self, event: Event) -> None:
        """Hear the end of a call."""
        self.ends += 1

    def put(self, locks: Sequence[TurnLock]) -> None:
        """Take locks that work by turns."""
        self.guard.lock, self.retries._queue._changed = locks

    def wrong(self) -> str | None:
        """Say what is wrong: a call is heard of once, or waits yet; nothing stays under way."""
        queue = self.retries._queue
        waiting, running = len(queue._waiting), len(queue._running)
        if running or self.ends + waiting != self.calls or waiting > self.line.config.max_pending:
            return f"{self.ends} ended, {waiting} wait, {running} run, of {self.calls}"
        counts = self.guard.counts
        if counts.retried + counts.given_up != self.ends:
            return f"{counts} for {self.ends}"
        return None


def due() -> Retried:
    """Two calls that are due, and will end well."""
    world = Retried(2)
    world.clock.advance(5)
    world.down = False
    return world


def hopeless() -> Retried:
    """Two calls that are due, and will fail again."""
    world = Retried(2)
    world.clock.advance(5)
    return world


def last_place() -> Retried:
    """One place is left, and two more will ask for it."""
    return Retried(1, max_pending=2)


def retry(world: Any) -> None:
    """Somebody tries again what is due."""
    world.line.run_pending()


def close(world: Any) -> None:
    """The end, with no time left to try anything again."""
    world.retries._queue.close()
    world.retries._give_up_all(world.retries._queue.all())


def call(world: Any) -> None:
    """A call that fails."""
    world.calls += 1
    world.work()


class Forked:
    """One call of two forks whose threads run."""

    def __init__(self) -> None:
        line: Any = failover(
            ["a", "b"],
            strategy="forking",
            breaker=None,
            clock=ManualClock(),
            registry=Registry(),
        )
        self.guard = line._guard
        self.plan = self.guard.begin(Work(str, (), (), {}))
        self.attempts = self.plan.all()
        for attempt in self.attempts:
            self.plan.started(attempt, threading.current_thread())

    def put(self, locks: Sequence[TurnLock]) -> None:
        """Take locks that work by turns."""
        self.guard.lock, ledger.lock = locks

    def wrong(self) -> str | None:
        """Say how many forks are taken for running, if any."""
        counted = (self.guard.losers, len(self.plan._running))
        if ledger.works():
            return f"abandoned for good: {ledger.works()}"
        return None if counted == (0, 0) else f"losers and running: {counted}"


def first_fork(world: Any) -> None:
    """A thread, with an answer."""
    world.plan.succeeded(world.attempts[0], "a")
    world.plan.ended(world.attempts[0], ledger.mark)


def second_fork(world: Any) -> None:
    """Another thread, which fails."""
    world.plan.failed(world.attempts[1], ConnectionError("down"))
    world.plan.ended(world.attempts[1], ledger.mark)


def over(world: Any) -> None:
    """The caller goes away."""
    world.plan.over()


Body = Callable[[Any], None]


def faults(
    make: Callable[[], Any], bodies: Sequence[Body], every: int = 1, *, broken: bool = False
) -> Iterator[tuple[int, int, str]]:
    """Preempt each thread at each of its opcodes in turn, or at one of so many."""
    for who in range(len(bodies)):
        for step in itertools.count(1, every):
            locks: list[TurnLock] = [NoLock(), Unchanged()] if broken else [TurnLock(), Changed()]
            world, plan = make(), Preempt(who, step)
            world.put(locks)
            turns = Interleaving([lambda b=body, w=world: b(w) for body in bodies], plan)
            for lock in locks:
                lock.turns = turns
            errors = [one for one in turns.run(locks[0]) if one is not None]
            for lock in locks:
                lock.turns = None
            fault = f"raised {errors}" if errors else world.wrong()
            if fault:
                yield who, step, fault
            if not plan.happened:
                break


@pytest.mark.parametrize(
    ("make", "bodies"),
    [
        (due, (retry, retry)),
        (due, (retry, close)),
        (hopeless, (retry, retry)),
        (hopeless, (retry, close)),
        (last_place, (call, call)),
        (last_place, (call, close)),
    ],
)
def test_a_retry_is_heard_of_once(make: Callable[[], Any], bodies: Sequence[Body]) -> None:
    """Whoever tries again, closes or calls meanwhile: each call waits or is heard of, and there is a bound."""
    assert list(faults(make, bodies, 5)) == []


@pytest.mark.parametrize(
    "bodies",
    [
        (first_fork, over, second_fork),
        (over, first_fork, second_fork),
        (second_fork, over, first_fork),
    ],
)
def test_forks_are_counted(bodies: Sequence[Body]) -> None:
    """When a call and its forks have ended, in whatever order, none is taken for running."""
    assert list(faults(Forked, bodies)) == []


@whole
def test_the_unlocked_twin_is_caught() -> None:
    """The same checks find the faults of a failover whose locks do nothing."""
    assert any(faults(Forked, (first_fork, over, second_fork), broken=True))
    assert any(faults(due, (retry, retry), broken=True))
