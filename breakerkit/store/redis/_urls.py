"""What a URL says of a server, checked without repeating it: there may be a password in it, wherever it went."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import redis
import redis.asyncio.connection
import redis.connection

from breakerkit.errors import ConfigError

_LIKE = (
    "url_or_client: must be a URL like 'redis://host:6379/0', 'rediss://...' or"
    " 'unix:///path/to/socket'"
)
_READERS: dict[Any, Any] = {
    redis.ConnectionPool: redis.connection.parse_url,
    redis.asyncio.ConnectionPool: redis.asyncio.connection.parse_url,
}


def shown_of(url: str) -> str:
    """Return what to call a server: its URL without user, password and options.

    Raises:
        ConfigError: that is no URL of a server, or not clearly one.
    """
    try:
        redis.connection.parse_url(url)  # type: ignore[no-untyped-call]  # redis-py's
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        raise ConfigError(_LIKE) from None  # that error repeats what it stumbles over
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        raise ConfigError(
            "url_or_client: '@' after the address, so nobody knows where the password ends: write"
            " '/', '?', '#', '@' in a password, a path or an option as %2F, %3F, %23, %40"
        )
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def options_of(
    url: str, pool: Any, defaults: dict[str, Any], fixed: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings of a pool for a URL.

    Args:
        url: the URL.
        pool: the kind of pool.
        defaults: settings that the URL may change.
        fixed: settings that it may not.

    Raises:
        ConfigError: no connection can be made like that.
    """
    try:
        options = defaults | _READERS[pool](url) | fixed
        made = pool(**options)
        made.connection_class(**made.connection_kwargs)
        if options["max_connections"] < 1:
            raise ValueError
    except Exception:
        names = ", ".join(sorted(parse_qs(urlsplit(url).query)))
        raise ConfigError(
            f"url_or_client: redis-py cannot make a connection with these options of the URL: {names}"
        ) from None
    return dict(options)
