"""A value as it was read from a store, by the clock of the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit.stale._shelf import LOST
from breakerkit.store.commands import NOTHING, Read

if TYPE_CHECKING:
    from breakerkit.clock import Clock
    from breakerkit.stale._shelf import Shelf
    from breakerkit.store.commands import Entry


class Stored:
    """A value that was read: when it was born, and when it is due.

    Both are counted from the moment the store was *asked*: the way back makes a
    value older than the store says, never younger.

    Attributes:
        value: the value.
        born: when the origin gave it.
    """

    __slots__ = ("_due", "_rests", "born", "value")

    def __init__(self, entry: Entry, asked: float) -> None:
        self.value = entry.value
        self.born = asked - max(0.0, entry.age)
        self._due = asked + entry.due
        self._rests = True if self.empty else entry.rests

    def rests(self, longest: float) -> bool:
        """Tell whether an attempt has set its refresh time that brought nothing to store.

        Where the store does not know, it has if that is later than the value can have
        set it, by the refresh periods of today.
        """
        return self._due > self.born + longest if self._rests is None else self._rests

    def due(self, longest: float) -> float:
        """Return when the origin may be asked again.

        A value that came under longer refresh periods than today's is due when today's
        are over; where an attempt failed the origin has the rest it was given.
        """
        return self._due if self.rests(longest) else min(self._due, self.born + longest)

    @property
    def empty(self) -> bool:
        """Whether only its refresh time is stored."""
        return self.value is NOTHING


def stored_of(answer: Any, asked: float) -> Stored | None:
    """Return what a store has answered to a `Read`; ``None``: nothing, or it failed."""
    return None if answer is None or answer is LOST else Stored(answer, asked)


class Look:
    """The step that reads a key: a `Stored`, ``None``, or `LOST`."""

    __slots__ = ("_clock", "_key", "_shelf")

    def __init__(self, shelf: Shelf, clock: Clock, key: str) -> None:
        self._shelf = shelf
        self._clock = clock
        self._key = key

    def do(self) -> Any:
        """Look in a thread."""
        asked = self._clock.now()
        return self._seen(self._shelf.do(Read(self._key)), asked)

    async def do_async(self) -> Any:
        """Look in a task."""
        asked = self._clock.now()
        return self._seen(await self._shelf.do_async(Read(self._key)), asked)

    def _seen(self, answer: Any, asked: float) -> Any:
        return LOST if answer is LOST else stored_of(answer, asked)
