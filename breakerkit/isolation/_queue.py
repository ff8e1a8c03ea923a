"""Who waits, and who is next: one line per class; joining, leaving and serving cost the same at any length."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from breakerkit.isolation._waiters import Waiter

    #: From a class to a number of slots.
    Slots = Mapping[Hashable, int]


class Queue:
    """The waiting calls of one bulkhead, as lines of their classes; pure data.

    Attributes:
        size: how many wait.
        loops: event loops that have waiters here, and how many each.
    """

    __slots__ = ("_lines", "_serials", "loops", "size")

    def __init__(self) -> None:
        self._lines: dict[Hashable, OrderedDict[Waiter, int]] = {}
        self._serials = itertools.count()
        self.size = 0
        self.loops: dict[Any, int] = {}

    def add(self, waiter: Waiter) -> None:
        """Let one wait, the newest of its class."""
        line = self._lines.setdefault(waiter.share, OrderedDict())
        line[waiter] = next(self._serials)
        self.size += 1
        if waiter.loop is not None:
            self.loops[waiter.loop] = self.loops.get(waiter.loop, 0) + 1

    def remove(self, waiter: Waiter) -> bool:
        """Let one go; tell whether it was waiting."""
        line = self._lines.get(waiter.share)
        if line is None or waiter not in line:
            return False
        del line[waiter]
        self.size -= 1
        if waiter.loop is not None:
            self.loops[waiter.loop] -= 1
            if not self.loops[waiter.loop]:
                del self.loops[waiter.loop]
        return True

    def length(self, share: Hashable) -> int:
        """Return how many of a class wait."""
        return len(self._lines.get(share, ()))

    def first(self, owed: Callable[[Hashable], int], *, newest: bool) -> Waiter:
        """Return who is served next: of a class that is owed a slot, if there is one."""
        heads = [
            (owed(share) <= 0, serial, waiter) for share, waiter, serial in self._ends(last=newest)
        ]
        return min(heads, key=lambda one: (one[0], -one[1] if newest else one[1]))[2]

    def last(self, owed: Callable[[Hashable], int], *, newest: bool) -> Waiter | None:
        """Return who would be served last of those whose class is owed no slot for them."""
        tails = [
            (serial, waiter)
            for share, waiter, serial in self._ends(last=not newest)
            if self.length(share) > max(0, owed(share))
        ]
        choose: Any = min if newest else max
        found = choose(tails, key=lambda one: one[0], default=None)
        return None if found is None else found[1]

    def of_loops(self, closed: Iterable[Any]) -> list[Waiter]:
        """Return those who wait in these event loops."""
        loops = set(map(id, closed))
        return [one for line in self._lines.values() for one in line if id(one.loop) in loops]

    def _ends(self, *, last: bool) -> list[tuple[Hashable, Waiter, int]]:
        """Return one end of each line: its newest, or its oldest."""
        found = []
        for share, line in self._lines.items():
            if line:
                waiter = next(reversed(line)) if last else next(iter(line))
                found.append((share, waiter, line[waiter]))
        return found
