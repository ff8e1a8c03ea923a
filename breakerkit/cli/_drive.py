"""One run of a plan: client threads that issue the recorded calls when they are due, and what came of each."""

from __future__ import annotations

import enum
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from breakerkit import CircuitOpenError, State, StateChanged
from breakerkit.cli._client import CONNECTION_ERRORS, CallerError, Client, ServerError
from breakerkit.cli._crew import Crew, TraceClock
from breakerkit.cli._display import Lane
from breakerkit.cli._settings import make_breaker
from breakerkit.cli._words import count, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from breakerkit import CircuitBreaker
    from breakerkit.cli._child import ServiceLike
    from breakerkit.cli._plan import Plan

__all__ = ["Kind", "Move", "Outcome", "Run", "Tally", "TraceClock", "drive"]

_GRACE = 15.0  # seconds beyond the longest recorded answer before a client gives up


class Kind(enum.StrEnum):
    """What a caller got."""

    ANSWERED = "answered"  #: a good answer, or a 4xx, which is the caller's own fault
    FAILED = "failed"
    REJECTED = "rejected"


class Outcome(NamedTuple):
    """One call as it was played; times in seconds of the recording."""

    number: int
    began: float
    ended: float
    kind: Kind


class Move(NamedTuple):
    """The breaker entered ``state`` at second ``at`` of the recording."""

    at: float
    state: State
    reason: str


@dataclass(slots=True)
class Tally:
    """Running totals of the outcomes so far; times in seconds of the recording."""

    answered: int = 0
    failed: int = 0
    rejected: int = 0
    waited: float = 0.0
    lost: float = 0.0

    @property
    def let_through(self) -> int:
        """Calls that went to the service."""
        return self.answered + self.failed

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Take more outcomes into account."""
        for outcome in outcomes:
            took = outcome.ended - outcome.began
            self.waited += took
            if outcome.kind is Kind.ANSWERED:
                self.answered += 1
            elif outcome.kind is Kind.FAILED:
                self.failed += 1
                self.lost += took
            else:
                self.rejected += 1


@dataclass(eq=False)
class Run:
    """A plan being played, bare or behind a breaker.

    ``outcomes`` is only ever appended to, so it can be read while it grows.
    """

    plan: Plan
    guarded: bool
    outcomes: list[Outcome] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    clock: TraceClock | None = None
    breaker: CircuitBreaker | None = None

    @property
    def label(self) -> str:
        """What to call it."""
        return "guarded" if self.guarded else "bare"

    @property
    def span(self) -> float:
        """How long it is, in seconds of the recording."""
        return self.plan.span

    def at(self) -> float:
        """Return how far it has come, in seconds of the recording."""
        return min(self.clock.now(), self.span) if self.clock else 0.0

    def facts(self) -> list[tuple[str, str]]:
        """Return the running figures, as pairs of name and value."""
        tally = Tally()
        tally.add(self.outcomes[:])
        shown = [
            ("let through", count(tally.let_through)),
            ("failed", count(tally.failed)),
            ("rejected", count(tally.rejected)),
            ("time lost", duration(tally.lost)),
        ]
        return shown if self.breaker is None else [("breaker", self.breaker.state.value), *shown]

    def lanes(self) -> list[Lane]:
        """Return when each call ended, and how."""
        return [Lane("", [(one.ended, one.kind) for one in self.outcomes[:]])]

    def start(self) -> TraceClock:
        """Start its clock, and make its breaker if it has one."""
        clock = self.clock = TraceClock(self.plan.speed)
        if self.guarded:
            self.breaker = make_breaker(clock)
            self.breaker.subscribe(self._moved, StateChanged)
        return clock

    def _moved(self, event: StateChanged) -> None:
        if self.clock is not None:
            self.moves.append(Move(self.clock.now(), event.new, str(event.reason or "")))

    def state_at(self, moment: float) -> State:
        """Return the breaker's state at that second of the recording."""
        before = [move.state for move in self.moves if move.at <= moment]
        return before[-1] if before else State.CLOSED

    def lateness(self) -> float:
        """Return how late, in real seconds, all but the latest hundredth of the calls began."""
        calls, speed = self.plan.calls, self.plan.speed
        late = sorted((one.began - calls[one.number].start) / speed for one in self.outcomes)
        return late[len(late) * 99 // 100] if late else 0.0


def drive(run: Run, service: ServiceLike, watch: Callable[[Run], None]) -> None:
    """Play the run to its end, calling ``watch(run)`` a few times a second.

    Raises:
        ServiceDiedError: if the service ends before the run does.
    """
    service.go()
    crew = _Crew(run, service.port, run.start())
    crew.start()
    try:
        while crew.working():
            watch(run)
            service.check()
    finally:
        crew.stop()


class _Crew(Crew[Client]):
    """The client threads of a run."""

    advice = "choose fewer with --threads"

    def __init__(self, run: Run, port: int, clock: TraceClock) -> None:
        calls = run.plan.calls
        super().__init__([call.start for call in calls], clock, run.plan.threads)
        self._run = run
        self._port = port
        self._timeout = max(call.elapsed for call in calls) / run.plan.speed + _GRACE

    def _open(self) -> AbstractContextManager[Client]:
        return closing(Client(self._port, self._timeout))

    def _do(self, client: Client, number: int, /) -> None:
        began = self.clock.now()
        kind = self._issue(client, number)
        self._run.outcomes.append(Outcome(number, began, self.clock.now(), kind))

    def _issue(self, client: Client, number: int) -> Kind:
        breaker = self._run.breaker
        try:
            right = breaker.call(client.fetch, number) if breaker else client.fetch(number)
        except CircuitOpenError:
            return Kind.REJECTED
        except CallerError:
            return Kind.ANSWERED
        except (ServerError, *CONNECTION_ERRORS):
            return Kind.FAILED
        return Kind.ANSWERED if right else Kind.FAILED
