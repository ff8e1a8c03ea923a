"""The demo as a whole: in this process, and as a program that is piped, interrupted and robbed of its service."""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import breakerkit.cli
from breakerkit.cli import _demo, main
from breakerkit.cli._arguments import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = [sys.executable, "-m", "breakerkit.cli", "demo"]


def test_the_whole_play(outage_file: Path, tmp_path: Path, start_in_thread: Callable) -> None:
    """Both runs, the table, the verdict and the picture, whose path is the last thing said."""
    svg, stream = tmp_path / "x.svg", io.StringIO()
    _demo.play(Options(outage_file, 24.0, None, svg), stream, start_in_thread)
    said = stream.getvalue()
    lines = said.splitlines()
    assert lines[0].startswith("an-outage.csv: 120 calls in 23.9 s, at 24 times the speed")
    assert [line.split()[0] for line in lines if "done: " in line] == ["bare", "guarded"]
    assert re.search(r"^calls made +120 +120$", said, re.MULTILINE)
    assert "The breaker " in said
    assert lines[-1] == f"picture: {svg}"
    ET.parse(svg)
    assert "\x1b" not in said


def test_what_the_reader_left_out_is_said(
    outage_file: Path, tmp_path: Path, start_in_thread: Callable
) -> None:
    """A cut last line is mentioned before the runs."""
    with outage_file.open("a") as file:
        file.write("17000")
    stream = io.StringIO()
    _demo.play(Options(outage_file, 240.0, None, tmp_path / "x.svg"), stream, start_in_thread)
    assert stream.getvalue().splitlines()[1] == "line 122 is cut off and was left out."


def test_the_shipped_recording_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a trace the package's own recording is read."""
    read = []
    monkeypatch.setattr(_demo, "read", lambda path: read.append(path) or sys.exit(0))
    with pytest.raises(SystemExit):
        _demo.play(Options(None, None, None, tmp_path / "x.svg"), io.StringIO())
    assert read == [Path(breakerkit.cli.__file__).parent / "recording.csv"]


def test_a_broken_trace_is_one_line_before_anything_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the argument, the file, its line and what is wrong; the exit status is 2."""
    trace = tmp_path / "bad.jtl"
    trace.write_text("timeStamp,elapsed,responseCode,success\n1,x,200,true\n1,1,200,true\n")
    assert main(["demo", "--trace", str(trace), "--svg", str(tmp_path / "x.svg")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"breakerkit demo: error: argument --trace: {trace}, line 2:"
        " elapsed must be whole milliseconds, not 'x'\n"
    )


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | None], list[object]]:
    """Put something in place of the play that ends in a given way; return the streams it was given."""

    def replace(error: BaseException | None) -> list[object]:
        streams: list[object] = []

        def instead(_options: Options, stream: object) -> None:
            streams.append(stream)
            if error is not None:
                raise error

        monkeypatch.setattr(_demo, "play", instead)
        return streams

    return replace


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (None, 0, ""),
        (KeyboardInterrupt(), 130, "breakerkit: stopped\n"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left on device"), 1, "breakerkit: error: [Errno 28] No space left on device\n"),
    ],
)  # fmt: skip
def test_how_it_ends(
    error: BaseException | None,
    status: int,
    says: str,
    play: Callable,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each end has its exit status, and at most one line to say."""
    play(error)
    assert main(["demo"]) == status
    assert capsys.readouterr() == ("", says)


def test_a_dead_service_is_one_line(play: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 1."""
    from breakerkit.cli._child import ServiceDiedError

    play(ServiceDiedError("it has gone"))
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "breakerkit demo: error: it has gone\n"


def test_output_that_was_closed_goes_nowhere(
    play: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With standard output closed there is no stream, and the demo runs all the same."""
    streams = play(None)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["demo"]) == 0
    assert isinstance(streams[0], io.StringIO)


