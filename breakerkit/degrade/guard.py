"""What stands behind a fallback: its settings, which cure an error gets, and how often that happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit._keeper import Keeper
from breakerkit.degrade._answers import Answer, FallbackCall, awaited
from breakerkit.degrade._verdict import Judge, Verdict
from breakerkit.degrade.config import has_workers
from breakerkit.degrade.events import FallbackFailed, FallbackUsed
from breakerkit.events import ConfigChanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.degrade.config import FallbackConfig

__all__ = ["FallbackSnapshot"]


@attrs.frozen(kw_only=True)
class FallbackSnapshot:
    """All numbers of a fallback as they belong together at one moment.

    Attributes:
        name: its name.
        used: answers it gave, to failures and rejections.
        rejections: how many of them were for rejections.
        failed: times it failed itself, so that the caller got that error.
    """

    name: str
    used: int
    rejections: int
    failed: int


class FallbackGuard(Keeper):
    """Settings and numbers of one fallback; it is asked only when a call has not ended well."""

    __slots__ = ("_terms", "config", "failures", "rejections", "served", "used")

    kinds = (FallbackUsed, FallbackFailed, ConfigChanged)
    #: Every call is run: only its end can need an answer.
    forces = False

    def __init__(self, name: str, config: FallbackConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.used = self.rejections = self.failures = 0
        #: The shapes of function it has been put around.
        self.served: frozenset[Any] = frozenset()
        self.adopt(config)

    def adopt(self, config: FallbackConfig) -> None:
        """Take new settings. Under the lock."""
        self.config = config
        self._terms = (
            config,
            Judge(self.name, config.on),
        )  # as one: calls read both without the lock

    def rename(self, name: str) -> None:
        """Take a name, once it is known."""
        with self.lock:
            self.name = name
            self.adopt(self.config)

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Cure:
        """Answer in place of a call, which nobody asks of what never `forces`."""
        raise NotImplementedError

    def answer(
        self, error: Exception, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Cure | None:
        """Return the answer to a call that raised ``error``, ``None`` if that is the caller's."""
        config, judge = self._terms
        verdict = judge.verdict(error)
        if verdict is Verdict.THE_CALLERS:
            return None
        rejected = verdict is Verdict.REJECTION
        cure = config.for_rejections if rejected else None
        cure = config.cure if cure is None else cure
        call = FallbackCall(error=error, args=args, kwargs=kwargs, name=self.name)
        return Cure(self, cure, config.bulkhead, call, rejected)

    def gave(self, error: Exception, rejected: bool) -> None:
        """Count an answer and tell it."""
        with self.lock:
            self.used += 1
            self.rejections += rejected
            self.post(FallbackUsed, error=error, rejected=rejected)
        self.hub.drain()

    def failed(self, error: Exception, failure: Exception) -> None:
        """Count a fallback that failed itself and tell it."""
        with self.lock:
            self.failures += 1
            self.post(FallbackFailed, error=error, failure=failure)
        self.hub.drain()

    def snapshot(self) -> FallbackSnapshot:
        """Return all numbers as they belong together now."""
        with self.lock:
            return FallbackSnapshot(
                name=self.name, used=self.used, rejections=self.rejections, failed=self.failures
            )


class Cure(Answer):
    """The answer of a fallback to one error."""

    __slots__ = ("_bulkhead", "_call", "_cure", "_guard", "_rejected")

    error: Exception

    def __init__(
        self, guard: FallbackGuard, cure: Any, bulkhead: Any, call: FallbackCall, rejected: bool
    ) -> None:
        super().__init__(call.error)
        self._guard = guard
        self._cure = cure
        self._bulkhead = bulkhead
        self._call = call
        self._rejected = rejected

    def make(self) -> Any:
        """Return the value, or what the callable returns."""
        if not callable(self._cure):
            return self._cure
        if self._bulkhead is None:
            return self._cure(self._call)
        return self._bulkhead.call(self._cure, self._call)

    async def make_async(self) -> Any:
        """Do the same for an async call; the cure may be sync or async, and no slot is waited for in the loop."""
        cure, bulkhead = self._cure, self._bulkhead
        if not callable(cure):
            return cure
        if bulkhead is None:
            return await awaited(cure, self._call)
        if has_workers(bulkhead):
            return await bulkhead.run(cure, self._call)
        return await bulkhead.call(awaited, cure, self._call)

    def gave(self) -> None:
        """Hear that the caller gets it."""
        self._guard.gave(self.error, self._rejected)

    def failed(self, failure: Exception) -> None:
        """Hear that it failed itself, or passed the very error on."""
        super().failed(failure)
        if failure is not self.error:
            self._guard.failed(self.error, failure)
