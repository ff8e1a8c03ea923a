"""What the shell needs of a policy: let a call in, then hear once how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit._callbacks import Later
    from breakerkit._outcome import Outcome
    from breakerkit.clock import Clock


class Entry(Protocol):
    """What an admission hands out.

    A success draws a ticket from ``ticks``; below ``attention`` that is all.
    Else, below ``judge_at`` and before ``edge`` on the gate's clock, it is too.
    """

    ticks: Iterator[int]

    @property
    def attention(self) -> int:
        """The first ticket the gate may want to hear about."""
        ...

    @property
    def judge_at(self) -> int:
        """The first ticket it wants to hear about whatever the time."""
        ...

    @property
    def edge(self) -> float:
        """The moment from which it wants to hear about any ticket."""
        ...


class Gate(Protocol):
    """A policy, seen from the shell."""

    @property
    def fast(self) -> Any:
        """An entry that may be used with no admission, or ``None``."""

    @property
    def clock(self) -> Clock:
        """Where its time comes from."""
        ...

    @property
    def waits(self) -> bool:
        """Whether an admission may have to wait: then async calls use `admit_async`."""
        ...

    def admit(self, later: Later | None = None) -> Any:
        """Let a call in, or return the `CallRejectedError` to be raised.

        It is returned, so that its traceback is the shortest there can be.
        """

    def succeeded(
        self,
        entry: Any,
        ticket: int,
        value: object,
        later: Later | None = None,
        now: float | None = None,
    ) -> None:
        """Hear a returned value; ``now`` is the clock's reading, if it was read already."""

    def failed(self, entry: Any, error: BaseException, later: Later | None = None) -> None:
        """Hear an exception, a cancellation included."""

    def drop(self, entry: Any, *, decided: bool = False) -> None:
        """Hear, from a destructor, that nobody will know how the call ended, unless that was decided."""

    def check_sync(self) -> None:
        """Refuse a sync call that could not be served, with a `TypeError`."""

    def ignored(self, entry: Any) -> None:
        """Hear that a call that was let in was not run after all."""

    def decide(
        self, entry: Any, outcome: Outcome, error: BaseException | None, later: Later | None
    ) -> None:
        """Hear the outcome of a block that goes on; its slot stays taken until it ends."""

    def release(self, entry: Any) -> None:
        """Hear that a block whose outcome was decided has ended."""


class WaitingGate(Gate, Protocol):
    """A gate whose admission may have to wait, and says so by `waits`."""

    async def admit_async(self) -> Any:
        """Do what `admit` does for an async call, without blocking its loop."""


def waiting(gate: Gate) -> WaitingGate:
    """Return the gate as what it says it is."""
    return gate  # type: ignore[return-value]  # only asked of one that waits


def refuse(rejection: CallRejectedError) -> NoReturn:
    """Raise a rejection without a ``__context__``.

    Python links an exception to the one that is being handled; in a retry loop
    that chain would grow with every rejection.
    """
    try:
        raise rejection
    except CallRejectedError:
        rejection.__context__ = None
        raise
    finally:
        del rejection  # its traceback leads here, and a cycle would keep the caller's frames


def enter(gate: Gate) -> Any:
    """Let a call in, or raise."""
    entry = gate.fast
    if entry is None:
        entry = gate.admit()
        if isinstance(entry, CallRejectedError):
            try:
                refuse(entry)
            finally:
                entry = None  # for the same reason
    return entry


async def enter_async(gate: Gate) -> Any:
    """Let an async call in, or raise; coroutine callbacks of an opening are awaited here."""
    entry = gate.fast
    if entry is None:
        later: Later = []
        entry = await waiting(gate).admit_async() if gate.waits else gate.admit(later)
        for notice in later:
            await notice()
        if isinstance(entry, CallRejectedError):
            try:
                refuse(entry)
            finally:
                entry = None  # for the same reason
    return entry


async def fail(gate: Gate, entry: Any, error: BaseException) -> None:
    """Tell the gate of an async call's exception and await what that sets off."""
    if isinstance(error, GeneratorExit):
        gate.failed(entry, error)  # a coroutine that is being closed may await nothing
        return
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

    @property
    def taken(self) -> bool:
        """Whether somebody settles it already."""
        return self._taken

    def take(self) -> Any:
        """Return the entry to whoever settles it from now on."""
        self._taken = True
        return self._entry

    def __del__(self) -> None:
        if not getattr(self, "_taken", True):  # absent if __init__ was interrupted
            self._gate.drop(self._entry)
