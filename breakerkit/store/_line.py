"""What is held in memory, in the order in which it goes when there is no room.

That is the second-chance (CLOCK) policy: the oldest value goes, unless it was read
since it was looked at last; then it goes to the end of the line. So a read has to
leave nothing but a mark.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import cachetools

#: Values that may be given a second chance before one goes all the same: a read mark
#: on each of a million shall not make one store wait for all of them.
MOST_CHANCES = 64


class Held:
    """A value that is held, or `NOTHING` and a refresh time.

    Attributes:
        value: the value.
        stored_at: when it came.
        keep_until: when nobody wants it any more.
        ticket: that of the attempt that brought it.
        refresh_at: when the origin may be asked again.
        rests: whether an attempt has set that which brought nothing to store.
        fresh_until: when it is no longer younger than its refresh period; never, if it rests.
        used: whether it was read since it was looked at last.
        size: its bytes, where they are counted.
    """

    __slots__ = (
        "fresh_until", "keep_until", "refresh_at", "rests", "size", "stored_at", "ticket", "used",
        "value",
    )  # fmt: skip

    def __init__(
        self, value: Any, stored_at: float, refresh_at: float, keep_until: float, ticket: int
    ) -> None:
        self.value = value
        self.stored_at = stored_at
        self.refresh_at = self.fresh_until = refresh_at
        self.keep_until = keep_until
        self.ticket = ticket
        self.rests = self.used = False
        self.size = 1

    def invalidate(self, now: float) -> None:
        """Let the origin be asked at once; who is just reading it without the lock sees no more of it than before."""
        self.refresh_at, self.fresh_until = now, min(self.fresh_until, now)

    def rest(self, until: float) -> None:
        """Let the origin not be asked before a moment, although it brought nothing new."""
        self.refresh_at, self.fresh_until, self.rests = until, float("-inf"), True


class Line(cachetools.FIFOCache[str, Held]):
    """What is held, in the order in which it would go.

    Attributes:
        entries: the same for those who read; who goes here goes there.
    """

    def __init__(self, most: int, entries: dict[str, Held]) -> None:
        super().__init__(most, lambda held: held.size)
        self.entries = entries
        # Of its own: to find the first of a dict takes as long as many were deleted before it.
        self._order: OrderedDict[str, None] = OrderedDict()

    def __setitem__(self, key: str, held: Held) -> None:
        super().__setitem__(key, held)
        self._order[key] = None

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        del self._order[key]

    def popitem(self) -> tuple[str, Held]:
        """Let one go: the oldest that was not read."""
        for _ in range(MOST_CHANCES):
            key = next(iter(self._order))
            held = self[key]
            if not held.used:
                break
            held.used = False
            self._order.move_to_end(key)
        key = next(iter(self._order))
        self.entries.pop(key, None)
        return key, self.pop(key)
