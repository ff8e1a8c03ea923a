"""All numbers of a timeout as they belong together at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from breakerkit._abandoned import AbandonedWork
    from breakerkit.deadline.config import TimeoutMode

__all__ = ["TimeoutSnapshot"]


@attrs.frozen(kw_only=True)
class TimeoutSnapshot:
    """A timeout at one moment.

    Attributes:
        name: its name.
        seconds: how long a call may take.
        mode: how sync code is limited.
        calls: calls, blocks and items of generators that were given a limit.
        expired: how many of them ended with `CallTimeoutError` because of this limit.
        late: how many ended by themselves, in a value or an error, after their time was over.
        rejected: calls that were not begun: no time was left, or the ledger was full.
        abandoned: works that were abandoned, in all.
        working: threads at work for it now, abandoned or waited for.
        max_abandoned: how many those may be.
        abandoned_now: the abandoned works that still run, oldest first.
    """

    name: str
    seconds: float
    mode: TimeoutMode
    calls: int
    expired: int
    late: int
    rejected: int
    abandoned: int
    working: int
    max_abandoned: int
    abandoned_now: tuple[AbandonedWork, ...]
