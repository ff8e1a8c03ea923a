"""Figures, table, sentences and picture of the failover demo, from a run made by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from breakerkit import State
from breakerkit.cli._axes import BAD, OUTAGE
from breakerkit.cli._crew import TraceClock
from breakerkit.cli._display import open_display
from breakerkit.cli._drive import Kind, Move
from breakerkit.cli._lanes import STATES
from breakerkit.cli.switchover._picture import draw
from breakerkit.cli.switchover._plan import KILLED, PROVIDERS, SETTINGS, Plan, describe
from breakerkit.cli.switchover._report import HEAD, Figures, figures, notes, table, verdict
from breakerkit.cli.switchover._run import BOUND, WITH_FAILOVER, Outcome, Run

if TYPE_CHECKING:
    from collections.abc import Callable

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run() -> Run:
    """Ten calls a second of each client; beta is dead from 3 to 7, and asked by failover at 3, 4, 5 and 6."""
    run = Run(Plan(), killed=3.0, revived=7.0)
    for number in range(120):
        at = number / 10
        dead = 3 <= at < 7
        kind = Kind.FAILED if dead else Kind.ANSWERED
        run.tries.append(Outcome(BOUND, KILLED, at, at + 0.05, kind))
        run.calls.append(Outcome(BOUND, KILLED, at, at + 0.05, kind))
        provider = PROVIDERS[number % 3]
        if at in {3.0, 4.0, 5.0, 6.0}:
            run.tries.append(Outcome(WITH_FAILOVER, KILLED, at, at + 0.01, Kind.FAILED))
        if 3 <= at < 8 and provider == KILLED:
            provider = "gamma"
        run.tries.append(Outcome(WITH_FAILOVER, provider, at, at + 0.06, Kind.ANSWERED))
        run.calls.append(Outcome(WITH_FAILOVER, provider, at, at + 0.06, Kind.ANSWERED))
    run.moves[KILLED] += [
        Move(3.1, State.OPEN, "consecutive failures"), Move(4.1, State.HALF_OPEN, ""),
        Move(4.2, State.OPEN, "probe failure"), Move(8.0, State.CLOSED, ""),
    ]  # fmt: skip
    return run


def test_the_figures_of_both_clients(run: Run) -> None:
    """Errors, tries by provider, tries of the dead one, and when it answered again."""
    assert figures(run, BOUND) == Figures(
        calls=120, errors=40, longest=pytest.approx(0.05), tries={"alpha": 0, "beta": 120, "gamma": 0},
        at_the_dead=40, openings=0, back=pytest.approx(0.05),
    )  # fmt: skip
    assert figures(run, WITH_FAILOVER) == Figures(
        calls=120, errors=0, longest=pytest.approx(0.06), tries={"alpha": 40, "beta": 27, "gamma": 57},
        at_the_dead=4, openings=2, back=pytest.approx(1.26),
    )  # fmt: skip


def test_a_provider_may_never_come_back() -> None:
    """Nor need it have died: what did not happen has no figure."""
    run = Run(Plan())
    bound, free = figures(run, BOUND), figures(run, WITH_FAILOVER)
    assert (bound.calls, bound.longest, bound.at_the_dead, bound.back) == (0, 0.0, 0, None)
    assert verdict(run, bound, free)[1].endswith("beta did not come back into rotation.")
    ET.fromstring(draw(run))
    run.killed = 3.0
    assert "beta is dead, 9.0 s" in texts(draw(run))


def test_the_table_has_what_was_asked(run: Run) -> None:
    """Errors seen by callers, calls per provider, time until the revived one is in rotation."""
    rows = {row[0]: row[1:] for row in table(figures(run, BOUND), figures(run, WITH_FAILOVER))}
    assert rows["calls made"] == ("120", "120")
    assert rows["errors seen by callers"] == ("40", "0")
    assert rows["tries of alpha"] == ("0", "40")
    assert rows["tries of beta"] == ("120", "27")
    assert rows["tries of beta while it was dead"] == ("40", "4")
    assert rows["times the breaker of beta opened"] == ("-", "2")
    assert rows["time until beta, revived, answers again"] == ("50 ms", "1.3 s")


def test_the_verdict_in_words(run: Run) -> None:
    """Errors of either client, and the return of the revived one."""
    errors, back = verdict(run, figures(run, BOUND), figures(run, WITH_FAILOVER))
    assert errors == (
        "beta was dead for 4.0 s: of 120 calls of the client bound to it 40 failed, of 120 with"
        " failover 0."
    )
    assert back == (
        "Failover asked the dead beta 4 times; beta was in rotation again 1.3 s after it was revived."
    )
    assert describe(SETTINGS) == (
        "A provider is skipped for 1 s after 3 failures in a row; then one call tries it."
    )
    assert notes(Plan()) == []
    assert notes(Plan(speed=4.0)) == [
        "All times are the play's: 1 ms of this machine counts as 4 ms."
    ]


def texts(picture: str) -> list[str]:
    """Return every text that is written in a picture."""
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_the_picture_shows_who_answered_and_whose_breaker_was_open(run: Run) -> None:
    """Both clients' calls, the death, and a band of states for each provider."""
    picture = draw(run)
    written = texts(picture)
    for expected in (
        "One of three providers dies, without and with failover", "Bound to beta", "With failover",
        "beta is dead, 4.0 s", "alpha", "beta", "gamma", "open", "closed", "40", "4", "1.3 s",
        "answered by gamma", "an error for the caller", "seconds of the play",
    ):  # fmt: skip
        assert expected in written
    rects = list(ET.fromstring(picture).iter(f"{SVG}rect"))
    fills = [rect.get("fill") for rect in rects if rect.find(f"{SVG}title") is not None]
    assert fills.count(OUTAGE) == 1
    assert fills.count(STATES[State.OPEN][0]) == 2
    assert fills.count(BAD) == 40


def test_what_is_shown_of_a_run(run: Run) -> None:
    """Who is dead, the errors, who has served just now, whose breaker is not closed, and four lanes."""
    now = [0.0]
    run.clock = TraceClock(1.0, lambda: now[0])
    now[0] = 12.5
    assert run.at() == run.span == 12.0
    assert run.facts() == [
        ("beta", "alive"), ("serving", "alpha+beta+gamma"), ("errors bound", "40"), ("failover", "0"),
        ("open", "-"),
    ]  # fmt: skip
    assert [(lane.name, len(lane.ends)) for lane in run.lanes()] == [
        ("bound", 120), ("alpha closed   ", 40), ("beta  closed   ", 27), ("gamma closed   ", 57),
    ]  # fmt: skip
    run.revived = None
    del run.moves[KILLED][3:]
    run.calls.clear()
    assert run.facts()[0] == ("beta", "dead")
    assert (run.facts()[1], run.facts()[-1]) == (("serving", "-"), ("open", "beta"))
    assert run.lanes()[2].name == "beta  open     "
    assert Run(Plan()).at() == 0.0


def test_a_terminal_shows_a_lane_for_each_provider(run: Run, terminal: Callable) -> None:
    """And one for the bound client, with the state of the breakers."""
    stream = terminal()
    display = open_display(stream, run.plan)
    display.watch(run)
    display.finish(run)
    display.close()
    display.table(table(figures(run, BOUND), figures(run, WITH_FAILOVER)), HEAD)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    for expected in (
        "one client bound to beta, one with failover",
        "│ bound  ",
        "│ alpha closed    ",
        "│ beta  closed    ",
        "tries of gamma",
    ):
        assert expected in shown
