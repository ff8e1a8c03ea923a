"""Threads for work that its caller may leave behind: daemons, reused, as many as are busy at once."""

from __future__ import annotations

import contextlib
import itertools
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from breakerkit import _fork as fork

if TYPE_CHECKING:
    from collections.abc import Callable

#: How long a thread with nothing to do is kept, in seconds.
IDLE = 10.0


class Task(Protocol):
    """What a thread is given."""

    def run(self, rest: Callable[[], None]) -> None:
        """Do it; call ``rest`` when nothing is left but to tell whoever waits. Should it raise, the thread ends."""


class Worker(threading.Thread):
    """A thread that does one task after another, and ends when none has come for a while.

    A daemon: the interpreter ends although it hangs.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(name=f"breakerkit worker {next(pool.numbers)}", daemon=True)
        self.inbox: SimpleQueue[Task] = SimpleQueue()
        self._pool = pool

    def run(self) -> None:
        """Work until nothing comes."""
        while (task := self._next()) is not None:
            task.run(self._rest)
            del task  # nothing of a call stays alive here while this waits for the next

    def _rest(self) -> None:
        self._pool.idle.append(self)

    def _next(self) -> Task | None:
        inbox, patience = self.inbox, self._pool.patience
        with contextlib.suppress(Empty):
            return inbox.get(timeout=patience)
        try:
            self._pool.idle.remove(self)
        except ValueError:
            # Somebody has just taken it from there, so a task is coming; or an
            # interrupt has hit that somebody in between, and none ever will.
            with contextlib.suppress(Empty):
                return inbox.get(timeout=patience)
        return None


class Pool:
    """All threads of this kind; how many there are is bounded by those who give the tasks.

    Attributes:
        idle: those with nothing to do; what came last is taken first, so that
            the surplus ends.
        patience: how long each waits for a task, in seconds.
    """

    def __init__(self, patience: float = IDLE) -> None:
        self.idle: list[Worker] = []  # each operation on it is atomic
        self.numbers = itertools.count(1)
        self.patience = patience
        fork.remember(self)

    def start(self, task: Task) -> None:
        """Have a thread do a task, at once.

        Raises:
            RuntimeError: the system gives no more threads; the task is not begun.
        """
        try:
            worker = self.idle.pop()
        except IndexError:
            worker = Worker(self)
            worker.start()
        worker.inbox.put(task)

    def after_fork(self) -> None:
        """Start with none in a forked child, which has none of the parent's threads."""
        self.idle = []


#: The one pool of this process.
pool = Pool()
