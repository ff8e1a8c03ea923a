"""The recorded service over real sockets: every way of answering, silence, and its end."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import runpy
import socket
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli import _service
from breakerkit.cli._child import ServiceDiedError, ServiceProcess, script_of
from breakerkit.cli._client import CallerError, Client, ServerError
from breakerkit.cli._plan import make_plan
from breakerkit.cli._service import Reply, Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.cli._trace import Recording

REPLIES = [
    Reply(0.0, "right", 200),
    Reply(0.0, "wrong", 200),
    Reply(0.0, "caller error", 404),
    Reply(0.0, "server error", 503),
    Reply(0.0, "reset", 0),
    Reply(0.0, "empty", 0),
    Reply(0.0, "refused", 0),
    Reply(0.0, "right", 204),
    Reply(0.0, "right", 101),
]


def refused(port: int) -> bool:
    """Say whether nobody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_script_survives_the_pipe(outage: Recording) -> None:
    """What one end writes as a line the other reads again; times are real seconds."""
    script = script_of(make_plan(outage, speed=2.0))
    assert script.replies[0] == Reply(0.05, "right", 200)
    (silence,) = script.silences
    assert silence == pytest.approx((4.45, 5.95))
    assert Script.loads(script.dumps()) == script
    hanging = script._replace(hangs=((1.0, 2.5),), port=80)
    assert Script.loads(hanging.dumps()) == hanging
    assert "\n" not in script.dumps()


def test_each_call_is_answered_as_it_was_recorded(in_thread: Callable) -> None:
    """A right and a wrong answer are values; every other answer is an exception of its kind."""
    port = in_thread(Script(REPLIES, [])).port
    with closing(Client(port, timeout=10)) as client:
        assert client.fetch(0) is True
        assert client.fetch(1) is False
        with pytest.raises(CallerError, match="404"):
            client.fetch(2)
        with pytest.raises(ServerError, match="503"):
            client.fetch(3)
        with pytest.raises(ConnectionResetError):
            client.fetch(4)
        with pytest.raises(http.client.RemoteDisconnected):
            client.fetch(5)
        with pytest.raises(ConnectionResetError):
            client.fetch(6)
        assert client.fetch(7) is True
        assert client.fetch(8) is True
        with pytest.raises(CallerError, match="404"):
            client.fetch(99)


def test_connections_are_kept_and_a_dead_one_is_replaced(
    in_thread: Callable, wait_until: Callable
) -> None:
    """Calls share a connection; when the service has hung up, the next call makes a new one."""
    service = in_thread(Script(REPLIES, [(0.0, 0.3)]))
    with closing(Client(service.port, timeout=10)) as client:
        client.fetch(0)
        first = client._connection.sock
        client.fetch(0)
        assert client._connection.sock is first
        service.go()
        wait_until(lambda: refused(service.port))
        with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
            client.fetch(0)
        wait_until(lambda: not refused(service.port))
        assert client.fetch(0) is True
        assert client._connection.sock is not first


def test_a_service_that_ends_breaks_its_connections_off(in_thread: Callable) -> None:
    """Whoever is connected learns of it at once, waiting for an answer or not."""
    service = in_thread(Script([Reply(0.0, "right", 200), Reply(3600.0, "right", 200)], []))
    idle = socket.create_connection(("127.0.0.1", service.port), timeout=10)
    waiting = socket.create_connection(("127.0.0.1", service.port), timeout=10)
    with idle, waiting, closing(Client(service.port, timeout=10)) as client:
        waiting.sendall(b"GET /call/1 HTTP/1.1\r\n\r\n")
        assert client.fetch(0) is True
        service.commands.put(None)
        for sock in (idle, waiting):
            try:
                assert sock.recv(100) == b""
            except ConnectionResetError:
                pass


def test_silence_is_a_closed_port(in_thread: Callable, wait_until: Callable) -> None:
    """The kernel refuses whoever comes; afterwards the same port answers again, as often as it is told."""
    service = in_thread(Script(REPLIES, [(0.0, 0.2)]))
    for _ in range(2):
        service.go()
        wait_until(lambda: refused(service.port))
        wait_until(lambda: not refused(service.port))


def test_a_service_that_hangs_takes_calls_and_answers_none(in_thread: Callable) -> None:
    """Whoever calls in a hang is answered at its end, and not before; without ``go`` nothing hangs."""
    service = in_thread(Script([Reply(0.0, "right", 200)], [], ((0.0, 0.3), (0.3, 0.4))))
    with closing(Client(service.port, timeout=10)) as client:
        client.fetch(0)
        service.go()
        began = time.monotonic()
        client.fetch(0)
        assert time.monotonic() - began >= 0.25
        client.fetch(0)


