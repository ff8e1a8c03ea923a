"""The picture of the play: the bound client's calls, those with failover by provider, the breakers under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit import State
from breakerkit.cli._axes import (
    BAD,
    GOOD,
    OUTAGE,
    Axes,
    draw_shade,
    draw_stacks,
    draw_time,
    slice_width,
    slices,
)
from breakerkit.cli._drive import Kind
from breakerkit.cli._frame import Card, draw_cards, draw_legend, draw_lines, open_canvas
from breakerkit.cli._lanes import BAND_HEIGHT, STATES, draw_band
from breakerkit.cli._words import duration
from breakerkit.cli.switchover._plan import KILLED, PROVIDERS, SETTINGS, describe
from breakerkit.cli.switchover._report import figures, verdict
from breakerkit.cli.switchover._run import BOUND, WITH_FAILOVER

if TYPE_CHECKING:
    from breakerkit.cli._axes import Stacks
    from breakerkit.cli.switchover._report import Figures
    from breakerkit.cli.switchover._run import Outcome, Run

__all__ = ["draw"]

_HEIGHT = 866
_BOUND_TOP, _LANE = 276, 150
_FREE_TOP = _BOUND_TOP + _LANE + 54
_BANDS_TOP = _FREE_TOP + _LANE + 12
_BAND_PITCH = BAND_HEIGHT + 6
_TIME_Y = _BANDS_TOP + len(PROVIDERS) * _BAND_PITCH

_TITLE = "One of three providers dies, without and with failover"
_ANSWERED = "answered by {}"
_BY_PROVIDER = {
    _ANSWERED.format(name): colour
    for name, colour in zip(PROVIDERS, (GOOD, "#6ea8dc", "#b9a2d8"), strict=True)
}
_COLOURS = {**_BY_PROVIDER, str(Kind.FAILED): BAD}
_LEGEND = (
    *((colour, label) for label, colour in _BY_PROVIDER.items()),
    (BAD, "an error for the caller"),
    (OUTAGE, f"{KILLED} is dead"),
    (STATES[State.OPEN][0], "open"),
    (STATES[State.HALF_OPEN][0], "half-open"),
)


def draw(run: Run) -> str:
    """Return the picture of a play, as SVG."""
    bound, free = figures(run, BOUND), figures(run, WITH_FAILOVER)
    said = verdict(run, bound, free)
    canvas = open_canvas(_HEIGHT, _TITLE, KILLED, _subtitle(run), " ".join(said))
    draw_cards(canvas, _cards(bound, free))
    draw_legend(canvas, _LEGEND)
    width = slice_width(run.span)
    lanes = [_stacks(run, client, width) for client in (BOUND, WITH_FAILOVER)]
    axes = Axes.over(run.span, width, lanes, _LANE)
    if run.killed is not None:
        death = (run.killed, run.span if run.revived is None else run.revived)
        label = f"{KILLED} is dead, {duration(death[1] - death[0])}"
        draw_shade(canvas, axes, death, (_BOUND_TOP, _TIME_Y), label, label)
    titles = (f"Bound to {KILLED}", "With failover")
    for title, stacks, top in zip(titles, lanes, (_BOUND_TOP, _FREE_TOP), strict=True):
        draw_stacks(canvas, axes, stacks, top, title, _COLOURS)
    for place, name in enumerate(PROVIDERS):
        draw_band(canvas, axes, run.moves[name], _BANDS_TOP + place * _BAND_PITCH, name)
    draw_time(canvas, axes, _TIME_Y + 2, "the play")
    draw_lines(canvas, _HEIGHT, said, describe(SETTINGS))
    return canvas.render()


def _subtitle(run: Run) -> str:
    return (
        f"Three real HTTP providers, {run.plan.rate:g} calls per second of each of two clients;"
        f" {KILLED} is killed and revived"
    )


def _cards(bound: Figures, free: Figures) -> list[Card]:
    return [
        Card.of_counts("errors seen by callers", bound.errors, free.errors),
        Card.of_counts(f"tries of {KILLED} while it was dead", bound.at_the_dead, free.at_the_dead),
        Card.of_times(f"until {KILLED}, revived, answers again", bound.back, free.back),
    ]


def _stacks(run: Run, client: str, width: float) -> Stacks:
    def kind(call: Outcome) -> str:
        return str(call.kind) if call.kind is Kind.FAILED else _ANSWERED.format(call.provider)

    ends = ((call.ended, kind(call)) for call in run.calls if call.client == client)
    return slices(ends, run.span, width)
