"""The play under way: two clients that call all the time, one bound to a provider, one with failover."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from breakerkit import CallRejectedError, Registry, State, StateChanged, failover
from breakerkit.cli._client import CONNECTION_ERRORS, Client
from breakerkit.cli._crew import Crew, TraceClock
from breakerkit.cli._display import Lane
from breakerkit.cli._drive import Kind, Move
from breakerkit.cli._words import NOTHING, count
from breakerkit.cli.switchover._plan import KILLED, PROVIDERS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from breakerkit.cli.switchover._plan import Plan

__all__ = ["BOUND", "WITH_FAILOVER", "Clients", "Outcome", "Run"]

#: The two clients.
CLIENTS = BOUND, WITH_FAILOVER = ("bound", "with failover")

_NAME, _STATE = max(map(len, PROVIDERS)), max(map(len, State))
_JUST_NOW = 1.0  # seconds of the play


class Outcome(NamedTuple):
    """One call of a client, or one try of it at a provider; times in seconds of the play.

    Attributes:
        client: who called.
        provider: who was called; of a call that failed, or went on to others, the last.
        began: when it began.
        ended: when it ended.
        kind: how it ended.
    """

    client: str
    provider: str
    began: float
    ended: float
    kind: Kind


@dataclass(eq=False)
class Run:
    """The play; its lists are only ever appended to, so they can be read while they grow.

    Attributes:
        calls: what the clients got.
        tries: what each provider was asked.
        moves: of each provider's breaker.
        killed: when the provider was killed; ``None`` if not yet.
        revived: when it listened again.
    """

    plan: Plan
    calls: list[Outcome] = field(default_factory=list)
    tries: list[Outcome] = field(default_factory=list)
    moves: dict[str, list[Move]] = field(default_factory=lambda: {name: [] for name in PROVIDERS})
    clock: TraceClock | None = None
    killed: float | None = None
    revived: float | None = None

    label = "failover"

    @property
    def span(self) -> float:
        """How long it is, in seconds of the play."""
        return self.plan.span

    def start(self) -> TraceClock:
        """Start its clock."""
        self.clock = TraceClock(self.plan.speed)
        return self.clock

    def at(self) -> float:
        """Return how far it has come, in seconds of the play."""
        return min(self.clock.now(), self.span) if self.clock else 0.0

    def state_of(self, provider: str) -> State:
        """Return the state of a provider's breaker."""
        moves = self.moves[provider]
        return moves[-1].state if moves else State.CLOSED

    def facts(self) -> list[tuple[str, str]]:
        """Return who serves, the errors so far, and whose breaker is not closed."""
        dead = self.killed is not None and self.revived is None
        since, calls = self.at() - _JUST_NOW, self.calls[:]
        serving = {
            one.provider
            for one in calls
            if one.client == WITH_FAILOVER and one.kind is Kind.ANSWERED and one.ended >= since
        }
        opened = [name for name in PROVIDERS if self.state_of(name) is not State.CLOSED]
        return [
            (KILLED, "dead" if dead else "alive"),
            ("serving", "+".join(sorted(serving)) or NOTHING),
            ("errors bound", count(_errors(calls, BOUND))),
            ("failover", count(_errors(calls, WITH_FAILOVER))),
            ("open", "+".join(opened) or NOTHING),
        ]

    def lanes(self) -> list[Lane]:
        """Return when each call of the bound client ended, and each try of the other by provider.

        A provider's lane is named with the state of its breaker.
        """
        calls, tries = self.calls[:], self.tries[:]
        bound = [(one.ended, one.kind) for one in calls if one.client == BOUND]
        return [
            Lane(BOUND, bound),
            *(
                Lane(f"{name:<{_NAME}} {self.state_of(name):<{_STATE}}", _ends(tries, name))
                for name in PROVIDERS
            ),
        ]


def _errors(calls: list[Outcome], client: str) -> int:
    return sum(one.client == client and one.kind is not Kind.ANSWERED for one in calls)


def _ends(tries: list[Outcome], provider: str) -> list[tuple[float, str]]:
    return [
        (one.ended, one.kind)
        for one in tries
        if one.client == WITH_FAILOVER and one.provider == provider
    ]


class Clients(Crew["Mapping[str, Client]"]):
    """The clients' threads; each makes every second call for either client.

    Args:
        run: the play.
        ports: where each provider listens.
    """

    def __init__(self, run: Run, ports: Mapping[str, int]) -> None:
        plan = run.plan
        step = plan.speed / plan.rate
        # The last ones are answered before the play is over.
        calls = int((plan.span - plan.takes * plan.speed) / step)
        dues = [number * step for number in range(calls) for _ in CLIENTS]
        super().__init__(dues, run.start(), plan.threads)
        self._run = run
        self._ports = ports
        providers = failover(
            PROVIDERS,
            "demo",
            strategy="failover",
            order="round_robin",
            breaker=SETTINGS,
            clock=self.clock,
            registry=Registry(),
        )
        for name in PROVIDERS:
            breaker = providers.breaker(name)
            assert breaker, "each provider has one by these settings"
            breaker.subscribe(partial(self._moved, name), StateChanged)

        @providers
        def fetch(provider: str, clients: Mapping[str, Client]) -> str:
            self._try(WITH_FAILOVER, provider, clients)
            return provider

        self._fetch = fetch

    @contextmanager
    def _open(self) -> Iterator[Mapping[str, Client]]:
        with ExitStack() as stack:
            patience = self._run.plan.patience
            yield {
                name: stack.enter_context(closing(Client(port, patience)))
                for name, port in self._ports.items()
            }

    def _do(self, clients: Mapping[str, Client], number: int, /) -> None:
        client = CLIENTS[number % len(CLIENTS)]
        began, provider, kind = self.clock.now(), KILLED, Kind.ANSWERED
        try:
            if client == BOUND:
                self._try(BOUND, KILLED, clients)
            else:
                provider = self._fetch(clients)
        except (*CONNECTION_ERRORS, CallRejectedError, ExceptionGroup):
            kind = Kind.FAILED
        self._run.calls.append(Outcome(client, provider, began, self.clock.now(), kind))

    def _try(self, client: str, provider: str, clients: Mapping[str, Client]) -> None:
        began, kind = self.clock.now(), Kind.FAILED
        try:
            clients[provider].fetch(0)
            kind = Kind.ANSWERED
        finally:
            self._run.tries.append(Outcome(client, provider, began, self.clock.now(), kind))

    def _moved(self, provider: str, event: StateChanged) -> None:
        move = Move(self.clock.now(), event.new, str(event.reason or ""))
        self._run.moves[provider].append(move)