def test_a_port_can_be_chosen(in_thread: Callable) -> None:
    """A service that is told where to listen does so: that is how a dead one comes back."""
    with closing(_service.bound(0)) as free:
        port = free.getsockname()[1]
    assert in_thread(Script(REPLIES, [], port=port)).port == port


def test_a_new_beginning_ends_the_silence(in_thread: Callable, wait_until: Callable) -> None:
    """``go`` in the middle of a silence listens at once and forgets what was to come."""
    service = in_thread(Script(REPLIES, [(0.3, 3600.0)]))
    service.go()
    wait_until(lambda: refused(service.port))
    service.go()
    assert not refused(service.port)


class Wire:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.written, self.closing = b"", False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.written += b"aborted"


async def a_connection(*replies: Reply) -> tuple[_service.Service, _service.Connection, Wire]:
    """Return a connection that nobody accepted, with the service it belongs to."""
    service, wire = _service.Service(Script(list(replies), [])), Wire()
    connection = _service.Connection(service)
    connection.connection_made(wire)  # type: ignore[arg-type]  # it has the methods that are used
    return service, connection, wire


async def test_a_request_may_come_in_pieces() -> None:
    """Nothing is answered before the last header is there."""
    service, connection, wire = await a_connection(Reply(0.0, "right", 200))
    connection.data_received(b"GET /call/0 HTTP/1.1\r\nHost: x\r\n")
    assert connection in service.idle
    connection.data_received(b"\r\n")
    assert connection not in service.idle
    while not wire.written:
        await asyncio.sleep(0)
    assert wire.written.startswith(b"HTTP/1.1 200 ")
    assert connection in service.idle
    connection.connection_lost(None)
    await service.close()


async def test_who_leaves_before_the_answer_harms_nobody() -> None:
    """An answer to a connection that has gone is dropped, whatever it was to be."""
    service, connection, wire = await a_connection()
    wire.closing = True
    connection.connection_lost(None)
    connection._answer(Reply(0.0, "right", 200))
    assert (wire.written, service.idle) == (b"", set())
    connection._answer(Reply(0.0, "reset", 0))
    assert wire.written == b"aborted"
    await service.close()


def test_a_service_whose_input_is_empty_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as a program with nothing on standard input it ends at once, in silence."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    runpy.run_path(_service.__file__, run_name="__main__")
    assert capsys.readouterr() == ("", "")


def test_a_service_that_nobody_reads_from_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken pipe at its output is no error: its input tells it when to end."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        _service.say_to_parent("ready 1")


def test_the_process_serves_and_is_gone_after_the_block(outage: Recording) -> None:
    """In a process of its own it answers over HTTP; leaving the block ends it."""
    with ServiceProcess(make_plan(outage)) as service:
        service.check()
        service.go()
        with closing(Client(service.port, timeout=10)) as client:
            assert client.fetch(0) is True
        assert service.pid != os.getpid()
    assert refused(service.port)
    with pytest.raises(ProcessLookupError):
        os.kill(service.pid, 0)


def test_the_death_of_the_process_is_noticed(outage: Recording) -> None:
    """A service that was killed is an error that says so, at the next look and at the next command."""
    with ServiceProcess(make_plan(outage)) as service:
        os.kill(service.pid, 9)
        with pytest.raises(ServiceDiedError, match=r"ended by itself \(status -9\)"):
            service.go()
        with pytest.raises(ServiceDiedError):
            service.check()


def test_a_service_that_cannot_start_is_an_error(
    outage: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the program does not come up, entering the block fails and leaves no process."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ServiceDiedError, match="status 1"), ServiceProcess(make_plan(outage)):
        pytest.fail("it is not running")


PARENT = """
import json, os, signal, sys
from breakerkit.cli._child import ServiceProcess
from breakerkit.cli._plan import make_plan
from breakerkit.cli._trace import Answer, Call, Recording
with ServiceProcess(make_plan(Recording("x", (Call(0.0, 0.0, Answer.RIGHT, 200),)))) as service:
    print(json.dumps([service.pid, service.port]), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_service_never_outlives_the_demo(wait_until: Callable) -> None:
    """When the demo is killed in a way it cannot notice, the service ends by itself."""
    parent = subprocess.run(
        [sys.executable, "-c", PARENT], capture_output=True, text=True, timeout=60, check=False
    )
    assert parent.returncode == -9
    _, port = json.loads(parent.stdout)
    wait_until(lambda: refused(port))
