"""How large a value is, roughly, and whether the bounds of a store make sense."""

from __future__ import annotations

import gc
import itertools
import math
import sys
import types
from collections import deque
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit._log import fault_in, hook_name
from breakerkit.clock import Clock
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Objects that an estimate looks at: a value may lead to half of the program.
MOST_LOOKED_AT = 10_000


def estimate(value: Any) -> int:
    """Return about how many bytes a value takes: with what it holds, however it holds it, each once.

    What lies beyond ten thousand objects is not counted.
    """
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting and (room := MOST_LOOKED_AT - len(seen)):
        one = waiting.pop()
        if id(one) in seen or issubclass(type(one), _OF_THE_PROGRAM):  # a proxy says it is another
            continue
        seen.add(id(one))
        total += sys.getsizeof(one, 64)
        waiting.extend(itertools.islice(_parts(one), room))
    return total


def _parts(one: Any) -> Iterable[Any]:
    """Return what an object holds, whatever its class: slots, attributes, items, also in C."""
    kind = type(one)
    if kind in {list, tuple, set, frozenset, deque}:
        return one  # type: ignore[no-any-return]  # of long ones no copy is made
    if kind is types.FunctionType:
        return (*(one.__closure__ or ()), *(one.__defaults__ or ()))
    beside = () if kind is dict else gc.get_referents(one)  # which leaves out keys if all are texts
    items = dict.items(one) if issubclass(kind, dict) else ()
    return itertools.chain(itertools.chain.from_iterable(items), beside)


#: What a value only mentions: it was there before.
_OF_THE_PROGRAM = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)


def measured(size_of: Callable[[Any], int], value: Any) -> int | None:
    """Return the bytes of a value by the user's function, ``None`` if that fails, which is told."""
    try:
        size = size_of(value)
        if not fields.is_number(size):
            raise TypeError(f"size_of={fields.show(size)}: must return a number of bytes")
    except Exception as error:
        fault_in(f"size_of {hook_name(size_of)}", "memory store", error)
        return None
    return max(1, math.ceil(size))


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
