"""What a bulkhead tells its listeners, and why it turns calls away."""

from __future__ import annotations

import enum
from collections.abc import Hashable  # noqa: TC003  # attrs resolves the types of a record

import attrs

from breakerkit.events import ConfigChanged, Event

__all__ = ["BulkheadRejected", "CallDequeued", "CallQueued", "FullReason", "WorkerLost"]


class FullReason(enum.StrEnum):
    """Why a bulkhead did not run a call.

    ``DEADLINE`` is only told by the event: the error is the `DeadlineExceededError` of
    whose deadline it was.
    """

    QUEUE_FULL = "every slot and every place in the queue is taken"
    MAX_WAIT = "no slot came free within max_wait"
    DEADLINE = "no slot came free before the deadline"
    DISPLACED = "its place in the queue went to a class that is owed a slot"


@attrs.frozen(slots=False)
class CallQueued(Event):
    """A call has to wait for a slot.

    Attributes:
        share: its class, ``None`` for the rest.
        waiting: how many wait now, this one included.
    """

    share: Hashable
    waiting: int


@attrs.frozen(slots=False)
class CallDequeued(Event):
    """A call waits no longer.

    Attributes:
        share: its class, ``None`` for the rest.
        waited: seconds it has waited.
        admitted: whether it got a slot; else it was rejected, or went away.
    """

    share: Hashable
    waited: float
    admitted: bool


@attrs.frozen(slots=False)
class BulkheadRejected(Event):
    """A call was not run.

    Attributes:
        reason: why.
        share: its class, ``None`` for the rest.
        running: how many run.
        waiting: how many wait.
    """

    reason: FullReason
    share: Hashable
    running: int
    waiting: int


@attrs.frozen(slots=False)
class WorkerLost(Event):
    """A worker process died in the middle of a call.

    Attributes:
        pid: which one.
        code: its exit status; negative: the signal that killed it.
    """

    pid: int | None
    code: int | None


#: The events of a bulkhead.
EVENT_KINDS = (CallQueued, CallDequeued, BulkheadRejected, WorkerLost, ConfigChanged)
