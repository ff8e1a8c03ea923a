"""How to reach a server from each side, threads and tasks: from a URL, or from a client for one side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.retry
import redis.cluster
from redis.backoff import NoBackoff
from redis.retry import Retry

from breakerkit.errors import ConfigError
from breakerkit.store.redis._lane import BATCH, Lane
from breakerkit.store.redis._loop_lane import LoopLane
from breakerkit.store.redis._through import LoopThrough, Through
from breakerkit.store.redis._urls import options_of, shown_of

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTERS = (redis.RedisCluster, redis.asyncio.RedisCluster)
ASYNC = (redis.asyncio.Redis, redis.asyncio.RedisCluster)

#: Settings of a connection that mean the same on the other side.
COMMON = (
    "host", "port", "db", "path", "username", "password", "credential_provider", "client_name",
    "socket_keepalive", "socket_keepalive_options", "ssl", "ssl_ca_certs", "ssl_ca_data",
    "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile", "ssl_min_version",
    "ssl_ciphers",
)  # fmt: skip


@attrs.frozen
class Sides:
    """How to reach a server from each side.

    Attributes:
        make: makes what threads go through.
        make_async: makes what the tasks of a loop go through.
        shown: what to call it.
        cluster: whether it is one.
    """

    make: Callable[[], Lane | Through]
    make_async: Callable[[], LoopLane | LoopThrough]
    shown: str
    cluster: bool


def sides(source: Any, timeout: float, most: int, *, cluster: bool) -> Sides:
    """Return how to reach a server, or a cluster.

    Raises:
        ConfigError: the source is neither a URL nor a client, or does not go with ``cluster``.
    """
    ours: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    if isinstance(source, str):
        return _by_url(source, ours, most, cluster=cluster)
    if not isinstance(source, (redis.Redis, *ASYNC, *CLUSTERS)):
        raise ConfigError(
            f"url_or_client of type {type(source).__name__}: must be a URL like"  # it may hold a password
            " 'redis://host:6379/0', or a client of redis-py"
        )
    if cluster and not isinstance(source, CLUSTERS):
        raise ConfigError(f"cluster=True: {type(source).__name__} is no client of a cluster")
    shown = f"{type(source).__module__}.{type(source).__qualname__}"
    if isinstance(source, CLUSTERS):
        return _of_cluster(*_by_nodes(source, ours, most), ours, most, shown)
    return _by_pool(source, ours, most, shown)


def given(client: Any, timeout: float, most: int, *, cluster: bool) -> Through | LoopThrough:
    """Return the user's client, to be used as it is; others may use its connections too."""
    pool = getattr(client, "connection_pool", None)
    room = min(most, getattr(pool, "max_connections", most))
    alone = ("single_connection_client", "_single_connection_client")  # one name for each side
    if any(getattr(client, name, False) for name in alone):
        room = 1  # behind the breaker they would stand in redis-py's own line
    batch = 1 if cluster else BATCH
    if isinstance(client, ASYNC):
        return LoopThrough(lambda: client, room, timeout, batch)
    return Through(lambda: client, room, timeout, batch, ours=False)


def _of_cluster(
    make: Callable[[], Any], make_async: Callable[[], Any], ours: dict[str, Any], most: int,
    shown: str,
) -> Sides:  # fmt: skip
    timeout = ours["socket_timeout"]
    return Sides(
        lambda: Through(make, most, timeout, 1, ours=True),
        lambda: LoopThrough(make_async, most, timeout, 1),
        shown,
        True,
    )


def _of_server(
    pool: Callable[[], Any], pool_async: Callable[[], Any], ours: dict[str, Any], shown: str
) -> Sides:
    """Return the sides of one server, whose pools say how its connections are made."""
    timeout = ours["socket_timeout"]

    def make() -> Lane:
        made = pool()
        settings = made.connection_kwargs | ours
        return Lane(lambda: made.connection_class(**settings), made.max_connections, timeout)

    def make_async() -> LoopLane:
        made = pool_async()
        settings = made.connection_kwargs | dict.fromkeys(ours)  # the lane has a clock
        contexts: list[Any] = []

        def connection() -> Any:
            one = made.connection_class(**settings)
            if hasattr(one, "ssl_context"):  # one for all: to make it takes the loop 50 ms
                contexts.append(one.ssl_context)
                one.ssl_context = contexts[0]
                del contexts[1:]
            return one

        return LoopLane(connection, made.max_connections, timeout)

    return Sides(make, make_async, shown, False)


