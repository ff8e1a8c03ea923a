"""A call that waits for a slot: how long it may, and how it is woken, in a thread or in an event loop."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit.errors import CallCancelledError
from breakerkit.isolation.events import FullReason

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit.clock import Clock
    from breakerkit.errors import CallTimeoutError, DeadlineExceededError
    from breakerkit.isolation._slots import Slot

#: Who waits looks up after so many seconds, whatever happens: an interrupt may have swallowed a call.
LONGEST_NAP = 1.0
#: The same where time is not that of ``time.monotonic``, or somebody may throw a switch:
#: a clock that is moved by hand wakes nobody.
SHORT_NAP = 0.01


class Patience:
    """How long one call may wait: for ``max_wait`` and until the deadline around it.

    Attributes:
        since: when it began to wait, on the bulkhead's clock.
        reason: why it would end now.
    """

    __slots__ = ("_clock", "_end", "_limit", "nap", "reason", "since")

    def __init__(self, clock: Clock, max_wait: float | None) -> None:
        self._clock = clock
        self.since = clock.now()
        self._end = float("inf") if max_wait is None else self.since + max_wait
        self._limit = ambient.live(ambient.limit.get())
        self.reason = FullReason.MAX_WAIT
        steady = clock.now is time.monotonic or max_wait is None
        if self._limit is not None:
            steady = steady and ambient.steady(self._limit)
        #: The longest time to wait without looking up.
        self.nap = LONGEST_NAP if steady else SHORT_NAP

    @property
    def ends(self) -> bool:
        """Whether anything ends the wait: time, or a signal.

        Raises:
            CallCancelledError: the signal of the calls around is set.
        """
        signal = None if self._limit is None else self._limit[3]
        return self.left() != float("inf") or signal is not None

    def admitted(self) -> None:
        """Hear that there is a slot: from here on only the deadline counts."""
        self._end = float("inf")

    def deadline(self) -> CallTimeoutError:
        """Return the error for work that goes on though the deadline has passed."""
        limit = self._limit
        assert limit is not None
        return ambient.expired(ambient.binding(limit)[1], abandoned=True)

    def unbegun(self) -> DeadlineExceededError:
        """Return the rejection for a call that has not begun when the deadline has passed."""
        limit = self._limit
        assert limit is not None
        return ambient.unbegun(ambient.binding(limit)[1])

    def pause(self) -> float:
        """Return the seconds to the next look, 0.0 if no time is left."""
        left = self.left()
        return max(0.0, min(left, self.nap))

    def pause_async(self) -> float:
        """Return the same for a task: where time is steady it needs no look before the end."""
        left = self.left()
        return max(0.0, left if left < self.nap or self.nap == LONGEST_NAP else self.nap)

    def left(self) -> float:
        """Return the seconds that are left, ``inf`` if nothing ends the wait; sets ``reason``.

        Raises:
            CallCancelledError: the signal of the calls around is set.
        """
        own = self._end - self._clock.now() if self._end != float("inf") else self._end
        limit, self.reason = self._limit, FullReason.MAX_WAIT
        if limit is None:
            return own
        signal = limit[3]
        if signal is not None and signal.cancelled:
            error = CallCancelledError(limit[1].name, signal.reason)
            error.begun = False
            raise error
        around = ambient.binding(limit)[0]
        if around < own:
            self.reason = FullReason.DEADLINE
            return around
        return own


class Waiter:
    """One call in the queue.

    Attributes:
        share: its class, ``None`` for the rest.
        loop: the event loop it waits in, if it does.
        queued: whether its wait is yet to be taken down.
        slot: the slot it was given.
        refused: why it will get none.
        since: when it joined, on the bulkhead's clock.
    """

    __slots__ = ("loop", "queued", "refused", "share", "since", "slot")

    def __init__(self, share: Hashable, since: float) -> None:
        self.share = share
        self.since = since
        self.loop: Any = None
        self.queued = False
        self.slot: Slot | None = None
        self.refused: FullReason | None = None

    @property
    def decided(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.slot is not None or self.refused is not None

    def ring(self) -> bool:
        """Wake whoever waits; tell whether there is anybody. The second time does no harm."""
        raise NotImplementedError


class Bell(Waiter):
    """A thread that waits."""

    __slots__ = ("_bell",)

    def __init__(self, share: Hashable, since: float) -> None:
        super().__init__(share, since)
        self._bell = threading.Lock()
        self._bell.acquire()

    def ring(self) -> bool:
        """Wake it; ringing twice is no harm."""
        with contextlib.suppress(RuntimeError):  # it has been rung, and not been heard yet
            self._bell.release()
        return True

    def wait(self, patience: Patience, look: Callable[[], object]) -> None:
        """Wait until it is decided or there is no time left; ``look`` after each nap."""
        while not self.decided:
            pause = patience.pause()
            if not pause:
                return
            self._bell.acquire(timeout=pause)
            look()


class Promise(Waiter):
    """A task that waits, in its own event loop."""

    __slots__ = ("_future",)

    def __init__(self, share: Hashable, since: float, loop: Any) -> None:
        super().__init__(share, since)
        self.loop = loop
        self._future = loop.create_future()

    def ring(self) -> bool:
        """Wake it, from whatever thread; ``False`` if its loop is closed."""
        if sys.modules["asyncio"]._get_running_loop() is self.loop:
            self._look()
            return True
        try:
            self.loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            return False
        return True

    def _look(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, patience: Patience) -> None:
        """Wait until it is decided or there is no time left."""
        while not self.decided:
            pause = patience.pause_async()
            if not pause:
                return
            await self._nap(pause)

    async def _nap(self, seconds: float) -> None:
        """Sleep until rung; no timer where only a ring can end it."""
        timer = None
        if seconds != float("inf"):
            timer = self.loop.call_later(seconds, self._look)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()
        self._future = self.loop.create_future()
