"""Numbers for the objects whose methods are cached: their values belong to them, and go by a number in the key."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

from breakerkit import _fields as fields
from breakerkit import _fork as fork
from breakerkit.stale.keys import AmbiguousKeyError


class Instances:
    """Serial numbers for objects, kept as long as they live: an address may be used again, a number never."""

    __slots__ = ("__weakref__", "_lock", "_next", "_numbers")

    def __init__(self) -> None:
        self._next = itertools.count(1)
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._lock = threading.RLock()
        fork.remember(self)

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child."""
        self._lock = threading.RLock()

    def number(self, one: Any) -> int:
        """Return the number of an object.

        Raises:
            AmbiguousKeyError: it cannot be referred to weakly, so its end would not be seen.
        """
        known = self._numbers.get(id(one))
        if known is not None and known[0]() is one:
            return known[1]
        address = id(one)

        def forget(gone: Any) -> None:
            with self._lock:  # its address may be somebody else's by now
                found = self._numbers.get(address)
                if found is not None and found[0] is gone:
                    del self._numbers[address]

        try:
            ref = weakref.ref(one, forget)
        except TypeError:
            raise AmbiguousKeyError(
                f"{fields.show(one)}: the values of a method belong to its instance, and a"
                f" {type(one).__name__} cannot be referred to weakly: add '__weakref__' to its"
                " __slots__, or give key="
            ) from None
        with self._lock:
            known = self._numbers.get(address)
            if known is not None and known[0]() is one:
                return known[1]  # another thread was first
            number = next(self._next)
            self._numbers[address] = ref, number
        return number

    def __len__(self) -> int:
        return len(self._numbers)
