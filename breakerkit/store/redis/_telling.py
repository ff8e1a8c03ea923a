"""What a store says to the log: that the server is full, and which values it cannot keep, once each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from breakerkit._log import write

if TYPE_CHECKING:
    from breakerkit.store.redis._serializers import Packing

#: What a script answers to a value that a full server refused.
FULL = -1
#: Lines about values that do not fit; types may come from traffic.
MOST_TOLD = 100


class Telling:
    """What one store has said.

    Args:
        name: of the store.

    Attributes:
        told_of: what was said of which types.
    """

    __slots__ = ("_name", "_why", "told_of")

    def __init__(self, name: str) -> None:
        self._name = name
        self._why = ""  # why no values are kept
        self.told_of: set[tuple[str, str]] = set()

    def stored(self, reply: Any) -> bool:
        """Return whether a value was stored, and tell when a server becomes full, and when it is no more."""
        if reply == FULL:
            self.refused("OOM")
        elif self._why and reply is not None:
            self._why = ""  # of two threads both may tell it
            write(logging.INFO, "%s: stores again", self._name)
        return bool(reply == 1)

    def refused(self, why: str) -> None:
        """Tell that a server takes no values, once."""
        if self._why != why:
            self._why = why
            text = "%s: the server is full, and keeps no new values"
            if why != "OOM":
                text = f"%s: the server takes no writes ({why}), and keeps no new values"
            write(logging.WARNING, text, self._name)

    def pack(self, packing: Packing, value: Any, most: int | None) -> bytes | None:
        """Return a value as bytes, ``None`` if it cannot be stored."""
        try:
            data = packing.pack(value)
        except Exception as error:
            self.tell("%s: a value cannot be stored: %s", value, error)
            return None
        if most is not None and len(data) > most:
            self.tell(
                f"%s: a value of {len(data)} bytes is not stored, max_value_bytes={most}: %s", value,
                once="max_value_bytes",
            )  # fmt: skip
            return None
        if packing.alters(value, data):
            self.tell("%s: a value comes back from the store as another one: %s", value)
        return data

    def late(self, value: Any, error: Exception) -> None:
        """Tell that a value was not stored, or not in time."""
        self.tell("%s: a value took too long to store: %s", value, error)

    def slow(self, error: Exception) -> None:
        """Tell that a value was not read in time."""
        said = ("slow", "")
        if said not in self.told_of:
            self.told_of.add(said)
            write(logging.WARNING, "%s: not read: %s", self._name, error)

    def tell(
        self, text: str, value: Any, error: Exception | None = None, *, once: str | None = None
    ) -> None:
        """Write a line, once for each type of value."""
        kind = type(value).__qualname__
        said = (once or text, kind)
        if said not in self.told_of and len(self.told_of) < MOST_TOLD:
            self.told_of.add(said)
            write(logging.WARNING, text, self._name, kind, error=error)
