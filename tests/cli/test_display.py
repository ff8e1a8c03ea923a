"""What the terminal shows: plain lines where nobody watches, panels where somebody does."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli._display import PlainDisplay, open_display, opening_line
from breakerkit.cli._drive import Run
from breakerkit.cli._live import LiveDisplay

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = [("calls", "1,000", "7"), ("  of them", "-", "12.5 s")]


def test_plain_lines_come_every_two_seconds(runs: tuple[Run, Run]) -> None:
    """Not more often, and with everything that is known about the run."""
    bare, _ = runs
    now, stream = [0.0], io.StringIO()
    display = PlainDisplay(stream, lambda: now[0])
    for moment in (0.1, 1.9, 2.0, 2.1, 3.9, 4.1):
        now[0] = moment
        display.watch(bare)
    display.finish(bare)
    display.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert (
        lines[0]
        == "bare        0.0 of 23.9 s  let through 120, failed 30, rejected 0, time lost 3.0 s"
    )
    assert lines[2].startswith("bare        0.0 of 23.9 s  done: let through 120")


def test_plain_lines_name_the_breakers_state(runs: tuple[Run, Run]) -> None:
    """A guarded run that has started shows its breaker, and how far it has come."""
    _, guarded = runs
    guarded.start()
    stream = io.StringIO()
    PlainDisplay(stream).finish(guarded)
    assert re.match(
        r"guarded +0\.\d of 23\.9 s  done: breaker closed, let through 90, failed 5, rejected 30,",
        stream.getvalue(),
    )


def test_the_plain_table_is_aligned() -> None:
    """Names to the left, numbers to the right, in ASCII."""
    stream = io.StringIO()
    PlainDisplay(stream).table(ROWS)
    assert stream.getvalue().splitlines() == [
        "            bare  guarded",
        "calls      1,000        7",
        "  of them      -   12.5 s",
    ]
    assert stream.getvalue().isascii()


def test_a_terminal_gets_the_live_display(runs: tuple[Run, Run], terminal: Callable) -> None:
    """With rich and a capable terminal panels are drawn."""
    assert isinstance(open_display(terminal(), runs[0].plan), LiveDisplay)


@pytest.mark.parametrize("why", ["pipe", "dumb", "CI", "encoding", "no rich"])
def test_everything_else_gets_plain_lines(
    why: str, runs: tuple[Run, Run], terminal: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe, a dumb terminal, CI, an encoding without bars, or no rich."""
    stream = terminal()
    if why == "pipe":
        stream = io.StringIO()
    elif why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    elif why == "CI":
        monkeypatch.setenv("CI", "true")
    elif why == "encoding":
        stream = terminal("ascii")
    else:
        monkeypatch.setitem(sys.modules, "breakerkit.cli._live", None)
    display = open_display(stream, runs[0].plan)
    assert isinstance(display, PlainDisplay)
    display.say("hello")
    assert stream.getvalue() == "hello\n"


def test_the_live_display_draws_both_runs(runs: tuple[Run, Run], terminal: Callable) -> None:
    """Bars, progress, figures and the breaker's state, in frames that leave the last columns free."""
    bare, guarded = runs
    stream = terminal()
    display = open_display(stream, bare.plan)
    display.say("[hello]")
    for run in runs:
        run.start()
        display.watch(run)
        display.finish(run)
    display.close()
    display.table(ROWS)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    for expected in (
        "[hello]\n", "without a breaker", "behind a breaker", "let through 120", "24 of 24 s",
        "breaker closed   let through 90   failed 5   rejected 30", "12.5 s", "█",
    ):  # fmt: skip
        assert expected in shown
    frames = [line for line in shown.splitlines() if line.startswith(("╭", "│ ", "╰"))]
    assert {len(line) for line in frames if "of 24 s" in line} == {77}
    assert "\x1b[33m" in stream.getvalue(), "rejections are yellow"
    assert "\x1b[?25h" in stream.getvalue(), "the cursor is back"


def test_a_display_that_drew_nothing_can_be_closed(
    runs: tuple[Run, Run], terminal: Callable
) -> None:
    """An error before the first picture gives the terminal back as it was."""
    stream = terminal()
    open_display(stream, runs[0].plan).close()
    assert "╭" not in stream.getvalue()


def test_the_first_line_says_what_is_coming(runs: tuple[Run, Run]) -> None:
    """Name, calls, length, speed, threads, and how long it will take."""
    assert opening_line(runs[0].plan) == (
        "an-outage.csv: 120 calls in 23.9 s, at 4 times the speed with 10 client threads; about 12 s."
    )
