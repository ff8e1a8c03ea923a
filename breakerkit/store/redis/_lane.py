"""Connections for threads, past what a client of redis-py does around each command: that takes longer than a script."""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as LostError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as LateError

from breakerkit.store.commands import StoreBusyError
from breakerkit.store.redis._faults import Doubt
from breakerkit.store.redis._places import Places

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.store.redis._scripts import Script

#: Keys that are looked for, and changed, at once: a server does nothing else meanwhile.
BATCH = 200
#: Bytes that have a timeout of their own: what is larger than this is sent in such pieces.
PIECE = 1_000_000
#: Timeouts after which a thread that waited for one has been held up itself.
ON_TIME = 1.3


def pieces(packed: bytes) -> list[Any]:
    """Return a command as what is sent at once."""
    if len(packed) <= PIECE:
        return [packed]
    whole = memoryview(packed)
    return [whole[first : first + PIECE] for first in range(0, len(packed), PIECE)]


def too_large(size: int) -> StoreBusyError:
    """Return the error for a command that took too long, and is so large that this need not surprise."""
    return StoreBusyError(f"a value of {size} bytes took longer than the timeout")


class Line:
    """A connection, and whether the other end has hung up."""

    __slots__ = ("_poll", "connection")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._poll: Any = None

    def open(self) -> None:
        """Connect."""
        self.connection.connect()
        socket = getattr(self.connection, "_sock", None)
        if socket is not None and hasattr(select, "poll"):  # not everywhere
            self._poll = select.poll()
            self._poll.register(socket, select.POLLIN)

    def sound(self) -> bool:
        """Tell whether it can be used: nobody has hung up, and no reply is left of something else."""
        if self._poll is not None and not self._poll.poll(0):
            return True
        try:
            return not self.connection.can_read()  # with TLS there may be more than replies
        except (LostError, OSError):
            return False

    def ask(self, packed: bytes) -> Any:
        """Send a command and return the reply to it."""
        connection = self.connection
        sent = pieces(packed)
        for piece in sent:
            connection.send_packed_command([piece])
        if len(sent) > 1:  # most of it may be under way
            connection.can_read(connection.socket_timeout * len(sent))
        return connection.read_response(True)

    def run(self, script: Script, keys: list[bytes], args: tuple[Any, ...]) -> None:
        """Run a script for some keys."""
        try:
            self.connection.send_command("EVALSHA", script.digest, len(keys), *keys, *args)
            self.connection.read_response(True)
        except NoScriptError:
            self.connection.send_command("EVAL", script.text, len(keys), *keys, *args)
            self.connection.read_response(True)


class Lane:
    """The connections of one store for threads; the last one used is used first.

    Args:
        make: makes a connection that is not connected yet.
        most: commands at once.
        timeout: seconds, of the connections.

    Attributes:
        places: who may talk now.
    """

    __slots__ = ("_closed", "_doubt", "_idle", "_make", "_on_time", "places")

    def __init__(self, make: Callable[[], Any], most: int, timeout: float) -> None:
        self.places = Places(most, timeout)
        self._make = make
        self._doubt = Doubt()
        self._on_time = timeout * ON_TIME
        self._idle: list[Line] = []
        self._closed = False

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
        except ResponseError:
            self._back(line)
            raise  # that was an answer
        except LateError as error:
            line.connection.disconnect()
            if len(packed) > PIECE:
                raise too_large(len(packed)) from None
            raise self._blamed(error, began) from None
        except BaseException:
            line.connection.disconnect()  # a reply may be on its way, which is nobody else's
            raise
        self._doubt.answered()
        self._back(line)
        return reply

    def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``."""
        line = self._line(monotonic())
        connection = line.connection
        cursor: Any = b"0"
        try:
            while True:
                connection.send_command("SCAN", cursor, "MATCH", pattern, "COUNT", BATCH)
                cursor, keys = connection.read_response(True)
                if keys:
                    line.run(script, keys, args)
                if cursor == b"0":
                    break
        except BaseException:
            connection.disconnect()
            raise
        self._back(line)

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
            line.connection.disconnect()
        line = Line(self._make())
        try:
            line.open()
        except LateError as error:
            raise self._blamed(error, began) from None
        return line

    def _back(self, line: Line) -> None:
        self._idle.append(line)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close what nobody uses; the rest is closed when it comes back."""
        self._closed = True
        while True:
            try:
                line = self._idle.pop()
            except IndexError:
                return
            line.connection.disconnect()
