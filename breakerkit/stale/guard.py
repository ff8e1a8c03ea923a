"""What stands behind a stale-if-error cache: its settings, store, attempts and numbers."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

from breakerkit._counters import drawn
from breakerkit._outcome import Classifier, Outcome, is_refusal
from breakerkit.errors import (
    CircuitOpenError,
    NoCachedValueError,
    OriginRestingError,
)
from breakerkit.events import Mode, State
from breakerkit.stale import _course as course
from breakerkit.stale import _steps as steps
from breakerkit.stale._attempts import Attempts
from breakerkit.stale._counts import CacheInfo, Counts
from breakerkit.stale._course import Fetched, Passed
from breakerkit.stale._instances import Instances
from breakerkit.stale._shelf import Shelf
from breakerkit.stale._stored import stored_of
from breakerkit.stale._telling import Told
from breakerkit.stale.disaster import Raise
from breakerkit.stale.events import Source
from breakerkit.store.commands import NOTHING, Entry, EvictAll, Read
from breakerkit.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._steps import Work
    from breakerkit.stale._stored import Stored
    from breakerkit.stale.config import StaleConfig


#: Seconds for which a process that has died holds up others at most. A longer attempt is
#: begun a second time by another process, which is wasteful and does no harm.
LONGEST_LEASE = 30.0
#: The part of an attempt's time that its lease lasts: who waits for one that nobody ends
#: has the rest to make an attempt.
LEASED = 0.8


class StaleKeeper(Told):
    """The one mutable thing of a cache.

    Attributes:
        shelf: its store.
        attempts: those that run.
        owner: its number in leases.
        instances: numbers for the objects whose methods it caches.
    """

    __slots__ = ("_background", "_classifier", "attempts", "instances", "owner", "shelf")

    def __init__(self, name: str, config: StaleConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.attempts = Attempts()
        self.instances = Instances()
        self._background = 0
        self.owner = _owner()
        # One that is empty is false, so this asks for ``None``.
        store = MemoryStore(clock=clock) if config.store is None else config.store
        self.shelf = Shelf(store, self)
        self.adopt(config)

    def adopt(self, config: StaleConfig) -> None:
        """Take new settings. Under the lock."""
        self.config = config
        self.longest = config.refresh_after * (1 + config.jitter)
        self.fresh = min(self.longest, config.max_stale)
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
        self.owner = _owner()

    # -- what may be served ---------------------------------------------------

    @property
    def lease(self) -> float:
        """Seconds for which other processes leave a key alone; within this one the attempts see to it."""
        return 0.0 if self.shelf.store.local else min(LEASED * self.config.patience, LONGEST_LEASE)

    def next_due(self, config: StaleConfig) -> float:
        """Return the seconds to the next refresh time, with what chance adds."""
        return config.refresh_after * (1 + config.jitter * random.random())  # noqa: S311  # nobody gains by guessing it

    def servable(
        self, key: str, stored: Stored, now: float, error: Exception | None = None
    ) -> bool:
        """Tell whether there is a value and it is young enough, as things are."""
        config = self.config
        limit = config.max_stale
        if config.max_stale_in_disaster is not None and self._in_disaster(key, error):
            limit = config.max_stale_in_disaster
        return not stored.empty and now - stored.born < limit

    def _in_disaster(self, key: str, error: Exception | None) -> bool:
        breaker = self.config.breaker
        if isinstance(error, CircuitOpenError):
            return True
        # Of a breaker further inside one sees what it refuses; a probe of its that fails is no end.
        if key in self._refused and (error is None or breaker is None):
            return True
        if getattr(breaker, "mode", Mode.AUTO) in {Mode.DISABLED, Mode.OBSERVE}:
            return False  # it lets calls through, wherever it stands
        return getattr(breaker, "state", State.CLOSED) is not State.CLOSED

    def answers(self, key: str, stored: Stored | None) -> bool:
        """Tell whether what is stored is the answer to a call, without the origin: a value, or that it rests."""
        now = self.clock.now()
        if stored is None or now >= self.due(stored):
            return False
        rests = self.rests(stored) and not isinstance(self.config.disaster, Raise)
        return rests or self.servable(key, stored, now)

    def is_failure(self, error: Exception) -> bool:
        """Tell whether an error is the origin's failure, and not the business's own."""
        return self._classifier.error(error) is Outcome.FAILURE

    def nothing(self, key: str, error: Exception | None) -> NoCachedValueError:
        """Return the error for a key with nothing to serve."""
        shown = self.shown(key)
        if error is not None and is_refusal(error):
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
        asked = self.clock.now()
        entry = self.shelf.do(Read(key))
        found = self._fresh(entry, asked)
        return found or _given(steps.run(course.fetch(self, key, work, stored_of(entry, asked))))

    async def fetch_async(self, key: str, work: Work) -> Fetched:
        """Do the same in a task."""
        asked = self.clock.now()
        entry = await self.shelf.do_async(Read(key))
        found = self._fresh(entry, asked)
        return found or _given(
            await steps.run_async(course.fetch(self, key, work, stored_of(entry, asked)))
        )

    def _fresh(self, entry: Any, asked: float) -> Fetched | None:
        """Return a value that needs no second look: with a store that must be asked, most calls end here."""
        if type(entry) is not Entry or entry.value is NOTHING:
            return None
        passed = self.clock.now() - asked  # it may have come back late
        age = entry.age + passed
        if entry.due > passed and age < self.fresh and not entry.rests:
            next(self.counts.hits)
            return Fetched(entry.value, Source.CACHED, max(0.0, age))
        return None

    def drop(self, command: Any) -> list[Attempt]:
        """Let new callers wait for no attempt that a command makes late, and return these."""
        prefix = getattr(command, "prefix", None)
        if prefix is None:
            return self.attempts.drop(command.key, exact=True)
        return self.attempts.drop(prefix, exact=False)

    def take_place(self, places: list[int]) -> bool:
        """Put a place for a background thread into a list; ``False`` if all are taken."""
        with self.lock:
            if self._background >= self.config.max_background:
                return False
            self._background += 1
            places.append(self.owner)  # no call in between: signals come after calls
            return True

    def give_back(self, places: list[int]) -> None:
        """Take it out again; doing so twice is no error, for an interrupted start may have begun a thread."""
        with self.lock:
            # One of the process this one was forked from was not counted here.
            if places and places[0] == self.owner:
                self._background -= 1
            places.clear()  # no call in between, as above

    # -- look ----------------------------------------------------------------------

    def reset(self) -> None:
        """Forget all values and numbers, for tests; what another server keeps stays there."""
        with self.lock:
            self.counts = Counts()
            self._refused = {}
            self.shelf.lost = False
        if self.shelf.store.local:
            command = EvictAll(self.prefix)
            self.drop(command)
            self.shelf.do(command)

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


def _owner() -> int:
    return random.SystemRandom().randrange(1, 2**52)


def _given(found: Fetched | Passed) -> Fetched:
    """Return what a course came to, or raise what it passes to the caller."""
    if isinstance(found, Fetched):
        return found
    context = found.error.__context__
    try:
        raise found.error.with_traceback(found.trace)
    finally:
        found.error.__context__ = context  # what this caller is handling is not the others'
        del found, context  # the error leads to this frame: no cycle
