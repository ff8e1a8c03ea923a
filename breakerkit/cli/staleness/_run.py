"""The play under way: callers who ask the readers for prices, without the cache and with it, and what each got."""

from __future__ import annotations

import enum
import http.client
import json
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._crew import Crew, TraceClock
from breakerkit.cli._display import Lane
from breakerkit.cli._words import count, duration
from breakerkit.cli.staleness._reader import WITH, WITHOUT, Said

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from breakerkit.cli.staleness._plan import Plan

__all__ = ["WAYS", "Callers", "Kind", "Outcome", "Run", "ask"]

#: Who asks: in the order of the lanes.
WAYS = (WITHOUT, WITH)

_JUST_NOW = 1.0  # seconds


class Kind(enum.StrEnum):
    """What a caller got; the names are those of `breakerkit.Source`."""

    FRESH = "fresh"
    CACHED = "cached"
    STALE = "stale"
    DISASTER = "disaster"
    FAILED = "failed"


class Outcome(NamedTuple):
    """One call; times in seconds since the play began.

    Attributes:
        way: without the cache or with it.
        reader: which process was asked.
        began: when it began.
        ended: when it ended.
        kind: what the caller got.
        age: how old the price was, in seconds; ``None`` if there was none.
        took: how long the reader took, in seconds.
        asked: how often that process had asked the price service in that way.
    """

    way: str
    reader: int
    began: float
    ended: float
    kind: Kind
    age: float | None
    took: float
    asked: int


@dataclass(eq=False)
class Run:
    """The play; its list is only ever appended to, so it can be read while it grows.

    Attributes:
        calls: what the callers got.
        before: how often each reader had asked the price service before the play.
        frozen: when the store was frozen; ``None`` if not yet.
        killed: when it was killed.
    """

    plan: Plan
    calls: list[Outcome] = field(default_factory=list)
    before: dict[tuple[str, int], int] = field(default_factory=dict)
    clock: TraceClock | None = None
    frozen: float | None = None
    killed: float | None = None

    label = "stale"

    @property
    def span(self) -> float:
        """How long it is, in seconds."""
        return self.plan.span

    def start(self) -> TraceClock:
        """Start its clock."""
        self.clock = TraceClock(1.0)
        return self.clock

    def at(self) -> float:
        """Return how far it has come, in seconds."""
        return min(self.clock.now(), self.span) if self.clock else 0.0

    def of(self, way: str) -> list[Outcome]:
        """Return what the callers got in that way, in the order in which it ended."""
        return sorted((one for one in self.calls[:] if one.way == way), key=lambda one: one.ended)

    def asked(self, way: str) -> list[float]:
        """Return when the price service was asked, about: with a call's answer it is known."""
        known = self.before.copy()
        moments: list[float] = []
        for one in self.of(way):
            new = one.asked - known.get((way, one.reader), 0)
            if new > 0:
                known[way, one.reader] = one.asked
                moments += [one.ended] * new
        return moments

    def facts(self) -> list[tuple[str, str]]:
        """Return who is well, the errors so far, what is served, and how often the service was asked."""
        at, without, through = self.at(), self.of(WITHOUT), self.of(WITH)
        down = any(began <= at < ended for began, ended in self.plan.down)
        late = [one for one in through if one.ended >= at - _JUST_NOW and one.age is not None]
        oldest = max((one.age for one in late if one.age is not None), default=None)
        return [
            ("service", "down" if down else "well"),
            ("Valkey", self._store()),
            ("errors without", count(_errors(without))),
            ("with", count(_errors(through))),
            ("served up to", f"{duration(oldest)} old"),
        ]

    def _store(self) -> str:
        if self.killed is not None:
            return "dead"
        return "well" if self.frozen is None else "frozen"

    def lanes(self) -> list[Lane]:
        """Return when the calls ended, and what their callers got."""
        return [Lane(way, [(one.ended, one.kind) for one in self.of(way)]) for way in WAYS]


def _errors(calls: list[Outcome]) -> int:
    return sum(one.kind is Kind.FAILED for one in calls)


class Callers(Crew[None]):
    """The callers: every second call is made without the cache, at the plan's rate.

    Args:
        run: the play.
        ports: where each reader listens.
    """

    def __init__(self, run: Run, ports: list[int]) -> None:
        plan = run.plan
        dues = [number / plan.rate for number in range(int(plan.span * plan.rate)) for _ in WAYS]
        super().__init__(dues, run.start(), plan.threads)
        self._run = run
        self._ports = ports

    def _open(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _do(self, _: None, number: int, /) -> None:
        plan, way, number = self._run.plan, WAYS[number % len(WAYS)], number // len(WAYS)
        began, reader = self.clock.now(), number % plan.readers
        said = ask(self._ports[reader], way, plan.product(number, began), plan.patience)
        ended = self.clock.now()
        self._run.calls.append(Outcome(way, reader, began, ended, Kind(said.source), *said[1:]))


def ask(port: int, way: str, product: str, patience: float) -> Said:
    """Ask a reader for a price; return what it said.

    Raises:
        OSError: it did not answer in that many seconds, or is not there.
        http.client.HTTPException: there was no answer, or half of one.
    """
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience)) as connection:
        connection.request("GET", f"/{way}/{product}")
        return Said(*json.loads(connection.getresponse().read()))
