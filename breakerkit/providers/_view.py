"""How a failover looks from outside at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from breakerkit.providers._slots import Member
    from breakerkit.providers.config import Order, Strategy

__all__ = ["FailoverSnapshot", "PendingRetry", "ProviderSnapshot"]


@attrs.define(eq=False)
class Counts:
    """What is counted of calls that did not end well at once."""

    failed_over: int = 0
    exhausted: int = 0
    rejected: int = 0
    retried: int = 0
    given_up: int = 0


@attrs.frozen(kw_only=True)
class ProviderSnapshot:
    """How one provider stood at a moment.

    Attributes:
        name: its name.
        health: what its breaker would say to a call: ``"fit"``, ``"due for a
            probe"``, ``"broken"``, ``"held open by somebody"``.
        successes: calls it served well.
        failures: calls that failed with it.
        skipped: calls that passed it over for its breaker's sake.
        bypassed: calls it was given although its breaker was open, for too
            many were.
        breaker: the breaker's own snapshot, ``None`` without one.
    """

    name: str
    health: str
    successes: int
    failures: int
    skipped: int
    bypassed: int
    breaker: Any


@attrs.frozen(kw_only=True)
class PendingRetry:
    """A failed call that waits for its next try in the background, or is at it.

    Attributes:
        function: name of what is called.
        provider: name of the provider that failed last, ``None`` if there was none to ask.
        retries: how often it was tried again so far.
        due: seconds until the next try, never negative; ``None`` while it runs.
        error: its last error.
    """

    function: str
    provider: str | None
    retries: int
    due: float | None
    error: BaseException


@attrs.frozen(kw_only=True)
class FailoverSnapshot:
    """How a failover stood at one moment.

    Attributes:
        name: its name.
        strategy: what happens when a provider fails.
        order: which provider comes first.
        providers: those listed, in the order of the list.
        failed_over: calls that ended well after a provider had failed.
        exhausted: calls that no provider served, though one was asked.
        rejected: calls for which there was nobody to ask, or no time.
        retried: retries in the background that ended well.
        given_up: calls that are not tried again (any more).
        pending: calls that wait for their retry, the next one first.
        closed: whether ``close()`` was called.
    """

    name: str
    strategy: Strategy
    order: Order
    providers: tuple[ProviderSnapshot, ...]
    failed_over: int
    exhausted: int
    rejected: int
    retried: int
    given_up: int
    pending: tuple[PendingRetry, ...]
    closed: bool


def snapshot(
    keeper: Any, providers: tuple[ProviderSnapshot, ...], pending: tuple[PendingRetry, ...]
) -> FailoverSnapshot:
    """Put a snapshot together. Under the keeper's lock."""
    config = keeper.config
    return FailoverSnapshot(
        name=keeper.name,
        strategy=config.strategy,
        order=config.order,
        providers=providers,
        pending=pending,
        closed=keeper.retries.closed,
        **attrs.asdict(keeper.counts),
    )


def provider(member: Member) -> ProviderSnapshot:
    """Return how a provider stands; outside every lock, for its breaker is asked."""
    slot = member.slot
    breaker = slot.watch.breaker
    return ProviderSnapshot(
        name=slot.name,
        health=slot.watch.health().value,
        successes=slot.succeeded,
        failures=slot.failures,
        skipped=slot.skipped,
        bypassed=slot.bypassed,
        breaker=None if breaker is None else breaker.snapshot(),
    )
