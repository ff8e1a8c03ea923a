"""Connections for the tasks of one event loop, with a clock of our own: redis-py's takes a held-up loop for a server that hangs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as LateError

from breakerkit.store.redis._lane import BATCH, PIECE, pieces, too_large
from breakerkit.store.redis._looks import Looks
from breakerkit.store.redis._places import LoopPlaces

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from breakerkit.store.redis._scripts import Script


class _Limit:
    """Ends what takes too long, as ``asyncio.timeout`` does, by the time of `Looks`."""

    __slots__ = ("_connection", "_looks", "_timeout", "again")

    def __init__(self, connection: Any, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._connection = connection
        self._timeout = asyncio.timeout(None)
        self._looks = Looks(
            loop, seconds, lambda: self._timeout.reschedule(loop.time()), self._size
        )
        self.again = self._looks.again

    def _size(self) -> int:
        """Return the bytes that have come of a large reply."""
        return len(getattr(getattr(self._connection, "_reader", None), "_buffer", b""))

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._looks.stop()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise LateError("Timeout waiting for the server") from None


class LoopLane:
    """The connections of one store for one loop; the last one used is used first.

    Args:
        make: makes a connection that is not connected yet, and has no timeouts.
        most: commands at once.
        timeout: seconds, to connect and for each reply.

    Attributes:
        places: who may talk now.
    """

    __slots__ = ("_closed", "_idle", "_make", "_timeout", "places")

    def __init__(self, make: Callable[[], Any], most: int, timeout: float) -> None:
        self.places = LoopPlaces(most, timeout)
        self._make = make
        self._timeout = timeout
        self._idle: list[Any] = []
        self._closed = False

    async def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key; the server gets its text if it does not know it, or any more."""
        connection = self._connection()
        packed = script.packed(key, args, known=True)
        try:
            async with _Limit(connection, self._timeout) as limit:
                if not connection.is_connected:
                    await connection.connect()
                    limit.again()
                try:
                    reply = await _ask(connection, packed, limit)
                except NoScriptError:
                    limit.again()
                    reply = await _ask(connection, script.packed(key, args, known=False), limit)
        except ResponseError:
            await self._back(connection)
            raise  # that was an answer
        except LateError as error:
            await connection.disconnect(nowait=True)
            raise (error if len(packed) <= PIECE else too_large(len(packed))) from None
        except BaseException:
            await connection.disconnect(nowait=True)  # a reply may come, which is nobody else's
            raise
        await self._back(connection)
        return reply

    async def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``."""
        connection = self._connection()
        cursor: Any = b"0"
        try:
            async with _Limit(connection, self._timeout) as limit:
                await connection.connect()
                while True:
                    limit.again()
                    await connection.send_command("SCAN", cursor, "MATCH", pattern, "COUNT", BATCH)
                    cursor, keys = await connection.read_response(True)
                    if keys:
                        limit.again()
                        await _run(connection, script, keys, args)
                    if cursor == b"0":
                        break
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        await self._back(connection)

    def _connection(self) -> Any:
        """Return a connection that nobody else has."""
        while self._idle:
            connection = self._idle.pop()
            if _sound(connection):
                return connection
            connection._close()
        return self._make()

    async def _back(self, connection: Any) -> None:
        if self._closed:
            await connection.disconnect(nowait=True)
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close what nobody uses; the rest is closed when it comes back."""
        self._closed = True
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)


def _sound(connection: Any) -> bool:
    """Tell whether a connection can be used: nobody has hung up, and nothing is left of something else."""
    reader = connection._reader
    return (
        reader is not None
        and not reader.at_eof()
        and reader.exception() is None
        and not getattr(reader, "_buffer", b"")
    )


async def _ask(connection: Any, packed: bytes, limit: _Limit) -> Any:
    sent = pieces(packed)
    for piece in sent:
        await connection.send_packed_command([piece])
        limit.again(len(sent))  # most of it may be under way
    return await connection.read_response(True)


async def _run(connection: Any, script: Script, keys: list[bytes], args: tuple[Any, ...]) -> None:
    try:
        await connection.send_command("EVALSHA", script.digest, len(keys), *keys, *args)
        await connection.read_response(True)
    except NoScriptError:
        await connection.send_command("EVAL", script.text, len(keys), *keys, *args)
        await connection.read_response(True)
