"""The picture of the play: what callers got without the cache and with it, and how often the service was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.cli._axes import (
    BAD,
    GOOD,
    OUTAGE,
    SOFT,
    STAND_IN,
    TURNED_AWAY,
    Axes,
    draw_shade,
    draw_stacks,
    draw_time,
    slice_width,
    slices,
)
from breakerkit.cli._frame import Card, draw_cards, draw_legend, draw_lines, open_canvas
from breakerkit.cli._timeline import shortened
from breakerkit.cli._words import duration
from breakerkit.cli.staleness._plan import describe
from breakerkit.cli.staleness._reader import WITH, WITHOUT
from breakerkit.cli.staleness._report import figures, verdict
from breakerkit.cli.staleness._run import WAYS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit.cli._axes import Stacks
    from breakerkit.cli.staleness._plan import Plan
    from breakerkit.cli.staleness._report import Figures
    from breakerkit.cli.staleness._run import Run

__all__ = ["draw"]

_HEIGHT = 948
_TOP, _LANE, _PITCH = 276, 132, 186
_FOOT = _TOP + 2 * _PITCH + _LANE

_TITLE = "A price service dies, and then the store of its cache"
_COLOURS: dict[str, str] = {
    Kind.CACHED: "#b7dfd2",
    Kind.FRESH: GOOD,
    Kind.STALE: TURNED_AWAY,
    Kind.DISASTER: "#b9a2d8",
    Kind.FAILED: BAD,
}
_BY_CACHE = "asked by the cache"
_ASKED = {_BY_CACHE: STAND_IN}
_LEGEND = (
    (GOOD, "fresh"),
    (_COLOURS[Kind.CACHED], "cached"),
    (TURNED_AWAY, "stale"),
    (_COLOURS[Kind.DISASTER], "disaster answer"),
    (BAD, "an error for the caller"),
    (STAND_IN, _BY_CACHE),
    (OUTAGE, "something is down"),
)


def draw(run: Run) -> str:
    """Return the picture of a play, as SVG."""
    without, through = figures(run, WITHOUT), figures(run, WITH)
    said = verdict(run, without, through)
    canvas = open_canvas(
        _HEIGHT, _TITLE, run.plan.recorded.name, _subtitle(run.plan), " ".join(said)
    )
    draw_cards(canvas, _cards(without, through))
    draw_legend(canvas, _LEGEND)
    width = slice_width(run.span)
    lanes = [*(_got(run, way, width) for way in WAYS), _asked(run, width)]
    axes = Axes.over(run.span, width, lanes, _LANE)
    for began, ended, label in _troubles(run):
        draw_shade(canvas, axes, (began, ended), (_TOP, _FOOT), label, label)
    for place, (title, colours) in enumerate(_TITLES):
        draw_stacks(canvas, axes, lanes[place], _TOP + place * _PITCH, title, colours, parts=2)
    for moment in (run.frozen, run.killed):
        if moment is not None:
            x = axes.x(moment)
            canvas.line(x, _TOP, x, _FOOT, SOFT, stroke_dasharray="3 3")
    draw_time(canvas, axes, _FOOT + 2, "the play")
    draw_lines(canvas, _HEIGHT, said, describe(run.plan))
    return canvas.render()


_TITLES = (
    ("Without the cache", _COLOURS),
    ("With the cache", _COLOURS),
    ("Calls of the price service, with the cache", _ASKED),
)


def _subtitle(plan: Plan) -> str:
    return (
        f"{plan.readers} processes that share a Valkey, {plan.rate:g} calls per second without the"
        f" cache and with it; the service fares as that of {shortened(plan.recorded.name)} did"
    )


def _cards(without: Figures, through: Figures) -> list[Card]:
    return [
        Card.of_counts("errors seen by callers", without.errors, through.errors),
        Card.of_counts(
            "calls of the price service, Valkey well", without.asked_before, through.asked_before
        ),
        Card.of_counts("calls of it while it was down", without.asked_down, through.asked_down),
    ]


def _troubles(run: Run) -> Iterator[tuple[float, float, str]]:
    """Go through the times in which something was down: from, to, and what."""
    for began, ended in run.plan.down:
        yield began, ended, f"service down, {duration(ended - began)}"
    if run.frozen is not None:
        killed = run.span if run.killed is None else run.killed
        yield run.frozen, killed, "Valkey frozen"
        if run.killed is not None:
            yield killed, run.span, "Valkey dead"


def _got(run: Run, way: str, width: float) -> Stacks:
    return slices(((one.ended, str(one.kind)) for one in run.of(way)), run.span, width)


def _asked(run: Run, width: float) -> Stacks:
    return slices(((moment, _BY_CACHE) for moment in run.asked(WITH)), run.span, width)
