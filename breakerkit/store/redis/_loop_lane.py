"""Connections for the tasks of one event loop, with a clock of our own: redis-py's takes a held-up loop for a server that hangs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as LostError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as LateError

from breakerkit.store.redis._faults import TooLargeError, answered, closing
from breakerkit.store.redis._lane import BATCH
from breakerkit.store.redis._looks import Looks
from breakerkit.store.redis._loop_line import LoopLine
from breakerkit.store.redis._places import LoopPlaces
from breakerkit.store.redis._replies import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from breakerkit.store.redis._script import Script


class _Limit:
    """Ends what takes too long, as ``asyncio.timeout`` does, by the time of `Looks`."""

    __slots__ = ("_looks", "_timeout", "again")

    def __init__(self, line: LoopLine, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)
        self._looks = Looks(
            loop, seconds, lambda: self._timeout.reschedule(loop.time()), lambda: line.came
        )
        self.again = self._looks.again

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
        self._idle: list[LoopLine] = []
        self._closed = False

    async def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key; the server gets its text if it does not know it, or any more."""
        line = self._line()
        packed = script.packed(key, args, known=True)
        try:
            async with _Limit(line, self._timeout) as limit:
                if not line.opened:
                    await line.open()
                    limit.again()
                try:
                    reply = await line.ask(packed, limit.again)
                except NoScriptError:
                    limit.again()
                    reply = await line.ask(script.packed(key, args, known=False), limit.again)
        except BaseException as error:
            raise self._failed(line, error, len(packed)) from None
        self._back(line)
        return reply

    async def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``."""
        line, cursor = self._line(), b"0"
        try:
            async with _Limit(line, self._timeout) as limit:
                if not line.opened:
                    await line.open()
                while True:
                    limit.again()
                    cursor, keys = await line.scan(cursor, pattern, BATCH, limit.again)
                    if keys:
                        limit.again()
                        await line.run(script, keys, args, limit.again)
                    if cursor == b"0":
                        break
        except BaseException as error:
            raise self._failed(line, error, 0) from None
        self._back(line)

    def _failed(self, line: LoopLine, error: BaseException, size: int) -> BaseException:
        """Return what to raise for what came instead of a reply; what may be dead is not used again."""
        if isinstance(error, ResponseError):
            self._back(line)
            return answered(error)
        line.close()  # a reply may be on its way, which is nobody else's
        if isinstance(error, LateError | LostError):
            self._drop()
        size = max(size, line.large)
        late = isinstance(error, LateError)
        return TooLargeError(size) if late and size > PIECE else closing(error)

    async def forget(self) -> None:
        """Close what nobody uses: a way that has lost one connection may have lost them all."""
        self._drop()

    def _drop(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _line(self) -> LoopLine:
        """Return a connection that nobody else has."""
        while self._idle:
            line = self._idle.pop()
            if line.sound():
                return line
            line.close()
        return LoopLine(self._make())

    def _back(self, line: LoopLine) -> None:
        if self._closed or not line.clean:
            line.close()
        else:
            self._idle.append(line)

    async def close(self) -> None:
        """Close what nobody uses; the rest is closed when it comes back."""
        self._closed = True
        self._drop()
