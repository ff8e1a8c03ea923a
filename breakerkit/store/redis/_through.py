"""Clients of redis-py, used as they are: the user's, and those of clusters, for threads and for tasks."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoScriptError, ResponseError

from breakerkit.store.redis._faults import Doubt
from breakerkit.store.redis._lane import BATCH, PIECE, too_large
from breakerkit.store.redis._looks import Beat
from breakerkit.store.redis._places import LoopPlaces, Places

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.store.commands import StoreBusyError
    from breakerkit.store.redis._scripts import Script

#: Whatever the user's client does with replies: values are bytes.
RAW: dict[str, Any] = {"NEVER_DECODE": []}


class Through:
    """One client for threads.

    Args:
        make: makes the client.
        most: commands at once.
        timeout: seconds of ours, for waiting in line.
        batch: keys of one script.
        ours: whether it is closed with the store.

    Attributes:
        places: who may talk now.
    """

    __slots__ = ("_batch", "_client", "_doubt", "_lock", "_make", "_ours", "places")

    def __init__(
        self, make: Callable[[], Any], most: int, timeout: float, batch: int, *, ours: bool
    ) -> None:
        self.places = Places(most, timeout)
        self._make = make
        self._batch = batch
        self._ours = ours
        self._client: Any = None
        self._doubt = Doubt()
        self._lock = threading.RLock()  # reentrant, lest a destructor or signal handler deadlock

    def client(self) -> Any:
        """Return the client, which is made when it is first needed."""
        found = self._client
        if found is not None:
            return found
        client = self._make()  # not under the lock: that of a cluster asks the server
        with self._lock:
            found = self._client
            if found is None:
                self._client = client
                return client
        if self._ours:
            client.close()  # another thread was faster
        return found

    def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key; the server gets its text if it does not know it, or any more."""
        began = monotonic()
        try:
            client = self.client()
            if _plain(client):
                return _borrowed(client.connection_pool, script, key, args)
            return _send(client, script, (key,), args)
        except redis.TimeoutError as error:
            if (large := _large(args)) is not None:
                raise large from None
            raise self._doubt.about(error, began, late=False) from None
        except redis.ConnectionError as error:
            raise self._doubt.about(error, began, late=False) from None

    def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``, those of every master of a cluster."""
        client, batch = self.client(), []
        for key in client.scan_iter(match=pattern, count=BATCH, **RAW):
            batch.append(key)
            if len(batch) >= self._batch:
                _send(client, script, tuple(batch), args)
                batch.clear()
        if batch:
            _send(client, script, tuple(batch), args)

    def close(self) -> None:
        """Close the client, unless it is the user's."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._ours:
            client.close()


class LoopThrough:
    """The same for the tasks of one loop."""

    __slots__ = ("_batch", "_doubt", "_timeout", "client", "places")

    def __init__(self, make: Callable[[], Any], most: int, timeout: float, batch: int) -> None:
        self.places = LoopPlaces(most, timeout)
        self.client = make()
        self._batch = batch
        self._timeout = timeout
        self._doubt = Doubt()

    async def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key."""
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        began, beat = monotonic(), Beat(asyncio.get_running_loop(), self._timeout)
        reply: Any = None
        fault: Exception | None = None
        try:
            reply = await _send_async(self.client, script, (key,), args)
        except redis.RedisError as error:
            late, large = isinstance(error, redis.TimeoutError), _large(args)
            fault = large if late and large else self._doubt.about(error, began, late=beat.late)
        finally:
            beat.stop()
        if task is not None and task.cancelling() > before:
            # Its client took it for a reply that came in time: ``wait_for`` of Python 3.11 does.
            raise asyncio.CancelledError
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # it leads to this frame: no cycle
        self._doubt.answered()
        return reply

    async def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``."""
        batch: list[bytes] = []
        async for key in self.client.scan_iter(match=pattern, count=BATCH, **RAW):
            batch.append(key)
            if len(batch) >= self._batch:
                await _send_async(self.client, script, tuple(batch), args)
                batch.clear()
        if batch:
            await _send_async(self.client, script, tuple(batch), args)

    async def close(self) -> None:
        """Close the client: it is not the user's."""
        await self.client.aclose()


def _large(args: tuple[Any, ...]) -> StoreBusyError | None:
    """Return what is said of a command that took too long because of its size."""
    size = sum(len(one) for one in args if isinstance(one, bytes))
    return too_large(size) if size > PIECE else None


def _send(client: Any, script: Script, keys: tuple[bytes, ...], args: tuple[Any, ...]) -> Any:
    try:
        return client.execute_command("EVALSHA", script.digest, len(keys), *keys, *args, **RAW)
    except NoScriptError:
        return client.execute_command("EVAL", script.text, len(keys), *keys, *args, **RAW)


async def _send_async(
    client: Any, script: Script, keys: tuple[bytes, ...], args: tuple[Any, ...]
) -> Any:
    try:
        return await client.execute_command(
            "EVALSHA", script.digest, len(keys), *keys, *args, **RAW
        )
    except NoScriptError:
        return await client.execute_command("EVAL", script.text, len(keys), *keys, *args, **RAW)


def _plain(client: Any) -> bool:
    """Tell whether a client does nothing with a command that its connections do not: nobody has built on it."""
    return (
        type(client) is redis.Redis
        and client.connection is None
        and getattr(client.connection_pool, "cache", None) is None
        and not hasattr(client.execute_command, "__wrapped__")
        and "execute_command" not in vars(client)
    )


def _borrowed(pool: Any, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
    """Run a script on a connection of a client, with its retries, past what else it does around each command."""
    connection = pool.get_connection()

    def ask(*, known: bool) -> Any:
        connection.send_packed_command([script.packed(key, args, known=known)])
        return connection.read_response(True)

    def all_of_it() -> Any:
        try:
            return ask(known=True)
        except NoScriptError:
            return ask(known=False)

    try:
        return connection.retry.call_with_retry(all_of_it, lambda _: connection.disconnect())
    except ResponseError:
        raise  # that was an answer
    except BaseException:
        connection.disconnect()  # a reply may be on its way, which is nobody else's
        raise
    finally:
        pool.release(connection)
