"""The demos' end of the processes they start: start one, set it going, end it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, Self, TypeAlias, cast

from breakerkit.cli import _service

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from breakerkit.cli._plan import Plan

__all__ = ["Child", "ServiceDiedError", "ServiceLike", "ServiceProcess", "Start", "script_of"]

_Pipes: TypeAlias = tuple[IO[str], IO[str]]


class ServiceDiedError(Exception):
    """Say that the service process has ended while it was needed."""


class ServiceLike(Protocol):
    """What the demo needs of a service."""

    port: int

    def go(self) -> None:
        """Start the recording from its beginning."""
        ...

    def check(self) -> None:
        """Raise `ServiceDiedError` if it is no longer there."""
        ...


class Start(Protocol):
    """How a program is started: as a `Child`, or in a test as a thread."""

    def __call__(
        self, program: str, script: str, what: str, path: Sequence[str] | None = None
    ) -> AbstractContextManager[ServiceLike]:
        """Return the program; it runs for the length of a ``with`` block."""
        ...


def script_of(plan: Plan) -> _service.Script:
    """Return what the service is to play, in seconds of real time."""
    speed = plan.speed
    return _service.Script(
        [
            _service.Reply(call.elapsed / speed, call.answer.value, call.status)
            for call in plan.calls
        ],
        [(silence.began / speed, silence.ended / speed) for silence in plan.silences],
    )


class Child:
    """A program in a process of its own, for the length of a ``with`` block.

    It is told what to do in one line, answers ``ready`` and its port, and ends
    when its standard input does.

    Args:
        program: its file.
        script: the line it is told.
        what: what to call it if it dies.
        path: where it finds packages; ``None`` if it needs none.
    """

    def __init__(
        self, program: str, script: str, what: str, path: Sequence[str] | None = None
    ) -> None:
        self.port = 0
        self._program = program
        self._script = script
        self._what = what
        self._environment = None if path is None else os.environ | {"PYTHONPATH": _joined(path)}
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        # By path and with -P: it must not depend on how or from where breakerkit was
        # imported. In a session of its own, Ctrl-C reaches this process alone, which
        # then ends the child.
        self._process = subprocess.Popen(  # noqa: S603  # our own file, by our own interpreter
            [sys.executable, "-P", self._program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
            start_new_session=True,
        )
        try:
            self.port = int(self._ask(self._script).removeprefix("ready "))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def go(self) -> None:
        """Start the recording from its beginning; on return it has begun."""
        self._ask("go")

    def check(self) -> None:
        """Raise `ServiceDiedError` if the process has ended."""
        status = self._process.poll()
        if status is not None:
            raise ServiceDiedError(f"{self._what} has ended by itself (status {status})")

    def _ask(self, line: str) -> str:
        stdin, stdout = cast("_Pipes", (self._process.stdin, self._process.stdout))
        with contextlib.suppress(BrokenPipeError):  # no answer follows, which says enough
            stdin.write(f"{line}\n")
            stdin.flush()
        answer = stdout.readline()
        if not answer:
            self._process.wait()
            self.check()
        return answer

    def _end(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError), self._process:
            pass  # leaving it closes the pipes and waits for the end


def _joined(path: Sequence[str]) -> str:
    # An empty entry is the current folder, which may be another one by then.
    return os.pathsep.join(str(Path(entry).absolute()) for entry in path)


class ServiceProcess(Child):
    """The recorded service in a process of its own."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(_service.__file__, script_of(plan).dumps(), "the demo's HTTP service")
