"""What a timeout tells its listeners."""

from __future__ import annotations

import attrs

from breakerkit.events import ConfigChanged, Event

__all__ = ["CallEndedLate", "CallTimedOut", "TimeoutRejected", "WorkAbandoned", "WorkEnded"]


@attrs.frozen(slots=False)
class CallTimedOut(Event):
    """The time of a call ran out, and its caller was told so.

    Attributes:
        seconds: the limit.
        abandoned: whether the work goes on in a thread.
    """

    seconds: float
    abandoned: bool


@attrs.frozen(slots=False)
class CallEndedLate(Event):
    """A call ended by itself after its time was over; its caller got the value or the error.

    Attributes:
        seconds: the limit.
        error: what it raised, ``None`` for a value.
    """

    seconds: float
    error: BaseException | None


@attrs.frozen(slots=False)
class TimeoutRejected(Event):
    """A call was not run: no time was left for it, or the ledger was full.

    Attributes:
        reason: that of the error.
    """

    reason: str


@attrs.frozen(slots=False)
class WorkAbandoned(Event):
    """Nobody waits any more for work that goes on in a thread.

    Attributes:
        function: the qualified name of what runs.
        age: seconds since it began.
    """

    function: str
    age: float


@attrs.frozen(slots=False)
class WorkEnded(Event):
    """Abandoned work has ended; its value, or its error, is dropped.

    Attributes:
        function: the qualified name of what ran.
        age: seconds it took in all.
        error: what it raised, ``None`` if it returned.
    """

    function: str
    age: float
    error: BaseException | None


#: The events of a timeout.
EVENT_KINDS = (
    CallTimedOut,
    CallEndedLate,
    TimeoutRejected,
    WorkAbandoned,
    WorkEnded,
    ConfigChanged,
)
