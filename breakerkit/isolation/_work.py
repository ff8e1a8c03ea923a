"""One call that is run by a worker: it waits for its slot by itself, runs, gives the slot back, is told."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from breakerkit import _abandoned as abandoned
from breakerkit import _ambient as ambient
from breakerkit._abandoned import ledger
from breakerkit.errors import CallCancelledError
from breakerkit.isolation._waiters import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextvars import Context

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
        over: whether it has ended, or will never begin: nobody can leave it any more.
        concluded: whether what came of it is here, too.
        inherited: works that it has abandoned in its turn, for the caller who gets the result.
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
        "inherited",
        "kwargs",
        "over",
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
        self.context: Context | None = self.make_context()
        self.title = title
        # Reentrant: a future that is cancelled in the middle of it calls back at once.
        self._lock = threading.RLock()
        self._begun: tuple[threading.Thread, float] | None = None
        self._left: abandoned.Work | None = None
        #: Whether the caller has gone away.
        self.gone = False
        self.over = self.concluded = self._told = False
        self.inherited: list[abandoned.Work] = []
        self.value: Any = None
        self.error: BaseException | None = None

    @staticmethod
    def make_context() -> Context:
        """Return the context variables it runs with: it is the call itself, and under the call's deadline."""
        return ambient.context_of_the_call()

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
        if mark != ledger.mark:
            self.inherited = ledger.since(mark)
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
            if self._begun is not None or self.over:
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
            self.over = True
            left = self._left
        if left is not None:
            left.end(mark)

    def conclude(self, value: Any, error: BaseException | None) -> None:
        """Tell the caller what came of it."""
        with self._lock:
            if self._told:
                return
            self._told = self.over = True
            self.value, self.error = value, error
            self.concluded = True  # last: whoever sees it takes the result
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
            if self.over or self._left is not None:
                return self._left is not None
            begun = self._begun
            if begun is not None:
                self._left = abandoned.Work(self.guard.name, self.title, *begun)
                ledger.add(self._left)
                return True
        self.guard.forsake(self)
        return False
