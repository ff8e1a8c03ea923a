"""From what ``breaker(key=...)`` was given to a family of breakers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit._keyed import KeyedBreakers
from breakerkit._policy import UNNAMED
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit._breaker import CircuitBreaker
    from breakerkit._making import Making


def family(
    making: Making[CircuitBreaker], name: str | None, key: Callable[..., Hashable], max_keys: int
) -> KeyedBreakers:
    """Return the family of this name, or one that takes its name from a function.

    Raises:
        ConfigError: the key or the bound is wrong.
        NameConflictError: the name is taken by something else.
    """
    if not callable(key) or fields.is_coroutine_function(key):
        raise ConfigError(f"key={fields.show(key)}: must be a plain callable of the arguments")
    if not fields.sound(fields.to_positive(max_keys)):
        raise ConfigError(f"max_keys={fields.show(max_keys)}: must be an int of at least 1")

    def make() -> KeyedBreakers:
        return KeyedBreakers(name or UNNAMED, key, making.config, max_keys, making.unlisted)

    def conflict(found: Any) -> str | None:
        if not isinstance(found, KeyedBreakers):
            return f"it is a {type(found).__name__} without a key"
        if found.key is not key or found.max_keys != max_keys:
            return (
                f"it has key={fields.show(found.key)}, max_keys={found.max_keys},"
                f" asked were key={fields.show(key)}, max_keys={max_keys}"
            )
        return making.conflict_of_configs(found.config)

    if name is None:
        return make()
    return making.registry.get_or_add(KeyedBreakers.kind, name, make, conflict)  # type: ignore[no-any-return]  # what `make` returned, or a conflict
