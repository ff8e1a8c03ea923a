"""The avalanche as a whole: what it promises, measured; in this process; and as a program that is interrupted."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli import main
from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._options import AvalancheOptions
from breakerkit.cli.avalanche import _plan, _play
from breakerkit.cli.avalanche._plan import OTHERS, Plan
from breakerkit.cli.avalanche._report import ALONE, ISOLATED, WANTED, ratio, results
from breakerkit.cli.avalanche._rounds import Kind, Round

if TYPE_CHECKING:
    from collections.abc import Callable


def watch_nothing(_played: Round) -> None:
    """Look away."""


def test_one_hung_dependency_does_not_slow_the_others() -> None:
    """With bulkheads, and one dependency hung for ever, the p99 of the others stays within 1.5 of its value alone.

    Real processes and real HTTP. The load is low and a dependency takes 0.3 s, so
    that a machine that is busy with other things has room for that: half of it.
    """
    plan = Plan(
        name="for ever", recorded=3600.0, speed=1.0, span=6.0, hung_at=2.7, over_at=3600.0,
        hangs=((2.7, 3600.0),), rate=8.0, takes=0.3, workers=32, limit=8,
    )  # fmt: skip
    isolated = Round(plan, isolated=True)
    _play.play_round(isolated, watch_nothing)
    found = results(Round(plan, isolated=False), isolated)
    for name in OTHERS:
        assert found[name, ALONE].asked >= 10
        assert found[name, ISOLATED].asked >= 20
        assert found[name, ISOLATED].answered == found[name, ISOLATED].asked
        multiple = ratio(found, name)
        assert multiple is not None
        assert multiple <= WANTED
    hung = found["reviews", ISOLATED]
    assert hung.answered == 0
    assert hung.kinds[Kind.REFUSED] > 10, "its own callers are turned away at once"
    assert hung.kinds[Kind.TIMED_OUT] <= plan.limit + 1


def test_the_whole_play(
    outage_file: Path, tmp_path: Path, as_thread: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both rounds, the table, the verdict and the picture, whose path is the last thing said."""
    monkeypatch.setattr(_plan, "SHORTEST", 1.0)
    with outage_file.open("a") as file:
        file.write("17000")
    svg, stream = tmp_path / "x.svg", io.StringIO()
    _play.play(AvalancheOptions(outage_file, 5.8, svg), stream, as_thread)
    said = stream.getvalue()
    lines = said.splitlines()
    assert lines[0] == (
        "an-outage.csv: its outage of 5.8 s hangs the dependency of reviews, one of three endpoints,"
        " at 5.8 times the speed; about 3 s."
    )
    assert lines[1] == "line 122 is cut off and was left out."
    assert [line.split()[0] for line in lines if "done: " in line] == ["shared", "isolated"]
    assert re.search(r"^ +asked  answered  refused  timed out +p50 +p99$", said, re.MULTILINE)
    assert re.search(r"^reviews, degraded +\d+ +[1-9]", said, re.MULTILINE)
    assert re.search(r"a multiple of its value alone: prices \S+, stock \S+ \(wanted", said)
    assert re.search(r"ms after the operator wrote the rule, callers of reviews got answers", said)
    assert lines[-1] == f"picture: {svg}"
    ET.parse(svg)
    assert "\x1b" not in said


def test_a_dead_service_ends_the_round(
    outage_file: Path, tmp_path: Path, as_thread: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the next look, whichever of the four it is, and the clients are stopped."""

    def die(_played: Round, _rules: Path) -> None:
        as_thread.programs["the dependency of stock"].died = ServiceDiedError("it has gone")

    monkeypatch.setattr(_play, "_operate", die)
    with pytest.raises(ServiceDiedError, match="it has gone"):
        _play.play(AvalancheOptions(outage_file, 2.0, tmp_path / "x.svg"), io.StringIO(), as_thread)


def test_the_shipped_recording_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a trace the package's own recording is read."""
    from breakerkit.cli._demo import RECORDING

    read = []
    monkeypatch.setattr(_play, "read", lambda path: read.append(path) or sys.exit(0))
    with pytest.raises(SystemExit):
        _play.play(AvalancheOptions(None, None, tmp_path / "x.svg"), io.StringIO())
    assert read == [RECORDING]


@pytest.mark.parametrize(
    ("content", "more", "says"),
    [
        ("hello", [], "argument --trace: {}, line 1: no column"),
        ("timeStamp,elapsed,responseCode,success\n1,1,200,true\n2,1,200,true\n", [], "argument --trace: {name} has no outage"),
        (None, ["--speed", "4"], "argument --speed: must be at most 3.87 here"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_one_line_before_anything_ran(
    content: str | None,
    more: list[str],
    says: str,
    outage_file: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The line names the demo, the argument and what is wrong; the exit status is 2."""
    if content is not None:
        outage_file.write_text(content)
    given = ["demo", "avalanche", "--trace", str(outage_file), "--svg", str(tmp_path / "x.svg")]
    assert main([*given, *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("breakerkit demo avalanche: error: ")
    assert says.format(outage_file, name=outage_file.name) in err
    assert err.count("\n") == 1


def test_a_dead_service_is_said_under_the_demos_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 1."""

    def instead(_options: object, _stream: object) -> None:
        raise ServiceDiedError("it has gone")

    monkeypatch.setattr(_play, "play", instead)
    assert main(["demo", "avalanche"]) == 1
    assert capsys.readouterr().err == "breakerkit demo avalanche: error: it has gone\n"


def test_piped_it_says_everything_in_plain_lines(program: Callable, outage_file: Path) -> None:
    """Real processes, no terminal: a table, a picture, status 0, no escapes, and nothing left behind."""
    demo = program("avalanche", "--trace", str(outage_file), "--speed", "3.8")
    out, err = demo.process.communicate(timeout=120)
    assert (demo.process.returncode, err) == (0, "")
    assert re.search(r"^prices, avalanche +\d+ ", out, re.MULTILINE)
    assert out.isascii()
    assert "\x1b" not in out
    ET.parse(demo.folder / "x.svg")
    assert not list(demo.folder.glob("breakerkit-demo-*"))


@pytest.mark.parametrize(
    ("how", "status", "says"),
    [
        (signal.SIGINT, 130, "breakerkit: stopped\n"),
        (signal.SIGTERM, -signal.SIGTERM, ""),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_however_it_ends_no_process_is_left(
    how: signal.Signals, status: int, says: str,
    program: Callable, outage_file: Path, wait_until: Callable, ended: Callable,
) -> None:  # fmt: skip
    """Ctrl-C is one line and status 130; whatever kills the demo, its four processes end too."""
    demo = program("avalanche", "--trace", str(outage_file))
    wait_until(lambda: len(demo.children()) == 4)
    services = demo.children()
    assert demo.kill(how) == (status, says)
    wait_until(lambda: all(map(ended, services)))
    if how is signal.SIGINT:
        assert not list(demo.folder.glob("breakerkit-demo-*"))


def test_the_death_of_a_process_is_said(
    program: Callable, outage_file: Path, wait_until: Callable
) -> None:
    """A service that somebody else kills ends the demo with one line and status 1."""
    demo = program("avalanche", "--trace", str(outage_file))
    wait_until(lambda: len(demo.children()) == 4)
    os.kill(demo.children()[-1], signal.SIGKILL)
    _, err = demo.process.communicate(timeout=20)
    assert demo.process.returncode == 1
    assert err == (
        "breakerkit demo avalanche: error: the service has ended by itself (status -9)\n"
    )
