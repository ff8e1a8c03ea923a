"""A scheduler that decides which thread goes on, before any opcode of breakerkit.

    with instrumented():
        results = Interleaving([body_a, body_b], Preempt(0, 17)).run(lock)

One thread runs at a time. It may hand over before an opcode inside the package,
where a `TurnLock` in place of the guard's lock would block, and where a guarded
function calls `tick`. So an interleaving is a list of decisions, and runs the
same way each time.
"""

from __future__ import annotations

import _thread
import gc
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.concurrency.tracing import interrupted

#: No thread may be stuck for longer, in seconds; an honest run takes milliseconds.
PATIENCE = 20


class Plan(Protocol):
    """Who goes on, and for how long."""

    #: Whether a decision has been made yet.
    happened: bool

    def gap(self, running: int) -> int | None:
        """Return how many opcodes this thread runs before the next decision; ``None``: all."""
        ...

    def choose(self, running: int, able: Sequence[int]) -> int:
        """Return who goes on, among those who can."""
        ...


class Preempt:
    """Thread ``who`` runs to its ``step``-th opcode, another to its end, then it goes on.

    If there is no such opcode, ``happened`` stays false.
    """

    def __init__(self, who: int, step: int) -> None:
        self._who = who
        self._step = step
        self.happened = False

    def gap(self, running: int) -> int | None:
        """Return the one step at which it is preempted."""
        return self._step if running == self._who and not self.happened else None

    def choose(self, running: int, able: Sequence[int]) -> int:
        """Return somebody else; at the start the one who will be preempted."""
        if running < 0:
            return self._who
        return next((one for one in able if one != running), running)


class AtRandom:
    """Hand over on average every ``every`` opcodes; the same seed is the same run."""

    def __init__(self, seed: int, every: int = 20) -> None:
        self._random = random.Random(seed)
        self._every = every
        self.happened = False

    def gap(self, running: int) -> int:
        """Return a random gap."""
        return 1 + int(self._random.expovariate(1 / self._every))

    def choose(self, running: int, able: Sequence[int]) -> int:
        """Return anybody."""
        return self._random.choice(able)


class TurnLock:
    """A reentrant lock for threads of an `Interleaving`: who would block hands over instead."""

    def __init__(self) -> None:
        self.owner: int | None = None
        self.turns: Interleaving | None = None
        self._depth = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> bool:
        """Take it, as soon as nobody else has it."""
        me = threading.get_ident()
        while self.owner not in (None, me):
            assert self.turns is not None, "locked by a thread that is gone"
            self.turns.block()
        self.owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        """Give it back; whoever waited goes on at once, where a lock fails to protect."""
        assert self.owner == threading.get_ident()
        self._depth -= 1
        if self._depth == 0:
            self.owner = None
            if self.turns is not None:
                self.turns.unblock()

    def _is_owned(self) -> bool:
        return self.owner == threading.get_ident()


class NoLock(TurnLock):
    """What the deliberately broken twin has for a lock: nothing."""

    def acquire(self) -> bool:
        """Do nothing."""
        return True

    def release(self) -> None:
        """Do nothing."""


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class Interleaving:
    """Bodies that run in a thread each, by turns."""

    def __init__(self, bodies: Sequence[Callable[[], Any]], plan: Plan) -> None:
        self._bodies = bodies
        self._plan = plan
        self._go = [_taken() for _ in bodies]
        self._able = list(range(len(bodies)))
        self._blocked: list[int] = []
        self._running = -1
        self._over = False
        self._all_done = _taken()
        self.results: list[Any] = [None] * len(bodies)

    def run(self, lock: TurnLock) -> list[Any]:
        """Run all bodies to their end; what each returned, or the exception it raised."""
        lock.turns = self
        # A collection in the middle would run destructors, and they are breakerkit code.
        gc.disable()
        for one in range(len(self._bodies)):
            _thread.start_new_thread(self._thread, (one,))  # a tenth of what a Thread costs
        self._give_turn()
        assert self._all_done.acquire(timeout=PATIENCE), (self._able, self._blocked, self.results)
        self._over = True
        gc.enable()
        lock.turns = None
        return self.results

    def block(self) -> None:
        """The thread that runs cannot go on: another one does."""
        me = self._running
        self._able.remove(me)
        self._blocked.append(me)
        assert self._able, "every thread waits: deadlock"
        self._hand_over(me, self._plan.choose(me, self._able))

    def unblock(self) -> None:
        """Those who waited can go on, and the first of them does."""
        if self._blocked:
            me, first = self._running, self._blocked[0]
            self._able = sorted({*self._able, *self._blocked})
            self._blocked.clear()
            self._hand_over(me, first)

    def _thread(self, me: int) -> None:
        assert self._go[me].acquire(timeout=PATIENCE)
        try:
            with interrupted(self._plan.gap(me), lambda: self._decide(me)):
                self.results[me] = self._bodies[me]()
        except BaseException as error:
            self.results[me] = error
        if self._over:
            return  # of a deadlock: it waited until its patience was over, and nobody cares any more
        self._able.remove(me)
        if self._able:
            self._give_turn()
        else:
            self._all_done.release()

    def _decide(self, me: int) -> int | None:
        self._plan.happened = True
        self._hand_over(me, self._plan.choose(me, self._able))
        return self._plan.gap(me)

    def _hand_over(self, me: int, to: int) -> None:
        if to != me:
            self._running = to
            self._go[to].release()
            assert self._go[me].acquire(timeout=PATIENCE), f"thread {me} was never called again"

    def _give_turn(self) -> None:
        self._running = self._plan.choose(self._running, self._able)
        self._go[self._running].release()
