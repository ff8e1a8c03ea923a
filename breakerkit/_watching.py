"""A circuit breaker for each provider of a failover, and what the failover must know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._breaker import CircuitBreaker
from breakerkit._making import Making
from breakerkit.circuit._states import Closed, Open
from breakerkit.circuit.config import BreakerConfig
from breakerkit.clock import utc_now
from breakerkit.errors import CircuitOpenError
from breakerkit.events import Mode, OpenReason, State
from breakerkit.providers._slots import Health, Unwatched

if TYPE_CHECKING:
    from breakerkit._registry import Registry
    from breakerkit.clock import Clock
    from breakerkit.providers._provider import Provider
    from breakerkit.providers.config import FailoverConfig


class Equipment:
    """Makes the breakers: on the failover's clock, told to its registry's listeners, not listed there."""

    __slots__ = ("_clock", "_registry")

    def __init__(self, clock: Clock | None, registry: Registry | None) -> None:
        self._clock = clock
        self._registry = registry

    def __call__(self, name: str, provider: Provider[Any], config: FailoverConfig) -> Any:
        """Return the watch over one provider."""
        settings = breaker_settings(config, provider)
        if settings is None:
            return Bare(provider)
        making = Making(CircuitBreaker, settings, self._clock, self._registry, {})
        return Watching(making.unlisted(name), provider)


def breaker_settings(config: FailoverConfig, provider: Provider[Any]) -> BreakerConfig | None:
    """Return the settings of a provider's breaker: the failover's, else its own, else the default ones.

    What no provider can mend is no evidence against one: where they leave it
    open, a failure to the breaker is what is one to the failover.
    """
    wanted = provider.breaker if config.breaker is True else config.breaker
    if wanted is None:
        return None
    base: BreakerConfig = BreakerConfig() if wanted is True else wanted
    return base.evolve(failure_on=config.on) if base.failure_on == (Exception,) else base


def awaits(config: FailoverConfig) -> bool:
    """Tell whether the breakers have an opening callback that only an async call can serve."""
    return any(one.awaits for one in getattr(config.breaker, "on_open", ()))


class Watching:
    """The watch over a provider that has a breaker."""

    __slots__ = ("_provider", "breaker", "gate")

    def __init__(self, breaker: CircuitBreaker, provider: Provider[Any]) -> None:
        self.breaker = breaker
        self.gate = breaker._guard
        self._provider = provider

    def health(self) -> Health:
        """Return what it would say to a call now."""
        gate = self.gate
        state = gate.machine.state
        if not gate.handles:  # what is usual costs no snapshot
            if isinstance(state, Closed):
                return Health.FIT
            if isinstance(state, Open) and state.since <= gate.clock.now() < state.until:
                return Health.BROKEN
        seen = self.breaker.snapshot()
        if seen.mode is Mode.FORCED_OPEN:
            return Health.BARRED
        if seen.mode is not Mode.AUTO or seen.state is State.CLOSED:
            return Health.FIT
        if seen.state is State.OPEN or seen.probes_active >= self.breaker.config.probe_limit:
            return Health.BROKEN
        return Health.DUE

    def badness(self) -> tuple[float, ...]:
        """Return how often it has opened in a row, then how long it stays open yet."""
        seen = self.breaker.snapshot()
        return seen.openings, seen.retry_after or 0.0

    def refusal(self) -> CircuitOpenError:
        """Return the rejection a call would get now."""
        seen = self.breaker.snapshot()
        reason = OpenReason.FORCED if seen.reason is None else seen.reason
        return CircuitOpenError(seen.name, reason, seen.retry_after, seen.opened_at or utc_now())

    def follow(self, config: FailoverConfig) -> bool:
        """Take the failover's new settings; ``False``: there shall be no breaker."""
        settings = breaker_settings(config, self._provider)
        if settings is not None and settings != self.breaker.config:
            self.breaker.reconfigure(settings)
        return settings is not None

    def rename(self, name: str) -> None:
        """Take a name."""
        self.gate.rename(name)


class Bare(Unwatched):
    """The watch over a provider that has none, which may yet get one."""

    __slots__ = ("_provider",)

    def __init__(self, provider: Provider[Any]) -> None:
        self._provider = provider

    def follow(self, config: FailoverConfig) -> bool:
        """Take the failover's new settings; ``False``: there shall be a breaker."""
        return breaker_settings(config, self._provider) is None
