"""What is played: a recording, at whose pace the price service dies, and then the end of the store; and who calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakerkit.cli._child import script_of
from breakerkit.cli._display import Panel
from breakerkit.cli._options import UsageError
from breakerkit.cli._plan import make_plan as plan_of
from breakerkit.cli._trace import Answer, Recording
from breakerkit.cli._words import duration
from breakerkit.cli.staleness import _prices

if TYPE_CHECKING:
    from breakerkit.cli import _plan as recorded

__all__ = ["LATE", "PRODUCTS", "Plan", "describe", "make_plan"]

#: What has a price, and the one that nobody asks for before the service is down.
PRODUCTS = ("tea", "coffee", "cocoa")
LATE = "cocoa"

#: Seconds of real time that the recording takes by default, and at least.
USUAL, SHORTEST = 12.0, 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The play; times in seconds of real time, since it began.

    Attributes:
        recorded: what is played of the recording, and how fast.
        calm: how long all is well after it.
        frozen: how long the store is frozen then.
        dead: how long it is dead after that, to the end of the play.
        readers: processes that ask for prices and share a store.
        rate: calls per second, with the cache and without.
        refresh_after: the cache's refresh period.
        max_stale: how old a price may get.
        soft_timeout: how long a caller waits who can be given a stale price.
        store_timeout: how long the store is waited for.
        origin_timeout: how long the price service is waited for.
        patience: how long a caller waits for a reader.
    """

    recorded: recorded.Plan
    calm: float = 1.0
    frozen: float = 3.0
    dead: float = 3.0
    readers: int = 3
    rate: float = 60.0
    refresh_after: float = 1.0
    max_stale: float = 60.0
    soft_timeout: float = 0.1
    store_timeout: float = 0.1
    origin_timeout: float = 2.0
    patience: float = 10.0

    @property
    def frozen_at(self) -> float:
        """When the store is frozen."""
        return self._played + self.calm

    @property
    def killed_at(self) -> float:
        """When it is killed."""
        return self.frozen_at + self.frozen

    @property
    def span(self) -> float:
        """How long the play is."""
        return self.killed_at + self.dead

    @property
    def _played(self) -> float:
        return self.recorded.span / self.recorded.speed

    @property
    def down(self) -> tuple[tuple[float, float], ...]:
        """When most calls of the price service failed."""
        speed = self.recorded.speed
        return tuple((one.began / speed, one.ended / speed) for one in self.recorded.outages)

    @property
    def late_at(self) -> float:
        """From when on all products are asked for: the middle of the longest outage."""
        longest = max(self.down, key=lambda one: one[1] - one[0], default=(0.0, self._played))
        return sum(longest) / 2

    @property
    def panels(self) -> dict[str, Panel]:
        """The one panel: a lane without the cache, and one with it."""
        return {"stale": Panel("the price service asked by each call, and through the cache", 2)}

    @property
    def threads(self) -> int:
        """Callers: as many as calls can be under way, and some more."""
        return int(2 * self.rate * self.origin_timeout / 4) + 16

    def product(self, number: int, at: float) -> str:
        """Return what a call asks for; each reader is asked for each product."""
        product = PRODUCTS[number // self.readers % len(PRODUCTS)]
        return product if at >= self.late_at or product != LATE else PRODUCTS[0]

    def script(self) -> str:
        """Return what the price service is told."""
        speed = self.recorded.speed
        starts = [call.start / speed for call in self.recorded.calls]
        return _prices.dumps(script_of(self.recorded), starts, self._played)


def make_plan(recording: Recording, speed: float | None = None) -> Plan:
    """Plan the play of a recording.

    Args:
        recording: as whose service the price service fares.
        speed: recorded seconds per real second; ``None`` makes the recording
            last `USUAL` seconds, and never slows down.

    Raises:
        UsageError: there is too little of it at this speed.
    """
    # What a caller did wrong says nothing about the service.
    calls = tuple(call for call in recording.calls if call.answer is not Answer.CALLER_ERROR)
    if not calls:
        raise UsageError(
            f"breakerkit demo stale: error: argument --trace: {recording.name} has no call that says"
            " how its service was: all are the callers' own faults"
        )
    span = max(call.end for call in calls)
    speed = speed or max(1.0, span / USUAL)
    if span / speed < SHORTEST:
        raise UsageError(
            f"breakerkit demo stale: error: argument --speed: must be at most {span / SHORTEST:.3g}"
            f" here: the recording of {duration(span)} has to last {SHORTEST:g} s, not"
            f" {duration(span / speed)}"
        )
    return Plan(plan_of(Recording(recording.name, calls, recording.notes), speed))


def describe(plan: Plan) -> str:
    """Say in a line what the cache does."""
    return (
        f"The service is left alone for {plan.refresh_after:g} s after each attempt, per product; a"
        f" price is served until it is {plan.max_stale:g} s old; who can be given a stale one waits"
        f" {plan.soft_timeout:g} s for a new one."
    )
