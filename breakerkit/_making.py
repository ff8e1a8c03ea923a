"""From what a verb was given to a breaker: config, clock and registry checked, names compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit._breaker import UNNAMED, CircuitBreaker
from breakerkit._keyed import KeyedBreakers
from breakerkit._registry import Registry, registry
from breakerkit.circuit.config import BreakerConfig
from breakerkit.circuit.guard import Guard
from breakerkit.clock import Clock, system_clock
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Making:
    """The arguments of a verb, checked once, before anything is made."""

    __slots__ = ("_clock", "_config", "_registry", "_said")

    def __init__(
        self,
        config: BreakerConfig | None,
        clock: Clock | None,
        into: Registry | None,
        settings: dict[str, Any],
    ) -> None:
        if config is not None and not isinstance(config, BreakerConfig):
            raise ConfigError(f"config={fields.show(config)}: must be a BreakerConfig")
        if clock is not None and (isinstance(clock, type) or not isinstance(clock, Clock)):
            raise ConfigError(
                f"clock={fields.show(clock)}: must be an object with now() in seconds"
            )
        if into is not None and not isinstance(into, Registry):
            raise ConfigError(f"registry={fields.show(into)}: must be a Registry")
        # Whether settings were given: with none, a name fetches what exists.
        self._said = config is not None or bool(settings)
        self._config = _config(config, settings)
        self._clock = clock
        self._registry = registry if into is None else into

    def named(self, name: str) -> CircuitBreaker:
        """Return the listed breaker of this name."""
        return self._registry.get_or_add(  # type: ignore[no-any-return]  # what `make` returned, or a conflict
            name, lambda: self._new(name, named=True), self._conflict
        )

    def unnamed(self) -> CircuitBreaker:
        """Return a breaker that takes the name of the first function it decorates."""
        return self._new(UNNAMED, named=False)

    def unlisted(self, name: str, config: BreakerConfig | None = None) -> CircuitBreaker:
        """Return a breaker with a name that is not the registry's."""
        return self._new(name, named=False, config=config)

    def family(
        self, name: str | None, key: Callable[..., Hashable], max_keys: int
    ) -> KeyedBreakers:
        """Return the family of this name, or one that takes its name from a function."""
        if not callable(key) or fields.is_coroutine_function(key):
            raise ConfigError(f"key={fields.show(key)}: must be a plain callable of the arguments")
        if not fields.sound(fields.to_positive(max_keys)):
            raise ConfigError(f"max_keys={fields.show(max_keys)}: must be an int of at least 1")

        def make() -> KeyedBreakers:
            return KeyedBreakers(name or UNNAMED, key, self._config, max_keys, self.unlisted)

        if name is None:
            return make()
        return self._registry.get_or_add(  # type: ignore[no-any-return]  # what `make` returned, or a conflict
            name, make, lambda found: self._family_conflict(found, key, max_keys)
        )

    def _new(
        self, name: str, *, named: bool, config: BreakerConfig | None = None
    ) -> CircuitBreaker:
        clock = system_clock if self._clock is None else self._clock
        guard = Guard(name, config or self._config, clock, self._registry.hub)
        self._registry.adopt(guard)
        return CircuitBreaker(guard, named=named and self._registry is registry)

    def _conflict(self, found: Any) -> str | None:
        if not isinstance(found, CircuitBreaker):
            return f"it is a {type(found).__name__}"
        clock = found._guard.clock
        if self._clock is not None and clock is not self._clock:
            return f"it lives on the clock {clock!r}, asked was {self._clock!r}"
        return self._other_config(found.config)

    def _family_conflict(self, found: Any, key: Any, max_keys: int) -> str | None:
        if not isinstance(found, KeyedBreakers):
            return f"it is a {type(found).__name__} without a key"
        if found.key is not key or found.max_keys != max_keys:
            return (
                f"it has key={fields.show(found.key)}, max_keys={found.max_keys},"
                f" asked were key={fields.show(key)}, max_keys={max_keys}"
            )
        return self._other_config(found.config)

    def _other_config(self, found: BreakerConfig) -> str | None:
        if not self._said or found == self._config:
            return None
        mine = self._config
        return f"it has {found.changed(mine)}, asked was {mine.changed(found)}"


def _config(config: BreakerConfig | None, settings: dict[str, Any]) -> BreakerConfig:
    if config is not None:
        return config.evolve(**settings) if settings else config
    return fields.build(BreakerConfig, settings)
