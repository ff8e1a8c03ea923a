"""Where time comes from: seconds from an object with ``now()``, monotonic by default."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "SystemClock", "WallClock", "system_clock"]


@runtime_checkable
class Clock(Protocol):
    """Anything that can say what time it is."""

    def now(self) -> float:
        """Return the present moment in seconds; only differences have a meaning."""
        ...


class SystemClock:
    """The default clock: ``time.monotonic``, which no wall-clock step can move.

    ``now`` is an instance attribute, so that a call costs what the bare
    function costs and the test plugin can put another source in its place.
    """

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.monotonic

    def __repr__(self) -> str:
        return "SystemClock()"


class WallClock:
    """A clock that follows ``time.time``, for tests that move the wall clock.

    A wall clock can step. A step back makes an open period in progress start
    over, once; it never makes it longer than ``open_duration`` from then on.
    """

    __slots__ = ()

    def now(self) -> float:
        """Return seconds since 1970 by the wall clock."""
        return time.time()

    def __repr__(self) -> str:
        return "WallClock()"


#: The one clock of every breaker that was given none.
system_clock = SystemClock()


def utc_now() -> datetime:
    """Return the present moment as an aware UTC ``datetime``."""
    return datetime.now(UTC)
