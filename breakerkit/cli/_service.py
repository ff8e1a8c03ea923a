"""A service of the demos, a process of its own: it answers each call as that call was answered when it was recorded.

It knows neither breakerkit nor the recording's format. Its plan is the first
line of standard input, as JSON; each further line ``go`` starts the recording
anew. It ends when standard input does, so it cannot outlive the demo, however
that ends.

A request names the recorded call by its number: ``GET /call/17``. A time in
which the service did not listen is the real thing: the listening socket is
closed, and the kernel refuses whoever comes. A time in which it hangs, too: it
takes every call, and answers none before that time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import struct
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Reply", "Script", "Service", "bound", "main", "say_to_parent", "serve"]

_HOST = "127.0.0.1"
_BACKLOG = 512
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close sends RST
_NO_BODY = (204, 304)


class Reply(NamedTuple):
    """How to answer one call: after ``delay`` seconds, in this way, with this status."""

    delay: float
    manner: str
    status: int


class Script(NamedTuple):
    """What the service plays: a reply per call, when it does not listen, and when it hangs.

    Times are seconds since ``go``. The port is 0 for any that is free.
    """

    replies: list[Reply]
    silences: list[tuple[float, float]]
    hangs: tuple[tuple[float, float], ...] = ()
    port: int = 0

    def dumps(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(self)

    @classmethod
    def loads(cls, line: str) -> Script:
        """Read what `dumps` wrote."""
        replies, silences, hangs, port = json.loads(line)
        return cls(
            [Reply(*reply) for reply in replies],
            [(start, end) for start, end in silences],
            tuple((start, end) for start, end in hangs),
            port,
        )


class Service:
    """A listening socket that opens and closes by the script, and its connections.

    It accepts by hand: an `asyncio.Server` that is closed while callers are being
    let in loses them.
    """

    def __init__(self, script: Script) -> None:
        self.replies = script.replies
        self.connections: set[Connection] = set()
        self.idle: set[Connection] = set()
        self._silences = script.silences
        self._hangs = script.hangs
        self._began = math.inf  # it hangs at no time before it is told to go
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._arrivals: set[asyncio.Task[object]] = set()
        self._socket = bound(script.port)
        self.port: int = self._socket.getsockname()[1]

    def listen(self) -> None:
        """Begin to accept connections, or go on."""
        self._socket.listen(_BACKLOG)
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # nobody else waits, or has gone again
            while True:
                sock, _ = self._socket.accept()
                sock.setblocking(False)
                arrival = self._loop.create_task(
                    self._loop.connect_accepted_socket(lambda: Connection(self), sock)
                )
                self._arrivals.add(arrival)
                arrival.add_done_callback(self._arrivals.discard)

    def fall_silent(self) -> None:
        """Stop listening, and hang up on whoever waits for nothing."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        # Bound but not listening: connections are refused, and nobody else, a
        # client's own end included, can be given this port meanwhile.
        self._socket = bound(self.port)
        for connection in self.idle:
            connection.hang_up()

    def restart(self) -> None:
        """Begin the script anew, from this moment on."""
        for timer in self._timers:
            timer.cancel()
        self.listen()
        now = self._began = self._loop.time()
        for start, end in self._silences:
            self._timers.append(self._loop.call_at(now + start, self.fall_silent))
            self._timers.append(self._loop.call_at(now + end, self.listen))

    def at(self) -> float:
        """Return the seconds since ``go``; not finite before it."""
        return self._loop.time() - self._began

    def due(self, delay: float) -> float:
        """Return the loop's time at which an answer is given that takes so many seconds."""
        moment = self._loop.time() + delay
        for start, end in self._hangs:
            if start <= moment - self._began < end:
                return self._began + end
        return moment

    def reply(self, name: str) -> Reply:
        """Return the reply to the call of this name: its number."""
        if name.isdigit() and int(name) < len(self.replies):
            return self.replies[int(name)]
        return Reply(0.0, "caller error", 404)

    def body(self, reply: Reply) -> bytes:  # noqa: ARG002  # others have more to say
        """Return what stands in an answer: nothing."""
        return b""

    async def close(self) -> None:
        """Stop everything, calls in progress included."""
        for timer in self._timers:
            timer.cancel()
        self.fall_silent()
        self._socket.close()
        await asyncio.gather(*self._arrivals)
        while self.connections:
            for connection in self.connections:
                connection.abort()
            await asyncio.sleep(0)  # until the loop has taken leave of them


class Connection(asyncio.Protocol):
    """One client's connection, kept open from call to call."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)  # create_server makes no other
        self._service.connections.add(self)
        self._service.idle.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """Forget the connection; ``exc`` says why it broke, which is of no interest."""
        self._service.connections.discard(self)
        self._service.idle.discard(self)

    def data_received(self, data: bytes) -> None:
        """Answer a request, once its last header has come, when its time is up."""
        self._received += data
        if b"\r\n\r\n" not in self._received:
            return
        name = self._received.split(b" ", 2)[1].rpartition(b"/")[2]
        reply = self._service.reply(name.decode("ascii", "replace"))
        self._received = b""
        self._service.idle.discard(self)
        due = self._service.due(reply.delay)
        asyncio.get_running_loop().call_at(due, self._answer, reply)

    def _answer(self, reply: Reply) -> None:
        if reply.manner in {"refused", "reset"}:
            self._reset()
        elif reply.manner == "empty":
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write(_response(reply, self._service.body(reply)))
            self._service.idle.add(self)

    def _reset(self) -> None:
        if not self._transport.is_closing():
            sock: socket.socket = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def hang_up(self) -> None:
        """Close an idle connection."""
        self._transport.close()

    def abort(self) -> None:
        """Break the connection off, whatever it is in."""
        self._transport.abort()


def bound(port: int) -> socket.socket:
    """Return a socket that has this port of this machine and does not listen."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((_HOST, port))
    sock.setblocking(False)
    return sock


def _response(reply: Reply, body: bytes) -> bytes:
    status = max(reply.status, 200)  # 1xx is never the last word
    head = f"HTTP/1.1 {status} Recorded\r\nX-Answer: {reply.manner}\r\n"
    if status in _NO_BODY:
        return f"{head}\r\n".encode()
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _serve(
    commands: Iterator[str], say: Callable[[str], None], make: Callable[[str], Service]
) -> None:
    loop = asyncio.get_running_loop()
    script = next(commands, None)
    if script is None:
        return  # the parent went before it said anything
    service = make(script)
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def listen_to_parent() -> None:
        for line in commands:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=listen_to_parent, daemon=True).start()
    service.listen()
    say(f"ready {service.port}")
    while await lines.get() is not None:
        service.restart()
        say("gone")
    await service.close()


def recorded(script: str) -> Service:
    """Return the service that plays a script; made in a running event loop."""
    return Service(Script.loads(script))


def serve(
    commands: Iterable[str],
    say: Callable[[str], None],
    make: Callable[[str], Service] = recorded,
) -> None:
    """Serve until the commands end: a script first, then any number of ``go``."""
    # Not the default loop of Windows, which has no readers.
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(_serve(iter(commands), say, make))


def say_to_parent(line: str) -> None:
    """Say a line to whoever holds the other end of standard output."""
    with contextlib.suppress(OSError):  # the parent has gone; standard input says so too
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main() -> None:
    """Serve whoever holds the other end of standard input and output."""
    serve(sys.stdin, say_to_parent)


if __name__ == "__main__":
    main()
