"""The one mutable thing of a breaker: machine, lock, clock and switches; it tells after the lock is free."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn

from breakerkit import _fork as fork
from breakerkit._hub import Hub
from breakerkit._outcome import Classifier, Outcome
from breakerkit.circuit import _changes as changes
from breakerkit.circuit import _switches as switches
from breakerkit.circuit import _telling as telling
from breakerkit.circuit import _view as views
from breakerkit.circuit._machine import Machine
from breakerkit.circuit._moves import Refusal
from breakerkit.circuit._reports import Reports
from breakerkit.circuit._states import Closed, Lease, Open
from breakerkit.clock import utc_now
from breakerkit.errors import CallRejectedError, CircuitOpenError, ProbeLimitError
from breakerkit.events import Evidence, Mode, OpenReason, State

if TYPE_CHECKING:
    from breakerkit._callbacks import Later, OpenCallback
    from breakerkit.circuit._moves import Entry, Move
    from breakerkit.circuit._switches import ModeHandle
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.clock import Clock


class Guard:
    """What stands in front of a call: `admit`, then exactly one of `succeeded` and `failed`.

    ``fast`` is the present closed period while a call may pass with no lock, no
    clock and no allocation, else ``None``. User code (the call, filters,
    callbacks, listeners, rules, the clock) never runs under the lock, which is
    reentrant only so that a signal handler or a destructor that calls through
    the same breaker cannot deadlock.
    """

    __slots__ = (
        "__weakref__", "async_only", "callbacks", "classifier", "clock", "dropped", "fast",
        "handles", "hub", "lock", "machine", "mode", "name", "quick", "quiet", "reports", "sync_used",
    )  # fmt: skip

    def __init__(self, name: str, config: BreakerConfig, clock: Clock, parent: Hub | None) -> None:
        self.name = name
        self.clock = clock
        self.lock = threading.RLock()
        self.machine = Machine(config, clock.now(), utc_now)
        self.hub = Hub(parent)
        self.reports = Reports(self.hub, name)
        self.callbacks: tuple[OpenCallback, ...] = ()
        self.handles: tuple[ModeHandle, ...] = ()
        self.mode = Mode.AUTO
        self.dropped: list[Entry] = []
        self.sync_used = False
        self.fast: Closed | None = None
        self.retune()
        fork.remember(self)

    @property
    def config(self) -> BreakerConfig:
        """The settings in force."""
        return self.machine.config

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
            moves, mode = self._changed()
        try:
            self._tell(moves, mode, later)
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

    def mode_now(self, now: float) -> Mode:
        """Return the mode in force; handles that have expired are let go of. Under the lock."""
        if self.handles:
            left = tuple(handle for handle in self.handles if not handle.expired(now))
            if len(left) != len(self.handles):
                self.set_handles(left, now)
        return self.mode

    # -- the end of a call -------------------------------------------------

    def succeeded(self, entry: Entry, ticket: int, value: object, later: Later | None = None) -> None:
        """Take in a returned value that needs more than its ticket."""
        now = self.clock.now()
        if now < entry.edge and ticket < entry.judge_at:
            return
        if isinstance(entry, Closed):
            with self.lock:
                self.machine.succeed(entry, ticket, now)
                moves, mode = self._changed()
            self._tell(moves, mode, later)
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

    def check_sync(self) -> None:
        """Refuse a sync call while a coroutine callback is registered that it could not await.

        Raises:
            TypeError: as said.
        """
        if self.async_only:
            raise TypeError(
                f"breaker {self.name!r} has a coroutine opening callback, which a sync call"
                " cannot await: give a plain callable, or OpenCallback(..., loop=loop)"
            )

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
            moves, mode = self._changed()
        self._tell(moves, mode, later)
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
            moves, mode = self._changed()
        self._tell(moves, mode, later)

    def settle_dropped(self, now: float) -> None:
        """Settle what destructors have left. Under the lock."""
        while self.dropped:
            self._settle(self.dropped.pop(), Outcome.NEUTRAL, None, now, ends=True)

    # -- after a change ----------------------------------------------------

    def _changed(self) -> tuple[list[Move], Mode]:
        """Take what the machine did and put the lock-free path where it belongs. Under the lock."""
        state = self.machine.state
        self.fast = state if self.quick and type(state) is Closed else None
        moves = self.machine.moves
        if moves:
            self.machine.moves = []
            for move in moves:
                self.reports.moved(move, self.mode)
        return moves, self.mode

    def _tell(self, moves: list[Move], mode: Mode, later: Later | None) -> None:
        """Tell callbacks and listeners, with the lock free."""
        for move in moves:
            telling.log_move(self.name, move)
            if mode is not Mode.OBSERVE:
                callbacks = (*self.config.on_open, *self.callbacks)
                telling.tell_opening(
                    self.name, self.config, move, callbacks, self._settle_duration, later
                )
        self.hub.drain()

    def _settle_duration(self, opened: Open, seconds: float) -> None:
        with self.lock:
            changes.settle_duration(self.machine, opened, seconds)

    def retune(self) -> None:
        """Work out what the settings, switches and listeners in force allow. Under the lock."""
        config = self.machine.config
        self.classifier = Classifier(
            self.name, config.failure_on, config.success_on, config.ignore_on, config.failure_if
        )
        self.async_only = any(one.awaits for one in (*config.on_open, *self.callbacks))
        self.reports.retune()
        self.quiet = not self.handles and not self.reports.wants_rejections
        self.quick = not (
            self.handles
            or self.reports.wants_calls
            or config.slow_call_duration
            or config.failure_if
            or config.trip_rules
        )
        self._changed()

    def set_handles(self, handles: tuple[ModeHandle, ...], now: float) -> None:
        """Hold these switches from now on. Under the lock.

        Where calls stop being judged a new generation begins, so that what is
        in flight cannot move a breaker that somebody holds.
        """
        before, old_mode = self.reads(), self.mode
        held = switches.in_force(handles, now)
        self.handles, self.mode = handles, held.mode if held else Mode.AUTO
        if self.mode is not old_mode and self.mode in {Mode.FORCED_OPEN, Mode.DISABLED}:
            changes.renew(self.machine)
        after = self.reads()
        if before is not after:
            reason = OpenReason.FORCED if after is State.OPEN else None
            self.reports.changed(before, after, reason, self.mode)
        self.retune()

    def rename(self, name: str) -> None:
        """Take a name, once it is known."""
        self.name = name
        self.reports = Reports(self.hub, name)
        self.retune()

    def after_fork(self) -> None:
        """Start a generation with fresh locks and free slots: the parent's calls end in the parent."""
        self.lock = threading.RLock()
        self.hub.forget()
        self.dropped.clear()
        self.machine.moves = []
        changes.renew(self.machine)
        self.retune()

    def reads(self) -> State:
        """Return the state by name as switches make it read. Under the lock."""
        return State.OPEN if self.mode is Mode.FORCED_OPEN else views.name_of(self.machine)


def _reject(error: CallRejectedError) -> NoReturn:
    """Raise without a ``__context__``: in a retry loop that chain would grow with every rejection."""
    try:
        raise error
    except CallRejectedError:
        error.__context__ = None
        raise
