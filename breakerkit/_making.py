"""From what a verb was given to a policy: config, clock and registry checked, names compared."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from breakerkit import _fields as fields
from breakerkit._policy import UNNAMED, Policy
from breakerkit._registry import Registry, registry
from breakerkit.clock import Clock, system_clock
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._hub import Hub

T = TypeVar("T", bound=Policy)


class Making(Generic[T]):
    """The arguments of a verb, checked once, before anything is made.

    Args:
        kind: the class of policy to be made.
        config: the settings as one object, or ``None``.
        clock: where time comes from; monotonic if ``None``.
        into: the registry; the shared one if ``None``.
        settings: fields of the config, instead of or on top of it.
        keeper: makes what stands behind the policy, from name, config, clock
            and hub, where that is more than its class.
    """

    def __init__(
        self,
        kind: type[T],
        config: Any,
        clock: Clock | None,
        into: Registry | None,
        settings: dict[str, Any],
        keeper: Callable[[str, Any, Clock, Hub], Any] | None = None,
    ) -> None:
        if config is not None and not isinstance(config, kind.settings):
            raise ConfigError(f"config={fields.show(config)}: must be a {kind.settings.__name__}")
        if clock is not None and (isinstance(clock, type) or not isinstance(clock, Clock)):
            raise ConfigError(
                f"clock={fields.show(clock)}: must be an object with now() in seconds"
            )
        if into is not None and not isinstance(into, Registry):
            raise ConfigError(f"registry={fields.show(into)}: must be a Registry")
        # Whether settings were given: with none, a name fetches what exists.
        self._said = config is not None or bool(settings)
        self.config: Any = _config(kind.settings, config, settings)
        self.kind = kind
        self._keeper: Callable[[str, Any, Clock, Hub], Any] = keeper or kind.keeper
        self._clock = clock
        self.registry = registry if into is None else into

    def named(self, name: str) -> T:
        """Return the listed policy of this name."""
        return self.registry.get_or_add(  # type: ignore[no-any-return]  # what `make` returned, or a conflict
            self.kind.kind, name, lambda: self._new(name, named=True), self._conflict
        )

    def unnamed(self) -> T:
        """Return a policy that takes the name of the first function it decorates."""
        return self._new(UNNAMED, named=False)

    def unlisted(self, name: str, config: Any = None) -> T:
        """Return a policy with a name that is not the registry's."""
        return self._new(name, named=False, config=config)

    def any(self, name: str | None) -> T:
        """Return the listed policy of this name, or one that is not listed."""
        return self.unnamed() if name is None else self.named(name)

    def conflict_of_configs(self, found: Any) -> str | None:
        """Say how the config of an existing policy differs from the one asked for, if it was."""
        if not self._said or found == self.config:
            return None
        mine = self.config
        return f"it has {fields.changed(found, mine)}, asked was {fields.changed(mine, found)}"

    def _new(self, name: str, *, named: bool, config: Any = None) -> T:
        clock = system_clock if self._clock is None else self._clock
        keeper = self._keeper(name, config or self.config, clock, self.registry.hub)
        self.registry.adopt(keeper)
        return self.kind(keeper, named=named and self.registry is registry)

    def _conflict(self, found: Any) -> str | None:
        if not isinstance(found, self.kind):
            return f"it is a {type(found).__name__}"
        clock = found._guard.clock
        if self._clock is not None and clock is not self._clock:
            return f"it lives on the clock {clock!r}, asked was {self._clock!r}"
        return self.conflict_of_configs(found._guard.config)


def _config(kind: type[Any], config: Any, settings: dict[str, Any]) -> Any:
    if config is not None:
        return fields.evolve(config, settings) if settings else config
    return fields.build(kind, settings)


def pickles_by_name(kind: type[Policy]) -> None:
    """Let the shared policies of a kind pickle by name: they become those of that name over there."""
    copyreg.pickle(kind, _reduce)


def _reduce(one: Policy) -> tuple[Any, ...]:
    if not one._named:
        raise TypeError(
            f"{one!r} is not in the shared registry: only a {one.kind} named there pickles"
        )
    return fetch, (type(one), one.name, one._guard.config)


def fetch(kind: type[Policy], name: str, config: Any) -> Policy:
    """Return the shared policy of this name, made with ``config`` if there is none (for pickle)."""
    if name in registry.names(kind.kind):
        return registry.get(name, kind.kind)  # type: ignore[no-any-return]  # a policy pickled under this name
    return Making(kind, config, None, None, {}).named(name)
