"""What the tests of the command line share: small recordings, runs made by hand, a service in a thread."""

from __future__ import annotations

import io
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from breakerkit import State
from breakerkit.cli import _service
from breakerkit.cli._drive import Kind, Move, Outcome, Run
from breakerkit.cli._plan import Plan, make_plan
from breakerkit.cli._trace import Answer, Call, Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of the four real recordings, which lies beside the checkout and is no part of it."""
    for place in ROOT.parents[:2]:
        if (place / "shared" / "traces").is_dir():
            return place / "shared" / "traces"
    pytest.skip("no folder shared/traces beside the checkout: the real recordings are not here")


def an_outage() -> Recording:
    """Five calls a second for 24 s; from second 6 to 12 the service resets, then refuses."""
    calls = []
    for number in range(120):
        start = number / 5
        if 6 <= start < 9:
            calls.append(Call(start, 0.2, Answer.RESET))
        elif 9 <= start < 12:
            calls.append(Call(start, 0.0, Answer.REFUSED))
        elif number % 40 == 1:
            calls.append(Call(start, 0.1, Answer.CALLER_ERROR, 404))
        else:
            calls.append(Call(start, 0.1, Answer.RIGHT, 200))
    return Recording("an-outage.csv", tuple(calls))


@pytest.fixture
def outage() -> Recording:
    """A small recording with one outage."""
    return an_outage()


@pytest.fixture
def outage_file(tmp_path: Path, outage: Recording) -> Path:
    """The same as a JMeter CSV file."""
    codes = {Answer.RESET: "java.net.SocketException", Answer.REFUSED: "ConnectionRefusedError"}
    lines = ["timeStamp,elapsed,label,responseCode,responseMessage,threadName,success"]
    for call in outage.calls:
        start, elapsed = round(1_700_000_000_000 + call.start * 1000), round(call.elapsed * 1000)
        code = codes.get(call.answer, str(call.status))
        lines.append(f"{start},{elapsed},a,{code},,t,{str(call.answer is Answer.RIGHT).lower()}")
    path = tmp_path / "an-outage.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def played(plan: Plan, *, guarded: bool = False) -> Run:
    """A run of the plan in which everything took exactly the recorded time.

    The guarded one is open from second 7 to 13: calls that began then were rejected.
    """
    run = Run(plan, guarded=guarded)
    if guarded:
        run.moves += [
            Move(7.0, State.OPEN, "failure rate"),
            Move(12.5, State.HALF_OPEN, ""),
            Move(13.0, State.CLOSED, ""),
        ]
    for number, call in enumerate(plan.calls):
        if guarded and 7 <= call.start < 13:
            run.outcomes.append(Outcome(number, call.start, call.start, Kind.REJECTED))
        else:
            kind = Kind.FAILED if call.failed else Kind.ANSWERED
            run.outcomes.append(Outcome(number, call.start, call.end, kind))
    return run


@pytest.fixture
def runs(outage: Recording) -> tuple[Run, Run]:
    """A bare and a guarded run of the small recording."""
    plan = make_plan(outage, speed=4)
    return played(plan), played(plan, guarded=True)


class ThreadProgram:
    """One of the demos' programs in a thread of this process, which coverage can see."""

    def __init__(self, serve: Callable[..., None], script: str) -> None:
        self.died: Exception | None = None
        self.commands: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.commands.put(script)
        self.thread = threading.Thread(
            target=serve, args=(iter(self.commands.get, None), self._said.put)
        )
        self.thread.start()
        self.port = int(self._said.get(timeout=10).removeprefix("ready "))

    def go(self) -> None:
        """Start the recording from its beginning."""
        self.commands.put("go\n")
        assert self._said.get(timeout=10) == "gone"

    def check(self) -> None:
        """Raise what a test has put here."""
        if self.died is not None:
            raise self.died

    def end(self) -> None:
        """Have it end, as a process does whose parent has gone."""
        self.commands.put(None)
        self.thread.join(10)
        assert not self.thread.is_alive()


class ThreadService(ThreadProgram):
    """The first demo's service in a thread."""

    def __init__(self, script: _service.Script) -> None:
        super().__init__(_service.serve, script.dumps())


@pytest.fixture
def in_thread() -> Iterator[Callable[[_service.Script], ThreadService]]:
    """Start services in threads; they end with the test."""
    started: list[ThreadService] = []

    def start(script: _service.Script) -> ThreadService:
        started.append(ThreadService(script))
        return started[-1]

    yield start
    for service in started:
        service.end()


@pytest.fixture
def as_thread() -> Callable[..., object]:
    """Return what the other demos take for ``start``: a program in a thread instead of a process.

    It keeps what it has started, by what that is called.
    """

    @contextmanager
    def start(program: str, script: str, what: str, path: object = None) -> Iterator[ThreadProgram]:
        (serve,) = (
            module.serve
            for name, module in list(sys.modules.items())
            if name.startswith("breakerkit.cli.") and module.__file__ == program
        )
        start.programs[what] = running = ThreadProgram(serve, script)
        try:
            yield running
        finally:
            running.end()

    start.programs = {}
    return start


@pytest.fixture
def start_in_thread(
    in_thread: Callable[[_service.Script], ThreadService],
) -> Callable[[Plan], object]:
    """Return what `play` takes for ``start_service``: a service in a thread instead of a process."""
    from breakerkit.cli._child import script_of

    @contextmanager
    def start(plan: Plan) -> Iterator[ThreadService]:
        yield in_thread(script_of(plan))

    return start


class Program(NamedTuple):
    """One of the other demos, run as a program."""

    process: subprocess.Popen[str]
    folder: Path

    def children(self) -> list[int]:
        """Return the process ids of what it has started."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill(self, how: signal.Signals) -> tuple[int, str]:
        """Send it a signal; return its status and what it says of that."""
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a demo by its arguments; whatever it becomes, it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> Program:
        command = [sys.executable, "-m", "breakerkit.cli", "demo", *arguments]
        process = subprocess.Popen(
            [*command, "--svg", str(tmp_path / "x.svg")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        )  # fmt: skip
        started.append(process)
        return Program(process, tmp_path)

    yield start
    for process in started:
        with process:
            process.kill()


def has_ended(pid: int) -> bool:
    """Say whether a process has ended; one that nobody has buried yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def ended() -> Callable[[int], bool]:
    """Tell whether a process has ended."""
    return has_ended


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # io.StringIO has none to give
        """What it understands."""
        return self._encoding

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Terminal]:
    """Make terminals, 80 columns wide, in an environment that is no CI's."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal


def wait_until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Ask again and again until it is true."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not true():
        assert time.monotonic() < end, "it never became true"
        pause.wait(0.01)  # asking without pause would starve the one that is to make it true


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[..., None]:
    """Wait for something that another process or thread does."""
    return wait_until


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a terminal of the tests have colours, whatever the machine's settings say."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
