"""Crowds of threads and tasks that begin at one moment, and what became of their calls."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from breakerkit import CircuitOpenError

#: Nothing here may take so many seconds; it only ends a test that has failed.
PATIENCE = 20
#: What a call returns whose outcomes have been noted already.
_NOTED = object()


class Dependency:
    """What a crowd calls: whoever reaches it stays until everybody has been let in or turned away."""

    def __init__(self, crowd: int, error: BaseException | None = None) -> None:
        self._crowd = crowd
        self._error = error
        self._lock = threading.Lock()
        self._decided = threading.Event()
        self.ended: Counter[str] = Counter()
        self.runs = self.running = self.most_running = self.refused = 0

    def reach(self) -> str:
        """Stay, in a thread, until all is decided."""
        self._enter()
        assert self._decided.wait(PATIENCE)
        return self._leave()

    async def reach_async(self) -> str:
        """Stay, in a task, until all is decided."""
        self._enter()
        while not self._decided.is_set():
            await asyncio.sleep(0)
        return self._leave()

    def note(self, raised: BaseException | None) -> None:
        """Take in how somebody's call ended."""
        with self._lock:
            self.ended[type(raised).__name__ if raised else "value"] += 1
            self.refused += isinstance(raised, CircuitOpenError)
            self._look()

    def _enter(self) -> None:
        with self._lock:
            self.runs += 1
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            self._look()

    def _leave(self) -> str:
        with self._lock:
            self.running -= 1
        if self._error is not None:
            raise self._error
        return "value"

    def _look(self) -> None:
        if self.runs + self.refused == self._crowd:
            self._decided.set()


def together(calls: Sequence[Callable[[], Any]], note: Callable[[Any], object]) -> None:
    """Make each call in a thread of its own, all at the same moment."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> None:
        start.wait(PATIENCE)
        try:
            result = call()
        except BaseException as raised:
            note(raised)
        else:
            note(None) if result is not _NOTED else None

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


async def tasks(
    calls: Sequence[Callable[[], Awaitable[Any]]], note: Callable[[Any], object]
) -> None:
    """Make each call in a task of its own, all in one loop."""

    async def run(call: Callable[[], Awaitable[Any]]) -> None:
        try:
            await call()
        except Exception as raised:
            note(raised)
        else:
            note(None)

    await asyncio.gather(*[run(call) for call in calls])


def crowd(
    sync: Sequence[Callable[[], Any]],
    asynchronous: Sequence[Callable[[], Awaitable[Any]]],
    note: Callable[[Any], object],
) -> None:
    """Make sync calls in threads, and at the same moment async ones in the tasks of one loop."""

    def loop() -> object:
        asyncio.run(tasks(asynchronous, note))
        return _NOTED

    together([*sync, loop] if asynchronous else sync, note)
