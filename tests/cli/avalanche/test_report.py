"""Figures, table, sentences and picture of the avalanche, from rounds made by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli._axes import BAD, OUTAGE, STAND_IN, TURNED_AWAY
from breakerkit.cli._display import open_display
from breakerkit.cli._frame import WORSE
from breakerkit.cli.avalanche import _report as report
from breakerkit.cli.avalanche._picture import draw
from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG
from breakerkit.cli.avalanche._report import notes, ratio, results, table, verdict
from breakerkit.cli.avalanche._rounds import Kind, Outcome, Round

if TYPE_CHECKING:
    from collections.abc import Callable

SVG = "{http://www.w3.org/2000/svg}"


def test_each_phase_has_its_own_calls(rounds: tuple[Round, Round]) -> None:
    """Alone is what came before the outage, in both rounds; the rule divides the second outage."""
    found = results(*rounds)
    asked = {phase: found["prices", phase].asked for phase in report.PHASES}
    assert asked == {"alone": 36, "avalanche": 60, "isolated": 35, "degraded": 32}
    assert found[HUNG, "avalanche"].kinds[Kind.TIMED_OUT] == 20
    assert found[HUNG, "avalanche"].kinds[Kind.REFUSED] == 40
    assert found[HUNG, "degraded"].kinds[Kind.STAND_IN] == 25
    assert found[HUNG, "degraded"].answered == 32


def test_a_percentile_is_of_all_calls(rounds: tuple[Round, Round]) -> None:
    """A call without an answer took for ever: a fast refusal makes no endpoint look fast."""
    found = results(*rounds)
    assert found["stock", "alone"].p99 == pytest.approx(0.1)
    assert found["stock", "avalanche"][1:] == (None, None)
    assert found["stock", "isolated"].p50 == pytest.approx(0.12)
    assert found[HUNG, "degraded"].p50 == pytest.approx(0.01)
    hundred = [n / 100 for n in range(1, 101)]
    assert report._percentile(hundred, 99) == 0.99
    assert report._percentile([1.0, float("inf")], 50) == 1.0
    assert report._percentile([], 50) is None


def test_the_ratio_that_was_promised(rounds: tuple[Round, Round]) -> None:
    """It is the p99 in isolation, in terms of that alone; unknown where calls were not answered."""
    shared, isolated = rounds
    assert ratio(results(*rounds), "prices") == pytest.approx(1.2)
    isolated.outcomes.append(Outcome("prices", 3.0, 4.0, Kind.TIMED_OUT))
    assert ratio(results(shared, isolated), "prices") is None
    assert "prices -, stock 1.20" in verdict(results(shared, isolated), isolated)[1]


def test_the_table_has_a_row_for_each_endpoint_in_each_phase(rounds: tuple[Round, Round]) -> None:
    """Asked, what came of it, and the latencies."""
    rows = {row[0]: row[1:] for row in table(results(*rounds))}
    assert list(rows) == [f"{name}, {phase}" for name in ENDPOINTS for phase in report.PHASES]
    assert all(len(row) == len(report.HEAD) - 1 for row in rows.values())
    assert rows["reviews, avalanche"] == ("60", "0", "40", "20", "-", "-")
    assert rows["prices, isolated"] == ("35", "35", "0", "0", "120 ms", "120 ms")
    assert rows["reviews, degraded"] == ("32", "32", "0", "0", "10 ms", "100 ms")


def test_the_verdict_in_words(rounds: tuple[Round, Round]) -> None:
    """What isolation did, the ratios, and how soon the rule helped."""
    answers, latency, rule = verdict(results(*rounds), rounds[1])
    assert answers == (
        "While the dependency of reviews hung, 0 of 120 calls of prices and stock were answered"
        " with one pool for all, 70 of 70 with a bulkhead per dependency."
    )
    assert latency == (
        "p99 with reviews hung and isolated, as a multiple of its value alone: prices 1.20, stock"
        " 1.20 (wanted: at most 1.5)."
    )
    assert rule == (
        "500 ms after the operator wrote the rule, callers of reviews got answers again: 32 of 32,"
        " half of them within 10 ms."
    )
    _, times = notes(rounds[0].plan, results(*rounds))
    assert times.startswith(
        "The outage of an-outage.csv took 60.0 s when it was recorded, and 6.0 s here"
    )


def test_calls_that_failed_otherwise_are_mentioned(rounds: tuple[Round, Round]) -> None:
    """They have no column: there should be none."""
    rounds[0].outcomes.append(Outcome("stock", 3.0, 3.1, Kind.FAILED))
    first, *_ = notes(rounds[0].plan, results(*rounds))
    assert first == "1 calls failed in another way."


def test_a_rule_may_fail_to_come_into_force(rounds: tuple[Round, Round]) -> None:
    """Then the whole second outage is isolated, nothing is degraded, and the verdict says so."""
    shared, isolated = rounds
    isolated.outcomes = [one for one in isolated.outcomes if one.kind is not Kind.STAND_IN]
    isolated.cleared = None
    found = results(shared, isolated)
    assert found["stock", "isolated"].asked == 60
    assert found[HUNG, "degraded"] == (dict.fromkeys(Kind, 0), None, None)
    assert verdict(found, isolated)[2] == "The rule for reviews never came into force."
    ET.fromstring(draw(shared, isolated))


def written(picture: str) -> list[str]:
    """Return every text that is written in a picture."""
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_the_picture_shows_three_endpoints_in_two_rounds(rounds: tuple[Round, Round]) -> None:
    """Titles, phases, legend and figures, with both hangs shaded."""
    picture = draw(*rounds)
    texts = written(picture)
    for expected in (
        "One dependency hangs, without and with isolation", "reviews", "prices",
        "stock", "One pool of workers for all", "A bulkhead each", "avalanche", "isolated", "degraded",
        "answered by the rule", "refused at once", "timed out", "100 ms", "120 ms", "120", "0", "10 ms",
        "seconds of the play, one round after the other",
    ):  # fmt: skip
        assert expected in texts
    assert texts.count("alone") == 2
    rects = ET.fromstring(picture).iter(f"{SVG}rect")
    fills = [rect.get("fill") for rect in rects if rect.find(f"{SVG}title") is not None]
    assert fills.count(OUTAGE) == 2
    assert {BAD, TURNED_AWAY, STAND_IN} <= set(fills)


def test_a_p99_that_grew_too_much_is_shown_as_worse(rounds: tuple[Round, Round]) -> None:
    """More than half as much again, or unanswered calls."""
    shared, isolated = rounds
    isolated.outcomes += [Outcome("stock", 3.0, 3.9, Kind.ANSWERED)] * 2
    inks = {
        element.text: element.get("fill")
        for element in ET.fromstring(draw(shared, isolated)).iter(f"{SVG}text")
    }
    assert inks["900 ms"] == WORSE
    assert inks["120 ms"] != WORSE


def test_short_phases_have_no_name(rounds: tuple[Round, Round]) -> None:
    """Where the words have no room the line remains."""
    plan = replace(rounds[0].plan, hung_at=0.05, hangs=((0.05, 8.0),))
    for played in rounds:
        played.plan = plan
    assert "alone" not in written(draw(*rounds))


def test_a_terminal_shows_a_lane_for_each_endpoint(
    rounds: tuple[Round, Round], terminal: Callable
) -> None:
    """In both panels, before a round has begun, while it goes on, and at its end."""
    stream = terminal()
    display = open_display(stream, rounds[0].plan)
    for played in rounds:
        played.start()
        display.watch(played)
        display.finish(played)
    display.close()
    display.table(table(results(*rounds)), report.HEAD)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    for expected in (
        "one pool of workers for all",
        "a bulkhead per dependency",
        "│ reviews ",
        "│ stock  ",
    ):
        assert expected in shown
    assert "\x1b[36m" in stream.getvalue(), "stand-ins are cyan"
    assert re.search(r"^ reviews, avalanche +60 +0 +40 +20 +- +- *$", shown, re.MULTILINE)
    lines = [line for line in shown.splitlines() if line.startswith("│")]
    assert {len(line) for line in lines if "of 10 s" in line} == {77}
