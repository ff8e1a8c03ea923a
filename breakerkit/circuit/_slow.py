"""Slow calls: which calls still run, which of them have turned slow, and the share of slow ones."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING

from breakerkit._counters import drawn

if TYPE_CHECKING:
    from breakerkit.circuit._states import Lease
    from breakerkit.circuit._window import Tally, Window


class SlowCalls:
    """A tally of its own: a cancelled call that was slow is in it, a failed fast one is not slow.

    A call draws a ticket when it ends, or when it turns slow while it still
    runs. It stands in ``running`` until then, and whoever takes it out there,
    which one atomic operation decides, draws its ticket: so the usual call is
    watched without a lock. All methods but the first three are called under
    the guard's lock.
    """

    __slots__ = ("judge_at", "limit", "own", "running", "seen", "tickets", "window")

    def __init__(self, limit: float, window: Window, first: int = 1) -> None:
        self.limit = limit
        self.window = window
        self.tickets = itertools.count(first)
        # Oldest first; a plain dict would look for its first entry past all that are gone.
        self.running: OrderedDict[Lease, bool] = OrderedDict()
        self.judge_at: float = 0  # the first ticket at which a fast call may change a verdict
        self.seen = first - 1  # the last ticket drawn when the rule last looked
        self.own: list[int] = []  # tickets drawn under the lock since then

    def start(self, lease: Lease) -> None:
        """Keep an eye on a call from its admission on."""
        self.running[lease] = True

    def hanging(self, now: float) -> bool:
        """Tell whether a call has turned slow that nobody has counted yet, or may have."""
        try:
            oldest = next(iter(self.running), None)
        except RuntimeError:  # another thread came between: the lock will tell
            return True
        return oldest is not None and now - oldest.started >= self.limit

    def passed(self, lease: Lease, now: float) -> int:
        """Take in a fast completed call and return its ticket; 0: it, or one that hangs, needs the lock."""
        if self.window.timed or now - lease.started >= self.limit:
            return 0
        if len(self.running) > 1 and self.hanging(now):  # alone, it is the oldest itself
            return 0
        return next(self.tickets) if self.running.pop(lease, False) else 0

    def sweep(self, now: float) -> bool:
        """Count calls that run past the limit as slow, once each; tell whether there were any."""
        found = False
        if not self.hanging(now):
            return found
        for lease in list(self.running):  # a copy: calls come and go without the lock
            if now - lease.started < self.limit:
                break
            if self.running.pop(lease, False):
                found = True
                self._mark(lease, now)
        return found

    def finish(self, lease: Lease, now: float, *, completed: bool) -> bool:
        """Let go of a call, once; a cancelled one joins only if slow. Tell whether it turned slow."""
        self.running.pop(lease, None)
        if lease.slow or lease.finished:
            return False
        lease.finished = True
        if now - lease.started >= self.limit:
            self._mark(lease, now)
        elif completed:
            if self.window.timed:
                self.window.roll(drawn(self.tickets), now)
            self._draw()
        return lease.slow

    def forget(self, lease: Lease, now: float) -> None:
        """Let go of a call that nobody will hear of again, unless it is slow; takes no lock."""
        if now - lease.started < self.limit and self.running.pop(lease, False):
            lease.finished = True

    def tally(self, now: float) -> Tally:
        """Count calls and slow calls at ``now``."""
        return self.window.tally(drawn(self.tickets), now)

    def look(self, minimum: int, now: float) -> tuple[Tally, Tally]:
        """Count as of the call that makes ``minimum``, if others have passed it, and as of now."""
        last = drawn(self.tickets)
        at, self.seen = min(last, self.window.reaches(minimum, self.seen)), last
        if at in self.own:
            at = self.own[-1]  # what joins under one hold of the lock is judged together
        self.own = []
        return self.window.tally(int(at), now), self.window.tally(last, now)

    def saw(self) -> None:
        """Remember that the rule has looked at all there is, and found nothing."""
        self.seen, self.own = drawn(self.tickets), []

    def watch(self, minimum: int) -> None:
        """Say from which ticket on a fast call may change a verdict."""
        self.judge_at = self.window.reaches(minimum, self.seen)

    def successor(self) -> SlowCalls:
        """Return a watch with the same evidence over no call: those that run belong to the past."""
        return SlowCalls(self.limit, self.window, next(self.tickets))

    def adapt(self, limit: float, size: float, now: float) -> None:
        """Take over a new limit, and a new size of the same kind of window."""
        self.limit = limit
        self.window.resize(size, drawn(self.tickets), now)

    def _mark(self, lease: Lease, now: float) -> None:
        lease.slow = True
        self.window.mark(self._draw(), now)

    def _draw(self) -> int:
        ticket = next(self.tickets)
        self.own.append(ticket)
        return ticket
