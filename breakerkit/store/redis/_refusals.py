"""What a server that may be read and refuses to write is told in vain: refresh times, which this process keeps for itself."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from breakerkit.store import commands as told
from breakerkit.store.commands import NOTHING, Entry, StoreBusyError

if TYPE_CHECKING:
    from breakerkit.clock import Clock

#: The ticket of an attempt of which the server knows nothing: it is older than whatever has been written.
UNWRITTEN = 1
#: Keys whose refresh times are kept at once.
MOST = 10_000


class RefusedError(StoreBusyError):
    """A server did not carry out a command because it takes no writes: it may be read."""


class Rests:
    """Until when the origins of some keys rest, for this process.

    Args:
        clock: where time comes from.

    Attributes:
        until: the moment, and whether it holds with no value; by key.
    """

    __slots__ = ("_clock", "until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.until: OrderedDict[str, tuple[float, bool]] = OrderedDict()

    def refused(self, command: Any, error: RefusedError) -> Any:
        """Return what a command comes to that the server has refused.

        Raises:
            RefusedError: it comes to nothing.
        """
        kind = type(command)
        if kind is told.Begin:
            return UNWRITTEN
        if kind in {told.Write, told.Postpone}:
            until = self._clock.now() + command.due
            self.until[command.key] = until, getattr(command, "empty", False)
            while len(self.until) > MOST:
                self.until.popitem(last=False)
        if kind is told.Write:
            return False
        if kind in {told.Postpone, told.Release}:
            return None
        self.end(command)
        if kind is told.Put:
            return False
        raise error

    def end(self, command: Any) -> None:
        """Hear of a command after which what is kept here does not hold any more."""
        if isinstance(command, told.InvalidateAll | told.EvictAll):
            for key in [key for key in list(self.until) if key.startswith(command.prefix)]:
                self.until.pop(key, None)
        elif not isinstance(command, told.Begin | told.Release):
            self.until.pop(command.key, None)

    def over(self, key: str, entry: Entry | None) -> Entry | None:
        """Return what a read comes to."""
        found = self.until.get(key)
        if found is None:
            return entry
        left = found[0] - self._clock.now()
        if left <= 0:
            self.until.pop(key, None)
            return entry
        if entry is None or entry.value is NOTHING:
            return Entry(NOTHING, 0.0, left, rests=True) if found[1] else entry
        return Entry(entry.value, entry.age, max(left, entry.due), rests=True)
