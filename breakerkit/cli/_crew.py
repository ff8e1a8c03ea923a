"""Threads that do numbered jobs when they are due, on a clock that may run faster than real time."""

from __future__ import annotations

import abc
import errno
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

__all__ = ["Crew", "TraceClock"]

_TICK = 0.1  # seconds between two looks at a run in progress

_Tool = TypeVar("_Tool")


class TraceClock:
    """The time of the recording: real time since it was made, times the speed.

    A policy on this clock keeps its settings' meaning at any speed: 5 seconds
    open are 5 seconds of what was recorded.
    """

    def __init__(self, speed: float, source: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self._source = source
        self._zero = source()

    def now(self) -> float:
        """Return seconds since the recording began."""
        return (self._source() - self._zero) * self.speed


class Crew(abc.ABC, Generic[_Tool]):
    """Threads that take job by job, wait until it is due, and do it.

    A subclass says how: `_open` gives each thread a tool of its own, `_do` does
    one job with it.

    Args:
        dues: when each job is due, in seconds of the clock.
        clock: the clock; it has begun.
        threads: how many work.
    """

    #: What to do if the machine has not so many threads.
    advice = "close other programs"

    def __init__(self, dues: Sequence[float], clock: TraceClock, threads: int) -> None:
        self.clock = clock
        self._dues = dues
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._due: SimpleQueue[int] = SimpleQueue()
        for number in range(len(dues)):
            self._due.put(number)
        # Daemons: Ctrl-C must not wait for answers that are still to come.
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        """Let them begin.

        Raises:
            OSError: if the machine has not so many threads.
        """
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:  # all that the machine lets a process have
            self.stop()
            raise OSError(
                errno.EAGAIN, f"cannot run {len(self._threads)} threads; {self.advice}"
            ) from None

    def working(self) -> bool:
        """Wait a moment; return whether any thread still works.

        Raises:
            BaseException: what a thread did not expect.
        """
        self._threads[-1].join(_TICK)
        if self._errors:
            raise self._errors[0]
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return bool(self._threads)

    def stop(self) -> None:
        """Have every thread end after the job it is in."""
        self._stopped.set()

    @abc.abstractmethod
    def _open(self) -> AbstractContextManager[_Tool]:
        """Return what one thread works with."""
        ...

    @abc.abstractmethod
    def _do(self, tool: _Tool, number: int, /) -> None:
        """Do one job."""
        ...

    def _work(self) -> None:
        try:
            with self._open() as tool:
                self._do_all(tool)
        except BaseException as error:
            self._errors.append(error)

    def _do_all(self, tool: _Tool) -> None:
        while True:
            try:
                number = self._due.get_nowait()
            except Empty:
                return
            wait = (self._dues[number] - self.clock.now()) / self.clock.speed
            if self._stopped.wait(max(0.0, wait)):
                return
            self._do(tool, number)
