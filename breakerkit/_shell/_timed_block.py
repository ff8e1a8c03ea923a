"""A block under a limit in time: ``with`` tells it, ``async with`` cancels it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Self

from breakerkit import _ambient as ambient
from breakerkit._ambient import Stay

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from breakerkit._ambient import Limit, Terms
    from breakerkit._shell._timed import Limiter

__all__ = ["TimeoutBlock"]


class TimeoutBlock:
    """What ``guard()`` of a timeout returns: ``with`` or ``async with`` it, once.

    With ``with`` the code inside sees the deadline, in every mode: a block
    cannot go on in a thread. With ``async with`` it is cancelled.
    """

    __slots__ = ("_bound", "_end", "_limit", "_limiter", "_outer", "_stay", "_task", "_timer")

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._limit: Limit | None = None
        self._stay: Any = None  # its terms

    def __enter__(self) -> Self:
        self._begin(Stay)
        try:
            ambient.limit.set(self._limit)
            return self  # noqa: TRY300  # an interrupt may come just here
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if error is not None:
            self._limiter.failed(error, self._end, own=self._limit is not self._outer)
        elif self._limiter.clock.now() >= self._end:
            self._limiter.late()

    async def __aenter__(self) -> Self:
        from breakerkit._shell import _timed_async as later  # noqa: PLC0415  # asyncio is slow to import

        task = self._task = later.current_task(self._limiter)
        left = self._begin(functools.partial(later.Nested, task))
        self._stay.watch(self._limit, self._bound)
        loop = task.get_loop()
        try:
            self._timer = loop.call_at(loop.time() + left, self._stay)
            ambient.limit.set(self._limit)
            return self  # noqa: TRY300  # an interrupt may come just here
        except BaseException:
            self._stay.task = None
            self._leave()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from breakerkit._shell import _timed_async as later  # noqa: PLC0415  # asyncio is slow to import

        self._leave()
        expiry, own = self._stay, self._limit is not self._outer
        expiry.task = None
        self._timer.cancel()
        # Left by another task than it was entered by: what was cancelled was that one's.
        fired = expiry.fired and later.current_task(self._limiter) is self._task
        if fired and later.ours(self._task, expiry, error):
            bound = expiry.bound
            raise self._limiter.expired(bound, own=own and bound is self._limit) from error
        if error is not None:
            self._limiter.failed(error, self._end, own=own)
        elif expiry.fired:
            self._limiter.late()

    def _begin(self, stay: Callable[[Terms], Stay]) -> float:
        if self._stay is not None:
            raise RuntimeError("a guard block works once: call guard() for each block")
        limiter, outer = self._limiter, ambient.live(ambient.limit.get())
        next(limiter.ticks)
        now, terms = limiter.clock.now(), limiter.terms
        self._end, self._outer, self._stay = now + terms.seconds, outer, stay(terms)
        self._limit = limiter.within(outer, now, self._stay)
        left, self._bound = ambient.binding(self._limit)
        return left

    def _leave(self) -> None:
        if self._limit is None:
            raise RuntimeError("the guard block is not running")
        # Left in another context than it was entered in, it is just over over there.
        # First, so that an interrupt leaves no limit in force.
        if ambient.limit.get() is self._limit:
            ambient.limit.set(self._outer)
        ambient.end(self._limit, self._outer)
