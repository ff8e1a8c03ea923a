"""One call that is run by a worker: handed over with its slot, and how its caller hears of its end."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from typing import TYPE_CHECKING, Any

from breakerkit import _abandoned as abandoned
from breakerkit._abandoned import ledger
from breakerkit._log import fault_in
from breakerkit.errors import CallCancelledError
from breakerkit.isolation._waiters import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit.cancel import CancelSignal
    from breakerkit.isolation._pool import Pool, Runner
    from breakerkit.isolation.guard import BulkheadGuard


class Work(Waiter):
    """A call on its way to a worker; while there is no slot it stands in the queue by itself.

    Attributes:
        guard: the bulkhead's.
        function: what runs, as its runner takes it.
        args: with what.
        kwargs: with what.
        context: the context variables of the caller.
        title: what the call is, for those who look at abandoned work.
        concluded: whether it has ended, or will never begin.
        value: what it returned.
        error: what it raised.
    """

    __slots__ = (
        "_begun",
        "_left",
        "_lock",
        "_pool",
        "_signal",
        "_told",
        "args",
        "concluded",
        "context",
        "error",
        "function",
        "gone",
        "guard",
        "kwargs",
        "title",
        "value",
    )

    def __init__(
        self,
        guard: BulkheadGuard,
        share: Hashable,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        signal: CancelSignal | None = None,
        title: str = "",
    ) -> None:
        super().__init__(share, guard.clock.now())
        self.guard = guard
        self._pool: Pool = guard.pool
        self._signal = signal
        self.function: Any = function
        self.args = args
        self.kwargs = kwargs
        self.context: contextvars.Context | None = contextvars.copy_context()
        self.title = title
        self._lock = threading.Lock()
        self._begun: tuple[threading.Thread, float] | None = None
        self._left: abandoned.Work | None = None
        #: Whether the caller has gone away.
        self.gone = False
        self.concluded = self._told = False
        self.value: Any = None
        self.error: BaseException | None = None

    # -- before ----------------------------------------------------------------

    def ring(self) -> bool:
        """Go to a worker with the slot that was given, or hear that there is none."""
        if self._begun is not None or self._told:
            return True
        try:
            self.guard.handed(self)
        finally:
            # Whatever a listener did: somebody waits for this.
            if self.refused is None:
                self.start()
            else:
                self.conclude(None, self.guard.rejection(self.refused))
        return True

    def start(self) -> None:
        """Go to a worker with the slot."""
        try:
            self._pool.start(self)
        except Exception as error:  # an interrupt is not this call's: it is started again
            self.guard.forsake(self)
            self.conclude(None, error)

    def wanted(self) -> bool:
        """Tell, as it begins, whether anybody still wants it."""
        return not self.gone

    # -- in a worker -------------------------------------------------------------

    def do(self, runner: Runner) -> None:
        """Run, give the slot back, tell the caller; in that order, so that the caller finds it free."""
        mark, value, error = ledger.mark, None, None
        slot = self._begin()
        if slot is None:
            self._pool.done()
            return
        try:
            value = self._run(runner)
        except BaseException as raised:
            error = raised
        try:
            self._end(mark)
            self.guard.release(slot, mark)
        finally:
            # Whatever a listener did: somebody waits for this.
            self.conclude(value, error)
            # The error's traceback leads here, and from here to the error: no cycle.
            self = slot = value = error = None  # type: ignore[assignment]  # noqa: PLW0642  # as said

    def _begin(self) -> Any:
        """Take the slot along, unless nobody wants the call any more."""
        with self._lock:
            if self._begun is not None or self.concluded:
                return None  # it came here twice, after an interrupt
            if self.wanted():
                self._begun = threading.current_thread(), time.monotonic()
                slot, self.slot = self.slot, None
                return slot
        self.guard.forsake(self)
        return None

    def _run(self, runner: Runner) -> Any:
        if self._signal is not None and self._signal.cancelled:
            error = CallCancelledError(self.guard.name, self._signal.reason)
            error.begun = False
            raise error
        return runner.run(self)

    def _end(self, mark: int) -> None:
        self._pool.done()
        with self._lock:
            self.concluded = True
            left = self._left
        if left is not None:
            left.end(mark)

    def conclude(self, value: Any, error: BaseException | None) -> None:
        """Tell the caller what came of it."""
        self.concluded = True
        if self._told:
            return
        self._told = True
        self.value, self.error = value, error
        # Held no longer than need be, by whatever keeps a future or a traceback.
        self.function = self.args = self.kwargs = self.context = None
        self.deliver()

    def deliver(self) -> None:
        """Wake the caller."""
        raise NotImplementedError

    # -- a caller who leaves -----------------------------------------------------

    @property
    def begun(self) -> bool:
        """Whether a worker has begun it."""
        return self._begun is not None

    def leave(self) -> bool:
        """Go away: not begun, it will not run; begun, it goes on as abandoned work. Tell whether it does."""
        with self._lock:
            self.gone = True
            if self.concluded or self._left is not None:
                return self._left is not None
            begun = self._begun
            if begun is not None:
                self._left = abandoned.Work(self.guard.name, self.title, *begun)
                ledger.add(self._left)
                return True
        self.guard.forsake(self)
        return False


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

    __slots__ = ("_future", "_home")

    def __init__(self, *args: Any) -> None:
        from asyncio import get_running_loop  # noqa: PLC0415  # whoever awaits has it

        super().__init__(*args)
        self._home = get_running_loop()
        self._future = self._home.create_future()

    def deliver(self) -> None:
        """Wake the task, if its loop still runs."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            self._home.call_soon_threadsafe(self._look)

    def wanted(self) -> bool:
        """Tell whether the task is still there."""
        return not (self.gone or self._home.is_closed())

    async def nap(self, seconds: float) -> None:
        """Wait for so long, or until the call has ended."""
        timer = None
        if seconds != float("inf"):
            timer = self._home.call_later(seconds, self._look)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()
        self._future = self._home.create_future()

    def _look(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class Submitted(Work):
    """A call whose caller holds a future."""

    __slots__ = ("future",)

    def __init__(self, *args: Any) -> None:
        from concurrent.futures import Future  # noqa: PLC0415  # imported where it is first needed

        super().__init__(*args)
        self.future: Future[Any] = Future()
        self.future.add_done_callback(self._settled)

    def _settled(self, future: Any) -> None:
        if future.cancelled():
            self.guard.forsake(self)  # it was cancelled while it waited

    def wanted(self) -> bool:
        """Tell whether the future was not cancelled; from here on it cannot be."""
        return self.future.set_running_or_notify_cancel()

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
