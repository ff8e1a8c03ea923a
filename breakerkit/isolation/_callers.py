"""How the caller of a worker's call hears of its end: as a thread that waits, a task, or by a future."""

from __future__ import annotations

import contextlib
import threading
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from breakerkit._log import fault_in
from breakerkit.isolation._work import Work

if TYPE_CHECKING:
    from concurrent.futures import Future


class Call(Work):
    """A call whose caller is a thread that waits for it."""

    __slots__ = ("_bell",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._bell = threading.Lock()
        self._bell.acquire()

    def deliver(self) -> None:
        """Wake the caller."""
        self._bell.release()

    def nap(self, seconds: float) -> None:
        """Wait for so long, or until the call has ended."""
        self._bell.acquire(timeout=seconds)


class Awaited(Work):
    """A call whose caller is a task."""

    __slots__ = ("_future",)

    def __init__(self, *args: Any) -> None:
        from asyncio import get_running_loop  # noqa: PLC0415  # whoever awaits has it

        super().__init__(*args)
        self.loop = get_running_loop()
        self._future = self.loop.create_future()

    def deliver(self) -> None:
        """Wake the task, if its loop still runs."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            self.loop.call_soon_threadsafe(self._look)

    def wanted(self) -> bool:
        """Tell whether the task is still there."""
        return not (self.gone or self.loop.is_closed())

    async def nap(self, seconds: float) -> None:
        """Wait for so long, or until the call has ended."""
        timer = None
        if seconds != float("inf"):
            timer = self.loop.call_later(seconds, self._look)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()
        self._future = self.loop.create_future()

    def _look(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class Submitted(Work):
    """A call whose caller holds a future."""

    __slots__ = ("_heard", "_runs", "future")

    def __init__(self, *args: Any) -> None:
        from concurrent.futures import Future  # noqa: PLC0415  # imported where it is first needed

        super().__init__(*args)
        self._heard = self._runs = False
        self.future: Future[Any] = Future()
        self.future.add_done_callback(self._settled)

    @staticmethod
    def make_context() -> Context:
        """Return the same for what somebody merely starts: it is free of their deadline when they have ended."""
        return copy_context()

    def _settled(self, future: Any) -> None:
        if future.cancelled():
            self.gone = True
            self._begin_or_notify()  # who waits for several futures hears of it only so
            self.guard.forsake(self)  # it was cancelled while it waited

    def wanted(self) -> bool:
        """Tell whether the future was not cancelled; from here on it cannot be."""
        return self._begin_or_notify()

    def _begin_or_notify(self) -> bool:
        """Let the future run, or tell those who wait that it was cancelled; either once."""
        with self._lock:
            if not self._heard:
                self._heard = True
                self._runs = self.future.set_running_or_notify_cancel()
            return self._runs

    def deliver(self) -> None:
        """Settle the future; what is called back then is no concern of the work."""
        future, value, error = self.future, self.value, self.error
        self.value = self.error = None
        try:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)
        except BaseException as odd:
            # It was cancelled just before this, or what it called back ends the program.
            if not future.cancelled():
                fault_in("callback of a future", self.guard.name, odd)
        finally:
            future = value = error = None  # type: ignore[assignment]  # no cycle through the traceback
