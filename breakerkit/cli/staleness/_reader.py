"""A reader of prices, a process of its own: a service that asks the price service by each call, or through the cache.

Its settings are the first line of standard input, as JSON; it ends when standard
input does, so it cannot outlive the demo, however that ends. A connection takes
one request, ``GET /with/tea`` or ``GET /without/tea``; the answer says what the
caller got, how old it is, how long it took here, and how often this process has
asked the price service in that way so far.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import sys
import threading
import time
from collections import deque
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from breakerkit import RedisStore, Registry, return_value, stale_if_error
from breakerkit.cli._client import CONNECTION_ERRORS, Client, ServerError
from breakerkit.cli._service import say_to_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from breakerkit import StaleCache

__all__ = ["FAILED", "WITH", "WITHOUT", "Reader", "Said", "Settings", "main", "serve"]

#: The two ways to ask.
WITH, WITHOUT = "with", "without"

#: What a caller got that is none of `breakerkit.Source`.
FAILED = "failed"

_FRESH = "fresh"
_HOST = "127.0.0.1"
_LOOK = 0.1  # seconds between two looks whether it is to end
_FAILURES = (ServerError, *CONNECTION_ERRORS)


class Settings(NamedTuple):
    """How the reader is built; times in seconds.

    Attributes:
        prices: the port of the price service.
        store: the URL of the store.
        refresh_after: the cache's refresh period.
        max_stale: how old a price may get.
        soft_timeout: how long a caller waits who can be given a stale price.
        store_timeout: how long the store is waited for.
        origin_timeout: how long the price service is waited for.
    """

    prices: int
    store: str
    refresh_after: float
    max_stale: float
    soft_timeout: float
    store_timeout: float
    origin_timeout: float

    def dumps(self) -> str:
        """Return them as one line of JSON."""
        return json.dumps(self)

    @classmethod
    def loads(cls, line: str) -> Settings:
        """Read what `dumps` wrote."""
        return cls(*json.loads(line))


class Said(NamedTuple):
    """What a caller is told.

    Attributes:
        source: a `breakerkit.Source`, or `FAILED`.
        age: how old the price is, in seconds; ``None`` if there is none.
        took: how long it took here, in seconds.
        asked: how often this process has asked the price service in that way.
    """

    source: str
    age: float | None
    took: float
    asked: int


class Reader:
    """Asks for prices in both ways.

    Args:
        settings: how it is built.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked = {WITH: 0, WITHOUT: 0}
        self._counting = threading.Lock()
        self._cache: StaleCache = stale_if_error(
            "prices",
            refresh_after=settings.refresh_after,
            max_stale=settings.max_stale,
            soft_timeout=settings.soft_timeout,
            store=RedisStore(settings.store, timeout=settings.store_timeout),
            on=_FAILURES,
            disaster=return_value(None),
            registry=Registry(),
        )
        # Decorated, so that `fetch` knows what to ask.
        self._cache(functools.partial(self._price, WITH))

    def ask(self, way: str, product: str) -> Said:
        """Return what a caller gets who asks in that way."""
        began, source, age = time.monotonic(), FAILED, None
        with contextlib.suppress(*_FAILURES):
            if way == WITH:
                fetched = self._cache.fetch(product)
                source, age = fetched.source.value, fetched.age
            else:
                self._price(WITHOUT, product)
                source, age = _FRESH, 0.0
        return Said(source, age, time.monotonic() - began, self._asked[way])

    def _price(self, way: str, product: str) -> float:
        with self._counting:
            self._asked[way] += 1
        settings = self._settings
        with closing(Client(settings.prices, settings.origin_timeout)) as client:
            right, price = client.get(f"/price/{product}")
        if not right:
            raise ServerError("a wrong answer")
        return float(price)


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True
    block_on_close = False


class _Request(BaseHTTPRequestHandler):
    """One request."""

    def __init__(self, reader: Reader, *connection: Any) -> None:
        self._reader = reader
        super().__init__(*connection)

    def do_GET(self) -> None:  # http.server's name for it
        """Answer with what the caller got."""
        _, way, product = self.path.split("/")
        body = json.dumps(self._reader.ask(way, product)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Say nothing: the demo's output is a table."""


def serve(commands: Iterable[str], say: Callable[[str], None]) -> None:
    """Serve until the commands end: settings first, and nothing after them."""
    lines = iter(commands)
    first = next(lines, None)
    if first is None:
        return  # the parent went before it said anything
    reader = Reader(Settings.loads(first))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_Server((_HOST, 0), functools.partial(_Request, reader)))
        threading.Thread(target=server.serve_forever, args=(_LOOK,), daemon=True).start()
        stack.callback(server.shutdown)
        say(f"ready {server.server_address[1]}")
        deque(lines, maxlen=0)  # until there are no more


def main() -> None:
    """Serve whoever holds the other end of standard input and output."""
    # The store is lost before everybody's eyes; a warning would tear the picture apart.
    logging.getLogger("breakerkit").addHandler(logging.NullHandler())
    serve(sys.stdin, say_to_parent)


if __name__ == "__main__":
    main()
