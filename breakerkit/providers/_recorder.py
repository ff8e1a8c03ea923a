"""What a failover counts and tells of its calls, and whether all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit._keeper import Keeper
from breakerkit.providers._view import Counts
from breakerkit.providers.events import EVENT_KINDS, FailedOver, ProviderFailed, ProvidersExhausted

if TYPE_CHECKING:
    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.errors import CallRejectedError
    from breakerkit.providers._slots import Member


class Recorder(Keeper):
    """Takes in how calls went.

    Attributes:
        counts: what is counted of calls that did not end well at once.
        losers: threads of forks whose call is over.
        ready: who comes first, while that cannot change but by a failure.
    """

    __slots__ = ("_calm", "_trouble", "counts", "losers", "ready")

    kinds = EVENT_KINDS

    def __init__(self, name: str, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        #: Each failure moves `_trouble` on; while `_calm` says the same, all is well.
        self._trouble, self._calm = 0, -1
        self.ready: Member | None = None
        self.counts = Counts()
        self.losers = 0

    def _stir(self) -> None:
        """Let the next call look at everybody again. Under the lock."""
        self._trouble += 1
        self.ready = None

    def failed(self, member: Member, error: BaseException) -> None:
        """Take in that a call failed with one provider."""
        now = self.clock.now()
        with self.lock:
            self._stir()
            member.slot.mark(now)
            self.post(ProviderFailed, provider=member.name, error=error)
        self.hub.drain()

    def recovered(self, member: Member) -> None:
        """Take in that a probe ended well: what is past no longer puts the provider last."""
        with self.lock:
            self._stir()
            member.slot.clear()

    def failed_over(self, member: Member, failed: tuple[str, ...]) -> None:
        """Take in that a call ended well after some had failed."""
        with self.lock:
            self.counts.failed_over += 1
            self.post(FailedOver, provider=member.name, failed=failed)
        self.hub.drain()

    def exhausted(self, error: BaseException, *, rejected: bool) -> None:
        """Take in that no provider served a call."""
        with self.lock:
            if rejected:
                self.counts.rejected += 1
            else:
                self.counts.exhausted += 1
            self.post(ProvidersExhausted, error=error)
        self.hub.drain()

    def passed_over(self, skipped: list[Member]) -> None:
        """Count those a call did not even ask."""
        with self.lock:
            for member in skipped:
                member.slot.skipped += 1

    def bypassed(self, member: Member) -> None:
        """Count one that is asked although its breaker is open."""
        with self.lock:
            member.slot.bypassed += 1

    def refusals(self, members: list[Member]) -> list[tuple[str, CallRejectedError]]:
        """Return what the breakers of some would say now."""
        return [(member.name, member.slot.watch.refusal()) for member in members]
