"""What crosses the border: the enums, and the frozen records hooks and listeners get."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    from breakerkit._context import OpenContext as OpenContext  # noqa: PLC0414  # it is public here

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


def __getattr__(name: str) -> Any:
    """Import `OpenContext` when it is first asked for (PEP 562)."""
    if name != "OpenContext":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from breakerkit._context import OpenContext  # noqa: PLC0415  # a tenth of the time all else takes

    globals()[name] = OpenContext
    return OpenContext


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
