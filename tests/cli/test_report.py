"""The figures, the table, the picture: from runs made by hand, so every number is known."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from breakerkit import State
from breakerkit.cli import _lanes
from breakerkit.cli._drive import Kind, Move, Outcome, Run
from breakerkit.cli._plan import make_plan
from breakerkit.cli._report import Figures, count, duration, figures, notes, table, verdict
from breakerkit.cli._timeline import draw
from breakerkit.cli._trace import Answer, Call, Recording

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    """Return every text that is written in a picture."""
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def rects(picture: str, fill: str) -> list[ET.Element]:
    """Return the rectangles of a colour that say something when pointed at."""
    found = ET.fromstring(picture).iter(f"{SVG}rect")
    return [
        rect for rect in found if rect.get("fill") == fill and rect.find(f"{SVG}title") is not None
    ]


def test_the_figures_of_a_bare_run(runs: tuple[Run, Run]) -> None:
    """All calls go to the service, all recorded failures are seen, the next good answer is the recovery."""
    assert figures(runs[0]) == Figures(
        calls=120, let_through=120, in_outage=30, failed=30, rejected=0, spared=0, turned_away=0,
        lost=pytest.approx(3.0), waited=pytest.approx(12.0),
        recovery=pytest.approx(0.3), openings=0,
    )  # fmt: skip


def test_the_figures_of_a_guarded_run(runs: tuple[Run, Run]) -> None:
    """Rejected calls are told apart by what the recording says; recovery ends when it is closed again."""
    assert figures(runs[1]) == Figures(
        calls=120, let_through=90, in_outage=5, failed=5, rejected=30, spared=25, turned_away=5,
        lost=pytest.approx(1.0), waited=pytest.approx(9.5),
        recovery=pytest.approx(1.3), openings=1,
    )  # fmt: skip


def test_without_an_outage_there_is_no_recovery(runs: tuple[Run, Run]) -> None:
    """Nor a recovery if no good answer follows; both are written as a dash."""
    bare, guarded = runs
    calm = figures(replace(bare, plan=replace(bare.plan, outages=())))
    assert (calm.in_outage, calm.recovery) == (None, None)
    lost = replace(guarded, moves=[Move(7.0, State.OPEN, "failure rate")])
    assert figures(lost).recovery is None
    assert ("time to recover after the outage", "-", "-") in table(calm, figures(lost))


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(None, "-"), (0.0, "0 ms"), (0.0714, "71 ms"), (1.0, "1.0 s"), (599.94, "599.9 s"),
     (600, "10 min"), (35_999, "600 min"), (36_000, "10 h"), (7_200_000, "2,000 h")],
)  # fmt: skip
def test_durations_have_the_unit_that_suits_them(seconds: float | None, written: str) -> None:
    """Milliseconds, seconds, minutes, hours."""
    assert duration(seconds) == written


def test_counts_have_their_thousands_set_apart() -> None:
    """An unknown count is a dash."""
    assert (count(1234567), count(0), count(None)) == ("1,234,567", "0", "-")


def test_the_table_has_what_was_asked(runs: tuple[Run, Run]) -> None:
    """Calls that reached the failing service, errors seen, time spent waiting, time to recover."""
    rows = {what.strip(): (bare, guarded) for what, bare, guarded in table(*map(figures, runs))}
    assert rows["calls made"] == ("120", "120")
    assert rows["calls that reached it while it failed"] == ("30", "5")
    assert rows["errors seen from the service"] == ("30", "5")
    assert rows["that had been answered"] == ("-", "5")
    assert rows["time callers waited for errors"] == ("3.0 s", "1.0 s")
    assert rows["time to recover after the outage"] == ("300 ms", "1.3 s")


def test_the_verdict_names_the_price(runs: tuple[Run, Run]) -> None:
    """What was spared and what it cost, in one sentence; waiting only if some was saved."""
    bare, guarded = map(figures, runs)
    assert verdict(bare, guarded) == (
        "The breaker kept 25 calls from failing and 2.0 s of waiting for errors from the callers;"
        " it turned 5 calls away that would have been answered."
    )
    assert "waiting" not in verdict(bare, replace(guarded, lost=2.5))
    assert verdict(bare, replace(guarded, openings=0)).startswith(
        "The breaker never opened: 30 errors"
    )


def test_notes_say_what_limits_the_figures(runs: tuple[Run, Run]) -> None:
    """Speed, sample and lateness are mentioned where they matter, and only there."""
    bare, _ = runs
    assert notes(replace(bare.plan, speed=1.0), runs) == []
    assert notes(bare.plan, runs) == [
        "All times are the recording's: 1 ms of this machine counts as 4 ms."
    ]
    sampled = replace(bare.plan, recorded=1_000)
    late = Run(bare.plan, guarded=False, outcomes=[Outcome(0, 4.0, 4.0, Kind.ANSWERED)])
    _, of_sample, of_lateness = notes(sampled, [bare, late])
    assert of_sample.startswith("At this speed 120 of the 1,000 recorded calls were issued")
    assert of_lateness.endswith("calls began up to 1.0 s late.")


def test_the_picture_is_an_svg_with_both_lanes(runs: tuple[Run, Run]) -> None:
    """Title, lanes, axes with units, legend, figures, and a light background over all of it."""
    picture = draw(*runs)
    root = ET.fromstring(picture)
    assert root.get("viewBox") == "0 0 1200 850"
    assert root.find(f"{SVG}title").text.endswith("an-outage.csv")
    background = root.find(f"{SVG}rect")
    assert (background.get("fill"), background.get("width")) == ("#ffffff", "1200")
    written = texts(picture)
    for expected in (
        "The same calls, without and with a circuit breaker", "Without a breaker", "Behind a breaker",
        "calls ended per second", "seconds of the recording", "answered", "failed in the service",
        "rejected by the breaker at once", "outage: most calls fail", "outage, 5.6 s", "closed", "open",
        "300 ms", "1.3 s",
    ):  # fmt: skip
        assert expected in written
    assert written.count("calls ended per second") == 2
    assert len(picture) < 100_000


def test_stacks_are_as_high_as_their_calls(runs: tuple[Run, Run]) -> None:
    """The heights of a colour add up to its share of the calls, in both lanes on one scale."""
    picture = draw(*runs)

    def heights(kind: Kind) -> float:
        return sum(float(rect.get("height")) for rect in rects(picture, _lanes.COLOURS[kind]))

    per_call = heights(Kind.REJECTED) / 30
    # Two decimals of a pixel are written.
    assert heights(Kind.FAILED) / per_call == pytest.approx(30 + 5, abs=0.2)
    assert heights(Kind.ANSWERED) / per_call == pytest.approx(90 + 85, abs=0.5)


def test_the_band_shows_every_state_in_its_time(runs: tuple[Run, Run]) -> None:
    """Open from 7 to 12.5 seconds, half-open for the half second after; nothing begins elsewhere."""
    picture = draw(*runs)
    (opened,) = rects(picture, _lanes.STATES[State.OPEN][0])
    (probing,) = rects(picture, _lanes.STATES[State.HALF_OPEN][0])
    assert opened.find(f"{SVG}title").text == "open from 7.0 to 12.5 s: failure rate"
    assert probing.find(f"{SVG}title").text == "half-open from 12.5 to 13.0 s"
    scale = (_lanes.RIGHT - _lanes.LEFT) / runs[0].plan.span
    assert float(opened.get("x")) == pytest.approx(_lanes.LEFT + 7 * scale, abs=0.1)
    assert float(probing.get("width")) == pytest.approx(0.5 * scale, abs=0.1)
    assert len(rects(picture, _lanes.STATES[State.CLOSED][0])) == 2


def test_many_short_openings_have_one_caption(runs: tuple[Run, Run]) -> None:
    """Where no single one has room for its name, they are named together, probes on top."""
    bare, guarded = runs
    moves = []
    for number in range(12):
        moves.append(Move(7.0 + number / 2, State.OPEN, "probe failure"))
        moves.append(Move(7.45 + number / 2, State.HALF_OPEN, ""))
    picture = draw(bare, replace(guarded, moves=[*moves, Move(13.0, State.CLOSED, "")]))
    assert "open, probing" in texts(picture)
    assert "half-open" not in texts(picture)
    assert len(rects(picture, _lanes.STATES[State.HALF_OPEN][0])) == 12


def test_a_breaker_may_end_half_open(runs: tuple[Run, Run]) -> None:
    """The last period lasts to the end of the recording."""
    bare, guarded = runs
    moves = [Move(7.0, State.OPEN, "failure rate"), Move(12.0, State.HALF_OPEN, "")]
    picture = draw(bare, replace(guarded, moves=moves))
    assert {"open", "half-open"} <= set(texts(picture))
    (probing,) = rects(picture, _lanes.STATES[State.HALF_OPEN][0])
    assert probing.find(f"{SVG}title").text == "half-open from 12.0 to 23.9 s"


def test_a_short_outage_is_shaded_without_a_caption() -> None:
    """Where the words have no room the shade remains."""
    calls = [
        Call(n / 10, 0.1, Answer.RESET if 1000 <= n < 1150 else Answer.RIGHT, 200)
        for n in range(4000)
    ]
    plan = make_plan(Recording("x", tuple(calls)))
    runs = Run(plan, guarded=False), Run(plan, guarded=True)
    runs[0].outcomes.append(Outcome(0, 0.0, 0.1, Kind.ANSWERED))
    picture = draw(*runs)
    assert len(plan.outages) == len(rects(picture, _lanes.OUTAGE)) == 1
    assert not any(text.startswith("outage, ") for text in texts(picture))


@pytest.mark.parametrize(
    ("span", "unit", "last"),
    [
        (0.001, "seconds", "0"),
        (50, "seconds", "50"),
        (1463, "minutes", "20"),
        (86_400 * 14, "minutes", "20160"),
    ],
)
def test_the_time_axis_has_round_ticks(span: float, unit: str, last: str) -> None:
    """A dozen at most, in seconds or minutes, from the shortest recording to the longest."""
    plan = replace(make_plan(Recording("x", (Call(0.0, span, Answer.RIGHT, 200),)), speed=100_000))
    runs = Run(plan, guarded=False), Run(plan, guarded=True)
    written = texts(draw(*runs))
    assert f"{unit} of the recording" in written
    ticks = written[written.index("breaker") + 2 : written.index(f"{unit} of the recording")]
    assert len(ticks) <= 14
    assert float(ticks[0]) == 0.0
    assert float(ticks[-1]) == pytest.approx(float(last))


def test_names_are_escaped_and_shortened(runs: tuple[Run, Run]) -> None:
    """Whatever a file is called, the picture is well-formed."""
    bare, guarded = runs
    plan = replace(bare.plan, name='<&"\x00\udce4>' + "x" * 60 + "end.jtl", recorded=1_000)
    picture = draw(replace(bare, plan=plan), replace(guarded, plan=plan))
    (subtitle,) = [text for text in texts(picture) if "1,000 calls recorded" in text]
    assert subtitle.startswith('<&"\ufffd\ufffd>xxx')
    assert "...xxx" in subtitle
    assert "120 of them in each run" in subtitle
    picture.encode()


def test_a_sample_is_mentioned_and_a_whole_recording_too(runs: tuple[Run, Run]) -> None:
    """The line under the title says whether every call was played."""
    assert any("all of them in each run" in text for text in texts(draw(*runs)))


def test_worse_figures_have_another_colour(runs: tuple[Run, Run]) -> None:
    """A breaker's price is shown as one: recovery takes longer than without it."""
    from breakerkit.cli import _timeline

    inks = {
        element.text: element.get("fill")
        for element in ET.fromstring(draw(*runs)).iter(f"{SVG}text")
    }
    assert inks["1.3 s"] == _timeline.WORSE
    assert inks["1.0 s"] == _timeline.BETTER
