"""The guard of a bulkhead as the calls of one class see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from breakerkit.errors import CallRejectedError
    from breakerkit.isolation._slots import Slot
    from breakerkit.isolation.guard import BulkheadGuard


class ShareGate:
    """The guard as calls of one class see it."""

    __slots__ = ("_guard", "_share", "check_sync", "clock", "decide", "drop", "failed", "release", "succeeded")  # fmt: skip

    fast = None
    waits = True

    def __init__(self, guard: BulkheadGuard, share: Hashable) -> None:
        self._guard = guard
        self._share = share
        self.clock = guard.clock
        self.succeeded = guard.succeeded
        self.failed = guard.failed
        self.drop = guard.drop
        self.check_sync = guard.check_sync
        self.decide = guard.decide
        self.release = guard.release

    def admit(self, later: object = None) -> Slot | CallRejectedError:
        """Let a call of this class in."""
        return self._guard.admit(later, self._share)

    async def admit_async(self) -> Slot | CallRejectedError:
        """Let an async call of this class in."""
        return await self._guard.admit_async(self._share)
