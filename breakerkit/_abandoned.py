"""The ledger of abandoned work: what goes on in a thread although nobody waits for it any more.

The ground floor keeps it, for a policy that holds something for a call (a
bulkhead its slot) must hold it until the work has really ended:

    mark = ledger.mark                      # one attribute
    try:
        ...                                 # the call
    finally:
        if ledger.mark != mark:             # the same; nearly always equal
            for work in ledger.since(mark):
                work.on_end(give_back)
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fork as fork
from breakerkit._log import PASSING, fault_in, hook_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["AbandonedWork", "abandoned_work"]


@attrs.frozen(kw_only=True)
class AbandonedWork:
    """One piece of work that nobody waits for any more, as it stood when it was looked at.

    Attributes:
        name: name of the policy that abandoned it.
        function: the qualified name of what runs.
        started: when it began, aware UTC.
        age: seconds since then.
        thread: name of the thread it runs in.
        frames: where it stood, outermost call first; empty if it was just ending.
    """

    name: str
    function: str
    started: datetime
    age: float
    thread: str
    frames: tuple[traceback.FrameSummary, ...] = attrs.field(repr=False, eq=False)

    @property
    def stack(self) -> str:
        """Where it stood, as a traceback shows it; source lines are read when this is asked."""
        return "".join(traceback.format_list(list(self.frames)))


class Work:
    """Work in a thread, from the moment nobody waits for it until it, and what it left, has ended.

    Attributes:
        name: name of the policy that abandoned it.
        function: the qualified name of what runs.
        thread: where it runs.
        started: when it began, by ``time.monotonic``.
        owner: what abandoned it: whatever tells its works from those of others.
        ended: whether it has returned or raised.
    """

    __slots__ = (
        "_born",
        "_by",
        "_callbacks",
        "_left",
        "_serial",
        "ended",
        "function",
        "name",
        "owner",
        "started",
        "thread",
    )

    def __init__(
        self,
        name: str,
        function: str,
        thread: threading.Thread,
        started: float,
        owner: object = None,
    ) -> None:
        self.name = name
        self.function = function
        self.thread = thread
        self.started = started
        self.owner = owner
        self.ended = False
        self._born = time.time() - (time.monotonic() - started)
        #: What is to be told, ``None`` once that was done.
        self._callbacks: list[Callable[[], object]] | None = []
        #: Itself, and the works it abandoned in its turn, that have not ended.
        self._left = 1
        self._by: tuple[int, int] = (0, 0)
        self._serial = 0

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.started

    def stack(self) -> str:
        """Return where it stands now, as a traceback shows it; empty once it has ended."""
        return self.look().stack

    def look(self) -> AbandonedWork:
        """Return a record of it as it stands now."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        return AbandonedWork(
            name=self.name,
            function=self.function,
            started=datetime.fromtimestamp(self._born, UTC),
            age=self.age,
            thread=self.thread.name,
            # The thread may be at other work by now, or gone.
            frames=() if self.ended else _frames(frame),
        )

    def on_end(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once, when this and all that it abandoned in its turn has ended.

        That is at once if it has; else in the thread that does the work. What
        it raises is logged.
        """
        with ledger.lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        _tell(self.name, callback)

    def end(self, mark: int | None = None) -> None:
        """Say, in its own thread, that it has ended; the second time does nothing.

        Args:
            mark: the ledger's when it began; what its thread has abandoned since
                and still runs is waited for by whoever waits for this.
        """
        left = [] if mark is None or mark == ledger.mark else ledger.since(mark)
        with ledger.lock:
            if self.ended:
                return
            self.ended = True
            self._left += len(left)
        ledger.remove(self)
        for one in left:
            one.on_end(self._one_less)
        self._one_less()

    def _one_less(self) -> None:
        with ledger.lock:
            self._left -= 1
            if self._left:
                return
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            _tell(self.name, callback)

    def __repr__(self) -> str:
        how = "ended" if self.ended else f"for {self.age:.3g} s"
        return f"<Work {self.function} abandoned by {self.name!r}, {how}>"


class Ledger:
    """The abandoned work of this process that has not ended; what has is let go.

    Attributes:
        mark: changes whenever work is abandoned; compare it before and after a call.
        lock: guards it and its works; nobody's code runs under it.
    """

    __slots__ = ("__weakref__", "_running", "lock", "mark")

    def __init__(self) -> None:
        self.mark = 0
        self.lock = threading.RLock()
        self._running: dict[int, Work] = {}
        fork.remember(self)

    def add(self, *works: Work) -> None:
        """Enter works as abandoned, just now and by this very thread or task.

        One that is listed already is taken over from the thread that abandoned
        it, by the caller who gets that thread's result. One that has ended is not.
        """
        caller = _caller()
        with self.lock:
            for work in works:
                self._running.pop(work._serial, None)
                if not work.ended:
                    self.mark += 1
                    work._by, work._serial = caller, self.mark
                    self._running[self.mark] = work

    def remove(self, work: Work) -> None:
        """Let go of a work that has ended."""
        with self.lock:
            self._running.pop(work._serial, None)

    def since(self, mark: int) -> list[Work]:
        """Return the works that this thread (or task) has abandoned since ``mark`` and that still run."""
        caller = _caller()
        return [one for one in self.works() if one._serial > mark and one._by == caller]

    def works(self) -> list[Work]:
        """Return all that run, oldest first."""
        with self.lock:
            found = list(self._running.values())
        return sorted(found, key=lambda one: one.started)

    def after_fork(self) -> None:
        """Start empty in a forked child, which has none of the parent's threads."""
        self.lock = threading.RLock()
        self._running = {}


#: The one ledger; the mark is never reset, so marks of before a fork stay right.
ledger = Ledger()


def abandoned_work() -> list[AbandonedWork]:
    """Return what goes on in this process although nobody waits for it, oldest first.

    Example:
        >>> abandoned_work()
        []
    """
    return [one.look() for one in ledger.works()]


def _caller() -> tuple[int, int]:
    """Return what tells this thread, or this task of its event loop, from all others that live."""
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return threading.get_ident(), 0
    task = asyncio.current_task()
    return threading.get_ident(), 0 if task is None else id(task)


def _frames(frame: FrameType | None) -> tuple[traceback.FrameSummary, ...]:
    # Not traceback.extract_stack: that asks the file system about every file.
    found: list[traceback.FrameSummary] = []
    while frame is not None:
        code = frame.f_code
        found.append(
            traceback.FrameSummary(
                code.co_filename, frame.f_lineno, code.co_name, lookup_line=False
            )
        )
        frame = frame.f_back
    return tuple(reversed(found))


def _tell(name: str, callback: Callable[[], object]) -> None:
    try:
        callback()
    except PASSING:
        raise
    except BaseException as error:
        fault_in(f"end of abandoned work, {hook_name(callback)}", name, error)
