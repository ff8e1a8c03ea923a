"""The lanes of the picture: calls per second over time, stacked by what became of them, and the breaker's state."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from breakerkit import State
from breakerkit.cli._drive import Kind, Move
from breakerkit.cli._report import count, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Outage
    from breakerkit.cli._svg import Canvas

__all__ = [
    "Axes",
    "Slices",
    "axes_for",
    "draw_lane",
    "draw_outages",
    "draw_states",
    "draw_time",
    "slices",
]

LEFT, RIGHT = 84, 1168
LANE_HEIGHT = 172
BAND_HEIGHT = 24

INK, SOFT, GRID = "#16202e", "#5b6776", "#e3e8ee"
COLOURS = {Kind.ANSWERED: "#74c0a9", Kind.REJECTED: "#f0b23e", Kind.FAILED: "#c2353f"}
OUTAGE = "#fbe3e3"

STATES = {
    State.CLOSED: ("#d3ebe2", "#1d6b57"),
    State.OPEN: ("#8d2730", "#ffffff"),
    State.HALF_OPEN: ("#5f7fd6", "#ffffff"),
}
_SLICES = (
    0.1,
    0.2,
    0.25,
    0.5,
    1,
    1.5,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    12,
    15,
    20,
    30,
    60,
    120,
    300,
    600,
    1800,
    7200,
)
_TICKS = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    20,
    30,
    60,
    120,
    300,
    600,
    1800,
    3600,
    7200,
    21_600,
    86_400,
)
_MOST_SLICES = 145
_MOST_TICKS = 12
_CHARACTER = 7.0  # pixels, about, of a letter at the size the band is lettered in
_ROOM_FOR_OPEN = 38.0
_ROOM_FOR_OUTAGE = 110.0
_BROAD = 4.0  # pixels from which on bars stand apart
_BROKEN_UP = "open, probing"
_MINUTE = 60

Slices = list[dict[Kind, int]]


class Axes(NamedTuple):
    """How seconds and calls per second become pixels."""

    span: float
    width: float  # of a slice, in seconds
    top: float  # the highest rate shown, in calls per second

    def x(self, seconds: float) -> float:
        """Return where a moment lies."""
        return LEFT + min(1.0, max(0.0, seconds / self.span)) * (RIGHT - LEFT)

    def height(self, calls: int) -> float:
        """Return how high a slice with so many calls is."""
        return calls / self.width / self.top * LANE_HEIGHT


def slices(run: Run, width: float) -> Slices:
    """Count what became of the calls that ended in each slice of so many seconds."""
    found: Slices = [dict.fromkeys(COLOURS, 0) for _ in range(int(run.plan.span / width) + 1)]
    for one in run.outcomes:
        found[min(len(found) - 1, int(one.ended / width))][one.kind] += 1
    return found


def axes_for(*runs: Run) -> Axes:
    """Return axes on which all the runs have room, so that they can be compared."""
    span = runs[0].plan.span
    width = next((step for step in _SLICES if span / step <= _MOST_SLICES), span / _MOST_SLICES)
    most = max(sum(kinds.values()) for run in runs for kinds in slices(run, width))
    return Axes(span, width, _round_up(max(1, most) / width))


def _round_up(rate: float) -> float:
    unit = 10.0 ** len(str(int(rate))) / 10
    return next(unit * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * step >= rate)


def draw_outages(
    canvas: Canvas, axes: Axes, outages: tuple[Outage, ...], top: float, foot: float
) -> None:
    """Shade the times in which most calls failed, through all lanes, and say how long they were."""
    for outage in outages:
        left, right = axes.x(outage.began), axes.x(outage.ended)
        width = max(2.0, right - left)
        tip = f"most calls failed from {outage.began:.1f} to {outage.ended:.1f} s"
        canvas.rect(left, top, width, foot - top, OUTAGE, tip=tip)
        if width > _ROOM_FOR_OUTAGE:
            label = f"outage, {duration(outage.ended - outage.began)}"
            canvas.text(
                (left + right) / 2,
                top - 7,
                label,
                13,
                COLOURS[Kind.FAILED],
                anchor="middle",
                font_weight=600,
            )


def draw_lane(canvas: Canvas, axes: Axes, run: Run, top: float, title: str) -> None:
    """Draw one run: a grid, then a stack per slice, errors at the foot where they are easy to compare."""
    foot = top + LANE_HEIGHT
    canvas.text(LEFT, top - 26, title, 16, INK, font_weight=700)
    for part in range(5):
        y = foot - LANE_HEIGHT * part / 4
        canvas.line(LEFT, y, RIGHT, y, GRID if part else SOFT)
        if part % 2 == 0:
            canvas.text(LEFT - 10, y + 4, f"{axes.top * part / 4:g}", 12, SOFT, anchor="end")
    middle = top + LANE_HEIGHT / 2
    canvas.text(
        30,
        middle,
        "calls ended per second",
        12,
        SOFT,
        anchor="middle",
        transform=f"rotate(-90 30 {middle:g})",
    )
    for place, kinds in enumerate(slices(run, axes.width)):
        _draw_stack(canvas, axes, place * axes.width, kinds, foot)


def _draw_stack(
    canvas: Canvas, axes: Axes, start: float, kinds: dict[Kind, int], foot: float
) -> None:
    left, right = axes.x(start), axes.x(start + axes.width)
    what = ", ".join(f"{count(number)} {kind}" for kind, number in kinds.items() if number)
    y = foot
    for kind in (Kind.FAILED, Kind.REJECTED, Kind.ANSWERED):
        height = axes.height(kinds[kind])
        if height:
            y -= height
            gap = 1 if right - left > _BROAD else 0
            tip = f"{start:g} to {start + axes.width:g} s: {what}"
            canvas.rect(left, y, max(0.5, right - left - gap), height, COLOURS[kind], tip=tip)


def draw_states(canvas: Canvas, axes: Axes, run: Run, top: float) -> None:
    """Draw the band of the breaker's states, named where there is room."""
    canvas.text(LEFT - 10, top + 16, "breaker", 12, SOFT, anchor="end")
    # Half-open last: its periods are short, and an open one must not hide them.
    for move, end in sorted(_periods(run), key=lambda period: period[0].state is State.HALF_OPEN):
        fill, _ = STATES[move.state]
        left, width = axes.x(move.at), max(2.0, axes.x(end) - axes.x(move.at))
        tip = f"{move.state} from {move.at:.1f} to {end:.1f} s"
        tip += f": {move.reason}" if move.reason else ""
        canvas.rect(left, top, width, BAND_HEIGHT, fill, tip=tip)
    for text, start, end in _captions(run, axes):
        _, ink = STATES[State.CLOSED if text == State.CLOSED else State.OPEN]
        if axes.x(end) - axes.x(start) > len(text) * _CHARACTER + 8:
            x = (axes.x(start) + axes.x(end)) / 2
            canvas.text(x, top + 16, text, 12, ink, anchor="middle", font_weight=600)


