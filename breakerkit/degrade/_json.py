"""Values as JSON, exactly: what is printed reads back as the same value, or is refused."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

#: How deep lists and dicts may be in each other.
DEEPEST = 64
#: How many values there may be in one: a list that holds itself in many places has no end.
MOST_VALUES = 50_000

#: A text that is never closed is taken to the end, once: who looks again from each quote in it takes for ever.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def read(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, or says something that would not print the same way.
    """
    check_depth(text)
    value = _decoder.decode(text)
    if not is_plain(value):
        raise ValueError("has a character that no UTF-8 text can hold")
    return value


def write(value: Any) -> str:
    """Return the JSON text of a value.

    Raises:
        ValueError: JSON cannot say it exactly.
    """
    if not is_plain(value):
        raise ValueError(
            "is not made of what JSON knows exactly: None, bool, int, finite float, str, list,"
            f" and dict with str keys, at most {DEEPEST} deep (no tuples, no nan, no subclasses)"
        )
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def is_plain(value: Any) -> bool:
    """Tell whether JSON knows every part of ``value`` exactly; without recursion, and always soon."""
    waiting, seen = [(value, 0)], 0
    while waiting:
        one, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST or seen > MOST_VALUES:
            return False
        kind = type(one)
        if kind is list:
            waiting.extend((part, depth + 1) for part in one)
        elif kind is dict:
            if not all(type(key) is str and _is_text(key) for key in one):
                return False
            waiting.extend((part, depth + 1) for part in one.values())
        elif not _is_scalar(one, kind):
            return False
    return True


def copied(value: Any) -> Any:
    """Return a plain value anew, so that what one caller does to it no other sees."""
    kind = type(value)
    if kind is list:
        return [copied(part) for part in value]
    if kind is dict:
        return {key: copied(part) for key, part in value.items()}
    return value


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to the type: 1, 1.0 and True are three values."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    compare: Callable[[Any, Any], object] = _COMPARE.get(type(one), _equal)
    try:
        return bool(compare(one, other))
    except Exception:  # a value of the user's may compare as it likes
        return False


def _equal(one: Any, other: Any) -> Any:
    return one == other


def _same_items(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(same, one, other))


def _same_pairs(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)


def _same_floats(one: float, other: float) -> bool:
    return one == other and math.copysign(1, one) == math.copysign(1, other)


_COMPARE: dict[type, Callable[[Any, Any], object]] = {
    list: _same_items,
    tuple: _same_items,
    dict: _same_pairs,
    float: _same_floats,
}


class Exact:
    """A value that is equal to what is the `same`; attrs compares by it."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and same(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]  # what it holds may be a list


def check_depth(text: str) -> None:
    """Refuse brackets that nest too deeply before a parser, which recurses, sees them.

    Raises:
        ValueError: as said.
    """
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += bool(found[1]) - bool(found[2])
        if depth > DEEPEST:
            raise ValueError(f"nests lists or dicts more than {DEEPEST} deep")


def _is_scalar(value: Any, kind: type) -> bool:
    if kind is str:
        return _is_text(value)
    if kind is float:
        return math.isfinite(value)
    return value is None or kind is bool or kind is int


def _is_text(text: str) -> bool:
    """Tell whether UTF-8 can hold it: half a surrogate pair reads back as something else."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # which is no truth
        raise ValueError(f"has the key {twice!r} twice in one dict")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"has the number {text[:20]}, which no float can hold")
    return number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"has {text}, which is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_no_constant
)
