"""A store as the cache sees it: what it raises is nobody's error, and an outage is told once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._fields import show
from breakerkit._log import write
from breakerkit.store.commands import Begin, Entry, Read, StoreBusyError

if TYPE_CHECKING:
    import threading

    from breakerkit.store.commands import Command, Store


class Owner(Protocol):
    """Whose shelf it is: hears about outages."""

    name: str
    lock: threading.RLock

    def store_lost(self, error: Exception) -> None:
        """Hear that the store failed."""

    def store_restored(self) -> None:
        """Hear that it answers again."""


class Lost:
    """In place of an answer: the store failed."""


#: The one there is.
LOST = Lost()


class Shelf:
    """One store and whether it answers.

    Attributes:
        store: the store.
        lost: whether it failed when it was asked last.
    """

    __slots__ = ("_owner", "lost", "store")

    def __init__(self, store: Store, owner: Owner) -> None:
        self.store = store
        self.lost = False
        self._owner = owner

    def do(self, command: Command) -> Any:
        """Carry out a command; `LOST` if that failed."""
        try:
            answer = _checked(command, self.store.do(command))
        except Exception as error:
            return self._failed(error)
        if self.lost and answer is not None:  # nothing is what garbage looks like, too
            self._answers()
        return answer

    def told(self, command: Command) -> bool:
        """Carry out a command and return whether the store heard of it."""
        return _heard(self.do(command))

    async def told_async(self, command: Command) -> bool:
        """Do the same without blocking the event loop."""
        return _heard(await self.do_async(command))

    async def do_async(self, command: Command) -> Any:
        """Do the same without blocking the event loop."""
        if self.store.local:
            return self.do(command)
        try:
            answer = _checked(command, await self.store.do_async(command))
        except Exception as error:
            return self._failed(error)
        if self.lost and answer is not None:  # nothing is what garbage looks like, too
            self._answers()
        return answer

    def _failed(self, error: Exception) -> Lost:
        if isinstance(error, StoreBusyError):
            return LOST  # the next command may do: no outage
        with self._owner.lock:
            first, self.lost = not self.lost, True
        if first:
            text = "%s: the store failed; calls go on as if nothing were stored until it answers"
            write(logging.WARNING, text, self._owner.name, error=error)
            self._owner.store_lost(error.with_traceback(None))
        return LOST

    def _answers(self) -> None:
        with self._owner.lock:
            first, self.lost = self.lost, False
        if first:
            write(logging.INFO, "%s: the store answers again", self._owner.name)
            self._owner.store_restored()


def _heard(answer: Any) -> bool:
    """Tell whether an answer says that the store did what it was told; ``False`` is a value it did not take."""
    return answer is not LOST and answer is not False


def _checked(command: Command, answer: Any) -> Any:
    """Return an answer that can be one: a store that gives garbage fails like any other.

    Raises:
        TypeError: it is none.
    """
    kind = _ANSWERS.get(type(command))
    if kind is None or answer is None:
        return answer
    if isinstance(answer, kind) and (kind is int or _timed(answer)):
        return answer
    raise TypeError(f"{type(command).__name__} was answered with {show(answer)}")


def _timed(entry: Any) -> bool:
    """Tell whether the times of an entry are numbers; what is no number (NaN) is none."""
    return all(
        isinstance(one, int | float) and one == one  # noqa: PLR0124  # only NaN is not
        for one in (entry.age, entry.due)
    )


_ANSWERS: dict[type[Any], type[Any]] = {Read: Entry, Begin: int}
