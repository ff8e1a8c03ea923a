"""One attempt per key at a time: who makes it, who waits for it, and what came of it; no clock, no store."""

from __future__ import annotations

import enum
import threading
from typing import TYPE_CHECKING, Any

from breakerkit import _fork as fork

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


#: With fewer attempts than this nobody looks for those of closed event loops.
CROWD = 64


class Ended(enum.Enum):
    """How an attempt ended."""

    VALUE = "the origin answered"
    FOUND = "somebody else had stored a value by then"
    FAILED = "the origin failed, or was refused"
    PASSED = "an error that is the caller's"
    HANDED_OVER = "it was given up: somebody else may try"
    ELSEWHERE = "another process is at it"


class Attempt:
    """One attempt to load one key.

    Attributes:
        key: the key.
        ends: when it loses the key, by the cache's clock.
        how: how it ended; ``None`` while it runs.
        value: what the origin answered.
        error: how it failed, for all who wait.
        trace: how far that had come when it failed: those who raise it begin there.
        personal: an error for the one who made it alone.
        callers: how many callers care.
        detached: whether it goes on when nobody does.
        begun: whether something runs it, and will end it.
        task: what runs it, where a task does.
        apart: whether it is made beside the one that has the key, which waits for it.
        waits: the attempts for which its origin waits.
    """

    __slots__ = (
        "_listeners", "_turn", "apart", "begun", "callers", "detached", "ends", "error", "how",
        "key", "personal", "task", "trace", "value", "waits",
    )  # fmt: skip

    def __init__(self, key: str, ends: float, turn: threading.RLock) -> None:
        self.key = key
        self.ends = ends
        self.how: Ended | None = None
        self.value: Any = None
        self.error: Exception | None = None
        self.personal: BaseException | None = None
        self.callers = 0
        self.detached = False
        self.begun = False
        self.trace: Any = None
        self.task: asyncio.Task[Any] | None = None
        self.apart = False
        self.waits: list[Attempt] = []
        self._turn = turn
        self._listeners: list[Callable[[], object]] = []

    def listen(self, tell: Callable[[], object]) -> bool:
        """Let ``tell`` be called when it ends; ``False`` if it has."""
        with self._turn:
            if self.how is None:
                self._listeners.append(tell)
            return self.how is None

    def forget(self, tell: Callable[[], object]) -> None:
        """Let it not be called any more."""
        with self._turn:
            if tell in self._listeners:
                self._listeners.remove(tell)

    def belongs(self, error: BaseException) -> None:
        """Keep an error for the caller who makes it, if that is still there: it leads to frames that lead here."""
        with self._turn:
            if self.callers:
                self.personal = error

    @property
    def dead(self) -> bool:
        """Whether nobody will end it: its event loop was closed under it."""
        return self.task is not None and self.task.get_loop().is_closed()

    def settle(self, how: Ended, *, value: Any = None, error: Exception | None = None) -> None:
        """End it; the second time only tells those whom an interrupt has left waiting."""
        with self._turn:
            if self.how is None:
                if self.callers:
                    self.value, self.error = value, error
                    self.trace = None if error is None else error.__traceback__
                self.how = how  # last: whoever has waited long enough looks at it without the lock
        while self._listeners:
            # Told first and forgotten then: each hears of it at least once.
            for tell in tuple(self._listeners):
                tell()
                self.forget(tell)


class Part:
    """One caller's part in an attempt; made before it is taken, so that an interrupt leaves none behind.

    Attributes:
        attempt: the attempt; ``None`` before it is known.
        leads: whether it is the caller's to make.
    """

    __slots__ = ("attempt", "leads")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.leads = False


class Attempts:
    """The attempts of one cache that run, by key; safe across threads, tasks and loops."""

    __slots__ = ("__weakref__", "_crowd", "_running", "_turn")

    def __init__(self) -> None:
        self._running: dict[str, Attempt] = {}
        #: With so many one looks for those that nobody will ever end.
        self._crowd = CROWD
        self._turn = threading.RLock()
        fork.remember(self)

    def after_fork(self) -> None:
        """Start with none in a forked child: they run in the parent, but for one that forks itself."""
        self._turn = threading.RLock()
        for one in self._running.values():
            one._turn = self._turn
        self._running = {}

    def join(self, part: Part, key: str, now: float, patience: float) -> Attempt:
        """Take part in the attempt that has the key, or in one that is the caller's to make.

        One that has run for longer than its ``patience`` has lost the key.
        """
        with self._turn:
            one = self._running.get(key)
            part.leads = one is None or now >= one.ends or one.dead
            if one is None or part.leads:
                self._sweep()
                one = Attempt(key, now + patience, self._turn)
                self._running[key] = one
            # No call since it has the key: signals come after calls.
            one.callers += 1
            part.attempt = one
        return one

    def apart(self, part: Part, key: str) -> Attempt:
        """Take part in an attempt of one's own that has no key: the one that has it waits for this caller."""
        one = Attempt(key, float("inf"), self._turn)
        one.apart = part.leads = True
        one.callers += 1
        part.attempt = one
        return one

    def _sweep(self) -> None:
        """Drop attempts whose event loop was closed under them, now and then. Under the lock."""
        if len(self._running) < self._crowd:
            return
        gone = [key for key, one in self._running.items() if one.dead]
        for key in gone:
            del self._running[key]
        self._crowd = max(CROWD, 2 * len(self._running))

    def leave(self, part: Part) -> asyncio.Task[Any] | None:
        """Care no longer; an attempt that nobody cares for is given up, unless it is detached.

        So is one whose maker leaves before it has begun: an interrupt may come at any place.
        The second time does nothing.

        Returns:
            The task that shall be cancelled for it.
        """
        one = part.attempt
        if one is None:
            return None
        with self._turn:
            part.attempt = None
            one.callers -= 1
            task = None if one.callers or one.detached or one.how is not None else one.task
            if not one.callers:
                # A shared error leads to frames that lead here.
                one.value = one.error = one.personal = one.trace = None
        if part.leads and not one.begun:
            self.settle(one, Ended.HANDED_OVER)
        return task

    def settle(
        self, one: Attempt, how: Ended, *, value: Any = None, error: Exception | None = None
    ) -> None:
        """End an attempt, and give its key back if it still has it."""
        with self._turn:
            if self._running.get(one.key) is one:
                del self._running[one.key]
        one.settle(how, value=value, error=error)

    def drop(self, prefix: str, *, exact: bool) -> list[Attempt]:
        """Take their keys from attempts that run, and return these: new callers do not want what they load."""
        with self._turn:
            keys = [
                key for key in ((prefix,) if exact else tuple(self._running))
                if key in self._running and key.startswith(prefix)
            ]  # fmt: skip
            return [self._running.pop(key) for key in keys]

    def __len__(self) -> int:
        return len(self._running)
