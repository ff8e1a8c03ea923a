"""One call in a thread, and the one who waits for it: who of them is first to leave, and what then."""

from __future__ import annotations

import threading
import time
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit._abandoned import Work, ledger
from breakerkit._log import hook_name
from breakerkit.cancel import CancelSignal

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._ambient import Limit
    from breakerkit.deadline.guard import TimeoutGuard

#: Who waits looks up after so many seconds: a signal that comes just before the
#: wait does not end it, and Ctrl-C shall.
NAP = 1.0


class Job:
    """A call that runs in a worker, with the context variables of its caller.

    It holds one of its timeout's places from `TimeoutGuard.take` until it has
    ended, whoever waits for it or does not.
    """

    __slots__ = (
        "_arguments",
        "_begun",
        "_context",
        "_done",
        "_ended",
        "_error",
        "_function",
        "_inherited",
        "_left",
        "_limit",
        "_owner",
        "_signal",
        "_thread",
        "_turn",
        "_value",
        "_work",
        "places",
    )

    def __init__(
        self,
        owner: TimeoutGuard,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        limit: Limit,
    ) -> None:
        self.places: Any = None
        self._owner = owner
        self._function = function
        self._arguments: Any = (args, kwargs)
        self._signal = CancelSignal()
        self._limit = ambient.bearing_too(limit, self._signal)
        self._context: Any = copy_context()
        #: Guards who leaves first.
        self._turn = threading.Lock()
        self._begun = 0.0
        self._ended = self._left = False
        self._thread: threading.Thread | None = None
        self._work: Work | None = None
        #: Works that it has abandoned in its turn and that still run.
        self._inherited: list[Work] = []
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    # -- in the worker -------------------------------------------------------

    def run(self, rest: Callable[[], None]) -> None:
        """Run the call, unless its caller has left already, and tell whoever waits."""
        mark = ledger.mark
        if self._begin():
            try:
                self._value = self._context.run(self._call)
            except BaseException as error:
                self._error = error
        self._arguments = self._context = None  # never read again, and may be large
        if mark != ledger.mark:
            self._inherited = ledger.since(mark)  # for a caller who gets the result
        with self._turn:
            self._ended = True
        self._owner.give_back(self)
        if self._left:
            self._drop(mark)  # tells people of it, so this thread is not free yet
            rest()
        else:
            rest()
            self._done.release()

    def _begin(self) -> bool:
        with self._turn:
            if self._left:
                return False
            self._thread = threading.current_thread()
            self._begun = time.monotonic()
            return True

    def _call(self) -> Any:
        ambient.limit.set(self._limit)
        args, kwargs = self._arguments
        return self._function(*args, **kwargs)

    def _drop(self, mark: int) -> None:
        """End as abandoned: nobody wants the value, and nobody shall miss the error."""
        work, error = self._work, self._error
        self._value = self._error = self._work = None
        if work is not None:
            work.end(mark)
            self._owner.work_ended(work, error)
        del error  # its traceback leads here

    # -- in the caller ---------------------------------------------------------

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most so long; tell whether it has come."""
        left = float("inf") if seconds is None else seconds
        # Counted in naps and not by a clock: a test may have stopped that.
        while left > NAP:
            if self._done.acquire(timeout=NAP):
                return True
            left -= NAP
        return self._done.acquire(timeout=max(0.0, left))

    def leave(self) -> bool:
        """Leave it alone; ``False`` if it has just ended, so that its result is there after all."""
        with self._turn:
            if self._ended:
                return False
            self._left = True
            if self._thread is not None:
                name = hook_name(self._function)
                self._work = Work(self._owner.name, name, self._thread, self._begun, self._owner)
                ledger.add(self._work)
                self._owner.work_abandoned(self._work)  # before it can be told that it ended
        self._signal.cancel(f"abandoned by timeout {self._owner.name!r}")
        self._owner.hub.drain()
        return True

    @property
    def begun(self) -> bool:
        """Whether a worker has come to it before its caller left."""
        return self._thread is not None

    def result(self) -> Any:
        """Return the value, or raise the error, of a job that was waited for."""
        if self._inherited:
            ledger.add(*self._inherited)  # its caller is answerable for them now
        if (error := self._error) is None:
            return self._value
        self._error = None
        try:
            raise error
        finally:
            del error  # its traceback leads here

    def __del__(self) -> None:
        # If an interrupt came before a worker had it, and another one after that.
        if getattr(self, "places", None) is not None:
            self._owner.give_back(self)
