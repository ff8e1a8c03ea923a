"""What a caller gets when the origin fails and there is nothing to serve: an error, a value, or what a function says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DisasterCall", "raise_", "return_value"]


@attrs.frozen(kw_only=True)
class DisasterCall:
    """What a disaster strategy that is a function is told.

    Attributes:
        name: name of the cache.
        key: the key that was asked for.
        error: how the origin failed; ``None`` if it was not asked, for it rests
            since it failed before.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
    """

    name: str
    key: str
    error: Exception | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@attrs.frozen
class Raise:
    """Raise `NoCachedValueError` from the origin's error."""

    def __repr__(self) -> str:
        return "raise_()"


@attrs.frozen(eq=False)
class Return:
    """Answer with a value."""

    value: Any

    def __repr__(self) -> str:
        return f"return_value({fields.show(self.value)})"


def raise_() -> Raise:
    """Return the strategy that raises `NoCachedValueError` from the origin's error; the next call asks again."""
    return Raise()


def return_value(value: Any) -> Return:
    """Return the strategy that answers with ``value``, the very object.

    It is not stored as a value; the origin is left alone for ``refresh_after``.
    """
    return Return(value)


def to_disaster(value: Any) -> Any:
    """Return a disaster strategy, or a fault."""
    allowed = (
        "must be raise_(), return_value(x), or a callable of one DisasterCall"
        " (name, key, error, args, kwargs)"
    )
    if isinstance(value, Raise | Return):
        return value
    if value is raise_ or value is return_value:
        return fields.fault(value, f"must be called: {value.__name__}(...)")
    if isinstance(value, type) or not callable(value) or not fields.takes(value, 1):
        return fields.fault(value, allowed)
    return value
