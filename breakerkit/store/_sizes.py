"""How large a value is, roughly, and whether the bounds of a store make sense."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from breakerkit import _fields as fields
from breakerkit.clock import Clock
from breakerkit.errors import ConfigError

#: Objects that an estimate looks at: a value may lead to half of the program.
MOST_LOOKED_AT = 10_000


def estimate(value: Any) -> int:
    """Return about how many bytes a value takes: with its items and attributes, each once.

    What lies beyond ten thousand objects is not counted.
    """
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting and len(seen) < MOST_LOOKED_AT:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        total += sys.getsizeof(one, 64)
        waiting.extend(_parts(one))
    return total


def _parts(one: Any) -> list[Any]:
    if isinstance(one, Mapping):
        return [*one.keys(), *one.values()]
    if isinstance(one, list | tuple | set | frozenset):
        return list(one)
    return (
        list(vars(one).values()) if hasattr(one, "__dict__") and not isinstance(one, type) else []
    )


def check(max_entries: Any, max_bytes: Any, clock: Any, size_of: Any) -> None:
    """Refuse bounds that make no sense.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    least = "must be an int of at least 1"
    if not fields.sound(fields.to_positive(max_entries)):
        raise ConfigError(f"max_entries={fields.show(max_entries)}: {least}")
    if max_bytes is not None and not fields.sound(fields.to_positive(max_bytes)):
        raise ConfigError(f"max_bytes={fields.show(max_bytes)}: {least}, or None")
    if clock is not None and (isinstance(clock, type) or not isinstance(clock, Clock)):
        raise ConfigError(f"clock={fields.show(clock)}: must be an object with now() in seconds")
    if size_of is not None and not callable(size_of):
        raise ConfigError(
            f"size_of={fields.show(size_of)}: must be a function from a value to bytes"
        )
    if size_of is not None and max_bytes is None:
        raise ConfigError("size_of without max_bytes: they work together")
