"""The picture of both rounds, side by side: a lane per endpoint, with the phases marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._axes import (
    BAD,
    GOOD,
    INK,
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
from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG, OTHERS
from breakerkit.cli.avalanche._report import (
    ALONE,
    AVALANCHE,
    DEGRADED,
    ISOLATED,
    WANTED,
    ratio,
    results,
    verdict,
)
from breakerkit.cli.avalanche._rounds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit.cli._svg import Canvas
    from breakerkit.cli.avalanche._plan import Plan
    from breakerkit.cli.avalanche._report import Results
    from breakerkit.cli.avalanche._rounds import Round

__all__ = ["draw"]

_HEIGHT = 884
_ROUNDS_Y, _PHASES_Y = 242, 264
_LANES_TOP, _LANE, _PITCH = 312, 106, 150
_FOOT = _LANES_TOP + 2 * _PITCH + _LANE
_BETWEEN = 0.06  # of a round: the gap between the two
_ROOM = 7.0  # pixels, about, of a letter of a phase's name

_TITLE = "One dependency hangs, without and with isolation"
_COLOURS: dict[str, str] = {
    Kind.STAND_IN: STAND_IN,
    Kind.ANSWERED: GOOD,
    Kind.REFUSED: TURNED_AWAY,
    Kind.FAILED: "#7b4b94",
    Kind.TIMED_OUT: BAD,
}
_LEGEND = (
    (GOOD, "answered"),
    (STAND_IN, "answered by the rule"),
    (TURNED_AWAY, "refused at once"),
    (BAD, "timed out"),
    (_COLOURS[Kind.FAILED], "failed"),
    (OUTAGE, f"the dependency of {HUNG} hangs"),
)


class _Mark(NamedTuple):
    """A phase on the time axis of the picture."""

    name: str
    start: float
    end: float


def draw(shared: Round, isolated: Round) -> str:
    """Return the picture of both rounds, as SVG."""
    plan, found = shared.plan, results(shared, isolated)
    said = verdict(found, isolated)
    canvas = open_canvas(_HEIGHT, _TITLE, plan.name, _subtitle(plan), " ".join(said))
    draw_cards(canvas, _cards(found))
    draw_legend(canvas, _LEGEND)
    later = plan.span * (1 + _BETWEEN)
    axes = _axes(shared, isolated, later)
    for zero in (0.0, later):
        for start, end in plan.hangs:
            stretch = (zero + start, zero + min(end, plan.span))
            tip = f"the dependency of {HUNG} hangs"
            draw_shade(canvas, axes, stretch, (_LANES_TOP, _FOOT), "", tip)
    _draw_phases(canvas, axes, shared, isolated, later)
    for place, stacks in enumerate(_stacks(shared, isolated, later, axes.width)):
        top = _LANES_TOP + place * _PITCH
        draw_stacks(canvas, axes, stacks, top, ENDPOINTS[place], _COLOURS, parts=2)
    draw_time(canvas, axes, _FOOT + 6, "the play, one round after the other")
    draw_lines(canvas, _HEIGHT, said, _settings(plan))
    return canvas.render()


def _subtitle(plan: Plan) -> str:
    return (
        f"A service with {plan.workers} workers and three endpoints, {plan.rate:g} calls per second"
        f" each; the outage of {shortened(plan.name)} ({duration(plan.recorded)}), played in"
        f" {duration(plan.over_at - plan.hung_at)}"
    )


def _settings(plan: Plan) -> str:
    return (
        f"Each bulkhead lets {plan.limit} calls in at the same time; a client gives up after"
        f" {duration(plan.patience)}."
    )


def _cards(found: Results) -> list[Card]:
    def unanswered(phase: str) -> int:
        return sum(found[name, phase].asked - found[name, phase].answered for name in OTHERS)

    def of_p99(name: str) -> Card:
        multiple = ratio(found, name)
        worse = multiple is None or multiple > WANTED
        before, after = (duration(found[name, phase].p99) for phase in (ALONE, ISOLATED))
        return Card(f"{name}: p99 alone, and isolated", before, after, worse)

    before, after = (duration(found[HUNG, phase].p50) for phase in (ISOLATED, DEGRADED))
    return [
        Card.of_counts(
            f"no answer: {' and '.join(OTHERS)}", unanswered(AVALANCHE), unanswered(ISOLATED)
        ),
        *(of_p99(name) for name in OTHERS),
        Card(f"{HUNG}: p50 before the rule, and after", before, after, worse=False),
    ]


def _stacks(
    shared: Round, isolated: Round, later: float, width: float
) -> Iterator[list[dict[str, int]]]:
    for first, second in zip(shared.lanes(), isolated.lanes(), strict=True):
        ends = [*first.ends, *((later + ended, kind) for ended, kind in second.ends)]
        yield slices(ends, later + shared.span, width)


def _axes(shared: Round, isolated: Round, later: float) -> Axes:
    span = later + shared.span
    width = slice_width(span)
    return Axes.over(span, width, _stacks(shared, isolated, later, width), _LANE)


def _phases(shared: Round, isolated: Round, later: float) -> list[_Mark]:
    plan = shared.plan
    cleared = plan.over_at if isolated.cleared is None else isolated.cleared
    degraded = cleared if isolated.in_force is None else isolated.in_force
    return [
        _Mark(ALONE, 0.0, plan.hung_at),
        _Mark(AVALANCHE, plan.hung_at, plan.over_at),
        _Mark("after", plan.over_at, plan.span),
        _Mark(ALONE, later, later + plan.hung_at),
        _Mark(ISOLATED, later + plan.hung_at, later + degraded),
        _Mark(DEGRADED, later + degraded, later + cleared),
        _Mark("after", later + cleared, later + plan.span),
    ]


def _draw_phases(canvas: Canvas, axes: Axes, shared: Round, isolated: Round, later: float) -> None:
    for title, start in (("One pool of workers for all", 0.0), ("A bulkhead each", later)):
        canvas.text(axes.x(start), _ROUNDS_Y, title, 15, INK, font_weight=700)
    for mark in _phases(shared, isolated, later):
        left, right = axes.x(mark.start), axes.x(mark.end)
        if mark.start:  # the first one would cross the names of the lanes
            canvas.line(left, _PHASES_Y - 12, left, _FOOT, SOFT, stroke_dasharray="3 3")
        if right - left > len(mark.name) * _ROOM + 8:
            canvas.text(left + 6, _PHASES_Y, mark.name, 12, SOFT, font_weight=600)
