"""A way to a server that tests can bend: replies change, drip, come twice, or do not come at all."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.servers import LIMIT, Server

#: What is done with what a server says: it is told the data and the socket of the client, and returns what goes on.
Bend = Callable[[bytes, socket.socket], bytes]


class Between:
    """A TCP proxy before a server on a unix socket.

    Attributes:
        bend: is done with each thing that the server says.
        opened: connections so far.
        silent: connections of which nothing comes through any more, in either direction, without a word.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ears = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self._ears.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.bend: Bend | None = None
        self.opened = 0
        self.silent: set[int] = set()
        self._open: list[socket.socket] = [self._ears]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def _run(self, act: Any, *args: Any) -> None:
        self._threads.append(threading.Thread(target=act, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._ears.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._server.socket)
                self._open += [here, there]
                self.opened += 1
                self._run(self._carry, self.opened, here, there, False)
                self._run(self._carry, self.opened, there, here, True)

    def _carry(self, number: int, source: socket.socket, target: socket.socket, back: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if number in self.silent:
                    continue
                if back and self.bend is not None:
                    data = self.bend(data, target)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Let all connections that there are be silent for ever, as a firewall does that has forgotten them."""
        self.silent |= set(range(1, self.opened + 1))

    def hang_up(self) -> None:
        """Close all connections that there are."""
        for one in self._open[1:]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def once(self, bend: Bend) -> None:
        """Bend the next thing that the server says."""

        def first(data: bytes, client: socket.socket) -> bytes:
            self.bend = None
            return bend(data, client)

        self.bend = first

    def __enter__(self) -> Between:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._ears.shutdown(socket.SHUT_RDWR)
        self.hang_up()
        for thread in self._threads:
            thread.join(LIMIT)
        for one in self._open:
            one.close()


def twice(data: bytes, _: socket.socket) -> bytes:
    """Say it twice, in one segment."""
    return data + data
