"""How to make a client of redis-py for each side, from a URL or from a client for one side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.retry
import redis.cluster
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from breakerkit._fields import show
from breakerkit.errors import ConfigError

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


def sides(
    source: Any, timeout: float, most: int, *, cluster: bool
) -> tuple[Callable[[], Any], Callable[[], Any], str, bool]:
    """Return how to make a client for threads and one for a loop, what to call them, and whether of a cluster."""
    ours = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "protocol": 2}
    if isinstance(source, str):
        return *_by_url(source, ours | {"max_connections": most}, cluster=cluster), cluster
    if not isinstance(source, (redis.Redis, *ASYNC, *CLUSTERS)):
        raise ConfigError(
            f"url_or_client={show(source)}: must be a URL like 'redis://host:6379/0',"
            " or a client of redis-py"
        )
    if cluster and not isinstance(source, CLUSTERS):
        raise ConfigError(f"cluster=True: {type(source).__name__} is no client of a cluster")
    shown = f"{type(source).__module__}.{type(source).__qualname__}"
    ours["max_connections"] = most
    if isinstance(source, CLUSTERS):
        return *_by_nodes(source, ours), shown, True
    return *_by_pool(source, ours), shown, False


def _by_url(
    url: str, ours: dict[str, Any], *, cluster: bool
) -> tuple[Callable[[], Any], Callable[[], Any], str]:
    try:
        parse_url(url)  # type: ignore[no-untyped-call]  # redis-py's
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
        shown = f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"  # no password
    except ValueError as error:
        raise ConfigError(
            "url_or_client: must be a URL like 'redis://host:6379/0', 'rediss://...' or"
            " 'unix:///path/to/socket'"
        ) from error
    wait = {"timeout": ours["socket_timeout"]}
    if cluster:
        if parts.scheme == "unix":
            raise ConfigError(f"cluster=True with {shown}: nodes of a cluster are reached by TCP")
        pool = {"connection_pool_class": redis.BlockingConnectionPool, **wait}
        return (
            lambda: redis.RedisCluster.from_url(url, retry=_never(), **pool, **ours),
            lambda: redis.asyncio.RedisCluster.from_url(url, retry=_never_async(), **ours),
            shown,
        )
    return (
        lambda: redis.Redis.from_pool(
            redis.BlockingConnectionPool.from_url(url, retry=_never(), **wait, **ours)
        ),
        lambda: redis.asyncio.Redis.from_pool(
            redis.asyncio.BlockingConnectionPool.from_url(url, retry=_never_async(), **wait, **ours)
        ),
        shown,
    )


def _by_pool(client: Any, ours: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return how to make a client of one server from the settings of another."""
    pool = client.connection_pool
    kinds: tuple[Any, ...] = next(
        (pair for pair in _KINDS if pool.connection_class in pair), (None, None)
    )
    settings = _common(pool.connection_kwargs) | ours | {"timeout": ours["socket_timeout"]}
    settings.pop("ssl", None)  # the class says it

    def make() -> Any:
        kind = _known(kinds[0], client)
        return redis.Redis.from_pool(
            redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]  # redis-py's
                connection_class=kind, retry=_never(), **settings
            )
        )

    def make_async() -> Any:
        kind = _known(kinds[1], client)
        return redis.asyncio.Redis.from_pool(
            redis.asyncio.BlockingConnectionPool(
                connection_class=kind, retry=_never_async(), **settings
            )
        )

    return make, make_async


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


def _by_nodes(client: Any, ours: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return how to make a client of a cluster from another one."""
    manager = client.nodes_manager

    def settings() -> dict[str, Any]:
        given = _common(manager.connection_kwargs)
        for of_one_node in ("host", "port", "db"):
            given.pop(of_one_node, None)
        if manager.connection_kwargs.get("connection_class") in _KINDS[1]:
            given["ssl"] = True
        return given | ours

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
