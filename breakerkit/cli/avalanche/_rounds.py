"""One round of the play: clients that call three endpoints at a steady rate, and what came of each call."""

from __future__ import annotations

import enum
import http.client
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._client import CONNECTION_ERRORS
from breakerkit.cli._crew import Crew, TraceClock
from breakerkit.cli._display import Lane
from breakerkit.cli._words import count
from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from breakerkit.cli.avalanche._plan import Plan

__all__ = ["Clients", "Kind", "Outcome", "Round", "ask"]

_EMPTY = b"[]"


class Kind(enum.StrEnum):
    """What a caller got."""

    ANSWERED = "answered"
    STAND_IN = "stand-in"  #: what the rule says instead of the dependency
    REFUSED = "refused"  #: 503: no worker, or no place in the bulkhead
    TIMED_OUT = "timed out"  #: the caller gave up
    FAILED = "failed"


#: The order in which they are shown as they grow; failures only if there are any.
_SHOWN = (Kind.ANSWERED, Kind.TIMED_OUT, Kind.REFUSED, Kind.STAND_IN, Kind.FAILED)


class Outcome(NamedTuple):
    """One call; times in seconds since the round began."""

    endpoint: str
    began: float
    ended: float
    kind: Kind


@dataclass(eq=False)
class Round:
    """A plan being played, with one pool for all or with a bulkhead per dependency.

    ``outcomes`` is only ever appended to, so it can be read while it grows.

    Attributes:
        written: when the operator wrote the rule file; ``None`` if not yet.
        cleared: when the operator took the rule out again.
    """

    plan: Plan
    isolated: bool
    outcomes: list[Outcome] = field(default_factory=list)
    clock: TraceClock | None = None
    written: float | None = None
    cleared: float | None = None

    @property
    def label(self) -> str:
        """What to call it."""
        return "isolated" if self.isolated else "shared"

    @property
    def span(self) -> float:
        """How long it is, in seconds."""
        return self.plan.span

    @property
    def in_force(self) -> float | None:
        """When the first call began that the rule answered."""
        answered = (one.began for one in self.outcomes[:] if one.kind is Kind.STAND_IN)
        return min(answered, default=None)

    def at(self) -> float:
        """Return how far it has come, in seconds."""
        return min(self.clock.now(), self.span) if self.clock else 0.0

    def start(self) -> TraceClock:
        """Start its clock."""
        self.clock = TraceClock(1.0)
        return self.clock

    def facts(self) -> list[tuple[str, str]]:
        """Return what is going on, and how many calls came to what."""
        kinds = [one.kind for one in self.outcomes[:]]
        counts = [(kind.value, kinds.count(kind)) for kind in _SHOWN]
        shown = [(name, count(number)) for name, number in counts if number or name != Kind.FAILED]
        return [(HUNG, self._state()), *shown]

    def _state(self) -> str:
        at, plan = self.at(), self.plan
        if self.written is not None and self.cleared is None:
            return "degraded"
        return "hangs" if plan.hung_at <= at < plan.over_at else "well"

    def lanes(self) -> list[Lane]:
        """Return when the calls of each endpoint ended, and how."""
        outcomes = self.outcomes[:]
        return [
            Lane(name, [(one.ended, one.kind) for one in outcomes if one.endpoint == name])
            for name in ENDPOINTS
        ]


class Clients(Crew[None]):
    """The clients of a round: each endpoint is called at the plan's rate, in turn."""

    def __init__(self, played: Round, port: int) -> None:
        plan = played.plan
        step = 1 / (plan.rate * len(ENDPOINTS))
        # The last ones are answered before the round is over.
        dues = [number * step for number in range(int((plan.span - plan.takes) / step))]
        super().__init__(dues, played.start(), plan.threads)
        self._played = played
        self._port = port

    def _open(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _do(self, _: None, number: int, /) -> None:
        endpoint = ENDPOINTS[number % len(ENDPOINTS)]
        began = self.clock.now()
        kind = ask(self._port, endpoint, self._played.plan.patience)
        self._played.outcomes.append(Outcome(endpoint, began, self.clock.now(), kind))


def ask(port: int, endpoint: str, patience: float) -> Kind:
    """Call an endpoint once; return what came of it."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience)) as connection:
        try:
            connection.request("GET", f"/{endpoint}")
            response = connection.getresponse()
            body = response.read()
        except TimeoutError:
            return Kind.TIMED_OUT
        except CONNECTION_ERRORS:
            return Kind.FAILED
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Kind.REFUSED
    if response.status != HTTPStatus.OK:
        return Kind.FAILED
    return Kind.STAND_IN if body == _EMPTY else Kind.ANSWERED
