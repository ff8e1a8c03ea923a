"""The guard in front of a call: admission, and the one settlement of every lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from breakerkit._outcome import Outcome
from breakerkit.circuit import _switches as switches
from breakerkit.circuit import _telling as telling
from breakerkit.circuit._core import Core
from breakerkit.circuit._states import Closed, Lease, Open
from breakerkit.errors import CallRejectedError, CircuitOpenError, ProbeLimitError
from breakerkit.events import Evidence, Mode, OpenReason

if TYPE_CHECKING:
    from breakerkit._callbacks import Later
    from breakerkit.circuit._moves import Entry, Refusal


class Guard(Core):
    """What stands in front of a call: `admit`, then exactly one of `succeeded` and `failed`."""

    __slots__ = ()

    # -- admission ---------------------------------------------------------

    def admit(self, later: Later | None = None) -> Entry:
        """Let a call in, or raise the rejection.

        Args:
            later: where an async caller collects coroutine callbacks, should
                this admission open the breaker.

        Raises:
            CircuitOpenError: open, or half-open with every probe slot taken.
        """
        now = self.clock.now()
        state = self.machine.state
        if type(state) is Open and self.quiet and state.since <= now < state.until:
            # Rejections change nothing, so during an outage they take no lock either.
            next(self.machine.counts.rejections)
            _reject(CircuitOpenError(self.name, state.reason, state.until - now, state.opened_at))
        with self.lock:
            entry = self._admit(now)
            moves, mode = self.changed()
        try:
            self.tell(moves, mode, later)
        except BaseException:
            if isinstance(entry, Lease):
                self.dropped.append(entry)
            raise
        if isinstance(entry, CircuitOpenError):
            _reject(entry)
        return entry

    def _admit(self, now: float) -> Lease | CircuitOpenError:
        self.settle_dropped(now)
        mode = self.mode_now(now)
        if mode is Mode.DISABLED:
            return Lease(None, now, held=False)
        if mode is Mode.FORCED_OPEN:
            return self._refuse_forced(now)
        entry = self.machine.admit(now)
        if isinstance(entry, Lease):
            return entry
        return self._refuse(entry, now, mode)

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
        self, entry: Entry, ticket: int, value: object, later: Later | None = None
    ) -> None:
        """Take in a returned value that needs more than its ticket."""
        now = self.clock.now()
        if now < entry.edge and ticket < entry.judge_at:
            return
        if isinstance(entry, Closed):
            with self.lock:
                self.machine.succeed(entry, ticket, now)
                moves, mode = self.changed()
            self.tell(moves, mode, later)
        elif entry.held:
            self._end(entry, self.classifier.value(value), None, now, later)

    def failed(self, entry: Entry, error: BaseException, later: Later | None = None) -> None:
        """Take in an exception, whatever it means."""
        if isinstance(entry, Closed) or entry.held:
            outcome = self.classifier.error(error)
            self._end(entry, outcome, error, self.clock.now(), later)

    def ignored(self, entry: Entry) -> None:
        """Take in that the call was not run after all, or that nobody will know how it ended."""
        self._end(entry, Outcome.NEUTRAL, None, self.clock.now(), None)

    def decide(
        self, lease: Entry, outcome: Outcome, error: BaseException | None, later: Later | None
    ) -> None:
        """Settle the outcome of a block that goes on; its slot stays taken until it ends."""
        self._end(lease, outcome, error, self.clock.now(), later, ends=False)

    def release(self, entry: Entry) -> None:
        """Free the slot of a block whose outcome was decided before its end."""
        if isinstance(entry, Lease):
            self._end(entry, Outcome.NEUTRAL, None, self.clock.now(), None)

    def drop(self, entry: Entry) -> None:
        """Give a slot back from a destructor: no lock may be taken there, the next call does it."""
        self.dropped.append(entry)

    def _end(
        self,
        entry: Entry,
        outcome: Outcome,
        error: BaseException | None,
        now: float,
        later: Later | None,
        *,
        ends: bool = True,
    ) -> None:
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
        if isinstance(entry, Lease) and ends:
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


def _reject(error: CallRejectedError) -> NoReturn:
    """Raise without a ``__context__``: in a retry loop that chain would grow with every rejection."""
    try:
        raise error
    except CallRejectedError:
        error.__context__ = None
        raise
