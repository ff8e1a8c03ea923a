"""How often a cache could help: what is counted, and the record that shows it."""

from __future__ import annotations

import itertools

import attrs

from breakerkit._counters import drawn

__all__ = ["CacheInfo"]


@attrs.frozen(kw_only=True)
class CacheInfo:
    """All numbers of a cache as they belong together at one moment.

    Attributes:
        name: its name.
        hits: calls that got a stored value younger than the refresh period.
        stale: calls that got an older one.
        misses: calls that got a value the origin had just given.
        disasters: calls for which there was nothing to serve.
        refreshes: attempts in which the origin answered.
        failures: attempts in which it failed, or was refused.
        age: how old the stale value was that was served last, in seconds;
            ``None`` if none ever was.
        running: attempts that have their key now.
        background: attempts that have a thread of their own, late ones included.
        store_lost: whether the store failed when it was asked last.
    """

    name: str
    hits: int
    stale: int
    misses: int
    disasters: int
    refreshes: int
    failures: int
    age: float | None
    running: int
    background: int
    store_lost: bool

    @property
    def calls(self) -> int:
        """Calls in all that got an answer or a disaster."""
        return self.hits + self.stale + self.misses + self.disasters

    @property
    def hit_ratio(self) -> float | None:
        """The part of calls that was answered from the store, 0 to 1; ``None`` before the first."""
        return (self.hits + self.stale) / self.calls if self.calls else None


class Counts:
    """The counters of one cache.

    Attributes:
        hits: drawn by every hit, without a lock.
        shared: misses that waited for another caller's attempt: they cost the origin nothing.
    """

    __slots__ = (
        "_mark",
        "_poor",
        "age",
        "disasters",
        "failures",
        "hits",
        "misses",
        "refreshes",
        "shared",
        "stale",
    )

    def __init__(self) -> None:
        self.hits = itertools.count(1)
        self.stale = self.misses = self.disasters = self.refreshes = self.failures = 0
        self.shared = 0
        self.age: float | None = None
        self._mark = (0, 0)
        self._poor = False

    def totals(self) -> tuple[int, int]:
        """Return how many calls the cache has spared the origin, and how many there were."""
        spared = drawn(self.hits) + self.stale + self.shared
        return spared, spared + self.misses - self.shared + self.disasters

    def turned_poor(self, calls: int, least: float) -> tuple[float, int] | None:
        """Return the hit ratio, and of how many calls it is, if it has fallen below ``least``.

        Looked at whenever there have been so many calls; told once, until it
        was better in between.
        """
        ratio, made = self._ratio_since(calls)
        if ratio is None:
            return None
        before, self._poor = self._poor, ratio < least
        return (ratio, made) if self._poor and not before else None

    def _ratio_since(self, calls: int) -> tuple[float | None, int]:
        answered, total = self.totals()
        before, made = self._mark, total - self._mark[1]
        if made < calls:
            return None, made
        self._mark = answered, total
        return (answered - before[0]) / made, made
