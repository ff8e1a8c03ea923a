"""The snapshot of a breaker; imported when somebody first looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from datetime import datetime

    from breakerkit.events import Mode, OpenReason, State

__all__ = ["Snapshot"]


@attrs.frozen(kw_only=True)
class Snapshot:
    """How a breaker stood at one moment; all numbers belong together.

    Attributes:
        name: name of the breaker.
        state: the state as ``breaker.state`` reads it.
        mode: the mode in force.
        consecutive_failures: the streak.
        window_calls: calls in the window of the failure rate.
        window_failures: failures among them.
        window_failure_rate: percent, 0.0 for an empty window.
        slow_window_calls: calls in the slow-call tally.
        slow_calls: slow ones among them.
        slow_call_rate: percent, 0.0 for an empty tally.
        probes_active: probes that hold a slot.
        probe_successes: successful probes of this half-open period.
        reason: why it last opened, while open or half-open.
        opened_at: when it last opened, aware UTC, while open or half-open.
        retry_after: seconds until asking again makes sense; ``None`` if at once or unknown.
        calls: attempts that have ended, rejected ones too: the sum of the next four.
        successes: calls that ended well, late results included.
        failures: calls that failed, late results included.
        ignored: calls that were no evidence.
        rejected: calls that were not run.
        openings: how often it has opened since it was made.
    """

    name: str
    state: State
    mode: Mode
    consecutive_failures: int
    window_calls: int
    window_failures: int
    window_failure_rate: float
    slow_window_calls: int
    slow_calls: int
    slow_call_rate: float
    probes_active: int
    probe_successes: int
    reason: OpenReason | str | None
    opened_at: datetime | None
    retry_after: float | None
    calls: int
    successes: int
    failures: int
    ignored: int
    rejected: int
    openings: int
