"""What every picture over time is made of: axes, a lane of stacked bars on a grid, the time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from breakerkit.cli._svg import Canvas

__all__ = ["Axes", "Stacks", "draw_shade", "draw_stacks", "draw_time", "slice_width", "slices"]

LEFT, RIGHT = 84, 1168
LANE_HEIGHT = 172

INK, SOFT, GRID = "#16202e", "#5b6776", "#e3e8ee"
GOOD, STAND_IN, TURNED_AWAY, BAD, OUTAGE = "#74c0a9", "#6ea8dc", "#f0b23e", "#c2353f", "#fbe3e3"

_SLICES = (
    *(0.1, 0.2, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30),
    *(60, 120, 300, 600, 1800, 7200),
)
_TICKS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30),
    *(60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400),
)
_MOST_SLICES = 145
_MOST_TICKS = 12
_ROOM_FOR_LABEL = 110.0
_BROAD = 4.0  # pixels from which on bars stand apart
_MINUTE = 60

#: How many calls of each kind ended in each slice of time.
Stacks = list[dict[str, int]]


class Axes(NamedTuple):
    """How seconds and calls per second become pixels."""

    span: float
    width: float  # of a slice, in seconds
    top: float  # the highest rate shown, in calls per second
    lane: float = LANE_HEIGHT  # how high a lane is, in pixels

    @classmethod
    def over(
        cls, span: float, width: float, lanes: Iterable[Stacks], lane: float = LANE_HEIGHT
    ) -> Axes:
        """Return axes on which all the lanes have room, so that they can be compared."""
        most = max(sum(kinds.values()) for stacks in lanes for kinds in stacks)
        return cls(span, width, _round_up(max(1, most) / width), lane)

    def x(self, seconds: float) -> float:
        """Return where a moment lies."""
        return LEFT + min(1.0, max(0.0, seconds / self.span)) * (RIGHT - LEFT)

    def height(self, calls: int) -> float:
        """Return how high a slice with so many calls is."""
        return calls / self.width / self.top * self.lane


def slice_width(span: float) -> float:
    """Return a round number of seconds that cuts the span into slices that can be told apart."""
    return next((step for step in _SLICES if span / step <= _MOST_SLICES), span / _MOST_SLICES)


def slices(ends: Iterable[tuple[float, str]], span: float, width: float) -> Stacks:
    """Count what became of the calls that ended in each slice of so many seconds."""
    found: Stacks = [{} for _ in range(int(span / width) + 1)]
    for ended, kind in ends:
        kinds = found[min(len(found) - 1, int(ended / width))]
        kinds[kind] = kinds.get(kind, 0) + 1
    return found


def _round_up(rate: float) -> float:
    unit = 10.0 ** len(str(int(rate))) / 10
    return next(unit * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * step >= rate)


def draw_shade(
    canvas: Canvas,
    axes: Axes,
    stretch: tuple[float, float],
    place: tuple[float, float],
    label: str,
    tip: str,
) -> None:
    """Shade a stretch of time from one height to another, named on top where there is room."""
    left, right = map(axes.x, stretch)
    top, foot = place
    width = max(2.0, right - left)
    canvas.rect(left, top, width, foot - top, OUTAGE, tip=tip)
    if width > _ROOM_FOR_LABEL:
        x = (left + right) / 2
        canvas.text(x, top - 7, label, 13, BAD, anchor="middle", font_weight=600)


def draw_stacks(
    canvas: Canvas,
    axes: Axes,
    stacks: Stacks,
    top: float,
    title: str,
    colours: Mapping[str, str],
    parts: int = 4,
) -> None:
    """Draw a lane: a grid, then a stack per slice, the last of the colours at the foot."""
    foot = top + axes.lane
    canvas.text(LEFT, top - 26, title, 16, INK, font_weight=700)
    for part in range(parts + 1):
        y = foot - axes.lane * part / parts
        canvas.line(LEFT, y, RIGHT, y, GRID if part else SOFT)
        if part % 2 == 0:
            canvas.text(LEFT - 10, y + 4, f"{axes.top * part / parts:g}", 12, SOFT, anchor="end")
    middle = top + axes.lane / 2
    turned = f"rotate(-90 30 {middle:g})"
    unit = "calls ended per second"
    canvas.text(30, middle, unit, 12, SOFT, anchor="middle", transform=turned)
    order = list(colours)[::-1]
    for place, kinds in enumerate(stacks):
        _draw_stack(canvas, axes, place * axes.width, kinds, foot, [(k, colours[k]) for k in order])


def _draw_stack(
    canvas: Canvas,
    axes: Axes,
    start: float,
    kinds: Mapping[str, int],
    foot: float,
    colours: Sequence[tuple[str, str]],
) -> None:
    left, right = axes.x(start), axes.x(start + axes.width)
    said = ", ".join(f"{count(kinds[kind])} {kind}" for kind, _ in colours[::-1] if kinds.get(kind))
    gap = 1 if right - left > _BROAD else 0
    tip = f"{start:g} to {start + axes.width:g} s: {said}"
    y = foot
    for kind, colour in colours:
        height = axes.height(kinds.get(kind, 0))
        if height:
            y -= height
            canvas.rect(left, y, max(0.5, right - left - gap), height, colour, tip=tip)


def draw_time(canvas: Canvas, axes: Axes, y: float, of_what: str) -> None:
    """Draw the time axis: ticks at round moments, and the unit."""
    step = next((s for s in _TICKS if axes.span / s <= _MOST_TICKS), axes.span / _MOST_TICKS)
    minutes = step >= _MINUTE
    for number in range(int(axes.span / step) + 1):
        x = axes.x(number * step)
        canvas.line(x, y, x, y + 5, SOFT)
        label = f"{number * step / _MINUTE:g}" if minutes else f"{number * step:g}"
        canvas.text(x, y + 20, label, 12, SOFT, anchor="middle")
    title = f"{'minutes' if minutes else 'seconds'} of {of_what}"
    canvas.text((LEFT + RIGHT) / 2, y + 40, title, 13, SOFT, anchor="middle")
