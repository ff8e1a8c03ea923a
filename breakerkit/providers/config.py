"""What a failover is told: one frozen, checked set of settings."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from breakerkit import _fields as fields
from breakerkit._outcome import to_failure_filter

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._outcome import ErrorFilter

__all__ = ["FailoverConfig", "Order", "Strategy"]


class Strategy(enum.StrEnum):
    """What happens when the provider a call was given fails (the words are Apache Dubbo's)."""

    FAILOVER = "failover"
    FAILFAST = "failfast"
    FAILSAFE = "failsafe"
    FAILBACK = "failback"
    BROADCAST = "broadcast"
    FORKING = "forking"


class Order(enum.StrEnum):
    """Which provider comes first."""

    IN_ORDER = "in_order"
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"
    LEAST_FAILURES = "least_failures"


@runtime_checkable
class BreakerSettings(Protocol):
    """What this wing must know of a breaker's settings: that they are some."""

    failure_on: Any

    def evolve(self, **changes: Any) -> Any:
        """Return changed ones."""


def _to_strategy(value: Any) -> Any:
    return _member(Strategy, value)


def _to_order(value: Any) -> Any:
    return _member(Order, value)


def _member(kind: type[enum.StrEnum], value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        return fields.fault(value, f"must be one of {', '.join(map(repr, map(str, kind)))}")


def to_breaker(value: Any) -> Any:
    """Return a breaker's settings, ``True`` for the default ones, or ``None`` for no breaker."""
    if value is None or value is False:
        return None
    if value is True or (isinstance(value, BreakerSettings) and not isinstance(value, type)):
        return value
    return fields.fault(
        value, "must be a BreakerConfig, True for the default one, or None for no breaker"
    )


def _to_optional_percent(value: float | None) -> float | None:
    return None if value is None else fields.to_percent(value)


def _to_callback(value: Any) -> Any:
    if value is None or fields.answers_at_once(value):
        return value
    return fields.fault(value, "must be a plain callable that takes one record, or None")


def _to_flag(value: Any) -> Any:
    return value if isinstance(value, bool) else fields.fault(value, "must be True or False")


#: Settings that only some strategies read; with another they would be ignored in silence.
_FOR = {
    "attempts": (Strategy.FAILOVER,),
    "default": (Strategy.FAILSAFE, Strategy.FAILBACK),
    "fail_percent": (Strategy.BROADCAST,),
    "on_success": (Strategy.FAILBACK,),
    "on_give_up": (Strategy.FAILBACK,),
    "retry_interval": (Strategy.FAILBACK,),
    "retries": (Strategy.FAILBACK,),
    "background": (Strategy.FAILBACK,),
    "forks": (Strategy.FORKING,),
    "max_pending": (Strategy.FAILBACK, Strategy.FORKING),
}


@attrs.frozen(kw_only=True)
class FailoverConfig:
    """Settings of a failover, checked together when the object is made.

    Durations are seconds or ``timedelta`` and are kept as float seconds.

    Args:
        strategy: what happens when a provider fails: ``"failover"``,
            ``"failfast"``, ``"failsafe"``, ``"failback"``, ``"broadcast"`` or
            ``"forking"``; see `Strategy`.
        order: which provider comes first: ``"in_order"``, ``"round_robin"``,
            ``"random"`` or ``"least_failures"``; see `Order`.
        attempts: tries of one call in all; ``None`` = what the provider tried
            first says, else each provider once. For ``"failover"``.
        on: exception types, or a predicate, that are a provider's failures; any
            other is the business's own and passes at once.
        default: what ``"failsafe"`` and ``"failback"`` return for a failed call;
            this very object.
        retry_interval: seconds before a failed call is tried again in the
            background. For ``"failback"``, like the next three.
        retries: how often it is tried again.
        max_pending: how many calls may wait for that; further ones are given up
            at once. For sync ``"forking"``: how many forks whose call is over
            may still run.
        on_success: is told a `RetrySucceeded` record.
        on_give_up: is told a `RetryGivenUp` record.
        background: whether retries run by themselves, in one daemon thread;
            else ``run_pending()`` runs them.
        fail_percent: percent of the providers; when so many fail, or more, a
            ``"broadcast"`` has failed. ``None`` = one is enough.
        forks: providers called in parallel by ``"forking"``.
        max_ejected: percent of the providers that may be skipped at a time, 1
            to 100; of further broken ones the least broken are tried.
        breaker: the `BreakerConfig` of every provider's breaker; ``True`` =
            the provider's own, else the default one; ``None`` = no breakers.
            Where it leaves ``failure_on`` at its default, that is ``on``.

    Raises:
        ConfigError: one error that names every wrong field, its value and what
            is allowed.
    """

    strategy: Strategy = attrs.field(default=Strategy.FAILOVER, converter=_to_strategy)
    order: Order = attrs.field(default=Order.IN_ORDER, converter=_to_order)
    attempts: int | None = attrs.field(default=None, converter=fields.to_optional_count)
    on: ErrorFilter = attrs.field(default=(Exception,), converter=to_failure_filter)
    # A default may be a list or a dict: it is compared, but has no part in the hash.
    default: Any = attrs.field(default=None, hash=False)
    retry_interval: float = attrs.field(default=5.0, converter=fields.to_seconds)
    retries: int = attrs.field(default=3, converter=fields.to_positive)
    max_pending: int = attrs.field(default=100, converter=fields.to_positive)
    on_success: Callable[[Any], object] | None = attrs.field(default=None, converter=_to_callback)
    on_give_up: Callable[[Any], object] | None = attrs.field(default=None, converter=_to_callback)
    background: bool = attrs.field(default=True, converter=_to_flag)
    fail_percent: float | None = attrs.field(default=None, converter=_to_optional_percent)
    forks: int = attrs.field(default=2, converter=fields.to_positive)
    max_ejected: float = attrs.field(default=50.0, converter=fields.to_percent)
    breaker: Any = attrs.field(default=True, converter=to_breaker)

    def __attrs_post_init__(self) -> None:
        fields.check(self, *map(self._idle, _FOR))

    def evolve(self, **changes: Any) -> FailoverConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong, alone or with the rest.
        """
        return fields.evolve(self, changes)

    def _idle(self, name: str) -> str | None:
        """Say that a setting was given that the strategy does not read."""
        value = getattr(self, name)
        if not fields.sound(value, self.strategy) or self.strategy in _FOR[name]:
            return None
        usual = attrs.fields_dict(type(self))[name].default
        if value is usual or (type(value) is type(usual) and value == usual):
            return None
        wanted = " or ".join(map(repr, map(str, _FOR[name])))
        return f"{name}={fields.show(value)}: is for strategy={wanted}, not {str(self.strategy)!r}"
