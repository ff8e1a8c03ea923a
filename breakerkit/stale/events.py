"""What a stale-if-error cache tells, and where a value came from."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from breakerkit.events import ConfigChanged, Event

__all__ = [
    "DisasterStruck",
    "LowHitRatio",
    "RefreshFailed",
    "Source",
    "StaleServed",
    "StoreLost",
    "StoreRestored",
    "ValueRefreshed",
]


class Source(enum.StrEnum):
    """Where the value of one call came from."""

    FRESH = "fresh"  # the origin has just answered
    CACHED = "cached"  # stored, and not due
    STALE = "stale"  # stored: the origin has failed, is slow, or rests since it failed
    DISASTER = "disaster"  # there was nothing to serve


@attrs.frozen(slots=False)
class ValueRefreshed(Event):
    """The origin answered. ``stored``: whether the store took the value; ``seconds``: how long it took."""

    key: str
    seconds: float
    stored: bool


@attrs.frozen(slots=False)
class RefreshFailed(Event):
    """The origin failed. ``served``: whether a value was known that was young enough to be served instead."""

    key: str
    error: Exception
    served: bool


@attrs.frozen(slots=False)
class StaleServed(Event):
    """A caller got a stale value that was ``age`` seconds old; ``error`` if the origin has just failed."""

    key: str
    age: float
    error: Exception | None


@attrs.frozen(slots=False)
class DisasterStruck(Event):
    """There was nothing to serve. ``error``: how the origin failed, ``None`` if it was not asked."""

    key: str
    error: Exception | None


@attrs.frozen(slots=False)
class StoreLost(Event):
    """The store failed, with ``error``: calls go on as if nothing were stored. Told once an outage."""

    error: Any


@attrs.frozen(slots=False)
class StoreRestored(Event):
    """The store answers again."""


@attrs.frozen(slots=False)
class LowHitRatio(Event):
    """Of the last ``calls`` calls only this part was answered from the store: it protects nobody."""

    ratio: float
    calls: int


#: The events of a cache.
EVENT_KINDS = (
    ValueRefreshed,
    RefreshFailed,
    StaleServed,
    DisasterStruck,
    StoreLost,
    StoreRestored,
    LowHitRatio,
    ConfigChanged,
)
