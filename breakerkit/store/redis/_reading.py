"""What the reply to a read holds: a value and its times, or that there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit.store.commands import NOTHING, Entry
from breakerkit.store.redis._arguments import MICRO
from breakerkit.store.redis._scripts import MOST_AHEAD

if TYPE_CHECKING:
    from breakerkit.store.redis._serializers import Packing


class MisledError(TypeError):
    """A reply is about something else: whatever comes over that connection is."""


def entry_of(reply: Any, key: bytes, packing: Packing) -> Entry | None:
    """Return what is stored.

    Garbage, what another version wrote, and a value from the future is no value; how
    long the origin rests since an attempt failed is known all the same.

    Raises:
        MisledError: it is about something else.
    """
    if reply is None:
        return None
    if not isinstance(reply, bytes) or not reply.startswith(key):
        raise MisledError
    try:
        parts = reply[len(key) :].split(b" ", 9)
        _, second, micro, stored, refresh, keep, _, since, rested, data = parts
        now, born = int(second) * MICRO + int(micro), int(stored)
        if now >= int(keep):
            return None
        latest = now + MOST_AHEAD  # a server's clock was set back: nobody knows what is later
        left, rests = (int(refresh) - now) / MICRO, rested != b"0"
        if since != stored and int(since) > latest:
            left = 0.0
        age = max(0, now - born) / MICRO
    except Exception:
        return None
    if 0 < born <= latest:
        try:
            return Entry(packing.unpack(data), age, left, rests)
        except Exception:  # noqa: S110  # it cannot be read
            pass
    return Entry(NOTHING, 0.0, left, rests=True) if rests and left > 0 else None
