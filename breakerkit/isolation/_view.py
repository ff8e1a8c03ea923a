"""How a bulkhead looks from outside at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable

    from breakerkit.isolation.guard import BulkheadGuard

__all__ = ["BulkheadSnapshot", "ShareSnapshot"]


@attrs.frozen(kw_only=True)
class ShareSnapshot:
    """How a class of calls stood at one moment.

    Attributes:
        guaranteed: slots it is guaranteed.
        running: slots it holds, lent ones included.
        waiting: how many of it wait.
    """

    guaranteed: int
    running: int
    waiting: int


@attrs.frozen(kw_only=True)
class BulkheadSnapshot:
    """How a bulkhead stood at one moment.

    Attributes:
        name: name of the bulkhead.
        isolation: where calls run.
        max_concurrent: the limit in force.
        max_waiting: places in the queue.
        running: calls that hold a slot; after a shrink that may be more than the limit.
        waiting: calls in the queue.
        admitted: calls that got a slot and were run since it was made.
        completed: those of them that have ended, however.
        rejected: calls that were not run.
        timed_out: those of them that had waited as long as they might.
        waits: calls that have waited, whatever came of it.
        total_wait: seconds they have waited in sum.
        longest_wait: seconds of the longest of them.
        stuck: calls that have run for ``stuck_after`` seconds, 0 where nobody looks.
        workers: threads or processes of its pool that are alive.
        shares: by class, where there are shares; the rest is ``None``.
    """

    name: str
    isolation: str
    max_concurrent: int
    max_waiting: int
    running: int
    waiting: int
    admitted: int
    completed: int
    rejected: int
    timed_out: int
    waits: int
    total_wait: float
    longest_wait: float
    stuck: int
    workers: int
    shares: dict[Hashable, ShareSnapshot]

    @property
    def mean_wait(self) -> float:
        """Seconds that a call that had to wait has waited on average, 0.0 if none had to."""
        return self.total_wait / self.waits if self.waits else 0.0


def snapshot(guard: BulkheadGuard) -> BulkheadSnapshot:
    """Return all numbers as they belong together now."""
    guard.sweep()
    now = guard.clock.now()
    with guard.lock:
        seen = _look(guard, now)
    guard.tell()
    return seen


def _look(guard: BulkheadGuard, now: float) -> BulkheadSnapshot:
    config, slots = guard.config, guard.slots()
    completed = guard.ended + sum(slot.uses for slot in slots)
    # A thread that takes no lock may be between two of these numbers.
    running = max(0, guard.running)
    limit = config.stuck_after
    begun = [slot.started for slot in slots if slot.started is not None]
    return BulkheadSnapshot(
        name=guard.name,
        isolation=config.isolation,
        max_concurrent=config.max_concurrent,
        max_waiting=config.max_waiting,
        running=running,
        waiting=guard.queue.size,
        admitted=completed + running,
        completed=completed,
        rejected=guard.rejected,
        timed_out=guard.timed_out,
        waits=guard.wait_count,
        total_wait=guard.total_wait,
        longest_wait=guard.longest_wait,
        stuck=0 if limit is None else sum(now - one >= limit for one in begun),
        workers=guard.workers,
        shares=_shares(guard) if config.shares is not None else {},
    )


def _shares(guard: BulkheadGuard) -> dict[Hashable, ShareSnapshot]:
    return {
        share: ShareSnapshot(
            guaranteed=slots,
            running=slots - guard.owed(share),
            waiting=guard.queue.length(share),
        )
        for share, slots in guard.guaranteed.items()
    }
