"""The service of the play, a process of its own: three endpoints with a dependency each, and a bounded pool of workers.

Its settings are the first line of standard input, as JSON; it ends when standard
input does, so it cannot outlive the demo, however that ends. A connection takes
one request. Each waits until one of the workers takes it; when too many wait,
the next is refused with 503. Its own clients have no time limit: that is the
mistake with which avalanches begin.
"""

from __future__ import annotations

import contextlib
import functools
import json
import socketserver
import sys
import threading
from collections import deque
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from breakerkit import CallRejectedError, Degradation, Registry, bulkhead, degradable
from breakerkit.cli._client import CONNECTION_ERRORS, Client
from breakerkit.cli._service import say_to_parent

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["ANSWER", "Settings", "Shop", "main", "serve"]

#: What an endpoint answers.
ANSWER: Final = ["said by the dependency"]

_HOST = "127.0.0.1"
_FOREVER = 3600.0  # seconds: longer than any play
_SOON = 0.5  # seconds within which a client that is refused has said what it wants
_LOOK = 0.1  # seconds between two looks whether it is to end
_RELOAD = 0.1  # seconds between two looks at the rule file
_REFUSAL = b"HTTP/1.0 503 All Workers Busy\r\nContent-Length: 0\r\n\r\n"


class Settings(NamedTuple):
    """How the service is built.

    Attributes:
        dependencies: the port of each endpoint's dependency.
        workers: how many requests are served at the same time.
        waiting: how many wait for a worker, at most.
        limit: calls of one dependency at the same time; 0 for no bulkheads.
        rules: the file of degradation rules that is watched; "" for none.
    """

    dependencies: dict[str, int]
    workers: int
    waiting: int
    limit: int = 0
    rules: str = ""

    def dumps(self) -> str:
        """Return them as one line of JSON."""
        return json.dumps(self)

    @classmethod
    def loads(cls, line: str) -> Settings:
        """Read what `dumps` wrote."""
        return cls(*json.loads(line))


def bare(port: int) -> Callable[[], list[str]]:
    """Return the function behind an endpoint, with nothing around it."""

    def ask() -> list[str]:
        with closing(Client(port, _FOREVER)) as client:
            client.fetch(0)
        return ANSWER

    return ask


def guarded(
    name: str, function: Callable[[], list[str]], limit: int, rules: Degradation
) -> Callable[[], list[str]]:
    """Return the function with a bulkhead around it, and under the operator's rules."""
    own = Registry()

    @degradable(name, rules=rules, registry=own)
    @bulkhead(name, max_concurrent=limit, registry=own)
    def isolated() -> list[str]:
        return function()

    return isolated


class Shop(socketserver.TCPServer):
    """A server that hands its connections to a bounded pool of workers."""

    request_queue_size = 512
    allow_reuse_address = True

    def __init__(self, settings: Settings, rules: Degradation) -> None:
        self._waiting: Queue[tuple[socket.socket, object] | None] = Queue(settings.waiting)
        endpoints = {name: bare(port) for name, port in settings.dependencies.items()}
        if settings.limit:
            endpoints = {
                name: guarded(name, function, settings.limit, rules)
                for name, function in endpoints.items()
            }
        super().__init__((_HOST, 0), functools.partial(Request, endpoints))
        self.port: int = self.server_address[1]
        for _ in range(settings.workers):
            threading.Thread(target=self._work, daemon=True).start()

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]  # no datagrams here
        """Let the connection wait for a worker, or refuse it."""
        try:
            self._waiting.put_nowait((request, client_address))
        except Full:
            with contextlib.suppress(OSError):  # it went, or says nothing
                # Closing with something unread would break the connection off.
                request.settimeout(_SOON)
                request.recv(65536)
                request.sendall(_REFUSAL)
            self.shutdown_request(request)

    def server_close(self) -> None:
        """Stop listening, hang up on those who wait, and let each worker end after its request."""
        super().server_close()
        with contextlib.suppress(Empty):
            while True:
                waiting = self._waiting.get_nowait()
                assert waiting, "nobody was told to end before"
                self.shutdown_request(waiting[0])
        self._waiting.put(None)

    def _work(self) -> None:
        while waiting := self._waiting.get():
            request, address = waiting
            with contextlib.suppress(OSError):  # the client has given up
                self.finish_request(request, address)
            self.shutdown_request(request)
        self._waiting.put(None)  # for the next worker: workers may be more than have room there


class Request(BaseHTTPRequestHandler):
    """One request: ``GET /prices``."""

    def __init__(self, endpoints: Mapping[str, Callable[[], list[str]]], *connection: Any) -> None:
        self._endpoints = endpoints
        super().__init__(*connection)

    def do_GET(self) -> None:  # http.server's name for it
        """Answer with what the endpoint returns, 503 if a policy refuses, 502 if it fails."""
        try:
            said = self._endpoints[self.path.removeprefix("/")]()
        except CallRejectedError:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
        except CONNECTION_ERRORS:
            self._answer(HTTPStatus.BAD_GATEWAY)
        else:
            self._answer(HTTPStatus.OK, json.dumps(said).encode())

    def _answer(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
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
    settings, rules = Settings.loads(first), Degradation()
    with contextlib.ExitStack() as stack:
        if settings.rules:
            stack.enter_context(rules.watch(settings.rules, every=_RELOAD))
        shop = stack.enter_context(Shop(settings, rules))
        server = threading.Thread(target=shop.serve_forever, args=(_LOOK,), daemon=True)
        server.start()
        stack.callback(shop.shutdown)
        say(f"ready {shop.port}")
        deque(lines, maxlen=0)  # until there are no more


def main() -> None:
    """Serve whoever holds the other end of standard input and output."""
    serve(sys.stdin, say_to_parent)


if __name__ == "__main__":
    main()
