"""What crosses the border: the enums, and the frozen records hooks and listeners get."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import attrs

__all__ = [
    "BreakerEvent",
    "BreakerReset",
    "CallFailed",
    "CallIgnored",
    "CallRejected",
    "CallSucceeded",
    "ConfigChanged",
    "Event",
    "Evidence",
    "Mode",
    "OpenContext",
    "OpenReason",
    "State",
    "StateChanged",
]


class State(enum.StrEnum):
    """Where a circuit breaker stands (Nygard, *Release It!*)."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Mode(enum.StrEnum):
    """Who decides: the breaker itself, or a switch held by an operator."""

    AUTO = "auto"
    FORCED_OPEN = "forced-open"
    DISABLED = "disabled"
    OBSERVE = "observe"


class OpenReason(enum.StrEnum):
    """Why a circuit breaker opened. A user's trip rule may give a text of its own."""

    CONSECUTIVE_FAILURES = "consecutive failures"
    FAILURE_RATE = "failure rate"
    SLOW_CALL_RATE = "slow call rate"
    PROBE_FAILURE = "probe failure"
    FORCED = "forced"


@dataclass(frozen=True)
class Evidence:
    """What the trip rules judge after a completed call.

    Attributes:
        consecutive_failures: failures in a row (the streak).
        window_calls: calls the failure rate looks at; 0 with the window off.
        window_failures: how many of them failed.
        slow_window_calls: calls the slow-call rate looks at.
        slow_calls: how many of them were slow.
        error: the exception of the call just completed, ``None`` after a success.
    """

    consecutive_failures: int = 0
    window_calls: int = 0
    window_failures: int = 0
    slow_window_calls: int = 0
    slow_calls: int = 0
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True)
class OpenContext:
    """What an opening callback, and a callable ``open_duration``, are told.

    Attributes:
        name: name of the breaker.
        reason: why it opened: an `OpenReason`, or the text of a user's rule.
        state: always ``State.OPEN``.
        failure_threshold: the streak rule in force, ``None`` when off.
        window_size: the count window in force, in calls, 0 when off.
        window_duration: the time window in force, in seconds, ``None`` when off.
        minimum_calls: calls needed before the rates are judged.
        failure_rate_threshold: percent.
        slow_call_duration: seconds, ``None`` when off.
        slow_call_rate_threshold: percent.
        probe_limit: probes that may run at once once half-open.
        probe_success_threshold: successful probes needed to close.
        consecutive_failures: the streak at this moment.
        window_calls: calls in the window at this moment, whatever the reason.
        window_failures: failures among them.
        window_failure_rate: percent, 0.0 for an empty window.
        slow_calls: slow calls in their own tally at this moment.
        slow_call_rate: percent of that tally, 0.0 when empty.
        open_duration: seconds this open period lasts.
        opened_at: when it opened, aware UTC.
        openings: openings since the breaker was last closed, this one included.
        error: the exception that opened it; ``None`` if a value or a success did.
    """

    name: str
    reason: OpenReason | str
    state: State
    failure_threshold: int | None
    window_size: int
    window_duration: float | None
    minimum_calls: int
    failure_rate_threshold: float
    slow_call_duration: float | None
    slow_call_rate_threshold: float
    probe_limit: int
    probe_success_threshold: int
    consecutive_failures: int
    window_calls: int
    window_failures: int
    window_failure_rate: float
    slow_calls: int
    slow_call_rate: float
    open_duration: float
    opened_at: datetime
    openings: int
    error: BaseException | None


# Without slots attrs fills a frozen record by one dict, twice as fast: one is made per event.
@attrs.frozen(slots=False)
class Event:
    """What every event of every policy has.

    Attributes:
        name: name of the policy it happened in.
        timestamp: when, in seconds since 1970 by the wall clock.
    """

    name: str
    timestamp: float

    @property
    def at(self) -> datetime:
        """When, as an aware UTC ``datetime``."""
        return datetime.fromtimestamp(self.timestamp, UTC)


@attrs.frozen(slots=False)
class StateChanged(Event):
    """The breaker moved from one state to another.

    Attributes:
        old: the state it left.
        new: the state it entered.
        reason: why it opened; ``None`` for every other move.
        mode: the mode in force; in ``OBSERVE`` the move let every call pass.
    """

    old: State
    new: State
    reason: OpenReason | str | None
    mode: Mode


@attrs.frozen(slots=False)
class CallSucceeded(Event):
    """A call ended well. ``duration`` is in seconds."""

    duration: float


@attrs.frozen(slots=False)
class CallFailed(Event):
    """A call failed. ``error`` is ``None`` when its value was judged a failure."""

    duration: float
    error: BaseException | None


@attrs.frozen(slots=False)
class CallIgnored(Event):
    """A call ended in a way that is no evidence: cancelled, ignored, refused further inside."""

    duration: float
    error: BaseException | None


@attrs.frozen(slots=False)
class CallRejected(Event):
    """A call was not run; in mode ``OBSERVE``: it would not have been, and was.

    Attributes:
        reason: why.
        retry_after: seconds, or ``None``.
        mode: the mode in force.
    """

    reason: OpenReason | str
    retry_after: float | None
    mode: Mode


@attrs.frozen(slots=False)
class BreakerReset(Event):
    """Somebody called ``reset()``; ``old`` is the state it was in."""

    old: State


@attrs.frozen(slots=False)
class ConfigChanged(Event):
    """The settings of a policy were swapped while it was live."""

    old: Any
    new: Any


BreakerEvent: TypeAlias = (
    StateChanged
    | CallSucceeded
    | CallFailed
    | CallIgnored
    | CallRejected
    | BreakerReset
    | ConfigChanged
)

#: The events of a circuit breaker.
EVENT_KINDS: tuple[type[Any], ...] = (
    StateChanged,
    CallSucceeded,
    CallFailed,
    CallIgnored,
    CallRejected,
    BreakerReset,
    ConfigChanged,
)
