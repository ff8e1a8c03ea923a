"""What each script is told, in the numbers that a server counts with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit.store import commands as told

if TYPE_CHECKING:
    from collections.abc import Callable

MICRO = 1_000_000
#: About a century: what is longer is told to the server as this.
LONGEST = 3_000_000_000.0
#: Commands with a value.
VALUES = (told.Write, told.Put)
#: What the server answers where it answers something; nothing of a value that was not sent.
ANSWERS: dict[type[Any], Any] = {told.Begin: int, **dict.fromkeys(VALUES, int | None)}


def _micro(seconds: float) -> int:
    return round(max(0.0, min(seconds, LONGEST)) * MICRO)


#: What each script is told after the time; the second argument is the value's bytes.
ARGUMENTS: dict[type[Any], Callable[[Any, Any], tuple[Any, ...]]] = {
    told.Begin: lambda one, _: (_micro(one.lease), one.owner),
    told.Write: lambda one, data: (one.ticket or 0, data, _micro(one.due), _micro(one.keep)),
    told.Postpone: lambda one, _: (one.ticket or 0, _micro(one.due), int(one.empty)),
    told.Release: lambda one, _: (one.ticket or 0, one.owner),
    told.Put: lambda one, data: (data, _micro(one.due), _micro(one.keep)),
    told.Invalidate: lambda *_: (),
    told.Evict: lambda *_: (),
}
