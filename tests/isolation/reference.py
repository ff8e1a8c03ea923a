"""A bulkhead as simple as can be: lists, no locks, no cleverness; what the real one must agree with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reference:
    """Who runs and who waits, by number, with the class of each."""

    limit: int
    places: int
    newest_first: bool = False
    guaranteed: dict[Any, int] | None = None
    running: dict[int, Any] = field(default_factory=dict)
    queue: dict[int, Any] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)

    def owed(self, share: Any) -> int:
        """Return how many slots a class has below its share."""
        assert self.guaranteed is not None
        return self.guaranteed[share] - list(self.running.values()).count(share)

    def come(self, number: int, share: Any) -> None:
        """Let in, queue or reject a call."""
        if not self.queue and len(self.running) < self.limit:
            self.running[number] = share
        elif len(self.queue) < self.places or self.make_room(share):
            self.queue[number] = share
        else:
            self.rejected.add(number)

    def make_room(self, share: Any) -> bool:
        """Reject the last of the flood, if the newcomer is owed a slot."""
        if self.guaranteed is None or not self.queue or len(self.queue) > self.places:
            return False
        waiting = list(self.queue.values())
        if self.owed(share) <= waiting.count(share):
            return False
        order = list(self.queue) if self.newest_first else list(reversed(self.queue))
        for victim in order:
            if waiting.count(self.queue[victim]) > max(0, self.owed(self.queue[victim])):
                del self.queue[victim]
                self.rejected.add(victim)
                return True
        return False

    def go(self, number: int) -> None:
        """A call ends, or goes away."""
        self.running.pop(number, None)
        self.queue.pop(number, None)
        self.settle()

    def settle(self) -> None:
        """Serve who waits."""
        while self.queue and len(self.running) < self.limit:
            order = list(reversed(self.queue)) if self.newest_first else list(self.queue)
            if self.guaranteed is not None:
                order.sort(key=lambda one: self.owed(self.queue[one]) <= 0)
            self.running[order[0]] = self.queue.pop(order[0])

    def resize(self, limit: int, places: int, guaranteed: dict[Any, int] | None) -> None:
        """Take other settings."""
        self.limit, self.places, self.guaranteed = limit, places, guaranteed
        self.settle()
