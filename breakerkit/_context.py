"""What an opening callback is told; imported when a breaker first has somebody to tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from breakerkit.events import OpenReason, State

__all__ = ["OpenContext"]


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
