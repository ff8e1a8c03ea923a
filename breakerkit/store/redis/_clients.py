"""Which redis-py client a command goes through: one for threads, one per event loop, none shared with a fork."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError, ResponseError

from breakerkit.store.redis._sides import ASYNC, sides

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from breakerkit.store.redis._scripts import Script

#: Whatever the user's client does with replies: values are bytes.
RAW: dict[str, Any] = {"NEVER_DECODE": []}
#: Keys that are looked for, and changed, at once: a server does nothing else meanwhile.
BATCH = 200

#: What a forked child has of its parent's async clients: to close one would take its
#: sockets out of the selector that both share.
_left_behind: list[Any] = []


def send(client: Any, script: Script, keys: tuple[bytes, ...], args: tuple[Any, ...]) -> Any:
    """Run a script; the server gets its text if it does not know it, or any more."""
    try:
        return client.execute_command("EVALSHA", script.digest, len(keys), *keys, *args, **RAW)
    except NoScriptError:
        return client.execute_command("EVAL", script.text, len(keys), *keys, *args, **RAW)


def send_lean(pool: Any, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
    """Do the same on a connection of our own, past what a client does around each command.

    That takes longer than the script: so a read costs no more than the client's GET.
    """
    connection = pool.get_connection()
    try:
        try:
            connection.send_packed_command([script.packed(key, args, known=True)])
            return connection.read_response()
        except NoScriptError:
            connection.send_packed_command([script.packed(key, args, known=False)])
            return connection.read_response()
    except ResponseError:
        raise  # that was an answer
    except BaseException:
        connection.disconnect()  # one may be on its way, which is nobody else's
        raise
    finally:
        pool.release(connection)


async def send_async(
    client: Any, script: Script, keys: tuple[bytes, ...], args: tuple[Any, ...]
) -> Any:
    """Do the same in a task."""
    try:
        return await client.execute_command(
            "EVALSHA", script.digest, len(keys), *keys, *args, **RAW
        )
    except NoScriptError:
        return await client.execute_command("EVAL", script.text, len(keys), *keys, *args, **RAW)


async def send_lean_async(pool: Any, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
    """Do the same in a task."""
    connection = await pool.get_connection()
    try:
        try:
            await connection.send_packed_command([script.packed(key, args, known=True)])
            return await connection.read_response()
        except NoScriptError:
            await connection.send_packed_command([script.packed(key, args, known=False)])
            return await connection.read_response()
    except ResponseError:
        raise
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


def sweep(client: Any, script: Script, pattern: bytes, most: int, args: tuple[Any, ...]) -> None:
    """Run a script on all keys like ``pattern``, ``most`` at once, those of every master of a cluster."""
    batch: list[bytes] = []
    for key in client.scan_iter(match=pattern, count=BATCH, **RAW):
        batch.append(key)
        if len(batch) >= most:
            send(client, script, tuple(batch), args)
            batch.clear()
    if batch:
        send(client, script, tuple(batch), args)


async def sweep_async(
    client: Any, script: Script, pattern: bytes, most: int, args: tuple[Any, ...]
) -> None:
    """Do the same in a task."""
    batch: list[bytes] = []
    async for key in client.scan_iter(match=pattern, count=BATCH, **RAW):
        batch.append(key)
        if len(batch) >= most:
            await send_async(client, script, tuple(batch), args)
            batch.clear()
    if batch:
        await send_async(client, script, tuple(batch), args)


class Clients:
    """The clients of one store, made when they are first needed.

    Args:
        source: a URL, or a client of redis-py.
        timeout: seconds, for connecting, for each reply, and for a free connection.
        most: connections at most, for threads and for each event loop.
        cluster: whether the URL is that of a node of a cluster.

    Raises:
        ConfigError: it is neither, or they do not go together.
    """

    def __init__(self, source: Any, timeout: float, most: int, *, cluster: bool) -> None:
        self._make, self._make_async, self.shown, self.cluster = sides(
            source, timeout, most, cluster=cluster
        )
        self._given = None if isinstance(source, str) else source
        self._given_sync = None if isinstance(source, ASYNC) else self._given
        self._given_loop: weakref.ref[Any] | None = None
        self._fresh()

    def _fresh(self) -> None:
        self._lock = threading.RLock()  # reentrant, lest a destructor or signal handler deadlock
        self._sync = self._given_sync
        self._here: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def after_fork(self) -> None:
        """Connect anew in a forked child."""
        _left_behind.append(self._here)
        self._fresh()

    # -- for threads ---------------------------------------------------------------

    def sync(self) -> Any:
        """Return the client for threads."""
        found = self._sync
        if found is not None:
            return found
        client = self._make()  # not under the lock: that of a cluster asks the server
        with self._lock:
            found = self._sync
            if found is None:
                self._sync = client
                return client
        client.close()  # another thread was faster
        return found

    def run(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script in this thread."""
        client = self.sync()
        if self.cluster or client is self._given:
            return send(client, script, (key,), args)
        return send_lean(client.connection_pool, script, key, args)

    def close(self) -> None:
        """Close the client for threads, unless it is the user's."""
        with self._lock:
            client, self._sync = self._sync, self._given_sync
        if client is not None and client is not self._given_sync:
            client.close()

    # -- for event loops ---------------------------------------------------------

    async def here(self) -> Any:
        """Return the client of the loop that runs."""
        loop = asyncio.get_running_loop()
        there = self._here.get(loop)
        if there is not None:
            return there[0]
        with self._lock:
            for other in [other for other in self._here if other.is_closed()]:
                del self._here[other]  # a connection holds its loop: nothing else would
            if isinstance(self._given, ASYNC) and self._given_loop is None:
                self._given_loop = weakref.ref(loop)
                self._here[loop] = self._given, None
                return self._given
            client = self._make_async()
            life = self._life(loop, client)
            self._here[loop] = client, life
        await anext(life)
        return client

    async def run_async(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script in this task."""
        client = await self.here()
        if self.cluster or client is self._given:
            return await send_async(client, script, (key,), args)
        return await send_lean_async(client.connection_pool, script, key, args)

    async def _life(self, loop: Any, client: Any) -> AsyncGenerator[None]:
        """Close a client when its loop is shut down: what a loop closes then are its generators."""
        try:
            yield
        finally:
            with self._lock:
                self._here.pop(loop, None)
            await client.aclose()

    async def aclose(self) -> None:
        """Close the client of the loop that runs, unless it is the user's."""
        _, life = self._here.get(asyncio.get_running_loop(), (None, None))
        if life is not None:
            await life.aclose()