def _by_url(url: str, ours: dict[str, Any], most: int, *, cluster: bool) -> Sides:
    shown, plain = shown_of(url), {"protocol": 2}
    if cluster:
        if url.startswith("unix:"):
            raise ConfigError(f"cluster=True with {shown}: nodes of a cluster are reached by TCP")
        blocking = {
            "connection_pool_class": redis.BlockingConnectionPool,
            "timeout": ours["socket_timeout"],
            "max_connections": most,
        }
        return _of_cluster(
            lambda: redis.RedisCluster.from_url(url, retry=_never(), **blocking, **plain, **ours),
            lambda: redis.asyncio.RedisCluster.from_url(
                url, retry=_never_async(), max_connections=most, **plain, **ours
            ),
            ours,
            most,
            shown,
        )
    given = {"max_connections": most}, plain | ours
    options = options_of(url, redis.ConnectionPool, *given)
    return _of_server(
        lambda: redis.ConnectionPool(**options, retry=_never()),
        lambda: redis.asyncio.ConnectionPool(
            **options_of(url, redis.asyncio.ConnectionPool, *given), retry=_never_async()
        ),
        ours,
        shown,
    )


def _by_pool(client: Any, ours: dict[str, Any], most: int, shown: str) -> Sides:
    """Return the sides of one server as the settings of a client have it."""
    pool = client.connection_pool
    kinds: tuple[Any, ...] = next(
        (pair for pair in _KINDS if pool.connection_class in pair), (None, None)
    )
    settings: dict[str, Any] = _common(pool.connection_kwargs) | ours
    settings |= {"protocol": 2, "max_connections": most}
    settings.pop("ssl", None)  # the class says it

    def make() -> Any:
        kind = _known(kinds[0], client)
        return redis.ConnectionPool(connection_class=kind, retry=_never(), **settings)

    def make_async() -> Any:
        kind = _known(kinds[1], client)
        return redis.asyncio.ConnectionPool(connection_class=kind, retry=_never_async(), **settings)

    return _of_server(make, make_async, ours, shown)


_KINDS = (
    (redis.Connection, redis.asyncio.Connection),
    (redis.SSLConnection, redis.asyncio.SSLConnection),
    (redis.UnixDomainSocketConnection, redis.asyncio.UnixDomainSocketConnection),
)


def _known(kind: Any, client: Any) -> Any:
    if kind is None:
        raise ConfigError(
            f"{type(client).__module__}.{type(client).__qualname__} cannot serve both sync and"
            " async functions, and its connections are of a kind of their own: make a second"
            " RedisStore with the same prefix, from a client for the other side"
        )
    return kind


def _by_nodes(
    client: Any, ours: dict[str, Any], most: int
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return how to make a client of a cluster from another one."""
    manager = client.nodes_manager

    def settings() -> dict[str, Any]:
        given = _common(manager.connection_kwargs)
        for of_one_node in ("host", "port", "db"):
            given.pop(of_one_node, None)
        if manager.connection_kwargs.get("connection_class") in _KINDS[1]:
            given["ssl"] = True
        return given | ours | {"protocol": 2, "max_connections": most}

    def nodes(kind: Any) -> list[Any]:
        return [kind(node.host, node.port) for node in list(manager.startup_nodes.values())]

    def make() -> Any:
        return redis.RedisCluster(
            startup_nodes=nodes(redis.cluster.ClusterNode), retry=_never(), **settings()
        )

    def make_async() -> Any:
        return redis.asyncio.RedisCluster(
            startup_nodes=nodes(redis.asyncio.cluster.ClusterNode),
            retry=_never_async(),
            **settings(),
        )

    return make, make_async


def _common(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: settings[key] for key in COMMON if settings.get(key) is not None}


def _never() -> Any:
    return Retry(NoBackoff(), 0)


def _never_async() -> Any:
    return redis.asyncio.retry.Retry(NoBackoff(), 0)
