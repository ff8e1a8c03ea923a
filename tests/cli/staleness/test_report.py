"""Figures, table, sentences and picture of the stale demo, from a run made by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli._axes import BAD, OUTAGE
from breakerkit.cli._crew import TraceClock
from breakerkit.cli._display import open_display
from breakerkit.cli.staleness._picture import draw
from breakerkit.cli.staleness._plan import Plan, describe, make_plan
from breakerkit.cli.staleness._reader import WITH, WITHOUT
from breakerkit.cli.staleness._report import HEAD, figures, notes, table, verdict
from breakerkit.cli.staleness._run import Kind, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.cli._trace import Recording

SVG = "{http://www.w3.org/2000/svg}"


def test_the_figures_of_both_ways(run: Run) -> None:
    """What callers got, how often the service was asked and when, the longest waits."""
    without, through = figures(run, WITHOUT), figures(run, WITH)
    assert (without.calls, without.errors, without.asked, without.asked_down) == (130, 30, 130, 30)
    assert (without.asked_before, without.storeless, without.lost) == (110, 20, 0)
    assert dict(through.kinds) == {
        Kind.FRESH: 28, Kind.CACHED: 72, Kind.STALE: 21, Kind.DISASTER: 9, Kind.FAILED: 0,
    }  # fmt: skip
    assert (through.asked, through.asked_before, through.asked_down) == (31, 11, 3)
    assert through.oldest == pytest.approx(2.0)
    waits = (through.wait_well, through.wait_down, through.wait_frozen, through.wait_dead)
    assert waits == (0.02, 0.1, 0.12, 0.02)
    assert through.wait_storeless == 0.12


def test_a_play_that_has_not_begun_has_no_figures(recording: Recording) -> None:
    """Nothing happened to the store, nobody called, and there is a picture all the same."""
    run = Run(make_plan(recording))
    through = figures(run, WITH)
    assert (through.calls, through.storeless, through.wait_storeless) == (0, 0, None)
    assert "of 0 calls failed; the longest took -" in verdict(run, through, through)[2]
    assert "Valkey frozen" not in texts(draw(run))
    run.frozen = 13.0
    assert "Valkey frozen" in texts(draw(run))
    assert "Valkey dead" not in texts(draw(run))


def test_the_table_has_what_was_asked(run: Run) -> None:
    """What callers saw, and the calls that reached the service, with the cache and without."""
    rows = {row[0]: row[1:] for row in table(figures(run, WITHOUT), figures(run, WITH))}
    assert rows["errors seen by callers"] == ("30", "0")
    assert rows["fresh prices"] == ("100", "28")
    assert rows["cached prices"] == ("-", "72")
    assert rows["stale prices"] == ("-", "21")
    assert rows["disaster answers"] == ("-", "9")
    assert rows["oldest price served"] == ("-", "2.0 s")
    assert rows["calls of the price service"] == ("130", "31")
    assert rows["of them before the Valkey froze"] == ("110", "11")
    assert rows["of them while it was down"] == ("30", "3")
    assert rows["longest wait, Valkey frozen"] == ("20 ms", "120 ms")


def test_the_verdict_in_words(run: Run) -> None:
    """The service's death, what was asked of it, and the store's death."""
    outage, asked, store = verdict(run, figures(run, WITHOUT), figures(run, WITH))
    assert outage == (
        "The price service was down for 3.0 s: of 130 calls without the cache 30 failed, of 130 with"
        " it 0; 21 got a stale price and 9 the disaster answer."
    )
    assert asked == (
        "Until the Valkey was frozen the price service was asked 110 times without the cache and 11"
        " times with it; while it was down, 30 and 3 times."
    )
    assert store == (
        "With the Valkey frozen, then dead, 0 of 20 calls failed; the longest took 120 ms, of which"
        " the store may have 100 ms."
    )
    assert notes(run.plan) == [
        "The recording was played at 2 times its speed; times of the cache are real time."
    ]
    assert describe(run.plan).startswith("The service is left alone for 1 s after each attempt")


def test_a_recording_without_an_outage_is_said_to_have_none(recording: Recording) -> None:
    """The verdict does not speak of a death that nobody saw; at its own speed there is no note."""
    calls = tuple(call for call in recording.calls if not call.failed)
    run = Run(make_plan(type(recording)("well.csv", calls), 1.0))
    said = verdict(run, figures(run, WITHOUT), figures(run, WITH))
    assert said[0].startswith("The price service was never down for long: of 0 calls")
    assert notes(run.plan) == []


def texts(picture: str) -> list[str]:
    """Return every text that is written in a picture."""
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_the_picture_shows_both_deaths(run: Run) -> None:
    """Both ways to ask, what was asked of the service, and when something was down."""
    picture = draw(run)
    written = texts(picture)
    for expected in (
        "A price service dies, and then the store of its cache", "Without the cache", "With the cache",
        "Calls of the price service, with the cache", "service down, 3.0 s", "stale",
        "disaster answer", "an error for the caller", "seconds of the play", "30", "0",
    ):  # fmt: skip
        assert expected in written
    rects = list(ET.fromstring(picture).iter(f"{SVG}rect"))
    fills = [rect.get("fill") for rect in rects if rect.find(f"{SVG}title") is not None]
    assert fills.count(OUTAGE) == 3
    assert fills.count(BAD) == 30


def test_what_is_shown_of_a_run(run: Run) -> None:
    """Who is well, the errors, how old prices are that are served, and two lanes."""
    now = [0.0]
    run.clock = TraceClock(1.0, lambda: now[0])
    now[0] = 5.0
    run.frozen = run.killed = None
    assert run.facts() == [
        ("service", "down"), ("Valkey", "well"), ("errors without", "30"), ("with", "0"),
        ("served up to", "2.0 s old"),
    ]  # fmt: skip
    run.frozen = 11.0
    assert run.facts()[1] == ("Valkey", "frozen")
    now[0], run.killed = 20.0, 12.0
    assert run.at() == run.span == pytest.approx(13.0, abs=0.05)
    assert run.facts()[:2] == [("service", "well"), ("Valkey", "dead")]
    assert [(lane.name, len(lane.ends)) for lane in run.lanes()] == [(WITHOUT, 130), (WITH, 130)]
    assert Run(run.plan).at() == 0.0


def test_a_terminal_shows_both_ways(run: Run, terminal: Callable) -> None:
    """A lane each, and the state of service and store."""
    stream = terminal()
    display = open_display(stream, run.plan)
    display.watch(run)
    display.finish(run)
    display.close()
    display.table(table(figures(run, WITHOUT), figures(run, WITH)), HEAD)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    for expected in ("through the cache", "│ without ", "│ with    ", "disaster answers"):
        assert expected in shown


def test_a_late_product_is_asked_for_in_mid_outage(run: Run) -> None:
    """Then nothing can be stored for it, and the disaster strategy has something to say."""
    plan: Plan = run.plan
    assert plan.late_at == pytest.approx(4.5, abs=0.1)
    assert {plan.product(number, 0.0) for number in range(18)} == {"tea", "coffee"}
    assert {plan.product(number, 5.0) for number in range(18)} == {"tea", "coffee", "cocoa"}
    for reader in range(plan.readers):
        asked = {plan.product(number, 5.0) for number in range(reader, 27, plan.readers)}
        assert len(asked) == 3
