"""Connections for threads, past what a client of redis-py does around each command: that takes longer than a script."""

from __future__ import annotations

import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as LostError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as LateError

from breakerkit.store.redis._faults import Doubt, TooLargeError, answered
from breakerkit.store.redis._line import Line
from breakerkit.store.redis._places import Places
from breakerkit.store.redis._replies import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.store.redis._script import Script

#: Keys that are looked for, and changed, at once: a server does nothing else meanwhile.
BATCH = 200
#: Timeouts after which a thread that waited for one has been held up itself.
ON_TIME = 1.3


class Lane:
    """The connections of one store for threads; the last one used is used first.

    Args:
        make: makes a connection that is not connected yet.
        most: commands at once.
        timeout: seconds, of the connections.

    Attributes:
        places: who may talk now.
    """

    __slots__ = ("__weakref__", "_closed", "_doubt", "_idle", "_make", "_on_time", "places")

    def __init__(self, make: Callable[[], Any], most: int, timeout: float) -> None:
        self.places = Places(most, timeout)
        self._make = make
        self._doubt = Doubt()
        self._on_time = timeout * ON_TIME
        self._idle: list[Line] = []
        self._closed = False
        # A store that nobody closed: said before the collector comes to its sockets.
        weakref.finalize(self, _hang_up, self._idle)

    def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key; the server gets its text if it does not know it, or any more."""
        began = monotonic()
        line = self._line(began)
        packed = script.packed(key, args, known=True)
        try:
            try:
                reply = line.ask(packed)
            except NoScriptError:
                reply = line.ask(script.packed(key, args, known=False))
        except BaseException as error:
            raise self._failed(line, error, began, len(packed)) from None
        self._doubt.answered()
        self._back(line)
        return reply

    def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``."""
        began = monotonic()
        line, cursor = self._line(began), b"0"
        try:
            while True:
                began = monotonic()
                cursor, keys = line.scan(cursor, pattern, BATCH)
                if keys:
                    began = monotonic()
                    line.run(script, keys, args)
                if cursor == b"0":
                    break
        except BaseException as error:
            raise self._failed(line, error, began, 0) from None
        self._back(line)

    def _failed(self, line: Line, error: BaseException, began: float, size: int) -> BaseException:
        """Return what to raise for what came instead of a reply; what may be dead is not used again."""
        if isinstance(error, ResponseError):
            self._back(line)
            return answered(error)
        line.close()  # a reply may be on its way, which is nobody else's
        if isinstance(error, LateError | LostError):
            self.forget()
        if not isinstance(error, LateError):
            return error
        size = max(size, line.large)
        return TooLargeError(size) if size > PIECE else self._blamed(error, began)

    def forget(self) -> None:
        """Close what nobody uses: a way that has lost one connection may have lost them all."""
        _hang_up(self._idle)

    def _blamed(self, error: Exception, began: float) -> Exception:
        return self._doubt.about(error, began, late=monotonic() - began > self._on_time)

    def _line(self, began: float) -> Line:
        """Return a connection that is connected, and that nobody else has."""
        idle = self._idle
        while True:
            try:
                line = idle.pop()
            except IndexError:
                break
            if line.sound():
                return line
            line.close()
        line = Line(self._make())
        try:
            line.open()
        except BaseException as error:
            line.close()
            raise (self._blamed(error, began) if isinstance(error, LateError) else error) from None
        return line

    def _back(self, line: Line) -> None:
        if not line.clean:
            line.close()
            return
        self._idle.append(line)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close what nobody uses; the rest is closed when it comes back."""
        self._closed = True
        self.forget()


def _hang_up(idle: list[Line]) -> None:
    while True:
        try:
            line = idle.pop()
        except IndexError:
            return
        line.close()
