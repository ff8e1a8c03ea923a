"""A bounded set of breakers by key, in idle order: what is forgotten first is what loses least."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from breakerkit import _fork as fork
from breakerkit.circuit._control import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit._breaker import CircuitBreaker

#: Held keys looked at per eviction: enough to find those that closed, few enough to cost nothing.
LOOKS = 8


class Family:
    """Breakers by key, at most ``most`` of them unless more are open or held.

    A key is in one of three idle orders, longest idle first: used lately and
    not looked at since, seen with evidence, seen open or held. A look moves it
    on once, so that every look at a key is paid for by a use of it.
    """

    def __init__(
        self,
        most: int,
        make: Callable[[Hashable], CircuitBreaker],
        standing: Callable[[CircuitBreaker, float], Standing],
        now: Callable[[CircuitBreaker], float],
        overgrown: Callable[[int], None],
    ) -> None:
        self._most = most
        self._make = make
        self._standing = standing
        self._now = now
        self._overgrown = overgrown
        self._lock = threading.RLock()
        self._all: dict[Hashable, CircuitBreaker] = {}
        self._recent: OrderedDict[Hashable, None] = OrderedDict()
        self._marked: OrderedDict[Hashable, None] = OrderedDict()
        self._held: OrderedDict[Hashable, None] = OrderedDict()
        self._warned = False
        fork.remember(self)

    def get(self, key: Hashable) -> CircuitBreaker:
        """Return the breaker of ``key``, made if there is none; ``TypeError`` if unhashable."""
        found = self._all.get(key)
        if found is None:
            return self._add(key)
        try:
            self._recent.move_to_end(key)
        except KeyError:
            self._bring_back(key)
        return found

    def items(self) -> list[tuple[Hashable, CircuitBreaker]]:
        """Return keys and breakers as they are now."""
        return list(self._all.items())

    def values(self) -> list[CircuitBreaker]:
        """Return the breakers as they are now."""
        return list(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child."""
        self._lock = threading.RLock()

    def _bring_back(self, key: Hashable) -> None:
        """A key that was put aside is used again."""
        with self._lock:
            if key in self._all:
                self._marked.pop(key, None)
                self._held.pop(key, None)
                self._recent[key] = None

    def _add(self, key: Hashable) -> CircuitBreaker:
        """Make a breaker and read its clock with the lock free, for both run code of the user's."""
        made = self._make(key)
        now = self._now(made)
        with self._lock:
            found = self._all.get(key)
            if found is not None:
                return found  # another thread was faster
            self._make_room(now)
            self._all[key] = made
            self._recent[key] = None
            tell = len(self._all) > self._most and not self._warned
            self._warned = self._warned or tell
        if tell:
            self._overgrown(len(self))
        return made

    def _make_room(self, now: float) -> None:
        # Two, so that a family that had to grow comes back to its bound.
        for _ in range(2):
            if len(self._all) < self._most or not self._evict(now):
                return

    def _evict(self, now: float) -> bool:
        key = (
            self._longest_idle_clean(now)
            or self._longest_idle_closed(now)
            or self._closed_again(now)
        )
        if key is not None:
            del self._all[key[0]]
        return key is not None

    # Each of the three returns the key in a tuple, for None is a key like any other.

    def _longest_idle_clean(self, now: float) -> tuple[Hashable] | None:
        while self._recent:
            key, _ = self._recent.popitem(last=False)
            standing = self._standing(self._all[key], now)
            if standing is Standing.CLEAN:
                return (key,)
            (self._marked if standing is Standing.MARKED else self._held)[key] = None
        return None

    def _longest_idle_closed(self, now: float) -> tuple[Hashable] | None:
        while self._marked:
            key, _ = self._marked.popitem(last=False)
            if self._standing(self._all[key], now) is not Standing.HELD:
                return (key,)
            self._held[key] = None
        return None

    def _closed_again(self, now: float) -> tuple[Hashable] | None:
        for _ in range(min(LOOKS, len(self._held))):
            key, _nothing = self._held.popitem(last=False)
            if self._standing(self._all[key], now) is not Standing.HELD:
                return (key,)
            self._held[key] = None
        return None
