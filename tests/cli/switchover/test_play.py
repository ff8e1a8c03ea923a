"""The failover demo as a whole: in this process, and as a program that is interrupted."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from breakerkit import State
from breakerkit.cli import main
from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._drive import Kind
from breakerkit.cli._options import FailoverOptions
from breakerkit.cli.switchover import _play
from breakerkit.cli.switchover._plan import KILLED, Plan
from breakerkit.cli.switchover._report import figures
from breakerkit.cli.switchover._run import BOUND, WITH_FAILOVER, Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_callers_with_failover_see_no_error() -> None:
    """With real processes: one is killed, the bound client fails all the while, the other never does."""
    run = Run(Plan(speed=4.0))
    _play.play_run(run, lambda _run: None)
    bound, free = figures(run, BOUND), figures(run, WITH_FAILOVER)
    assert bound.calls == free.calls == 89
    assert bound.errors > 20
    assert free.errors == 0
    assert free.at_the_dead < bound.at_the_dead / 2
    assert free.openings >= 1
    assert free.back is not None, "the revived provider is in rotation again"
    assert min(free.tries.values()) > 10
    assert run.state_of(KILLED) is State.CLOSED
    states = [move.state for move in run.moves[KILLED]]
    assert (states[0], states[-2:]) == (State.OPEN, [State.HALF_OPEN, State.CLOSED])
    assert run.moves["alpha"] == run.moves["gamma"] == []


def test_the_whole_play(tmp_path: Path, as_thread: Callable) -> None:
    """Table, verdict and picture, whose path is the last thing said."""
    svg, stream = tmp_path / "x.svg", io.StringIO()
    _play.play(FailoverOptions(6.0, svg), stream, as_thread)
    said = stream.getvalue()
    lines = said.splitlines()
    assert lines[0] == (
        "Three HTTP providers: alpha, beta, gamma; beta is killed at second 3 and revived at 7. One"
        " client is bound to it, one has failover; about 2 s."
    )
    assert len([line for line in lines if "done: " in line]) == 1
    assert re.search(r"^calls made +59 +59$", said, re.MULTILINE)
    assert re.search(r"^errors seen by callers +[1-9]\d* +0$", said, re.MULTILINE)
    assert "All times are the play's: 1 ms of this machine counts as 6 ms." in lines
    assert lines[-1] == f"picture: {svg}"
    ET.parse(svg)


def test_when_all_are_gone_callers_with_failover_see_errors(as_thread: Callable) -> None:
    """A call that no provider serves is counted as failed, and the play goes on."""
    run, killed = Run(Plan(speed=8.0)), []

    def kill_all(_run: Run) -> None:
        if not killed and run.calls:
            for site in sites:
                site.kill()
            killed.append(True)

    sites = []

    class Noted(_play.Site):
        def __enter__(self) -> _play.Site:
            sites.append(self)
            return super().__enter__()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_play, "Site", Noted)
        patch.setattr(_play, "_act", lambda run, site: None)
        _play.play_run(run, kill_all, as_thread)
    last = [one for one in run.calls if one.client == WITH_FAILOVER][-5:]
    assert {one.kind for one in last} == {Kind.FAILED}


def test_a_dead_provider_ends_the_play(as_thread: Callable) -> None:
    """If nobody was to kill it; the clients are stopped."""

    def die(_run: Run) -> None:
        as_thread.programs["the provider alpha"].died = ServiceDiedError("it has gone")

    run = Run(Plan())
    with pytest.raises(ServiceDiedError, match="it has gone"):
        _play.play_run(run, die, as_thread)
    assert run.at() < run.span
    for thread in threading.enumerate():
        if thread.daemon and "_work" in thread.name:
            thread.join(10)
            assert not thread.is_alive()


def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With status 2, under the demo's name, and nothing ran."""
    assert main(["demo", "failover", "--speed", "fast"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "breakerkit demo failover: error: argument --speed: must be a number above 0, at most 8, not"
        " 'fast'\n"
    )


def test_piped_it_says_everything_in_plain_lines(program: Callable) -> None:
    """Real processes, no terminal: a table, a picture, status 0 and no escapes."""
    demo = program("failover", "--speed", "6")
    out, err = demo.process.communicate(timeout=60)
    assert (demo.process.returncode, err) == (0, "")
    assert re.search(r"^tries of gamma +0 +[1-9]", out, re.MULTILINE)
    assert out.isascii()
    ET.parse(demo.folder / "x.svg")


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
    program: Callable, wait_until: Callable, ended: Callable,
) -> None:  # fmt: skip
    """Ctrl-C is one line and status 130; whatever kills the demo, its three processes end too."""
    demo = program("failover")
    wait_until(lambda: len(demo.children()) == 3)
    providers = demo.children()
    assert demo.kill(how) == (status, says)
    wait_until(lambda: all(map(ended, providers)))


def test_the_death_of_another_provider_is_said(program: Callable, wait_until: Callable) -> None:
    """One that somebody else kills ends the demo with one line and status 1."""
    demo = program("failover")
    wait_until(lambda: len(demo.children()) == 3)
    os.kill(demo.children()[0], signal.SIGKILL)
    _, err = demo.process.communicate(timeout=20)
    assert demo.process.returncode == 1
    assert err == (
        "breakerkit demo failover: error: the provider alpha has ended by itself (status -9)\n"
    )
