"""Which of the last calls were marked (failed, or slow): over so many calls, or over so many seconds.

Calls are numbered by tickets from an ``itertools.count`` that successes draw
without a lock. Only marked calls are remembered one by one, so a window over
100,000 calls costs a success no more than one over 10. All methods here are
called under the guard's lock; ``last`` is the last ticket drawn.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple, Protocol

__all__ = ["CountWindow", "Tally", "TimeWindow", "Window"]

#: Buckets of a time window, as in Hystrix and Polly; evidence goes a bucket at a time.
BUCKETS = 10


class Tally(NamedTuple):
    """How many calls are in a window, and how many of them are marked."""

    calls: int
    marked: int


EMPTY = Tally(0, 0)


class Window(Protocol):
    """What the machine needs of either kind of window."""

    @property
    def marks(self) -> object:
        """True while marked calls are remembered, some of them perhaps past the window."""

    @property
    def timed(self) -> bool:
        """Whether time alone moves calls out of it."""
        ...

    def mark(self, ticket: int, now: float) -> None:
        """Remember that the call with this ticket was marked."""

    def roll(self, last: int, now: float) -> None:
        """Let go of what has left the window."""

    def tally(self, last: int, now: float) -> Tally:
        """Count what is in the window at ``now``, changing nothing."""
        ...

    def reaches(self, minimum: int, last: int) -> float:
        """Return the ticket at which ``minimum`` calls will be in the window, or infinity."""
        ...

    def edge(self) -> float:
        """Return the moment from which a call belongs to another bucket, or minus infinity."""
        ...

    def resize(self, size: float, last: int, now: float) -> None:
        """Take a new size, in calls or in seconds, and keep what fits."""


class CountWindow:
    """The last ``size`` calls: a marked call is inside while its ticket is above ``last - size``."""

    __slots__ = ("_floor", "marks", "size")

    timed = False

    def __init__(self, size: int, last: int = 0) -> None:
        self.size = size
        self._floor = last
        # A deque takes 600 bytes, and most windows never see a failure.
        self.marks: deque[int] | tuple[()] = ()

    def mark(self, ticket: int, now: float) -> None:
        """Remember a marked call; what it pushed out may be looked at until `roll`."""
        del now
        if isinstance(self.marks, tuple):
            self.marks = deque()
        self.marks.append(ticket)

    def roll(self, last: int, now: float) -> None:
        """Let go of marked calls that have left the window."""
        del now
        start, marks = self._start(last), self.marks
        while marks and marks[0] <= start:
            marks.popleft()

    def tally(self, last: int, now: float) -> Tally:
        """Count the window as it is after ticket ``last``, changing nothing."""
        del now
        start, marked = self._start(last), len(self.marks)
        for ticket in self.marks:
            if ticket > start:
                break
            marked -= 1
        for ticket in reversed(self.marks):
            if ticket <= last:
                break
            marked -= 1
        return Tally(last - start, marked)

    def reaches(self, minimum: int, last: int) -> float:
        """Return the ticket that fills the window up to ``minimum``; infinity once it has."""
        ticket = self._floor + minimum
        return ticket if ticket > last else math.inf

    def edge(self) -> float:
        """Return minus infinity: time has no part in this window."""
        return -math.inf

    def resize(self, size: float, last: int, now: float) -> None:
        """Change the size; smaller drops the oldest, larger keeps just what is there."""
        del now
        self._floor = self._start(last)
        self.size = int(size)
        self.roll(last, 0.0)

    def _start(self, last: int) -> int:
        return max(last - self.size, self._floor)


class _Bucket(NamedTuple):
    slot: int
    calls: int
    marked: int


class TimeWindow:
    """The calls of the last ``duration`` seconds, in `BUCKETS` buckets.

    The present bucket does not count its calls: it remembers the ticket before
    its first, so that a success in it draws a ticket and is done.
    """

    __slots__ = (
        "_before", "_closed", "_index", "_marked", "_newest", "_width", "duration", "marks",
    )  # fmt: skip

    timed = True

    def __init__(self, duration: float, now: float, last: int = 0) -> None:
        self.duration = duration
        self._width = duration / BUCKETS
        self._closed: list[_Bucket] = []  # ten at most
        self._index = self._of(now)
        self._before = last
        self._newest = last  # the last ticket that surely is in a bucket
        self._marked = 0
        self.marks = 0

    def mark(self, ticket: int, now: float) -> None:
        """Remember a marked call in the bucket of ``now``."""
        self.roll(ticket - 1, now)
        self._newest = ticket
        self._marked += 1
        self.marks += 1

    def roll(self, last: int, now: float) -> None:
        """Close the present bucket if ``now`` is past it, and let go of old ones."""
        index = self._of(now)
        # A thread that drew its ticket earlier may come later: what is in a bucket stays there.
        self._newest = last = max(last, self._newest)
        if index < self._index - BUCKETS:
            # The clock stepped back by more than the window: what is "the last
            # ten seconds" of such a clock holds nothing that was seen.
            self._forget(index, last)
        if index <= self._index:
            return  # this bucket still, or a reading that another thread overtook
        self._closed.append(_Bucket(self._index, last - self._before, self._marked))
        self._index, self._before, self._marked = index, last, 0
        while self._closed and self._closed[0].slot <= index - BUCKETS:
            self.marks -= self._closed.pop(0).marked

    def tally(self, last: int, now: float) -> Tally:
        """Count the buckets that are inside the window at ``now``."""
        last = max(
            last, self._newest
        )  # marks have no tickets here: before the newest none can be told
        oldest = self._of(now) - BUCKETS
        present = _Bucket(self._index, last - self._before, self._marked)
        inside = [bucket for bucket in (*self._closed, present) if bucket.slot > oldest]
        return Tally(sum(b.calls for b in inside), sum(b.marked for b in inside))

    def reaches(self, minimum: int, last: int) -> float:
        """Return the ticket at which ``minimum`` calls are inside, should no bucket leave first."""
        held = sum(bucket.calls for bucket in self._closed)
        ticket = self._before + minimum - held
        return ticket if ticket > last else math.inf

    def edge(self) -> float:
        """Return the moment the present bucket ends."""
        return (self._index + 1) * self._width

    def resize(self, size: float, last: int, now: float) -> None:
        """Change the duration: each bucket goes, by its middle, into one of the new width."""
        if size == self.duration:
            return
        self.roll(last, now)  # what has left the window does not come back by growing it
        held = [*self._closed, _Bucket(self._index, last - self._before, self._marked)]
        middles = [(bucket.slot + 0.5) * self._width for bucket in held]
        self.duration, self._width = size, size / BUCKETS
        self._forget(self._of(now), last)
        for middle, bucket in zip(middles, held, strict=True):
            self._put(min(self._of(middle), self._index), bucket)
        self.marks = self._marked + sum(bucket.marked for bucket in self._closed)

    def _put(self, index: int, bucket: _Bucket) -> None:
        """Add a bucket of other width, called from the oldest to the newest."""
        if index == self._index:
            self._before -= bucket.calls
            self._marked += bucket.marked
        elif self._closed and self._closed[-1].slot == index:
            same = self._closed.pop()
            self._closed.append(
                _Bucket(index, same.calls + bucket.calls, same.marked + bucket.marked)
            )
        elif index > self._index - BUCKETS:
            self._closed.append(_Bucket(index, bucket.calls, bucket.marked))

    def _of(self, now: float) -> int:
        return math.floor(now / self._width)

    def _forget(self, index: int, last: int) -> None:
        self._closed.clear()
        self.marks = 0
        self._index, self._before, self._marked = index, last, 0
