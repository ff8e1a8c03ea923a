"""What a cache counts and tells: values served and loaded, failures, disasters, outages of its store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from breakerkit._keeper import Keeper
from breakerkit._log import write, write_seldom
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
        longest: the longest refresh period, with all that chance may add.
        fresh: how old a value is at most that needs no second look: its refresh time is looked at anyway.
    """

    __slots__ = ("_refused", "config", "counts", "fresh", "longest", "prefix")

    config: StaleConfig
    prefix: str
    longest: float
    fresh: float
    kinds = EVENT_KINDS

    def __init__(self, name: str, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.counts = Counts()
        #: Keys whose last attempt a circuit breaker further inside has refused; ``False``:
        #: the one before.
        self._refused: dict[str, bool] = {}

    def due(self, stored: Stored) -> float:
        """Return when the origin may be asked again for a key."""
        return stored.due(self.longest)

    def rests(self, stored: Stored) -> bool:
        """Tell whether an attempt has said so, and not the value when it came."""
        return stored.rests(self.longest)

    def shown(self, key: str) -> str:
        """Return a key as its user knows it, and may give it back."""
        return Key(key.removeprefix(self.prefix))

    def served(
        self, key: str, stored: Stored, now: float, error: Exception | None = None
    ) -> Fetched:
        """Count a stored value that is served and return it."""
        age = max(0.0, now - stored.born)
        if error is None and not self.rests(stored) and now < self.due(stored):
            next(self.counts.hits)
            return Fetched(stored.value, Source.CACHED, age)
        with self.lock:
            self.counts.stale += 1
            self.counts.age = age
            self.post(StaleServed, key=self.shown(key), age=age, error=error)
        self.hub.drain()
        return Fetched(stored.value, Source.STALE, age, error)

    def loaded(self, value: Any, *, shared: bool) -> Fetched:
        """Count a value that a caller had to wait for, maybe for another's attempt, and return it."""
        with self.lock:
            self.counts.misses += 1
            self.counts.shared += shared
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

    def unheard(self, error: Exception) -> None:
        """Log an error that is the business's own, of an attempt in the background: nobody waits for it."""
        text = "%s of %r raised what is no failure (%d so far); nobody waits for it"
        write_seldom(logging.WARNING, text, "a refresh in the background", self.name, error)

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
        """Keep in mind whether a breaker further inside has refused a key, until it has answered. Under the lock.

        A failure after that is a probe's; a second one is the origin's own.
        """
        before = self._refused.pop(key, False)
        if isinstance(error, CircuitOpenError) and self.config.max_stale_in_disaster is not None:
            while len(self._refused) >= MOST_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[key] = True
        elif before and error is not None:
            self._refused[key] = False
