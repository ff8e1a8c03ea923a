"""Waiting for an attempt: a thread sleeps, a task goes on with its event loop; deadlines and signals are heeded."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit._deadline import check_deadline
from breakerkit.stale._attempts import Ended

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from breakerkit.clock import Clock
    from breakerkit.stale._attempts import Attempt

#: Seconds a waiting thread sleeps at most without looking up: a signal that comes just
#: before the wait does not end it, and Ctrl-C shall.
LONGEST_NAP = 1.0
#: The same where time is not that of ``time.monotonic``: nothing wakes anybody there.
SHORT_NAP = 0.01
#: Seconds between two looks whether another process has stored what it loads.
LOOK_AGAIN = 0.05
#: In place of an answer: the wait would never end, for it stops the event loop that runs the attempt.
STUCK = "stuck"


class Wait:
    """Wait for an attempt, or until a moment; tell whether it has ended, or `STUCK`."""

    __slots__ = ("_attempt", "_clock", "_until")

    def __init__(self, attempt: Attempt | None, clock: Clock, until: float) -> None:
        self._attempt = attempt
        self._clock = clock
        self._until = until

    def _nap(self) -> float:
        """Return the seconds to the next look, 0.0 if the moment has come.

        Raises:
            CallTimeoutError: the deadline of the calls around came first.
            CallCancelledError: their signal is set.
        """
        check_deadline()
        if self._attempt is not None and self._attempt.dead:
            self._attempt.settle(Ended.HANDED_OVER)  # its event loop was closed under it
        left = self._until - self._clock.now()
        steady, around = self._clock.now is time.monotonic, ambient.live(ambient.limit.get())
        if around is not None:
            steady = steady and ambient.steady(around)
            left = min(left, ambient.binding(around)[0])
        return max(0.0, min(left, LONGEST_NAP if steady else SHORT_NAP))

    def do(self) -> Any:
        """Wait in a thread."""
        if _here(self._attempt):
            return STUCK
        gate = threading.Lock()
        gate.acquire()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # it has been told already
                gate.release()

        if not self._listen(tell):
            return True
        try:
            while nap := self._nap():
                if gate.acquire(timeout=nap) or self._over:
                    return True
            return False
        finally:
            self._forget(tell)

    async def do_async(self) -> bool:
        """Wait in a task."""
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there
                loop.call_soon_threadsafe(_set, ended)

        if not self._listen(tell):
            return True
        try:
            while nap := self._nap():
                await asyncio.wait([ended], timeout=nap)
                if ended.done() or self._over:
                    return True
            return False
        finally:
            self._forget(tell)

    @property
    def _over(self) -> bool:
        return self._attempt is not None and self._attempt.how is not None

    def _listen(self, tell: Callable[[], object]) -> bool:
        return self._attempt is None or self._attempt.listen(tell)

    def _forget(self, tell: Callable[[], object]) -> None:
        if self._attempt is not None:
            self._attempt.forget(tell)


def _here(attempt: Attempt | None) -> bool:
    """Tell whether the event loop that runs an attempt is the one this code holds up."""
    task = None if attempt is None else attempt.task
    asyncio: Any = sys.modules.get("asyncio")
    return task is not None and asyncio._get_running_loop() is task.get_loop()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, from whatever thread."""
    loop = task.get_loop()
    if sys.modules["asyncio"]._get_running_loop() is loop:
        task.cancel()
        return
    with contextlib.suppress(RuntimeError):  # the loop is closed: it runs no more
        loop.call_soon_threadsafe(task.cancel)


class Stop:
    """Cancel the task of an attempt that nobody wants any more, and wait for its end where that can be.

    So whoever cancels a caller finds the origin ended, as without a cache.
    """

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def do(self) -> None:
        """Cancel it; a thread cannot wait for it."""
        cancel(self._task)

    async def do_async(self) -> None:
        """Cancel it, and wait if it is a task of this event loop."""
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        cancel(self._task)
        if self._task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._task])
