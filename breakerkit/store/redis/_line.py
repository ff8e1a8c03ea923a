"""A connection of a thread's: what is said over it, and what comes back, each reply within one time for all of it."""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as LostError
from redis.exceptions import InvalidResponse, NoScriptError
from redis.exceptions import TimeoutError as LateError

from breakerkit.store.redis._replies import LINE, LONGEST_LINE, MOST_PIECES, PIECE, reply
from breakerkit.store.redis._script import words

if TYPE_CHECKING:
    from breakerkit.store.redis._script import Script

#: Bytes that are read at once.
SIZE = 65_536
#: Seconds that a socket may take over what it says it has.
AT_HAND = 0.001


def pieces(packed: bytes) -> list[Any]:
    """Return a command as what is sent at once."""
    if len(packed) <= PIECE:
        return [packed]
    whole = memoryview(packed)
    return [whole[first : first + PIECE] for first in range(0, len(packed), PIECE)]


class Line:
    """A connection, which redis-py has opened and we talk over.

    Args:
        connection: one that is not connected yet.

    Attributes:
        clean: whether the last reply was read to its end, and nothing came after it.
        large: bytes that the largest text of the last reply has, if they did not come at once.
    """

    __slots__ = ("_error_of", "_poll", "_timeout", "clean", "connection", "large")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.clean, self.large = True, 0
        self._timeout: float = connection.socket_timeout
        self._poll: Any = None

    @property
    def _socket(self) -> Any:
        # Not held here: whoever collects garbage is to meet the connection first, which closes it.
        return self.connection._sock

    def open(self) -> None:
        """Connect.

        Raises:
            InvalidResponse: the server has said more than it was asked.
        """
        connection = self.connection
        connection.connect()
        self._error_of = connection._parser.parse_error
        if hasattr(select, "poll"):  # not everywhere
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        if connection.can_read():
            raise InvalidResponse("more replies than commands")

    def sound(self) -> bool:
        """Tell whether it can be used: nobody has hung up, and no reply is left of something else."""
        if self._poll is not None and not self._poll.poll(0):
            return True
        try:
            return not self.connection.can_read()  # with TLS there may be more than replies
        except (LostError, OSError):
            return False

    def close(self) -> None:
        """Hang up."""
        self.connection.disconnect()

    def ask(self, packed: bytes) -> Any:
        """Send a command and return the reply to it.

        Raises:
            ResponseError: that was the reply.
            RedisError: there was none, or none in time.
        """
        self.clean, self.large = False, 0
        began = monotonic()
        try:
            if len(packed) > PIECE:
                said = self._large(packed)
            else:
                socket = self.connection._sock
                socket.sendall(packed)
                said = socket.recv(SIZE)
                # Most replies are one text, and come at once.
                if said.startswith(b"$"):
                    end = said.find(b"\r\n")
                    size = said[1:end]
                    if size.isdigit() and len(said) == end + int(size) + 4:
                        self.clean = True
                        return said[end + 2 : -2]
                said = self._read(said, began)
        except TimeoutError:
            raise LateError("Timeout waiting for the server") from None
        except OSError as error:
            raise LostError(f"Connection lost: {error}") from error
        if isinstance(said, Exception):
            try:
                raise said
            finally:
                del said  # it leads to this frame: no cycle
        return said

    def _large(self, packed: bytes) -> Any:
        sent = pieces(packed)
        for piece in sent:
            self._socket.sendall(piece)
        began = monotonic()
        try:
            self._socket.settimeout(self._timeout * len(sent))  # most of it may be under way
            said = self._socket.recv(SIZE)
        finally:
            self._socket.settimeout(self._timeout)
        return self._read(said, began, len(sent))

    def _read(self, said: bytes, began: float, times: int = 1) -> Any:
        """Return a reply of which so much has come; it has so many timeouts for its first megabyte."""
        buffer, at, course = bytearray(said), 0, reply(self._error_of)
        try:
            wanted = next(course)
            while True:
                end = buffer.find(b"\r\n", at) if wanted == LINE else at + wanted
                if not 0 <= end <= len(buffer):
                    if end < 0 and len(buffer) - at > LONGEST_LINE:
                        raise InvalidResponse("a line without an end")
                    self._more(buffer, began, times)
                    continue
                part = bytes(memoryview(buffer)[at:end])
                at = end + 2 if wanted == LINE else end
                wanted = course.send(part)
                self.large = max(self.large, wanted)
        except StopIteration as done:
            self.clean = at == len(buffer)
            return done.value

    def _more(self, buffer: bytearray, began: float, times: int) -> None:
        """Read what comes next, in the time that is left for as much as has come."""
        got = len(buffer) // PIECE
        left = began + self._timeout * (times + got) - monotonic()
        if got > MOST_PIECES:
            raise InvalidResponse("a reply without an end")
        if left <= 0 and not self._at_hand():  # who was held up reads what has come
            raise TimeoutError
        try:
            self._socket.settimeout(max(left, AT_HAND))
            data = self._socket.recv(SIZE) if buffer else b""
        finally:
            self._socket.settimeout(self._timeout)
        if not data:
            raise LostError("Connection closed by server.")
        buffer += data

    def _at_hand(self) -> bool:
        return self._poll is not None and bool(self._poll.poll(0))

    def run(self, script: Script, keys: list[bytes], args: tuple[Any, ...]) -> None:
        """Run a script for some keys."""
        try:
            self.ask(script.packed_for(keys, args, known=True))
        except NoScriptError:
            self.ask(script.packed_for(keys, args, known=False))

    def scan(self, cursor: bytes, pattern: bytes, count: int) -> tuple[bytes, list[bytes]]:
        """Return where to look next, and keys like ``pattern``."""
        found, keys = self.ask(words(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", count))
        return found, keys
