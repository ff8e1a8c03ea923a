"""The settings of a bulkhead: one frozen object, checked once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import attrs

from breakerkit import _fields as fields

__all__ = ["BulkheadConfig"]

Isolation: TypeAlias = Literal["caller", "thread", "process"]
Order: TypeAlias = Literal["fifo", "lifo"]
#: Pairs of a class and its share of ``max_concurrent``, in an order of their own.
Shares: TypeAlias = tuple[tuple[Hashable, float], ...]
ShareOf: TypeAlias = Callable[..., Hashable]


def _to_isolation(value: Any) -> Any:
    return _one_of(value, "caller", "thread", "process")


def _to_order(value: Any) -> Any:
    return _one_of(value, "fifo", "lifo")


def _one_of(value: Any, *allowed: str) -> Any:
    if isinstance(value, str) and value in allowed:
        return str(value)
    return fields.fault(value, f"must be one of {', '.join(map(repr, allowed))}")


def _to_shares(value: Any) -> Any:
    """Return pairs of class and share, or ``None``; a mapping's order has no meaning."""
    if value is None:
        return None
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    try:
        known = dict(pairs)
    except (TypeError, ValueError):
        known = {}
    if not known or None in known or not all(map(_is_share, known.values())):
        return fields.fault(
            value,
            "must be a dict of at least one class (hashable, not None) and its share,"
            " a number above 0 and at most 1",
        )
    if sum(map(exact, known.values())) > 1:
        return fields.fault(value, "must not add up to more than 1")
    return tuple(sorted(((of, float(share)) for of, share in known.items()), key=repr))


def _is_share(value: object) -> bool:
    return fields.is_number(value) and 0 < value <= 1  # type: ignore[operator]  # is_number has looked


def exact(share: Any) -> Fraction:
    """Return a share as it was written: 0.3 is three tenths, not the float next to it."""
    return Fraction(repr(float(share)))


def _to_share_of(value: Any) -> Any:
    if value is None or (callable(value) and not fields.is_coroutine_function(value)):
        return value
    return fields.fault(
        value, "must be a callable of a call's arguments that returns its class, or None"
    )


@attrs.frozen(kw_only=True)
class BulkheadConfig:
    """Settings of a bulkhead, checked together when the object is made.

    Durations are seconds or ``timedelta`` and are kept as float seconds.
    ``None`` means off. Equal configs are equal and hash alike.

    Args:
        max_concurrent: calls that may run at the same time, at least 1.
        max_waiting: calls that may wait for a slot; 0 = a full bulkhead rejects at once.
        max_wait: how long a call may wait; ``None`` = as long as the deadline of
            the calls around it allows. Nobody waits while ``max_waiting`` is 0.
        isolation: where a call runs: ``"caller"``: where it was called, counted
            only; ``"thread"``: in a pool of threads of this bulkhead;
            ``"process"``: in a pool of processes of it.
        shares: from classes of calls to the part of ``max_concurrent`` that each
            is guaranteed, 0 to 1; at most 1 in sum. Kept as pairs.
        share_of: from the arguments of a call (without ``self``) to its class;
            together with ``shares``. A class that has no share belongs to the rest.
        order: who of the waiting is served first: ``"fifo"`` the oldest,
            ``"lifo"`` the newest.
        stuck_after: a call that runs for so long counts as stuck in the
            snapshot; ``None`` = nobody looks.

    Raises:
        ConfigError: one error that names every wrong field, its value and what
            is allowed.
    """

    max_concurrent: int = attrs.field(default=10, converter=fields.to_positive)
    max_waiting: int = attrs.field(default=0, converter=fields.to_count)
    max_wait: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)
    isolation: Isolation = attrs.field(default="caller", converter=_to_isolation)
    shares: Shares | None = attrs.field(default=None, converter=_to_shares)
    share_of: ShareOf | None = attrs.field(default=None, converter=_to_share_of)
    order: Order = attrs.field(default="fifo", converter=_to_order)
    stuck_after: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)

    def __attrs_post_init__(self) -> None:
        fields.check(self, self._together())

    def evolve(self, **changes: Any) -> BulkheadConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong, alone or with the rest.
        """
        return fields.evolve(self, changes)

    @property
    def guaranteed(self) -> dict[Hashable, int]:
        """Slots that each class is guaranteed: its share rounded down, but one at least.

        What is left is the rest's, under ``None``.
        """
        slots: dict[Hashable, int] = {
            of: max(1, int(exact(share) * self.max_concurrent)) for of, share in self.shares or ()
        }
        slots[None] = max(0, self.max_concurrent - sum(slots.values()))
        return slots

    def _together(self) -> str | None:
        if not fields.sound(self.shares, self.share_of):
            return None
        if (self.shares is None) is (self.share_of is None):
            return None
        given, missing = ("shares", "share_of") if self.shares else ("share_of", "shares")
        return f"{given} without {missing}: they work together"
