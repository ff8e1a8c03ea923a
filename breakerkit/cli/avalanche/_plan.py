"""What is played: the outage of a recording, as the time in which one dependency hangs, and the load around it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from breakerkit.cli._display import Panel
from breakerkit.cli._options import UsageError
from breakerkit.cli._plan import stretches
from breakerkit.cli._service import Reply, Script
from breakerkit.cli._words import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from breakerkit.cli._plan import Outage
    from breakerkit.cli._trace import Call, Recording

__all__ = ["ENDPOINTS", "HUNG", "OTHERS", "Plan", "hangs", "make_plan"]

#: The endpoints of the service; each has a dependency of its own of the same name.
ENDPOINTS = ("reviews", "prices", "stock")

#: The one whose dependency hangs, and the others.
HUNG, *OTHERS = ENDPOINTS

#: Seconds of real time that the outage takes by default, and at least.
USUAL, SHORTEST = 7.0, 1.5

_COMMAND = "breakerkit demo avalanche"

# What is played before and after the outage, as shares of it.
_LEAD, _TAIL = 0.35, 0.25
_MANY_TIMES = 10  # the usual time: such a call hung
_PERCEPTIBLE = 0.5  # seconds that a hanging call takes at least


@dataclass(frozen=True, slots=True)
class Plan:
    """One round of the play; times in seconds of real time since it began.

    Attributes:
        name: the recording's name.
        recorded: how long its outage was, in seconds of the recording.
        speed: seconds of the recording per second of real time.
        span: how long the round is.
        hung_at: when the dependency begins to hang.
        over_at: when it answers again.
        hangs: the same, and shorter hangs beside it.
        rate: calls per second, of each endpoint.
        takes: seconds a dependency takes that is well.
        patience: seconds after which a client gives up.
        workers: threads of the service.
        waiting: connections that wait for a worker, at most.
        limit: calls of one dependency at the same time, where there are bulkheads.
    """

    name: str
    recorded: float
    speed: float
    span: float
    hung_at: float
    over_at: float
    hangs: tuple[tuple[float, float], ...]
    rate: float = 20.0
    takes: float = 0.15
    patience: float = 1.0
    workers: int = 20
    waiting: int = 128
    limit: int = 6

    @property
    def rule_at(self) -> float:
        """When the operator degrades the endpoint."""
        return (self.hung_at + self.over_at) / 2

    @property
    def cleared_at(self) -> float:
        """When the operator removes the rule, some time after the outage."""
        return self.over_at + (self.span - self.over_at) / 3

    @property
    def threads(self) -> int:
        """Client threads: as many as calls can be under way, and some more."""
        return int(self.rate * len(ENDPOINTS) * (self.patience + self.takes)) + 16

    @property
    def panels(self) -> dict[str, Panel]:
        """The rounds as they are shown."""
        return {
            "shared": Panel("one pool of workers for all", len(ENDPOINTS)),
            "isolated": Panel("a bulkhead per dependency", len(ENDPOINTS)),
        }

    def script_of(self, endpoint: str) -> Script:
        """Return what the endpoint's dependency does."""
        hangs = self.hangs if endpoint == HUNG else ()
        return Script([Reply(self.takes, "right", 200)], [], hangs)


def make_plan(recording: Recording, speed: float | None = None) -> Plan:
    """Take the longest outage of a recording, and what is around it.

    Args:
        recording: where it comes from.
        speed: recorded seconds per real second; ``None`` makes the outage last
            `USUAL` seconds.

    Raises:
        UsageError: if it has none, or one that is too short at this speed.
    """
    found = hangs(recording)
    if not found:
        raise UsageError(
            f"{_COMMAND}: error: argument --trace: {recording.name} has no outage: there is no time"
            " in which most calls failed or hung (breakerkit demo plays any recording)"
        )
    longest = max(found, key=_length)
    speed = speed or _length(longest) / USUAL
    if _length(longest) / speed < SHORTEST:
        raise UsageError(
            f"{_COMMAND}: error: argument --speed: must be at most"
            f" {_length(longest) / SHORTEST:.3g} here: the outage of {duration(_length(longest))}"
            f" has to last {SHORTEST:g} s, not {duration(_length(longest) / speed)}"
        )
    return _plan(recording.name, longest, found, speed)


def _plan(name: str, longest: Outage, found: Sequence[Outage], speed: float) -> Plan:
    length = _length(longest)
    zero = longest.began - length * _LEAD
    span = length * (_LEAD + 1 + _TAIL)
    inside = [hang for hang in found if hang.ended > zero and hang.began < zero + span]
    return Plan(
        name=name,
        recorded=length,
        speed=speed,
        span=span / speed,
        hung_at=length * _LEAD / speed,
        over_at=length * (_LEAD + 1) / speed,
        hangs=tuple(((one.began - zero) / speed, (one.ended - zero) / speed) for one in inside),
    )


def hangs(recording: Recording) -> tuple[Outage, ...]:
    """Return the times in which most calls that began failed, or took ten times as long as usual."""
    calls = recording.calls
    good = [call.elapsed for call in calls if not call.failed]
    long = max(_PERCEPTIBLE, _MANY_TIMES * median(good or [0.0]))

    def hung(call: Call) -> bool:
        return call.failed or call.elapsed >= long

    return stretches([(call.start, hung(call)) for call in calls], recording.span)


def _length(hang: Outage) -> float:
    return hang.ended - hang.began
