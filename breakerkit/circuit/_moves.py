"""The table of legal moves, and the plain records the machine answers with."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from breakerkit._counters import drawn
from breakerkit._outcome import Outcome
from breakerkit.circuit._states import Closed, HalfOpen, Lease, Open, State
from breakerkit.events import Evidence, OpenReason
from breakerkit.events import State as Name

if TYPE_CHECKING:
    from datetime import datetime

#: Seconds an open period lasts while, or if, a callable ``open_duration`` has no usable answer.
FALLBACK_DURATION = 30.0

#: Every move there is; a reset is none, it starts over.
MOVES = frozenset(
    {
        (Name.CLOSED, Name.OPEN),
        (Name.OPEN, Name.HALF_OPEN),
        (Name.HALF_OPEN, Name.OPEN),
        (Name.HALF_OPEN, Name.CLOSED),
    }
)

NAMES: dict[type[State], Name] = {
    Closed: Name.CLOSED,
    Open: Name.OPEN,
    HalfOpen: Name.HALF_OPEN,
}


class Move(NamedTuple):
    """A move that was made; ``opened`` is there when it was an opening."""

    old: Name
    new: Name
    opened: Open | None
    openings: int
    error: BaseException | None


class Refusal(NamedTuple):
    """Why an admission was refused."""

    reason: OpenReason | str
    retry_after: float
    opened_at: datetime
    half_open: bool


class Counts:
    """Counters since creation. Successes of the present closed period are counted by itself."""

    __slots__ = ("failures", "forgotten", "ignored", "openings", "rejections", "successes")

    def __init__(self) -> None:
        self.successes = 0
        self.failures = 0
        self.ignored = 0
        self.openings = 0
        self.rejections = itertools.count(1)  # drawn without the lock
        self.forgotten = itertools.count(1)  # likewise: ignored calls whose end nobody saw

    def take(self, outcome: Outcome) -> None:
        """Count one ended call."""
        if outcome is Outcome.SUCCESS:
            self.successes += 1
        elif outcome is Outcome.FAILURE:
            self.failures += 1
        else:
            self.ignored += 1

    @property
    def rejected(self) -> int:
        """How many calls were rejected."""
        return drawn(self.rejections)


Entry: TypeAlias = Lease | Closed


def refused(state: Open, now: float) -> Refusal:
    """Return what a call is told while open."""
    return Refusal(state.reason, state.remaining(now), state.opened_at, False)


def without_error(evidence: Evidence) -> Evidence:
    # What is kept must lead to no frame of a caller's.
    return Evidence(
        evidence.consecutive_failures,
        evidence.window_calls,
        evidence.window_failures,
        evidence.slow_window_calls,
        evidence.slow_calls,
    )
