"""What a guard is made of, and how it follows its settings, switches and listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit._callbacks import cannot_await
from breakerkit._keeper import Keeper
from breakerkit._outcome import Classifier
from breakerkit.circuit import _changes as changes
from breakerkit.circuit import _switches as switches
from breakerkit.circuit import _telling as telling
from breakerkit.circuit import _view as views
from breakerkit.circuit._machine import Machine
from breakerkit.circuit._reports import Reports
from breakerkit.circuit._states import Closed
from breakerkit.clock import utc_now
from breakerkit.events import EVENT_KINDS, Mode, OpenReason, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._callbacks import Later, OpenCallback
    from breakerkit._hub import Hub
    from breakerkit.circuit._moves import Entry, Move
    from breakerkit.circuit._states import Open
    from breakerkit.circuit._switches import ModeHandle
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.clock import Clock


#: Of any breaker: hardly ever is there one, so a list for each would be a waste.
_postponed: list[Callable[[], object]] = []


class Core(Keeper):
    """Machine, lock, clock, switches, callbacks and listeners of one breaker.

    ``fast`` is the present closed period while a call may pass with no lock, no
    clock and no allocation, else ``None``. User code (the call, filters,
    callbacks, listeners, rules, the clock) never runs under the lock, which is
    reentrant only so that a signal handler or a destructor that calls through
    the same breaker cannot deadlock.
    """

    __slots__ = (
        "async_only", "callbacks", "classifier", "dropped", "fast", "handles", "machine", "mode",
        "plain", "quick", "quiet", "rejections", "reports", "sync_used",
    )  # fmt: skip

    kinds = EVENT_KINDS

    def __init__(self, name: str, config: BreakerConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.machine = Machine(config, clock.now(), utc_now)
        self.rejections = self.machine.counts.rejections
        self.callbacks: tuple[OpenCallback, ...] = ()
        self.handles: tuple[ModeHandle, ...] = ()
        self.mode = Mode.AUTO
        self.dropped: list[Entry] = []
        self.sync_used = False
        self.fast: Closed | None = None
        self.reports = Reports(self.hub, name)
        self.retune()

    def postpone(self, change: Callable[[], object]) -> bool:
        """Keep a change for later, and say so, if this very thread is in the middle of one."""
        if not self.between():
            return False
        _postponed.append(change)
        return True

    def catch_up(self) -> None:
        """Make the changes that signal handlers wanted in the middle of another one.

        Each is tried once: one that is still in the middle goes to the end of the list.
        """
        for _ in range(len(_postponed)):
            try:
                change = _postponed.pop(0)
            except IndexError:
                return  # another thread was quicker
            change()

    @property
    def config(self) -> BreakerConfig:
        """The settings in force."""
        return self.machine.config

    def mode_now(self, now: float) -> Mode:
        """Return the mode in force; handles that have expired are let go of. Under the lock."""
        if self.handles:
            left = tuple(handle for handle in self.handles if not handle.expired(now))
            if len(left) != len(self.handles):
                self.set_handles(left, now)
        return self.mode

    def changed(self) -> tuple[list[Move], Mode]:
        """Take what the machine did, and put the lock-free path where it belongs. Under the lock."""
        self.place_fast()
        # Never hand out the list in use, an empty one either: the next change, by
        # another thread, would be told twice.
        moves, self.machine.moves = self.machine.moves, []
        for move in moves:
            self.reports.moved(move, self.mode)
        return moves, self.mode

    def place_fast(self) -> None:
        """Open the lock-free path for the present period, or shut it. Under the lock."""
        state = self.machine.state
        if type(state) is not Closed:
            self.fast = None
        elif self.plain:
            self.machine.watch(state)
            self.fast = state if self.quick else None
        else:
            self.fast = None
            state.ask()  # calls that were let in without the lock are still to come

    def tell(self, moves: list[Move], mode: Mode, later: Later | None = None) -> None:
        """Tell callbacks and listeners, with the lock free."""
        for move in moves:
            telling.log_move(self.name, move)
            # An open_duration that is a callable is asked in OBSERVE too: the state reads what it would be.
            callbacks = () if mode is Mode.OBSERVE else (*self.config.on_open, *self.callbacks)
            telling.tell_opening(
                self.name, self.config, move, callbacks, self._settle_duration, later
            )
        self.hub.drain()
        if _postponed:
            self.catch_up()

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
        self.plain = not (self.handles or config.trip_rules or config.failure_if is not None)
        self.quick = self.plain and not (self.reports.wants_calls or config.slow_call_duration)
        self.place_fast()

    def set_handles(self, handles: tuple[ModeHandle, ...], now: float) -> None:
        """Hold these switches from now on. Under the lock.

        Where calls stop being judged a new generation begins, so that what is
        in flight cannot move a breaker that somebody holds.
        """
        before, old_mode = self.reads(), self.mode
        held = switches.in_force(handles, now)
        self.handles, self.mode = handles, held.mode if held else Mode.AUTO
        if self.mode is not old_mode and self.mode in {Mode.FORCED_OPEN, Mode.DISABLED}:
            self.plain = False  # first: the new generation is for nobody to enter without the lock
            changes.renew(self.machine, now)
        after = self.reads()
        if before is not after:
            reason = OpenReason.FORCED if after is State.OPEN else None
            self.reports.changed(before, after, reason, self.mode)
        self.retune()

    def check_sync(self) -> None:
        """Refuse a sync call while a coroutine callback is registered that it could not await.

        Raises:
            TypeError: as said.
        """
        if self.async_only:
            raise cannot_await(self.name)

    def rename(self, name: str) -> None:
        """Take a name, once it is known."""
        with self.lock:
            self.name = name
            self.reports = Reports(self.hub, name)
            self.retune()

    def after_fork(self) -> None:
        """Start a generation with fresh locks and free slots: the parent's calls end in the parent."""
        super().after_fork()
        self.dropped.clear()
        self.machine.moves = []
        changes.renew(self.machine, self.clock.now(), slots_free=True)
        self.retune()

    def reads(self) -> State:
        """Return the state by name as switches make it read. Under the lock."""
        return State.OPEN if self.mode is Mode.FORCED_OPEN else views.name_of(self.machine)