def _periods(run: Run) -> Iterator[tuple[Move, float]]:
    moves = [Move(0.0, State.CLOSED, ""), *run.moves]
    ends = [*(move.at for move in run.moves), run.plan.span]
    yield from zip(moves, ends, strict=True)


def _captions(run: Run, axes: Axes) -> Iterator[tuple[str, float, float]]:
    """Name each stretch: one by one, or the pieces of an outage together if they are too short."""
    for closed, group in groupby(_periods(run), key=lambda period: period[0].state is State.CLOSED):
        periods = list(group)
        first, last = periods[0][0].at, periods[-1][1]
        wide = [end - move.at for move, end in periods if move.state is not State.HALF_OPEN]
        if closed or min(wide, default=0.0) / axes.span * (RIGHT - LEFT) < _ROOM_FOR_OPEN:
            yield (State.CLOSED if closed else _BROKEN_UP), first, last
        else:
            yield from ((move.state.value, move.at, end) for move, end in periods)


def draw_time(canvas: Canvas, axes: Axes, y: float) -> None:
    """Draw the time axis: ticks at round moments, and the unit."""
    step = next((s for s in _TICKS if axes.span / s <= _MOST_TICKS), axes.span / _MOST_TICKS)
    minutes = step >= _MINUTE
    for number in range(int(axes.span / step) + 1):
        x = axes.x(number * step)
        canvas.line(x, y, x, y + 5, SOFT)
        label = f"{number * step / _MINUTE:g}" if minutes else f"{number * step:g}"
        canvas.text(x, y + 20, label, 12, SOFT, anchor="middle")
    unit = "minutes" if minutes else "seconds"
    title = f"{unit} of the recording"
    canvas.text((LEFT + RIGHT) / 2, y + 40, title, 13, SOFT, anchor="middle")
