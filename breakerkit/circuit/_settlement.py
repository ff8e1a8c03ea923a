"""The one settlement of every lease: how a call's end, once known, becomes evidence or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit._outcome import Outcome
from breakerkit.circuit import _telling as telling
from breakerkit.circuit._core import Core
from breakerkit.circuit._states import Closed, HalfOpen, Lease

if TYPE_CHECKING:
    from breakerkit._callbacks import Later
    from breakerkit.circuit._moves import Entry
    from breakerkit.events import Evidence


class Settlement(Core):
    """The ends of a call that need the lock, and those that nobody will ever report."""

    __slots__ = ()

    def lose(self, entry: Entry) -> None:
        """A filter was interrupted, or the clock is broken: no evidence, and the next call frees the slot."""
        if isinstance(entry, Lease):
            self.dropped.append(entry)
        else:
            next(self.machine.counts.forgotten)

    def ignored(self, entry: Entry) -> None:
        """Take in that the call was not run after all, or that nobody will know how it ended."""
        self.end(entry, Outcome.NEUTRAL, None, self.clock.now(), None)

    def decide(
        self, entry: Entry, outcome: Outcome, error: BaseException | None, later: Later | None
    ) -> None:
        """Settle the outcome of a block that goes on; its slot stays taken until it ends."""
        self.end(entry, outcome, error, self.clock.now(), later, ends=False)

    def release(self, entry: Entry) -> None:
        """Free the slot of a block whose outcome was decided before its end."""
        if isinstance(entry, Lease):
            self.end(entry, Outcome.NEUTRAL, None, self.clock.now(), None)

    def drop(self, entry: Entry, *, decided: bool = False) -> None:
        """Give a slot back from a destructor: no lock may be taken there, the next call does it.

        An entry of the lock-free path holds no slot, and nobody may come by to settle it.
        """
        if isinstance(entry, Lease):
            slow = entry.period.slow if isinstance(entry.period, Closed) else None
            if slow is not None:
                # As of now: it may be long until the next call settles the rest.
                slow.forget(entry, self.clock.now())
            self.dropped.append(entry)
        elif not decided:
            next(self.machine.counts.forgotten)

    def end(
        self,
        entry: Entry,
        outcome: Outcome,
        error: BaseException | None,
        now: float,
        later: Later | None,
        *,
        ends: bool = True,
    ) -> None:
        if self.between():
            # A destructor or signal handler in the middle of a change: no evidence.
            if ends:
                self.dropped.append(entry)
            return
        with self.lock:
            self.mode_now(now)
            judged = self._settle(entry, outcome, error, now, ends=ends)
            moves, mode = self.changed()
        self.tell(moves, mode, later)
        if judged is not None and not moves:
            self._ask_rules(entry, judged, error, now, later)

    def _settle(
        self, entry: Entry, outcome: Outcome, error: BaseException | None, now: float, *, ends: bool
    ) -> Evidence | None:
        """Settle an entry once; return the evidence the user's rules must judge, if any."""
        if isinstance(entry, Lease):
            if entry.settled or not entry.held:
                return None
            entry.settled = ends
            if entry.decided:
                self.machine.release(entry, now) if ends else None
                return None
            entry.decided = True
        self.machine.settle(entry, outcome, now, error)
        self.reports.ended(entry, outcome, error, now)
        period = self.machine.state
        if isinstance(entry, Lease) and ends and isinstance(entry.period, HalfOpen):
            self.machine.release(entry, now)
        if outcome is Outcome.NEUTRAL or not self.config.trip_rules:
            return None
        own = isinstance(entry, Lease) and entry.period is period
        return period.evidence(now, error) if own and isinstance(period, Closed) else None

    def _ask_rules(
        self,
        entry: Entry,
        evidence: Evidence,
        error: BaseException | None,
        now: float,
        later: Later | None,
    ) -> None:
        reason = telling.user_verdict(self.name, self.config, evidence)
        if reason is None or not isinstance(entry, Lease):
            return
        with self.lock:
            self.machine.trip(entry.period, reason, now, error)
            moves, mode = self.changed()
        self.tell(moves, mode, later)

    def settle_dropped(self, now: float) -> None:
        """Settle what destructors have left. Under the lock."""
        while self.dropped:
            self._settle(self.dropped.pop(), Outcome.NEUTRAL, None, now, ends=True)
