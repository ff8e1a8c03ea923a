"""A value as it was read from a store, by the clock of the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakerkit.store.commands import Entry


class Stored:
    """A value that was read: when it was born, and when it is due."""

    __slots__ = ("born", "due", "value")

    def __init__(self, entry: Entry, now: float) -> None:
        self.value = entry.value
        self.born = now - max(0.0, entry.age)
        self.due = now + entry.due
