"""Which attempts run, in which order they began, and who has the lease of a key."""

from __future__ import annotations

from collections import OrderedDict

#: Seconds after its lease for which an attempt is waited for: nobody may end one that
#: was interrupted between two steps.
LONGEST = 86_400.0


class Open:
    """The attempts at one key that run, and what has made some of them late."""

    __slots__ = ("due", "floor", "holder", "linger", "owner", "running", "until")

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.holder: int | None = None  # the ticket that has the lease
        self.owner = 0  # whose attempt that is, if it was said
        self.until = 0.0
        self.floor = 0  # attempts up to this ticket may not write
        self.due = 0  # what attempts up to this ticket write is due at once
        self.linger = 0.0  # when none of them is waited for any more

    def keeps_out(self, owner: int, now: float) -> bool:
        """Tell whether somebody else has the lease."""
        return self.holder is not None and now < self.until and not (owner and owner == self.owner)


#: In place of those at a key with none.
_NONE = Open()


class Tickets:
    """The attempts at all keys; a ticket is larger than all before it.

    Args:
        last: the last that was drawn elsewhere.

    Attributes:
        open: those that run, by key.
    """

    __slots__ = ("_given_up", "_last", "open")

    def __init__(self, last: int = 0) -> None:
        # In the order of their last beginning; of its own kind for the reason of `Line`.
        self.open: OrderedDict[str, Open] = OrderedDict()
        self._last = last
        self._given_up = 0  # no attempt up to this ticket is known any more, but those in `open`

    def keys(self) -> list[str]:
        """Return the keys at which attempts run."""
        return list(self.open)

    def at(self, key: str) -> Open:
        """Return the attempts at a key, to be read."""
        return self.open.get(key, _NONE)

    def draw(self) -> int:
        """Return the next ticket."""
        self._last += 1
        return self._last

    def begin(self, key: str, lease: float, owner: int, now: float) -> int | None:
        """Begin an attempt, unless one of somebody else has the lease."""
        one = self.open.get(key)
        if one is not None and one.keeps_out(owner, now):
            return None
        self._give_up(now)
        one = self.open.setdefault(key, Open())
        self.open.move_to_end(key)
        ticket = one.holder = self.draw()
        one.owner, one.until = owner, now + lease
        one.linger = max(one.linger, one.until + LONGEST)
        one.running.add(ticket)
        return ticket

    def _give_up(self, now: float) -> None:
        """Forget the oldest if nobody will end them: two for each that begins."""
        for _ in range(2):
            key = next(iter(self.open), None)
            if key is None or now < self.open[key].linger:
                return
            self._given_up = max((self._given_up, *self.open.pop(key).running))

    def forgotten(self, key: str, ticket: int) -> bool:
        """Tell whether nothing is known of an attempt: its key may have been evicted since."""
        return 0 < ticket <= self._given_up and ticket not in self.at(key).running

    def outdate(self, key: str) -> int:
        """Make all attempts at a key that run come too late, and free it for the next; return a ticket."""
        ticket = self.draw()
        if (one := self.open.get(key)) is not None:
            one.floor, one.holder = ticket, None
        return ticket

    def invalidate(self, key: str) -> None:
        """Let what they write be due at once, and free the key for the next."""
        if (one := self.open.get(key)) is not None:
            one.due, one.holder = self.draw(), None

    def written(self, key: str, ticket: int) -> None:
        """Make older attempts than one that has written come too late, also when its value has gone."""
        if (one := self.open.get(key)) is not None:
            one.floor = ticket

    def held_by(self, key: str, owner: int) -> int:
        """Return the ticket with which somebody has the lease, 0 if there is none."""
        one = self.at(key)
        return one.holder or 0 if owner and one.owner == owner else 0

    def end(self, key: str, ticket: int) -> None:
        """Let an attempt end."""
        one = self.open.get(key)
        if one is None:
            return
        one.running.discard(ticket)
        if one.holder == ticket:
            one.holder = None
        if not one.running:
            del self.open[key]
