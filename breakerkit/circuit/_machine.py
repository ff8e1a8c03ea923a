"""The states of a breaker and every move between them; a pure machine that is given the time.

    CLOSED ──a rule fires──▶ OPEN ──its period ends──▶ HALF_OPEN
       ▲                      ▲                           │  │
       │                      └──────a probe fails────────┘  │
       └──enough probes succeeded and none is active─────────┘

``reset()`` leads from anywhere to CLOSED. The guard calls every method under
its lock; each returns what happened by way of ``moves``, for the guard to tell.
"""

from __future__ import annotations

import math

from breakerkit._outcome import Outcome
from breakerkit.circuit._counting import never
from breakerkit.circuit._moves import Entry, Refusal, refused
from breakerkit.circuit._rules import verdict
from breakerkit.circuit._states import Closed, HalfOpen, Lease, Open, State
from breakerkit.circuit._transitions import Transitions
from breakerkit.events import OpenReason


class Machine(Transitions):
    """Decides: who is let in, what an end means, whether a rule fires."""

    __slots__ = ()

    # -- admission ---------------------------------------------------------

    def admit(self, now: float) -> Lease | Refusal:
        """Hand out a lease, or say why not; at the end of an open period it becomes half-open."""
        self.lapse(now)
        if isinstance(self.state, Closed):
            return self._admit_closed(self.state, now)
        if isinstance(self.state, Open):
            if not self._rest_over(self.state, now):
                return refused(self.state, now)
            self._enter(self.state, HalfOpen(self.state))
        assert isinstance(self.state, HalfOpen)
        return self._admit_probe(self.state, now)

    def _admit_closed(self, period: Closed, now: float) -> Lease | Refusal:
        self._sweep(now)
        if isinstance(self.state, Open):
            return refused(self.state, now)
        lease = Lease(period, now)
        if period.slow is not None:
            period.slow.start(lease)
        return lease

    def opened_after(self, now: float) -> bool:
        """Tell whether it is open, and since a moment that ``now`` has not reached."""
        return isinstance(self.state, Open) and now < self.state.since

    def _rest_over(self, state: Open, now: float) -> bool:
        if now < state.since:
            # The clock stepped back; the period starts over rather than last a day.
            state.since, state.until = now, now + state.duration
        return state.over(now)

    def _admit_probe(self, state: HalfOpen, now: float) -> Lease | Refusal:
        if len(state.active) >= self.config.probe_limit:
            return self._refused_probe(state, now)
        lease = Lease(state, now)
        state.active[lease] = True
        return lease

    def _refused_probe(self, state: HalfOpen, now: float) -> Refusal:
        lapse = next(iter(state.active)).started + state.timeout(self.config)
        return Refusal(state.after.reason, max(lapse - now, 0.0), state.after.opened_at, True)

    # -- the end of a call -------------------------------------------------

    def settle(
        self, entry: Entry, outcome: Outcome, now: float, error: BaseException | None = None
    ) -> None:
        """Take in what a call's end means, as of ``now``."""
        self.lapse(now)
        period = entry.period if isinstance(entry, Lease) else entry
        if isinstance(period, Closed) and period is self.state:
            self._settle_closed(period, entry, outcome, now, error)
            return
        self.counts.take(outcome)
        if isinstance(period, HalfOpen) and period is self.state:
            self._settle_probe(period, outcome, now, error)
        self._sweep(now)

    def release(self, lease: Lease, now: float) -> None:
        """Free the slot of a lease, judged as of ``now``."""
        self.lapse(now)
        period = self.state
        if isinstance(period, HalfOpen):
            # It may hold a slot although its result, of an earlier generation, is void.
            if period.active.pop(lease, False) or lease.period is period:
                self.close_if_done(period, now)
        elif period is not lease.period:
            self._sweep(now)
        elif isinstance(period, Closed) and period.slow is not None:
            found = period.slow.sweep(now)
            if period.slow.finish(lease, now, completed=False) or found:
                self._judge_slow(period, now)

    def succeed(self, period: Closed, ticket: int, now: float) -> None:
        """Take in a success of the lock-free path, whose ticket is drawn already."""
        self.lapse(now)
        if period is self.state:
            self._take_success(period, ticket, now)
            self._judge(period, now, None)
        elif period.final is not None and ticket >= period.final:
            self.counts.successes += 1  # late: nobody else has counted it

    def _settle_closed(
        self,
        period: Closed,
        entry: Entry,
        outcome: Outcome,
        now: float,
        error: BaseException | None,
    ) -> None:
        completed = outcome is not Outcome.NEUTRAL
        found = self._end_watch(period, entry, now, completed=completed)
        if not completed:
            self.counts.ignored += 1
            if found:
                self._judge_slow(period, now)
            return
        if outcome is Outcome.FAILURE:
            period.ask()  # a success after this one must not pass by what it is about to say
        ticket = next(period.ticks)
        if outcome is Outcome.SUCCESS:
            self._take_success(period, ticket, now)
        else:
            self._take_failure(period, ticket, now)
        self._judge(period, now, error)

    def _end_watch(self, period: Closed, entry: Entry, now: float, *, completed: bool) -> bool:
        """Stop watching a call for being slow; tell whether any call has turned slow by now."""
        if period.slow is None:
            return False
        found = period.slow.sweep(now)
        # A block whose outcome was decided as neutral runs on, and may turn slow yet.
        if isinstance(entry, Lease) and (completed or entry.settled):
            found = period.slow.finish(entry, now, completed=completed) or found
        return found

    def _take_success(self, period: Closed, ticket: int, now: float) -> None:
        period.streak = 0
        if period.window is not None and period.window.timed:
            period.window.roll(ticket - 1, now)

    def _take_failure(self, period: Closed, ticket: int, now: float) -> None:
        period.failed += 1
        self.counts.failures += 1
        period.streak += 1
        if period.window is not None:
            period.window.mark(ticket, now)

    def _settle_probe(
        self, state: HalfOpen, outcome: Outcome, now: float, error: BaseException | None
    ) -> None:
        if outcome is Outcome.SUCCESS:
            state.successes += 1
        elif outcome is Outcome.FAILURE:
            self._open(state, OpenReason.PROBE_FAILURE, now, state.after.evidence, error)

    # -- rules -------------------------------------------------------------

    def _judge(self, period: Closed, now: float, error: BaseException | None) -> None:
        period.pending = False
        if period.spotless():
            period.saw()
            return  # no rule fires without a failure or a slow call; the usual case is cheap
        self._look(period, now, error, completed=True)

    def _look(
        self, period: Closed, now: float, error: BaseException | None, *, completed: bool
    ) -> None:
        rules = self.rules if completed else self.slow_rule
        minimum = max(self.config.minimum_calls, 1)
        for evidence in period.looks(minimum, now, error, completed=completed):
            if reason := verdict(rules, evidence):
                self._open(period, reason, now, evidence, evidence.error)
                return
        period.roll(now)

    def trip(
        self,
        period: State | None,
        reason: OpenReason | str,
        now: float,
        error: BaseException | None,
    ) -> None:
        """Open because a user's rule said so, unless the period it judged is over."""
        if isinstance(period, Closed) and period is self.state:
            self._open(period, reason, now, period.evidence(now), error)

    def watch(self, period: Closed) -> None:
        """Say which coming success needs more than a ticket: the rest cannot change a verdict.

        Asked by the guard whenever it opens its lock-free path.
        """
        last, minimum = period.last(), max(self.config.minimum_calls, 1)
        if period.slow is not None:
            period.slow.watch(minimum)
        calm, window = not period.streak and not period.pending, period.window
        reaches = math.inf if window is None else window.reaches(minimum, period.seen)
        judge_at = int(min(reaches, never(last))) if calm else 0
        timed = window is not None and window.timed
        period.judge_at = judge_at
        period.edge = window.edge() if window is not None and timed and calm else -math.inf
        period.attention = 0 if timed else judge_at

    def _sweep(self, now: float) -> None:
        """Let calls that still run past the limit turn slow, and judge that."""
        period = self.state
        if isinstance(period, Closed) and period.slow is not None and period.slow.sweep(now):
            self._judge_slow(period, now)

    def _judge_slow(self, period: Closed, now: float) -> None:
        self._look(period, now, None, completed=False)
