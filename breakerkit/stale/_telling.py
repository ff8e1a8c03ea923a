"""What a cache counts and tells: values served and loaded, failures, disasters, outages of its store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from breakerkit._keeper import Keeper
from breakerkit._log import write
from breakerkit.errors import CircuitOpenError
from breakerkit.stale._counts import Counts
from breakerkit.stale._course import Fetched
from breakerkit.stale.events import (
    EVENT_KINDS,
    DisasterStruck,
    LowHitRatio,
    RefreshFailed,
    Source,
    StaleServed,
    StoreLost,
    StoreRestored,
    ValueRefreshed,
)
from breakerkit.stale.keys import Key

if TYPE_CHECKING:
    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.stale._stored import Stored
    from breakerkit.stale.config import StaleConfig

#: So many keys at most are kept in mind as refused; the oldest go first.
MOST_REFUSED = 10_000


class Told(Keeper):
    """What happened in a cache, as numbers and events.

    Attributes:
        counts: its numbers.
        prefix: what all its keys begin with, so that caches may share a store.
        fresh: how old a value is at most that needs no second look: its refresh time is looked at anyway.
    """

    __slots__ = ("_refused", "config", "counts", "fresh", "prefix")

    config: StaleConfig
    prefix: str
    fresh: float
    kinds = EVENT_KINDS

    def __init__(self, name: str, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.counts = Counts()
        #: Keys whose last attempt was refused by a circuit breaker further inside.
        self._refused: dict[str, None] = {}

    def shown(self, key: str) -> str:
        """Return a key as its user knows it, and may give it back."""
        return Key(key.removeprefix(self.prefix))

    def served(
        self, key: str, stored: Stored, now: float, error: Exception | None = None
    ) -> Fetched:
        """Count a stored value that is served and return it."""
        age = max(0.0, now - stored.born)
        if error is None and age < self.fresh and now < stored.due:
            next(self.counts.hits)
            return Fetched(stored.value, Source.CACHED, age)
        with self.lock:
            self.counts.stale += 1
            self.counts.age = age
            self.post(StaleServed, key=self.shown(key), age=age, error=error)
        self.hub.drain()
        return Fetched(stored.value, Source.STALE, age, error)

    def loaded(self, value: Any) -> Fetched:
        """Count a value that a caller had to wait for and return it."""
        with self.lock:
            self.counts.misses += 1
        self._look_at_ratio()
        return Fetched(value, Source.FRESH, 0.0)

    def struck(self, key: str, error: Exception | None) -> None:
        """Count a disaster."""
        with self.lock:
            self.counts.disasters += 1
            self.post(DisasterStruck, key=self.shown(key), error=error)
        self.hub.drain()
        self._look_at_ratio()

    def refreshed(self, key: str, seconds: float, *, stored: bool) -> None:
        """Count an attempt that ended well."""
        with self.lock:
            self._note(key, None)
            self.counts.refreshes += 1
            self.post(ValueRefreshed, key=self.shown(key), seconds=seconds, stored=stored)
        self.hub.drain()

    def failed(self, key: str, error: Exception, *, served: bool) -> None:
        """Count an attempt that failed."""
        with self.lock:
            self._note(key, error)
            self.counts.failures += 1
            self.post(RefreshFailed, key=self.shown(key), error=error, served=served)
        self.hub.drain()

    def store_lost(self, error: Exception) -> None:
        """Tell that the store failed."""
        with self.lock:
            self.post(StoreLost, error=error)
        self.hub.drain()

    def store_restored(self) -> None:
        """Tell that it answers again."""
        with self.lock:
            self.post(StoreRestored)
        self.hub.drain()

    def _look_at_ratio(self) -> None:
        config = self.config
        with self.lock:
            poor = self.counts.turned_poor(config.warn_after, config.min_hit_ratio)
            if poor is None:
                return
            ratio, calls = poor
            self.post(LowHitRatio, ratio=ratio, calls=calls)
        text = "%s: only %.0f %% of calls were answered from the store: it protects nobody"
        write(logging.WARNING, text, self.name, ratio * 100)
        self.hub.drain()

    def _note(self, key: str, error: Exception | None) -> None:
        """Keep in mind, while a key rests, whether a breaker further inside made it rest. Under the lock."""
        if isinstance(error, CircuitOpenError) and self.config.max_stale_in_disaster is not None:
            while len(self._refused) >= MOST_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[key] = None
        elif self._refused:
            self._refused.pop(key, None)
