"""Values in the memory of this process: bounded, and read without a lock.

What makes room is the second-chance (CLOCK) policy: the oldest value goes, unless
it was read since it was looked at last; then it goes to the end of the line. So a
read has to leave nothing but a mark.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import cachetools

from breakerkit import _fields as fields
from breakerkit import _fork as fork
from breakerkit.clock import system_clock
from breakerkit.store import commands as told
from breakerkit.store._sizes import check, estimate
from breakerkit.store.commands import NOTHING, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.clock import Clock

__all__ = ["MemoryStore"]

#: Values that may be given a second chance before one goes all the same: a read mark
#: on each of a million shall not make one store wait for all of them.
MOST_CHANCES = 64


class Held:
    """A value that is held, and whether it was read since it was looked at last."""

    __slots__ = ("keep_until", "refresh_at", "size", "stored_at", "ticket", "used", "value")

    def __init__(
        self, value: Any, stored_at: float, refresh_at: float, keep_until: float, ticket: int
    ) -> None:
        self.value = value
        self.stored_at = stored_at
        self.refresh_at = refresh_at
        self.keep_until = keep_until
        self.ticket = ticket
        self.used = False
        self.size = 1


class _Line(cachetools.FIFOCache[str, Held]):
    """What is held, in the order in which it would go.

    Attributes:
        entries: the same for those who read; who goes here goes there.
    """

    def __init__(self, most: int, entries: dict[str, Held]) -> None:
        super().__init__(most, lambda held: held.size)
        self.entries = entries
        # Of its own: to find the first of a dict takes as long as many were deleted before it.
        self._order: OrderedDict[str, None] = OrderedDict()

    def __setitem__(self, key: str, held: Held) -> None:
        super().__setitem__(key, held)
        self._order[key] = None

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        del self._order[key]

    def popitem(self) -> tuple[str, Held]:
        """Let one go: the oldest that was not read."""
        for _ in range(MOST_CHANCES):
            key = next(iter(self._order))
            held = self[key]
            if not held.used:
                break
            held.used = False
            self._order.move_to_end(key)
        key = next(iter(self._order))
        self.entries.pop(key, None)
        return key, self.pop(key)


class _Open:
    """The attempts at one key that run, and what has made some of them late."""

    __slots__ = ("due", "floor", "holder", "running", "until")

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.holder: int | None = None  # who has the lease
        self.until = 0.0
        self.floor = 0  # attempts up to this ticket may not write
        self.due = 0  # what attempts up to this ticket write is due at once


class MemoryStore:
    """A store in the memory of this process; safe across threads, tasks, event loops and forks.

    Values are held as they are: what a caller does to one, the next caller sees.

    Args:
        max_entries: values it holds at most, at least 1.
        max_bytes: bytes they take at most, by ``size_of``; ``None``: nobody
            counts. A value that is larger by itself is not stored.
        clock: where time comes from; monotonic by default.
        size_of: from a value to its bytes; by default an estimate that follows
            containers and attributes.

    Raises:
        ConfigError: a setting is wrong.
    """

    __slots__ = (
        "__weakref__",
        "_line",
        "_lock",
        "_max",
        "_open",
        "_size_of",
        "_ticket",
        "clock",
        "entries",
    )

    local = True

    def __init__(
        self,
        max_entries: int = 10_000,
        *,
        max_bytes: int | None = None,
        clock: Clock | None = None,
        size_of: Callable[[Any], int] | None = None,
    ) -> None:
        check(max_entries, max_bytes, clock, size_of)
        self.clock: Clock = system_clock if clock is None else clock
        #: What is held, to be read without the lock: whoever reads a value marks it as used.
        self.entries: dict[str, Held] = {}
        self._max = max_entries
        self._size_of = None if max_bytes is None else size_of or estimate
        self._line = _Line(max_entries if max_bytes is None else max_bytes, self.entries)
        self._open: dict[str, _Open] = {}
        self._ticket = 0
        # Reentrant only so that a signal handler or a destructor cannot deadlock.
        self._lock = threading.RLock()
        fork.remember(self)

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child; what is held stays, attempts run in the parent."""
        whole = self._lock.acquire(blocking=False)
        self._lock = threading.RLock()
        self._open = {}
        if not whole:  # another thread of the parent's was in the middle of a change
            self.entries.clear()  # readers have a hold of it
            self._line = _Line(int(self._line.maxsize), self.entries)

    def do(self, command: told.Command) -> Any:
        """Carry out a command and return what it says.

        Raises:
            TypeError: it is none.
        """
        act = _ACTS.get(type(command))
        if act is None:
            raise TypeError(
                f"{fields.show(command)}: must be a command of breakerkit.store.commands"
            )
        with self._lock:
            return act(self, command, self.clock.now())

    async def do_async(self, command: told.Command) -> Any:
        """Do the same: it answers at once."""
        return self.do(command)

    # -- commands, under the lock ------------------------------------------------

    def _read(self, command: told.Read, now: float) -> Entry | None:
        held = self._live(command.key, now)
        if held is None:
            return None
        held.used = True
        age = 0.0 if held.value is NOTHING else now - held.stored_at
        return Entry(held.value, age, held.refresh_at - now)

    def _begin(self, command: told.Begin, now: float) -> int | None:
        key = command.key
        one = self._open.get(key)
        if one is not None and one.holder is not None and now < one.until:
            return None
        if one is None:
            one = self._open[key] = _Open()
        ticket = one.holder = self._next()
        one.until = now + command.lease
        one.running.add(ticket)
        return ticket

    def _write(self, command: told.Write, now: float) -> bool:
        key, ticket = command.key, command.ticket or 0
        one, held = self._open.get(key), self.entries.get(key)
        newer = held is not None and held.value is not NOTHING  # a failure is nothing newer
        newest = max(one.floor if one else 0, held.ticket if held and newer else 0)
        late = one is not None and ticket < one.due
        self._end(key, ticket)
        if ticket < newest:
            return False
        if (one := self._open.get(key)) is not None:
            one.floor = ticket  # older ones are late, also when this value has gone
        due = 0.0 if late else command.due
        return self._hold(key, Held(command.value, now, now + due, now + command.keep, ticket))

    def _postpone(self, command: told.Postpone, now: float) -> None:
        key, ticket = command.key, command.ticket or 0
        one, held = self._open.get(key), self._live(key, now)
        newest = max(max(one.floor, one.due) if one else 0, held.ticket if held else 0)
        self._end(key, ticket)
        if ticket < newest:
            return
        if held is not None and held.value is not NOTHING:
            held.refresh_at = now + command.due
            if command.empty:  # the refresh time outlives the value
                held.keep_until = max(held.keep_until, held.refresh_at)
        elif command.empty:
            until = now + command.due
            self._hold(key, Held(NOTHING, float("-inf"), until, until, ticket))

    def _release(self, command: told.Release, _now: float) -> None:
        self._end(command.key, command.ticket or 0)

    def _put(self, command: told.Put, now: float) -> bool:
        key = command.key
        ticket = self._outdate(key)
        return self._hold(
            key, Held(command.value, now, now + command.due, now + command.keep, ticket)
        )

    def _invalidate(self, command: told.Invalidate, now: float) -> None:
        key = command.key
        if (one := self._open.get(key)) is not None:
            one.due, one.holder = self._next(), None
        if (held := self.entries.get(key)) is not None:
            if held.value is NOTHING:
                self._drop(key)
            held.refresh_at = now

    def _evict(self, command: told.Evict, _now: float) -> None:
        self._outdate(command.key)
        self._drop(command.key)

    def _invalidate_all(self, command: told.InvalidateAll, now: float) -> None:
        for key in self._keys(command.prefix):
            self._invalidate(told.Invalidate(key), now)

    def _evict_all(self, command: told.EvictAll, now: float) -> None:
        for key in self._keys(command.prefix):
            self._evict(told.Evict(key), now)

    # -- pieces --------------------------------------------------------------------

    def _next(self) -> int:
        self._ticket += 1
        return self._ticket

    def _keys(self, prefix: str) -> list[str]:
        return [key for key in {**self.entries, **self._open} if key.startswith(prefix)]

    def _live(self, key: str, now: float) -> Held | None:
        """Return what is held and still wanted by somebody."""
        held = self.entries.get(key)
        if held is not None and now >= held.keep_until:
            self._drop(key)
            return None
        return held

    def _outdate(self, key: str) -> int:
        """Make all attempts at a key that run come too late, and free it for the next."""
        ticket = self._next()
        if (one := self._open.get(key)) is not None:
            one.floor, one.holder = ticket, None
        return ticket

    def _end(self, key: str, ticket: int) -> None:
        """Let an attempt end."""
        one = self._open.get(key)
        if one is None:
            return
        one.running.discard(ticket)
        if one.holder == ticket:
            one.holder = None
        if not one.running:
            del self._open[key]

    def _drop(self, key: str) -> None:
        if self.entries.pop(key, None) is not None:
            self._line.pop(key, None)

    def _hold(self, key: str, held: Held) -> bool:
        """Hold a value, if it may be; others make room."""
        self._drop(key)
        line = self._line
        if self._size_of is not None:
            held.size = max(1, self._size_of(held.value))
            if held.size > line.maxsize:
                return False
        while len(line) >= self._max:
            line.popitem()
        line[key] = held  # bytes may make others go
        self.entries[key] = held
        return True

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self.entries)} of {self._max} entries>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} is of this process: make one where it is needed, or use RedisStore"
        )


_ACTS: dict[type[Any], Callable[[MemoryStore, Any, float], Any]] = {
    told.Read: MemoryStore._read,
    told.Begin: MemoryStore._begin,
    told.Write: MemoryStore._write,
    told.Postpone: MemoryStore._postpone,
    told.Release: MemoryStore._release,
    told.Put: MemoryStore._put,
    told.Invalidate: MemoryStore._invalidate,
    told.Evict: MemoryStore._evict,
    told.InvalidateAll: MemoryStore._invalidate_all,
    told.EvictAll: MemoryStore._evict_all,
}
