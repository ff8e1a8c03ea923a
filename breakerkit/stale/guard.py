"""What stands behind a stale-if-error cache: its settings, store, attempts and numbers."""

from __future__ import annotations

import functools
import logging
import random
from typing import TYPE_CHECKING, Any

from breakerkit._counters import drawn
from breakerkit._keeper import Keeper
from breakerkit._log import write
from breakerkit._outcome import Classifier, Outcome, is_refusal
from breakerkit.errors import (
    CircuitOpenError,
    NoCachedValueError,
    OriginRestingError,
)
from breakerkit.events import State
from breakerkit.stale import _course as course
from breakerkit.stale import _steps as steps
from breakerkit.stale._attempts import Attempts
from breakerkit.stale._counts import CacheInfo, Counts
from breakerkit.stale._course import Fetched, Passed
from breakerkit.stale._shelf import Shelf
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
from breakerkit.stale.keys import Instances, Key
from breakerkit.store.commands import NOTHING, Entry, Read
from breakerkit.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.stale._steps import Work
    from breakerkit.stale._stored import Stored
    from breakerkit.stale.config import StaleConfig


class StaleKeeper(Keeper):
    """The one mutable thing of a cache.

    Attributes:
        shelf: its store.
        attempts: those that run.
        counts: its numbers.
        prefix: what all its keys begin with, so that caches may share a store.
        instances: numbers for the objects whose methods it caches.
        fresh: seconds for which a value needs no second look.
    """

    __slots__ = (
        "_background", "_classifier", "attempts", "config", "counts", "fresh", "instances",
        "prefix", "shelf",
    )  # fmt: skip

    config: StaleConfig
    kinds = EVENT_KINDS

    def __init__(self, name: str, config: StaleConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.attempts = Attempts()
        self.counts = Counts()
        self.instances = Instances()
        self._background = 0
        # One that is empty is false, so this asks for ``None``.
        store = MemoryStore(clock=clock) if config.store is None else config.store
        self.shelf = Shelf(store, self)
        self.adopt(config)

    def adopt(self, config: StaleConfig) -> None:
        """Take new settings. Under the lock."""
        self.config = config
        self.fresh = config.refresh_after
        self._classifier = Classifier(self.name, config.on, (), (), None)
        self.prefix = self.name.replace("%", "%25").replace(":", "%3A") + ":"

    def rename(self, name: str) -> None:
        """Take a name, once it is known."""
        with self.lock:
            self.name = name
            self.adopt(self.config)

    def after_fork(self) -> None:
        """Start with no thread of its own in a forked child."""
        super().after_fork()
        self._background = 0

    # -- what may be served ---------------------------------------------------

    @property
    def lease(self) -> float:
        """Seconds for which other processes leave a key alone; within this one the attempts see to it."""
        return 0.0 if self.shelf.store.local else self.config.patience

    def next_due(self, config: StaleConfig) -> float:
        """Return the seconds to the next refresh time, with what chance adds."""
        return config.refresh_after * (1 + config.jitter * random.random())  # noqa: S311  # nobody gains by guessing it

    def servable(self, stored: Stored, now: float, error: Exception | None = None) -> bool:
        """Tell whether a value is young enough, as things are."""
        config = self.config
        limit = config.max_stale
        if config.max_stale_in_disaster is not None and self._in_disaster(error):
            limit = config.max_stale_in_disaster
        return now - stored.born < limit

    def _in_disaster(self, error: Exception | None) -> bool:
        state = getattr(self.config.breaker, "state", State.CLOSED)
        return isinstance(error, CircuitOpenError) or state is not State.CLOSED

    def is_failure(self, error: Exception) -> bool:
        """Tell whether an error is the origin's failure, and not the business's own."""
        return self._classifier.error(error) is Outcome.FAILURE

    def shown(self, key: str) -> str:
        """Return a key as its user knows it, and may give it back."""
        return Key(key.removeprefix(self.prefix))

    def nothing(self, key: str, error: Exception | None) -> NoCachedValueError:
        """Return the error for a key with nothing to serve."""
        shown = self.shown(key)
        if error is None:
            return OriginRestingError(self.name, "it failed, and rests", None, shown)
        if is_refusal(error):
            reason = getattr(error, "reason", None) or str(error)
            return OriginRestingError(self.name, reason, getattr(error, "retry_after", None), shown)
        return NoCachedValueError(self.name, shown)

    def through(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is called as the origin is: through the breaker, if there is one."""
        breaker = self.config.breaker
        return function if breaker is None else functools.partial(breaker.call, function)

    @property
    def at_hand(self) -> tuple[Callable[[str], Any], Clock] | None:
        """How to look into the store without asking it, and its clock; ``None`` if it must be asked."""
        store = self.shelf.store
        return (store.entries.get, store.clock) if isinstance(store, MemoryStore) else None

    def hit(self) -> None:
        """Count a value that was found so."""
        next(self.counts.hits)

    def fetch(self, key: str, work: Work) -> Fetched:
        """Return what a call comes to."""
        entry = self.shelf.do(Read(key))
        return self._fresh(entry) or _given(steps.run(course.fetch(self, key, work, entry)))

    async def fetch_async(self, key: str, work: Work) -> Fetched:
        """Do the same in a task."""
        entry = await self.shelf.do_async(Read(key))
        found = self._fresh(entry)
        return found or _given(await steps.run_async(course.fetch(self, key, work, entry)))

    def _fresh(self, entry: Any) -> Fetched | None:
        """Return a value that needs no second look: with a store that must be asked, most calls end here."""
        if type(entry) is not Entry or entry.value is NOTHING:
            return None
        if entry.due > 0 and entry.age < self.fresh:  # what is no number is neither
            next(self.counts.hits)
            return Fetched(entry.value, Source.CACHED, max(0.0, entry.age))
        return None

    def drop(self, command: Any) -> None:
        """Let new callers wait for no attempt that a command makes late."""
        prefix = getattr(command, "prefix", None)
        if prefix is None:
            self.attempts.drop(command.key, exact=True)
        else:
            self.attempts.drop(prefix, exact=False)

    def take_place(self, places: list[int]) -> bool:
        """Put a place for a background thread into a list; ``False`` if all are taken."""
        with self.lock:
            if self._background >= self.config.max_background:
                return False
            self._background += 1
            places.append(1)  # no call in between: signals come after calls
            return True

    def give_back(self, places: list[int]) -> None:
        """Take it out again; doing so twice is no error, for an interrupted start may have begun a thread."""
        with self.lock:
            if places:
                self._background -= 1
                places.pop()

    # -- what happened -----------------------------------------------------------

    def served(
        self, key: str, stored: Stored, now: float, error: Exception | None = None
    ) -> Fetched:
        """Count a stored value that is served and return it."""
        age = max(0.0, now - stored.born)
        if error is None and age < self.fresh * (1 + self.config.jitter) and now < stored.due:
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
            self.counts.refreshes += 1
            self.post(ValueRefreshed, key=self.shown(key), seconds=seconds, stored=stored)
        self.hub.drain()

    def failed(self, key: str, error: Exception, *, served: bool) -> None:
        """Count an attempt that failed."""
        with self.lock:
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
            ratio, calls = self.counts.ratio_since(config.warn_after)
            if ratio is None or ratio >= config.min_hit_ratio:
                return
            self.post(LowHitRatio, ratio=ratio, calls=calls)
        text = "%s: only %.0f %% of calls were answered from the store: it protects nobody"
        write(logging.WARNING, text, self.name, ratio * 100)
        self.hub.drain()

    # -- look ----------------------------------------------------------------------

    def info(self) -> CacheInfo:
        """Return all numbers as they belong together now."""
        counts = self.counts
        with self.lock:
            return CacheInfo(
                name=self.name, hits=drawn(counts.hits), stale=counts.stale, misses=counts.misses,
                disasters=counts.disasters, refreshes=counts.refreshes, failures=counts.failures,
                age=counts.age, running=len(self.attempts), background=self._background,
                store_lost=self.shelf.lost,
            )  # fmt: skip


def _given(found: Fetched | Passed) -> Fetched:
    """Return what a course came to, or raise what it passes to the caller."""
    if isinstance(found, Fetched):
        return found
    try:
        raise found.error.with_traceback(found.trace)
    finally:
        del found  # the error leads to this frame: no cycle
