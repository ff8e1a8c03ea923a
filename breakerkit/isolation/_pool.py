"""A pool of threads that die with the program: they do the work of one bulkhead and keep nobody from exiting."""

from __future__ import annotations

import threading
import weakref
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from breakerkit._log import fault_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.isolation._work import Work

    #: Work to be done, or ``None``: see whether you are one too many.
    Box: TypeAlias = "SimpleQueue[Work | None]"


class Runner(Protocol):
    """How the work of one thread is done: by itself, or by a process of its own."""

    def run(self, work: Work) -> Any:
        """Do it: what it returns, or raises."""

    def close(self) -> None:
        """Hear that the thread ends."""

    def alive(self) -> bool:
        """Tell whether it could do work now."""
        ...


class Pool:
    """At most so many threads, begun when work needs them and kept for the next.

    How much work comes is the bulkhead's matter: what is started here has a
    slot. The threads know the pool weakly, so that one that nobody holds ends.
    """

    __slots__ = ("__weakref__", "_box", "_limit", "_lock", "_make", "_runners", "_undone", "name", "threads")  # fmt: skip

    def __init__(self, name: str, limit: int, make: Callable[[], Runner]) -> None:
        self.name = name
        self._limit = limit
        self._make = make
        self._lock = threading.RLock()
        self._box: Box = SimpleQueue()
        self._undone = 0
        self._runners: list[Runner] = []
        self.threads = 0

    @property
    def alive(self) -> int:
        """How many workers there are."""
        return sum(one.alive() for one in list(self._runners))

    def start(self, work: Work) -> None:
        """Let a thread do the work, a new one if all are busy.

        Raises:
            RuntimeError: there can be no further thread.
        """
        with self._lock:
            self._undone += 1
            new = self.threads < self._undone and self.threads < self._limit
            self.threads += new
        if new:
            try:
                self._begin()
            except BaseException:
                with self._lock:
                    self._undone -= 1
                    self.threads -= 1
                raise
        self._box.put(work)

    def _begin(self) -> None:
        runner = self._make()
        name = f"breakerkit bulkhead {self.name}"
        target = (self._box, weakref.ref(self), runner)
        threading.Thread(target=_labour, args=target, name=name, daemon=True).start()
        self._runners.append(runner)

    def done(self) -> None:
        """Hear that a thread is about to tell the result of its work."""
        with self._lock:
            self._undone -= 1

    def resize(self, limit: int) -> None:
        """Take another limit; threads above it end, those at work when that is done."""
        with self._lock:
            self._limit = limit
            surplus = self.threads - limit
        for _ in range(surplus):
            self._box.put(None)

    def retire(self, runner: Runner) -> bool:
        """Tell a thread that asks whether it is one too many; then it is counted no more."""
        with self._lock:
            if self.threads <= self._limit:
                return False
            self.threads -= 1
            self._runners.remove(runner)
            return True

    def __del__(self) -> None:
        for _ in range(getattr(self, "threads", 0)):  # absent if __init__ was interrupted
            self._box.put(None)


def _labour(box: Box, pool: weakref.ref[Pool], runner: Runner) -> None:
    """Do work until told that nobody needs it; whatever the work raises is the caller's."""
    while True:
        work = box.get()
        if work is not None:
            try:
                work.do(runner)
            except BaseException as error:
                # Of a listener: there is nobody here whom it could end.
                fault_in("listener in a worker", owner_name(pool), error)
            del work
            continue
        owner = pool()
        if owner is None or owner.retire(runner):
            runner.close()
            return
        del owner


def owner_name(pool: weakref.ref[Pool]) -> str:
    """Return the name of the bulkhead, if there still is one."""
    owner = pool()
    return "a bulkhead" if owner is None else owner.name


class Here:
    """The runner of a thread that does the work by itself."""

    __slots__ = ()

    def run(self, work: Work) -> Any:
        """Do it, with the context variables of whoever called."""
        context, function, args, kwargs = work.context, work.function, work.args, work.kwargs
        assert context is not None
        return context.run(function, *(args or ()), **(kwargs or {}))

    def close(self) -> None:
        """Nothing is left behind."""

    def alive(self) -> bool:
        """It could."""
        return True
