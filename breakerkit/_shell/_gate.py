"""What the shell needs of a policy: let a call in, then hear once how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit._callbacks import Later


class Entry(Protocol):
    """What an admission hands out.

    A success draws a ticket from ``ticks``; below ``attention`` that is all.
    """

    ticks: Iterator[int]

    @property
    def attention(self) -> int:
        """The first ticket the gate wants to hear about."""
        ...


class Gate(Protocol):
    """A policy, seen from the shell."""

    @property
    def fast(self) -> Any:
        """An entry that may be used with no admission, or ``None``."""

    def admit(self, later: Later | None = None) -> Any:
        """Let a call in, or raise a `CallRejectedError`."""

    def succeeded(self, entry: Any, ticket: int, value: object, later: Later | None = None) -> None:
        """Hear a returned value."""

    def failed(self, entry: Any, error: BaseException, later: Later | None = None) -> None:
        """Hear an exception, a cancellation included."""

    def drop(self, entry: Any) -> None:
        """Hear, from a destructor, that nobody will know how the call ended."""


async def enter(gate: Gate) -> Any:
    """Let an async call in; coroutine callbacks of an opening are awaited here."""
    later: Later = []
    try:
        return gate.admit(later)
    finally:
        for notice in later:
            await notice()


async def fail(gate: Gate, entry: Any, error: BaseException) -> None:
    """Tell the gate of an async call's exception and await what that sets off."""
    later: Later = []
    gate.failed(entry, error, later)
    for notice in later:
        await notice()


async def succeed(gate: Gate, entry: Any, ticket: int, value: object) -> None:
    """Tell the gate of an async call's value and await what that sets off."""
    later: Later = []
    gate.succeeded(entry, ticket, value, later)
    for notice in later:
        await notice()


class Carried:
    """An entry on its way to a call that runs later; it finds its way back if that never runs."""

    __slots__ = ("_entry", "_gate", "_taken")

    def __init__(self, gate: Gate, entry: Any) -> None:
        self._gate = gate
        self._entry = entry
        self._taken = False

    def take(self) -> Any:
        """Return the entry to whoever settles it from now on."""
        self._taken = True
        return self._entry

    def __del__(self) -> None:
        if not self._taken:
            self._gate.drop(self._entry)
