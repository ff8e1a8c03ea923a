"""Slow calls: which calls still run, which of them have turned slow, and the share of slow ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakerkit.circuit._states import Lease
    from breakerkit.circuit._window import Tally, Window


class SlowCalls:
    """A tally of its own: a cancelled call that was slow is in it, a failed fast one is not slow.

    Its tickets are drawn under the guard's lock, one for each call that has
    completed, or has turned slow while it still ran.
    """

    __slots__ = ("_last", "_limit", "_running", "_window")

    def __init__(self, limit: float, window: Window) -> None:
        self._limit = limit
        self._window = window
        self._last = 0
        self._running: dict[Lease, None] = {}  # oldest first

    def start(self, lease: Lease) -> None:
        """Keep an eye on a call from its admission on."""
        self._running[lease] = None

    def sweep(self, now: float) -> bool:
        """Count calls that run past the limit as slow, once each; tell whether there were any."""
        found = False
        for lease in self._running:
            if now - lease.started < self._limit:
                break
            if not lease.slow:
                lease.slow = found = True
                self._last += 1
                self._window.mark(self._last, now)
        return found

    def finish(self, lease: Lease, now: float, *, completed: bool) -> None:
        """Let go of a call that has ended; a completed one that was not slow joins as such."""
        self._running.pop(lease, None)
        if completed and not lease.slow:
            self._window.roll(self._last, now)
            self._last += 1

    @property
    def marked(self) -> int:
        """How many slow calls are remembered, some of them perhaps past the window."""
        return self._window.marked

    def tally(self, now: float) -> Tally:
        """Count calls and slow calls at ``now``, changing nothing."""
        return self._window.tally(self._last, now)

    def forget_running(self) -> None:
        """Watch no call any more: their results belong to an earlier generation."""
        self._running = {}

    def adapt(self, limit: float, size: float, now: float) -> None:
        """Take over a new limit, and a new size of the same kind of window."""
        self._limit = limit
        self._window.resize(size, self._last, now)
