"""What a store can be told, as plain records: a store is what answers them, sync and async.

The algorithm that uses a store is written once, and yields these; who runs it
answers them, by `Store.do` in a thread and by `Store.do_async` in a task. All
times are relative (an age, seconds until a moment), so that no two clocks need
to agree; each store reads one clock of its own.

Order of changes to one key: each attempt to load it draws a *ticket*, a number
that is larger than that of whatever came before. A value is written only if
nothing newer has been: a load that began before an `Evict` or a `Put` comes too
late.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

__all__ = [
    "NOTHING",
    "Begin",
    "Command",
    "Entry",
    "Evict",
    "EvictAll",
    "Invalidate",
    "InvalidateAll",
    "Postpone",
    "Put",
    "Read",
    "Release",
    "Store",
    "StoreBusyError",
    "Write",
]


class _Nothing:
    """In place of a value where there is none: ``None`` is one."""

    def __repr__(self) -> str:
        return "<nothing>"


#: The value of an `Entry` that holds a refresh time alone.
NOTHING: Any = _Nothing()


@attrs.frozen
class Entry:
    """A value that is stored, or the refresh time of a key that has none.

    Attributes:
        value: the value; `NOTHING` if only the refresh time is stored.
        age: seconds since it came from the origin; 0 with no value.
        due: seconds until the origin may be asked again; not positive: it may be now.
        rests: whether that was set by an attempt that brought nothing to store, and not
            by the value when it came; ``None``: the store does not know.
    """

    value: Any
    age: float
    due: float
    rests: bool | None = None


@attrs.frozen
class Read:
    """Return the `Entry` of a key, ``None`` if there is none.

    The age says how old the value is, whatever happened to its refresh time since.
    """

    key: str


@attrs.frozen
class Begin:
    """Begin an attempt to load a key: return its ticket, or ``None`` while another one holds the lease.

    Attributes:
        key: the key.
        lease: seconds after which another attempt may begin although this one has not ended.
        owner: a number of the caller's own, from 1 to 2**52, for those who make one
            attempt at a time at a key: the lease of the same owner is in nobody's way,
            for the reply to its `Begin` was lost, or it has given that attempt up. 0: nobody's.
    """

    key: str
    lease: float
    owner: int = 0


@attrs.frozen
class Write:
    """End an attempt with a value; return whether it was stored: nothing newer has been.

    If the key was invalidated since the attempt began, the value is stored and
    the refresh is due at once. A value that the store cannot take leaves an older
    one as it is, and moves its refresh time: the origin was asked.

    Attributes:
        key: the key.
        ticket: that of the attempt; ``None`` if the store could not give one.
        value: the value; its age is 0 now.
        due: seconds until the origin may be asked again.
        keep: seconds after which nobody will want the value: the store may forget it then.
    """

    key: str
    ticket: int | None
    value: Any
    due: float
    keep: float


@attrs.frozen
class Postpone:
    """End an attempt that failed: the refresh time moves to ``due`` seconds from now.

    What is stored stays as old as it is. Nothing happens to a key that has been
    written, evicted or invalidated since, nor to one with no value unless
    ``empty``; the lease ends if the attempt still has it.

    Attributes:
        key: the key.
        ticket: that of the attempt; ``None`` if the store could not give one.
        due: seconds until the origin may be asked again.
        empty: whether the refresh time is kept although there is no value, or
            none that anybody wants any more; the store forgets it when it has come.
    """

    key: str
    ticket: int | None
    due: float
    empty: bool = False


@attrs.frozen
class Release:
    """End an attempt of which nothing was learned: only its lease ends, if it still has it.

    Attributes:
        key: the key.
        ticket: that of the attempt; ``None``, with an ``owner``: the reply to its `Begin`
            was lost, and it is the one with which the owner has the lease, if it has.
        owner: what that `Begin` said.
    """

    key: str
    ticket: int | None
    owner: int = 0


@attrs.frozen
class Put:
    """Store a value as an attempt that began and ended just now would; running ones come too late.

    So does what was there, also if the store cannot take the value.
    """

    key: str
    value: Any
    due: float
    keep: float


@attrs.frozen
class Invalidate:
    """Let the next call ask the origin; the value stays, as old as it is. No lease is in its way."""

    key: str


@attrs.frozen
class Evict:
    """Forget the value; attempts that run do not bring one back. No lease is in the next one's way."""

    key: str


@attrs.frozen
class InvalidateAll:
    """Do what `Invalidate` does for every key that begins with ``prefix``; an empty one is all."""

    prefix: str


@attrs.frozen
class EvictAll:
    """Do what `Evict` does for every key that begins with ``prefix``; an empty one is all."""

    prefix: str


Command: TypeAlias = "Read | Begin | Write | Postpone | Release | Put | Invalidate | Evict | InvalidateAll | EvictAll"


class StoreBusyError(Exception):
    """A store did not carry out a command, which says nothing about the next one: it is no outage.

    There were too many at once, or the value is so large that it took too long.
    """


@runtime_checkable
class Store(Protocol):
    """Where values are kept; safe across threads, tasks, event loops and forks.

    What a store raises is never the caller's error: the call goes on as if
    nothing were stored.
    """

    #: Whether it answers at once, without input and output: then async code uses ``do`` too.
    local: bool

    def do(self, command: Command) -> Any:
        """Carry out a command and return what it says."""
        ...

    async def do_async(self, command: Command) -> Any:
        """Do the same without blocking the event loop."""
        ...
