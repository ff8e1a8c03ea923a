"""How many may talk to a server at once, and the line in which the others wait: for threads, and for a loop."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit.store.commands import StoreBusyError
from breakerkit.store.redis._looks import Looks

if TYPE_CHECKING:
    from collections.abc import Callable

#: Timeouts for which one waits in line. It moves as long as the server answers; once one
#: has waited in vain for a reply the breaker is open, and lets go of all who come to the front.
MOST_WAITED = 20


class _Owner(Protocol):
    def back(self, place: Place) -> None:
        """Take a place back."""


class Place:
    """The right to talk to the server.

    It goes back by itself when nobody has it any more: a signal's exception may come
    between any two steps of whoever has taken it.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: weakref.ref[Any]) -> None:
        self._owner = owner

    def __del__(self) -> None:
        owner: _Owner | None = self._owner()
        if owner is not None:
            owner.back(Place(self._owner))


class Places:
    """Those for threads.

    Attributes:
        leave: give a place back; also where another place is just being taken in this thread.
    """

    __slots__ = ("__weakref__", "_free", "_most", "_patience", "back", "leave")

    def __init__(self, most: int, timeout: float) -> None:
        self._most = most
        self._patience = timeout * MOST_WAITED
        self._free: SimpleQueue[Place] = SimpleQueue()
        self.leave: Callable[[Place], None] = self._free.put
        self.back = self.leave
        own = weakref.ref(self)
        for _ in range(most):
            self._free.put(Place(own))

    def enter(self) -> Place:
        """Take a place, in turn.

        Raises:
            StoreBusyError: the line was too long.
        """
        try:
            return self._free.get(timeout=self._patience)
        except Empty:
            raise _too_many(self._most) from None


class LoopPlaces:
    """Those for the tasks of one event loop."""

    __slots__ = ("__weakref__", "_free", "_line", "_most", "_patience")

    def __init__(self, most: int, timeout: float) -> None:
        self._most = most
        self._patience = timeout * MOST_WAITED
        self._line: deque[asyncio.Future[Place | None]] = deque()
        own = weakref.ref(self)
        self._free = [Place(own) for _ in range(most)]

    def take(self) -> Place | None:
        """Take a place if there is one: nobody waits while one is free."""
        return self._free.pop() if self._free else None

    async def enter(self) -> Place:
        """Wait for a place, in turn.

        Raises:
            StoreBusyError: the line was too long.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Place | None] = loop.create_future()
        self._line.append(turn)
        looks = Looks(loop, self._patience, lambda: _end(turn))
        try:
            place = await turn
        except GeneratorExit:
            raise  # the loop may be closed, and what came goes back by itself
        except BaseException:
            if not turn.cancel() and not turn.cancelled() and (place := turn.result()):
                self.leave(place)  # it came just as the task was cancelled
            raise
        finally:
            looks.stop()
        if place is None:
            raise _too_many(self._most)
        return place

    def leave(self, place: Place) -> None:
        """Give a place to the first in line."""
        line = self._line
        while line:
            turn = line.popleft()
            if turn.done():
                continue
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
                turn.set_result(place)
                return
        self._free.append(place)

    def back(self, place: Place) -> None:
        """Take a place back, in whatever thread its last holder was forgotten."""
        self._free.append(place)


def _end(turn: asyncio.Future[Place | None]) -> None:
    if not turn.done():
        turn.set_result(None)


def _too_many(most: int) -> StoreBusyError:
    return StoreBusyError(
        f"all {most} connections were in use for {MOST_WAITED} timeouts: see max_connections"
    )
