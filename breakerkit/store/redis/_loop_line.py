"""A connection of an event loop's: what is said over it, and what comes back."""

from __future__ import annotations

import select
from asyncio import IncompleteReadError, LimitOverrunError
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as LostError
from redis.exceptions import InvalidResponse, NoScriptError

from breakerkit.store.redis._line import pieces
from breakerkit.store.redis._replies import LINE, MOST_PIECES, PIECE, reply
from breakerkit.store.redis._script import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.store.redis._script import Script


class LoopLine:
    """A connection, which redis-py has opened and we talk over.

    Args:
        connection: one that is not connected yet.

    Attributes:
        opened: whether it is connected.
        large: bytes of the largest text of the last reply.
    """

    __slots__ = ("_error_of", "_poll", "_reader", "_writer", "connection", "large", "opened")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.opened, self.large = False, 0
        self._poll: Any = None

    async def open(self) -> None:
        """Connect.

        Raises:
            InvalidResponse: the server has said more than it was asked.
        """
        connection = self.connection
        await connection.connect()
        self._reader, self._writer = connection._reader, connection._writer
        self._error_of = connection._parser.parse_error
        socket = self._writer.get_extra_info("socket")
        if socket is not None and hasattr(select, "poll"):  # not everywhere
            self._poll = select.poll()
            self._poll.register(socket.fileno(), select.POLLIN)
        known = hasattr(connection, "can_read")  # of redis-py 8: what its own parser holds, too
        if not self.clean or (known and await connection.can_read()):
            raise InvalidResponse("more replies than commands")
        self.opened = True

    @property
    def came(self) -> int:
        """The bytes that have come and were not read."""
        return len(getattr(getattr(self.connection, "_reader", None), "_buffer", b""))

    @property
    def clean(self) -> bool:
        """Whether nothing is left of what came."""
        return not self.came

    def sound(self) -> bool:
        """Tell whether it can be used: nobody has hung up, and nothing is left of something else.

        The socket is asked too: of a loop that has not run meanwhile the reader knows nothing yet.
        """
        reader = self._reader
        if reader.at_eof() or reader.exception() is not None or not self.clean:
            return False
        return self._poll is None or not self._poll.poll(0)

    def close(self) -> None:
        """Hang up, at once, and also where the loop is closed already."""
        try:
            self.connection._close()
        except RuntimeError:  # what is left is closed with the objects
            self.connection._writer = self.connection._reader = None

    async def ask(self, packed: bytes, again: Callable[[int], None]) -> Any:
        """Send a command and return the reply to it.

        Args:
            packed: the command.
            again: is told how many times as long this has from now on.

        Raises:
            ResponseError: that was the reply.
            RedisError: there was none.
        """
        self.large, sent = 0, pieces(packed)
        try:
            for piece in sent:
                self._writer.write(piece)
                await self._writer.drain()
                again(len(sent))  # most of it may be under way
            said = await self._read()
        except IncompleteReadError:
            raise LostError("Connection closed by server.") from None
        except LimitOverrunError:
            raise InvalidResponse("a line without an end") from None
        except OSError as error:
            raise LostError(f"Connection lost: {error}") from error
        if isinstance(said, Exception):
            try:
                raise said
            finally:
                del said  # it leads to this frame: no cycle
        return said

    async def _read(self) -> Any:
        reader, course, got = self._reader, reply(self._error_of), 0
        try:
            wanted = next(course)
            while True:
                if wanted == LINE:
                    line = await reader.readuntil(b"\r\n")
                    part = line[:-2]
                    got += len(line)
                else:
                    part = await reader.readexactly(wanted)
                    got += wanted
                if got > MOST_PIECES * PIECE:
                    raise InvalidResponse("a reply without an end")
                wanted = course.send(part)
                self.large = max(self.large, wanted)
        except StopIteration as done:
            return done.value

    async def run(self, script: Script, keys: list[bytes], args: Any, again: Any) -> None:
        """Run a script for some keys."""
        try:
            await self.ask(script.packed_for(keys, args, known=True), again)
        except NoScriptError:
            await self.ask(script.packed_for(keys, args, known=False), again)

    async def scan(self, cursor: bytes, pattern: bytes, count: int, again: Any) -> Any:
        """Return where to look next, and keys like ``pattern``."""
        found, keys = await self.ask(
            words(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", count), again
        )
        return found, keys
