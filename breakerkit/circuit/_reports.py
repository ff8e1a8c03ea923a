"""Events of one breaker: made under the lock, and only of a kind that somebody listens to."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from breakerkit._outcome import Outcome
from breakerkit.circuit._states import Lease
from breakerkit.events import (
    EVENT_KINDS,
    BreakerReset,
    CallFailed,
    CallIgnored,
    CallRejected,
    CallSucceeded,
    ConfigChanged,
    Mode,
    OpenReason,
    State,
    StateChanged,
)

if TYPE_CHECKING:
    from breakerkit._hub import Hub
    from breakerkit.circuit._moves import Entry, Move
    from breakerkit.circuit.config import BreakerConfig


class Reports:
    """Make events of the kinds that are wanted and queue them in the hub."""

    __slots__ = ("_hub", "_name", "_wanted", "wants_calls", "wants_rejections", "wants_successes")

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub = hub
        self._name = name
        self.retune()

    def retune(self) -> None:
        """Look again which kinds somebody listens to."""
        self._wanted: frozenset[type[Any]] = self._hub.retune(EVENT_KINDS)
        self.wants_calls = not self._wanted.isdisjoint((CallSucceeded, CallFailed, CallIgnored))
        self.wants_successes = CallSucceeded in self._wanted
        self.wants_rejections = CallRejected in self._wanted

    def moved(self, move: Move, mode: Mode) -> None:
        """Report a move of the machine."""
        reason = move.opened.reason if move.opened else None
        self.changed(move.old, move.new, reason, mode)

    def changed(self, old: State, new: State, reason: OpenReason | str | None, mode: Mode) -> None:
        """Report that the state reads differently from now on."""
        if StateChanged in self._wanted:
            self._post(StateChanged, old=old, new=new, reason=reason, mode=mode)

    def rejected(self, reason: OpenReason | str, retry_after: float | None, mode: Mode) -> None:
        """Report a call that was not run, or in ``OBSERVE`` would not have been."""
        if self.wants_rejections:
            self._post(CallRejected, reason=reason, retry_after=retry_after, mode=mode)

    def succeeded(self, lease: Lease, now: float) -> None:
        """Report a success; the usual case, hence spelled out."""
        if self.wants_successes:
            self._hub.post(CallSucceeded(self._name, time(), now - lease.started))

    def ended(
        self, entry: Entry, outcome: Outcome, error: BaseException | None, now: float
    ) -> None:
        """Report how a call ended. Only leases know when it began."""
        if not self.wants_calls or not isinstance(entry, Lease):
            return
        if outcome is Outcome.SUCCESS:
            self.succeeded(entry, now)
            return
        duration = now - entry.started
        if outcome is Outcome.FAILURE:
            self._post(CallFailed, duration=duration, error=error)
        else:
            self._post(CallIgnored, duration=duration, error=error)

    def reset(self, old: State) -> None:
        """Report a reset."""
        self._post(BreakerReset, old=old)

    def reconfigured(self, old: BreakerConfig, new: BreakerConfig) -> None:
        """Report new settings."""
        self._post(ConfigChanged, old=old, new=new)

    def _post(self, kind: type[Any], **fields: Any) -> None:
        if kind in self._wanted:
            self._hub.post(kind(self._name, time(), **fields))
