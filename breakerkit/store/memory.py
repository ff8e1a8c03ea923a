"""Values in the memory of this process: bounded, and read without a lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit import _fork as fork
from breakerkit.clock import system_clock
from breakerkit.store import commands as told
from breakerkit.store._line import Held, Line
from breakerkit.store._sizes import check, estimate, measured
from breakerkit.store._tickets import Tickets
from breakerkit.store.commands import NOTHING, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from breakerkit.clock import Clock
    from breakerkit.store._tickets import Open

__all__ = ["MemoryStore"]

#: Seconds that a value may seem to come from the future, where the clock is one that steps.
MOST_AHEAD = 1.0


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
        "_size_of",
        "_tickets",
        "_torn",
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
        self._line = Line(max_entries if max_bytes is None else max_bytes, self.entries)
        self._tickets = Tickets()
        #: Whether a change has begun and not ended: an interrupt may come in between.
        self._torn = False
        # Reentrant only so that a signal handler or a destructor cannot deadlock.
        self._lock = threading.RLock()
        fork.remember(self)

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child; what is held stays, attempts run in the parent."""
        whole = self._lock.acquire(blocking=False)
        self._lock = threading.RLock()
        # What is held has tickets of the parent's: those of here are larger.
        self._tickets = Tickets(self._tickets.draw())
        if not whole:  # another thread of the parent's was in the middle of a change
            self.entries.clear()  # readers have a hold of it
            self._line = Line(int(self._line.maxsize), self.entries)

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
        # What takes long, or is the user's, runs before the lock is taken.
        size = self._measured(command.value) if isinstance(command, told.Write | told.Put) else 1
        with self._lock:
            if self._torn:
                self._mend()
            return act(self, command, self.clock.now(), size)

    async def do_async(self, command: told.Command) -> Any:
        """Do the same: it answers at once."""
        return self.do(command)

    def _measured(self, value: Any) -> int | None:
        """Return the size of a value, ``None`` if it may not be held."""
        size = 1 if self._size_of is None else measured(self._size_of, value)
        return None if size is None or size > self._line.maxsize else size

    # -- commands, under the lock; the last argument is the size of a value that they bring --------

    def _read(self, command: told.Read, now: float, _: Any) -> Entry | None:
        held = self._live(command.key, now)
        if held is None:
            return None
        held.used = True
        age = 0.0 if held.value is NOTHING else now - held.stored_at
        return Entry(held.value, age, held.refresh_at - now, held.rests)

    def _begin(self, command: told.Begin, now: float, _: Any) -> int | None:
        return self._tickets.begin(command.key, command.lease, command.owner, now)

    def _write(self, command: told.Write, now: float, size: int | None) -> bool:
        key, ticket, tickets = command.key, command.ticket or 0, self._tickets
        one, held = tickets.at(key), self.entries.get(key)
        if held is not None and held.value is NOTHING:
            held = None  # a failure is nothing newer
        newest = max(one.floor, held.ticket if held else 0)
        lost = held is None and tickets.forgotten(key, ticket)
        due = 0.0 if ticket < one.due else command.due
        tickets.end(key, ticket)
        if ticket < newest or lost:
            return False
        tickets.written(key, ticket)
        if size is not None:
            held = Held(command.value, now, now + due, now + command.keep, ticket)
            self._hold(key, held, size)
        elif (held := self._live(key, now)) is not None and held.value is not NOTHING:
            held.rest(now + due)
        return size is not None

    def _postpone(self, command: told.Postpone, now: float, _: Any) -> None:
        key, ticket, tickets = command.key, command.ticket or 0, self._tickets
        one, held = tickets.at(key), self._live(key, now)
        newest = max(one.floor, one.due, held.ticket if held else 0)
        lost = held is None and tickets.forgotten(key, ticket)
        tickets.end(key, ticket)
        if ticket < newest or lost:
            return
        if held is not None and held.value is not NOTHING:
            held.rest(now + command.due)
            if command.empty:  # the refresh time outlives the value
                held.keep_until = max(held.keep_until, held.refresh_at)
        elif command.empty:
            until = now + command.due
            nothing = Held(NOTHING, now, until, until, ticket)
            nothing.rest(until)
            self._hold(key, nothing, 1)

    def _release(self, command: told.Release, _now: float, _: Any) -> None:
        key = command.key
        self._tickets.end(key, command.ticket or self._tickets.held_by(key, command.owner))

    def _put(self, command: told.Put, now: float, size: int | None) -> bool:
        key = command.key
        ticket = self._tickets.outdate(key)
        if size is None:
            self._drop(key)
            return False
        held = Held(command.value, now, now + command.due, now + command.keep, ticket)
        self._hold(key, held, size)
        return True

    def _invalidate(self, command: told.Invalidate, now: float, _: Any = None) -> None:
        key = command.key
        self._tickets.invalidate(key)
        held = self.entries.get(key)
        if held is None:
            return
        if held.value is NOTHING:
            self._drop(key)
        else:
            held.invalidate(now)

    def _evict(self, command: told.Evict, _now: float, _: Any = None) -> None:
        self._tickets.outdate(command.key)
        self._drop(command.key)

    def _invalidate_all(self, command: told.InvalidateAll, now: float, _: Any) -> None:
        for key in self._keys(command.prefix):
            self._invalidate(told.Invalidate(key), now)

    def _evict_all(self, command: told.EvictAll, now: float, _: Any) -> None:
        for key in self._keys(command.prefix):
            self._evict(told.Evict(key), now)

    # -- pieces --------------------------------------------------------------------

    @property
    def _open(self) -> Mapping[str, Open]:
        """The attempts that run, by key."""
        return self._tickets.open

    def _keys(self, prefix: str) -> list[str]:
        known = dict.fromkeys([*self.entries, *self._tickets.keys()])
        return [key for key in known if key.startswith(prefix)]

    def _live(self, key: str, now: float) -> Held | None:
        """Return what is held and still wanted by somebody; of what comes from the future nobody knows how old it is."""
        held = self.entries.get(key)
        if held is not None and (now >= held.keep_until or held.stored_at > now + MOST_AHEAD):
            self._drop(key)
            return None
        return held

    def _drop(self, key: str) -> None:
        if key in self.entries:
            self._torn = True
            del self.entries[key]
            self._line.pop(key, None)
            self._torn = False

    def _hold(self, key: str, held: Held, size: int) -> None:
        """Hold a value; others make room."""
        line, held.size = self._line, size
        self._drop(key)
        self._torn = True
        while len(line) >= self._max:
            line.popitem()
        line[key] = held  # bytes may make others go
        self.entries[key] = held
        # What a signal handler has mended meanwhile is another line.
        self._torn = line is not self._line

    def _mend(self) -> None:
        """Make the line anew of what is held, after a change that did not end."""
        self._line = Line(int(self._line.maxsize), self.entries)
        for key, held in list(self.entries.items()):
            self._line[key] = held
        while len(self._line) > self._max:
            self._line.popitem()
        self._torn = False

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self.entries)} of {self._max} entries>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} is of this process: make one where it is needed, or use RedisStore"
        )


_ACTS: dict[type[Any], Callable[[MemoryStore, Any, float, int | None], Any]] = {
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