def test_a_name_that_cannot_be_said_is_escaped(
    play: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file name outside the terminal's encoding must not end the demo."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        play(None)
        main(["demo"])
        stdout.write("ü\udce4")
        stdout.flush()
        assert raw.getvalue() == rb"\xfc\udce4"


def test_output_that_failed_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is still buffered after a broken pipe goes nowhere, so that the interpreter ends in silence."""
    with (tmp_path / "out").open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        stdout.write("buffered")
        breakerkit.cli._forget_output()
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize("module", ["breakerkit.__main__", "breakerkit.cli.__main__"])
def test_the_arguments_of_the_process_are_taken(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -m breakerkit`` and ``python -m breakerkit.cli`` are the command."""
    monkeypatch.setattr(sys, "argv", ["breakerkit", "--version"])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as caught:
        importlib.import_module(module)
    assert caught.value.code == 0
    monkeypatch.setattr(sys, "argv", ["breakerkit", "nonsense"])
    with pytest.raises(SystemExit) as caught:
        sys.modules.pop(module, None)
        importlib.import_module(module)
    assert caught.value.code == 2


def test_the_command_line_is_no_part_of_the_library() -> None:
    """``import breakerkit`` loads neither the command line nor argparse nor rich."""
    code = (
        "import sys, breakerkit;"
        "print([m for m in sys.modules if m.startswith(('breakerkit.cli', 'argparse', 'rich'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def demo(outage_file: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the demo as a program; whatever it becomes, it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        svg = str(tmp_path / "x.svg")
        started.append(
            subprocess.Popen(
                [*COMMAND, "--trace", str(outage_file), "--svg", svg, *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def service_of(process: subprocess.Popen[str]) -> int | None:
    """Return the process id of a demo's service, if it has started one."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(found[0]) if found else None


def ended(pid: int) -> bool:
    """Say whether a process has ended; one that nobody has buried yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def running(demo: Callable, wait_until: Callable) -> tuple[subprocess.Popen[str], int]:
    """Start a demo that takes long, and return it with its service once that runs."""
    process = demo("--speed", "1")
    process.stdout.readline()
    wait_until(lambda: service_of(process) is not None)
    return process, service_of(process)


def test_piped_it_says_everything_in_plain_lines(demo: Callable, tmp_path: Path) -> None:
    """A real service process, real threads, no terminal: a table, a picture, status 0, no escapes."""
    process = demo("--speed", "24")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert re.search(r"^calls made +120 +120$", out, re.MULTILINE)
    assert "\x1b" not in out
    assert out.isascii()
    ET.parse(tmp_path / "x.svg")


def test_ctrl_c_stops_everything_at_once(demo: Callable, wait_until: Callable) -> None:
    """Status 130, one line, no traceback, and the service is gone."""
    process, service = running(demo, wait_until)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "breakerkit: stopped\n")
    wait_until(lambda: ended(service))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_demo_leaves_no_service(
    how: signal.Signals, demo: Callable, wait_until: Callable
) -> None:
    """However the demo ends, the service ends too."""
    process, service = running(demo, wait_until)
    process.send_signal(how)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (-how, "")
    wait_until(lambda: ended(service))


def test_the_death_of_the_service_is_said(demo: Callable, wait_until: Callable) -> None:
    """A service that somebody else kills ends the demo with one line and status 1."""
    process, service = running(demo, wait_until)
    os.kill(service, signal.SIGKILL)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert (
        err == "breakerkit demo: error: the demo's HTTP service has ended by itself (status -9)\n"
    )


def test_a_reader_that_leaves_is_no_error(demo: Callable, wait_until: Callable) -> None:
    """As in ``| head -1``: the demo ends at its next line, in silence, and so does the service."""
    process, service = running(demo, wait_until)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=20) == 141
    wait_until(lambda: ended(service))


def test_a_full_disk_is_one_line(outage_file: Path, tmp_path: Path) -> None:
    """Output that cannot be written ends the demo with status 1."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "--trace", str(outage_file), "--svg", str(tmp_path / "x.svg")],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "breakerkit: error: [Errno 28] No space left on device\n"
