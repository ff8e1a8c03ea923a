"""Time as an event loop has it: one that is held up has replies to read before anything is too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.store.redis._replies import MOST_PIECES, PIECE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

#: Looks at what is waited for, evenly over the time it has: a loop that was held up for
#: all of it has looked once.
LOOKS = 4


class Looks:
    """A time that is over only if the event loop was there for it.

    It is cut into some looks, each of which is the loop's: one that was held up
    has replies to read first.

    Args:
        loop: the loop.
        seconds: how long it is.
        then: what is called when it is over.
        size: says how many bytes have come of what is waited for; each further
            megabyte has as long again.

    Attributes:
        over: whether it is over.
    """

    __slots__ = ("_grants", "_left", "_loop", "_seen", "_size", "_step", "_then", "_timer", "over")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        then: Callable[[], object],
        size: Callable[[], int] | None = None,
    ) -> None:
        self.over = False
        self._loop = loop
        self._step = seconds / LOOKS
        self._then = then
        self._size = size
        self._seen, self._grants = 0, MOST_PIECES
        self.again()
        self._timer = loop.call_later(self._step, self._look)

    def again(self, times: int = 1) -> None:
        """Begin anew: something has come, or gone; it has so many times as long."""
        self._left = LOOKS * times

    def _look(self) -> None:
        if self._size is not None:
            self._grow(self._size())
        self._left -= 1
        if self._left > 0:
            self._timer = self._loop.call_later(self._step, self._look)
            return
        self.over = True
        self._then()

    def _grow(self, size: int) -> None:
        if size - self._seen >= PIECE and self._grants > 0:
            self._grants -= 1
            self._seen = size
            self._left += LOOKS
        self._seen = min(size, self._seen)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()


class Beat:
    """Whether an event loop keeps time while something is waited for."""

    __slots__ = ("_due", "_late", "_loop", "_step", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._step = seconds / LOOKS
        self._late = False
        self._next()

    def _next(self) -> None:
        self._due = self._loop.time() + self._step
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._late = self.late
        self._next()

    @property
    def late(self) -> bool:
        """Whether it was held up for longer than from one look to the next."""
        return self._late or self._loop.time() > self._due + self._step

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()
