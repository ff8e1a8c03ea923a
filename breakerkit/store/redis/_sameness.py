"""Whether a value that was written and read is the same: equal, and of the same types all through."""

from __future__ import annotations

from typing import Any

#: What holds nothing else.
_LEAVES = {str, int, float, bool, type(None), bytes}


def same(value: Any, back: Any) -> bool:
    """Tell whether two values cannot be told apart; one that is no number (NaN) is the same as another.

    Raises:
        Exception: whatever their comparison does.
    """
    pairs = [(value, back)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is not type(other):
            return False
        mine, theirs = _parts(one), _parts(other)
        if mine is None or theirs is None:
            if one != other and (one == one or other == other):  # noqa: PLR0124  # only NaN is not itself
                return False
            continue
        kinds = list(map(type, mine))
        if kinds != list(map(type, theirs)):
            return False
        # Else they are the same, at the speed of C.
        if not _LEAVES.issuperset(kinds) or mine != theirs:
            pairs.extend(zip(mine, theirs, strict=True))
    return True


def _parts(value: Any) -> list[Any] | None:
    """Return what a container of JSON and MessagePack holds, keys first."""
    if type(value) is dict:
        return [*value, *value.values()]
    if type(value) in {list, tuple}:
        return list(value)
    return None
