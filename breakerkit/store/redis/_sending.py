"""How a command goes through a client of redis-py, and how its idle connections are let go."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoScriptError, ResponseError

if TYPE_CHECKING:
    from breakerkit.store.redis._script import Script

#: Whatever the user's client does with replies: values are bytes.
RAW: dict[str, Any] = {"NEVER_DECODE": []}


def send(client: Any, script: Script, keys: tuple[bytes, ...], args: tuple[Any, ...]) -> Any:
    try:
        return client.execute_command("EVALSHA", script.digest, len(keys), *keys, *args, **RAW)
    except NoScriptError:
        return client.execute_command("EVAL", script.text, len(keys), *keys, *args, **RAW)


async def send_async(
    client: Any, script: Script, keys: tuple[bytes, ...], args: tuple[Any, ...]
) -> Any:
    try:
        return await client.execute_command(
            "EVALSHA", script.digest, len(keys), *keys, *args, **RAW
        )
    except NoScriptError:
        return await client.execute_command("EVAL", script.text, len(keys), *keys, *args, **RAW)


def plain(client: Any) -> bool:
    """Tell whether a client does nothing with a command that its connections do not: nobody has built on it."""
    return (
        type(client) is redis.Redis
        and client.connection is None
        # Of the class: to find that a method has no attribute takes ten times as long.
        and not hasattr(redis.Redis.execute_command, "__wrapped__")
        and getattr(client.connection_pool, "cache", None) is None
        and "execute_command" not in client.__dict__
    )


def borrowed(pool: Any, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
    """Run a script on a connection of a client, with its retries, past what else it does around each command."""
    packed = script.packed(key, args, known=True)
    connection = pool.get_connection()

    def all_of_it() -> Any:
        try:
            connection.send_packed_command((packed,))
            return connection.read_response(True)
        except NoScriptError:
            connection.send_packed_command((script.packed(key, args, known=False),))
            return connection.read_response(True)

    try:
        return connection.retry.call_with_retry(all_of_it, lambda _: connection.disconnect())
    except ResponseError:
        raise  # that was an answer
    except BaseException:
        connection.disconnect()  # a reply may be on its way, which is nobody else's
        raise
    finally:
        pool.release(connection)


def forget(client: Any) -> None:
    """Close the connections that nobody uses: they are made again when they are needed.

    A pool that cannot tell them from the others is left alone.
    """
    for pool in _pools(client):
        if "inuse_connections" in inspect.signature(pool.disconnect).parameters:
            with contextlib.suppress(Exception):
                pool.disconnect(inuse_connections=False)


async def forget_async(client: Any) -> None:
    """Do the same in a task."""
    for node in _nodes(client):
        if hasattr(node, "disconnect_free_connections"):  # of newer versions of redis-py
            with contextlib.suppress(Exception):
                await node.disconnect_free_connections()
    for pool in _pools(client):
        with contextlib.suppress(Exception):
            await pool.disconnect(inuse_connections=False)


def _nodes(client: Any) -> list[Any]:
    """Return the nodes that a client of a cluster knows."""
    return list(client.get_nodes()) if hasattr(client, "get_nodes") else []


def _pools(client: Any) -> list[Any]:
    ones = (client, *(getattr(node, "redis_connection", None) for node in _nodes(client)))
    return [pool for one in ones if (pool := getattr(one, "connection_pool", None)) is not None]
