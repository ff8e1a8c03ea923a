"""The guard in front of a call: it lets in, and takes in how the call ended, without a lock where it can."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from breakerkit._outcome import Outcome
from breakerkit.circuit import _switches as switches
from breakerkit.circuit._moves import Refusal, refused
from breakerkit.circuit._settlement import Settlement
from breakerkit.circuit._states import Closed, Lease, Open
from breakerkit.errors import CircuitOpenError, ProbeLimitError
from breakerkit.events import CallSucceeded, Mode, OpenReason

if TYPE_CHECKING:
    from breakerkit._callbacks import Later
    from breakerkit.circuit._moves import Entry, Move


#: Makes a rejection without its ``__init__``, which only puts these very arguments in place.
_ready = BaseException.__new__


class Guard(Settlement):
    """What stands in front of a call: `admit`, then exactly one of `succeeded` and `failed`."""

    __slots__ = ()

    #: An admission never waits.
    waits = False

    # -- admission ---------------------------------------------------------

    def admit(self, later: Later | None = None) -> Entry | CircuitOpenError:
        """Let a call in, or return the rejection to be raised.

        Args:
            later: where an async caller collects coroutine callbacks, should
                this admission open the breaker.

        Returns:
            An entry; or a `CircuitOpenError`: it is open, or half-open with
            every probe slot taken.
        """
        now = self.clock.now()
        state = self.machine.state
        if type(state) is Closed and self.plain and not self.dropped:
            # A closed breaker lets everybody in; only slow calls must be kept in mind.
            lease = Lease(state, now)
            slow = state.slow
            if slow is None:
                return lease
            if not slow.running or not slow.hanging(now):
                slow.running[lease] = True
                return lease
        elif type(state) is Open and self.quiet and state.since <= now < state.until:
            # Rejections change nothing, so during an outage they take no lock either.
            next(self.rejections)
            wait = state.until - now
            return _ready(CircuitOpenError, self.name, state.reason, wait, state.opened_at)
        if self.between():
            return self._admit_between(now)
        entry, moves, mode = self._admit_in_turn(now)
        try:
            self.tell(moves, mode, later)
        except BaseException:
            if isinstance(entry, Lease):
                self.dropped.append(entry)
            raise
        opened = moves[-1].opened if moves else None
        if opened is not None and isinstance(entry, CircuitOpenError) and mode is Mode.AUTO:
            # Only now has a callable said how long the period lasts that this admission began.
            return CircuitOpenError(
                self.name, opened.reason, opened.remaining(now), opened.opened_at
            )
        return entry

    def _admit_in_turn(self, now: float) -> tuple[Lease | CircuitOpenError, list[Move], Mode]:
        """Admit under the lock.

        Should it have opened after ``now``, then another thread did that while
        this one waited, or the clock has stepped back: a second reading tells.
        """
        with self.lock:
            if not self.machine.opened_after(now):
                return self._admit_locked(now)
        now = self.clock.now()
        with self.lock:
            return self._admit_locked(now)

    def _admit_locked(self, now: float) -> tuple[Lease | CircuitOpenError, list[Move], Mode]:
        entry = self._admit(now)
        moves, mode = self.changed()
        if isinstance(entry, Refusal):
            entry = self._refuse(entry, now, mode)  # after the moves: events have an order
        return entry, moves, mode

    def _admit_between(self, now: float) -> Lease | CircuitOpenError:
        """Admit a call of a destructor or signal handler that came in the middle of a change.

        What it does is counted and is no evidence; a probe it cannot be.
        """
        state, held = self.machine.state, switches.in_force(self.handles, now)
        if held is not None and held.mode is Mode.FORCED_OPEN:
            return self._refuse_forced(now)
        if held is not None and held.mode is Mode.DISABLED:
            return Lease.unrecorded(now)
        if held is not None or isinstance(state, Closed):
            return Lease(None, now)
        if isinstance(state, Open):
            return self._refuse(refused(state, now), now, Mode.AUTO)
        return self._refuse(
            Refusal(state.after.reason, 0.0, state.after.opened_at, True), now, Mode.AUTO
        )

    def _admit(self, now: float) -> Lease | Refusal | CircuitOpenError:
        self.settle_dropped(now)
        mode = self.mode_now(now)
        if mode is Mode.DISABLED:
            return Lease.unrecorded(now)
        if mode is Mode.FORCED_OPEN:
            return self._refuse_forced(now)
        return self.machine.admit(now)

    def _refuse(self, refusal: Refusal, now: float, mode: Mode) -> Lease | CircuitOpenError:
        self.reports.rejected(refusal.reason, refusal.retry_after, mode)
        if mode is Mode.OBSERVE:
            return Lease(None, now)
        next(self.machine.counts.rejections)
        kind = ProbeLimitError if refusal.half_open else CircuitOpenError
        return kind(self.name, refusal.reason, refusal.retry_after, refusal.opened_at)

    def _refuse_forced(self, now: float) -> CircuitOpenError:
        next(self.machine.counts.rejections)
        wait = switches.forced_for(self.handles, now)
        self.reports.rejected(OpenReason.FORCED, wait, Mode.FORCED_OPEN)
        since = min(one.since for one in self.handles if one.mode is Mode.FORCED_OPEN)
        return CircuitOpenError(self.name, OpenReason.FORCED, wait, since)

    # -- the end of a call -------------------------------------------------

    def succeeded(
        self,
        entry: Entry,
        ticket: int,
        value: object,
        later: Later | None = None,
        now: float | None = None,
    ) -> None:
        """Take in a returned value that needs more than its ticket."""
        if now is None:
            try:
                now = self.clock.now()
            except BaseException:
                if isinstance(entry, Lease):  # a ticket has been counted already
                    self.lose(entry)
                raise
        if isinstance(entry, Closed):
            if ticket >= entry.judge_at or now >= entry.edge:
                self._attend(entry, ticket, now, later)
        elif not self._passed(entry, now, later) and entry.held:
            try:
                outcome = self.classifier.value(value)
            except BaseException:
                self.lose(entry)
                raise
            self.end(entry, outcome, None, now, later)

    def _attend(
        self,
        period: Closed,
        ticket: int,
        now: float,
        later: Later | None,
        lease: Lease | None = None,
    ) -> None:
        """Take in a success, its ticket drawn, that may change a verdict or is late."""
        if self.between():
            return  # of a destructor or signal handler in the middle of a change: no evidence
        with self.lock:
            self.machine.succeed(period, ticket, now)
            if lease is not None:
                self.reports.ended(lease, Outcome.SUCCESS, None, now)
            moves, mode = self.changed()
        self.tell(moves, mode, later)

    def _passed(self, lease: Lease, now: float, later: Later | None) -> bool:
        """Take in the success of a lease without the lock, in the usual case; tell whether it was."""
        period = lease.period
        if not isinstance(period, Closed) or not self.plain:
            return False
        slow = period.slow
        attend = False
        if slow is not None:
            ticket = slow.passed(lease, now)
            if not ticket:
                return False
            attend = ticket >= slow.judge_at
        lease.settled = lease.decided = True
        ticket = next(period.ticks)
        if attend or (
            ticket >= period.attention and (ticket >= period.judge_at or now >= period.edge)
        ):
            self._attend(period, ticket, now, later, lease)
        elif self.reports.wants_successes:
            self.hub.tell(CallSucceeded(self.name, time(), now - lease.started))
        return True

    def failed(self, entry: Entry, error: BaseException, later: Later | None = None) -> None:
        """Take in an exception, whatever it means."""
        if isinstance(entry, Closed) or entry.held:
            try:
                outcome, now = self.classifier.error(error), self.clock.now()
            except BaseException:
                self.lose(entry)
                raise
            self.end(entry, outcome, error, now, later)
