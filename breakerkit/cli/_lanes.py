"""The lanes of the first demo's picture: what became of a run's calls, the outages, and the breaker's state."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from breakerkit import State
from breakerkit.cli._axes import (
    BAD,
    GOOD,
    LEFT,
    OUTAGE,
    RIGHT,
    SOFT,
    TURNED_AWAY,
    Axes,
    draw_shade,
    draw_stacks,
    slice_width,
    slices,
)
from breakerkit.cli._drive import Kind, Move
from breakerkit.cli._words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from breakerkit.cli._axes import Stacks
    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Outage
    from breakerkit.cli._svg import Canvas

__all__ = [
    "BAND_HEIGHT",
    "COLOURS",
    "LEFT",
    "OUTAGE",
    "RIGHT",
    "STATES",
    "axes_for",
    "draw_band",
    "draw_lane",
    "draw_outages",
    "draw_states",
]

BAND_HEIGHT = 24

# From top to foot: errors lie at the foot, where they are easy to compare.
COLOURS: dict[str, str] = {Kind.ANSWERED: GOOD, Kind.REJECTED: TURNED_AWAY, Kind.FAILED: BAD}

STATES = {
    State.CLOSED: ("#d3ebe2", "#1d6b57"),
    State.OPEN: ("#8d2730", "#ffffff"),
    State.HALF_OPEN: ("#5f7fd6", "#ffffff"),
}
_CHARACTER = 7.0  # pixels, about, of a letter at the size the band is lettered in
_ROOM_FOR_OPEN = 38.0
_BROKEN_UP = "open, probing"


def _stacks(run: Run, width: float) -> Stacks:
    return slices(((one.ended, one.kind) for one in run.outcomes), run.plan.span, width)


def axes_for(*runs: Run) -> Axes:
    """Return axes on which all the runs have room, so that they can be compared."""
    width = slice_width(runs[0].plan.span)
    return Axes.over(runs[0].plan.span, width, [_stacks(run, width) for run in runs])


def draw_outages(
    canvas: Canvas, axes: Axes, outages: tuple[Outage, ...], top: float, foot: float
) -> None:
    """Shade the times in which most calls failed, through all lanes, and say how long they were."""
    for outage in outages:
        tip = f"most calls failed from {outage.began:.1f} to {outage.ended:.1f} s"
        label = f"outage, {duration(outage.ended - outage.began)}"
        draw_shade(canvas, axes, outage, (top, foot), label, tip)


def draw_lane(canvas: Canvas, axes: Axes, run: Run, top: float, title: str) -> None:
    """Draw one run."""
    draw_stacks(canvas, axes, _stacks(run, axes.width), top, title, COLOURS)


def draw_states(canvas: Canvas, axes: Axes, run: Run, top: float) -> None:
    """Draw the band of the breaker's states, named where there is room."""
    draw_band(canvas, axes, run.moves, top, "breaker")


def draw_band(canvas: Canvas, axes: Axes, moves: Sequence[Move], top: float, name: str) -> None:
    """Draw a band of a breaker's states: what its moves were, over the time of the axes."""
    canvas.text(LEFT - 10, top + 16, name, 12, SOFT, anchor="end")
    # Half-open last: its periods are short, and an open one must not hide them.
    periods = list(_periods(moves, axes.span))
    for move, end in sorted(periods, key=lambda period: period[0].state is State.HALF_OPEN):
        fill, _ = STATES[move.state]
        left, width = axes.x(move.at), max(2.0, axes.x(end) - axes.x(move.at))
        tip = f"{move.state} from {move.at:.1f} to {end:.1f} s"
        tip += f": {move.reason}" if move.reason else ""
        canvas.rect(left, top, width, BAND_HEIGHT, fill, tip=tip)
    for text, start, end in _captions(periods, axes):
        _, ink = STATES[State.CLOSED if text == State.CLOSED else State.OPEN]
        if axes.x(end) - axes.x(start) > len(text) * _CHARACTER + 8:
            x = (axes.x(start) + axes.x(end)) / 2
            canvas.text(x, top + 16, text, 12, ink, anchor="middle", font_weight=600)


def _periods(moves: Sequence[Move], span: float) -> Iterator[tuple[Move, float]]:
    ends = [*(move.at for move in moves), span]
    yield from zip([Move(0.0, State.CLOSED, ""), *moves], ends, strict=True)


def _captions(
    periods: Sequence[tuple[Move, float]], axes: Axes
) -> Iterator[tuple[str, float, float]]:
    """Name each stretch: one by one, or the pieces of an outage together if they are too short."""
    for closed, group in groupby(periods, key=lambda period: period[0].state is State.CLOSED):
        pieces = list(group)
        first, last = pieces[0][0].at, pieces[-1][1]
        wide = [end - move.at for move, end in pieces if move.state is not State.HALF_OPEN]
        if closed or min(wide, default=0.0) / axes.span * (RIGHT - LEFT) < _ROOM_FOR_OPEN:
            yield (State.CLOSED if closed else _BROKEN_UP), first, last
        else:
            yield from ((move.state.value, move.at, end) for move, end in pieces)
