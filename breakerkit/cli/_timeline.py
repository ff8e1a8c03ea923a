"""The picture of two runs: figures on top, the bare lane, the guarded lane, the breaker's state under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit import State
from breakerkit.cli import _lanes as lanes
from breakerkit.cli._axes import LANE_HEIGHT, draw_time
from breakerkit.cli._drive import Kind
from breakerkit.cli._frame import (
    BETTER,
    WORSE,
    Card,
    draw_cards,
    draw_legend,
    draw_lines,
    open_canvas,
)
from breakerkit.cli._report import figures, verdict
from breakerkit.cli._settings import RECOMMENDED, describe
from breakerkit.cli._words import count, duration

if TYPE_CHECKING:
    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Plan
    from breakerkit.cli._report import Figures
    from breakerkit.cli._svg import Canvas

__all__ = ["BETTER", "WORSE", "draw", "shortened"]

_HEIGHT = 850
_LONGEST_NAME = 40
_BARE_TOP = 276
_GUARDED_TOP = _BARE_TOP + LANE_HEIGHT + 58
_BAND_TOP = _GUARDED_TOP + LANE_HEIGHT + 10
_TIME_Y = _BAND_TOP + lanes.BAND_HEIGHT + 6

_TITLE = "The same calls, without and with a circuit breaker"
_LEGEND = (
    (lanes.COLOURS[Kind.ANSWERED], "answered"),
    (lanes.COLOURS[Kind.REJECTED], "rejected by the breaker at once"),
    (lanes.COLOURS[Kind.FAILED], "failed in the service"),
    (lanes.OUTAGE, "outage: most calls fail"),
    (lanes.STATES[State.OPEN][0], "open"),
    (lanes.STATES[State.HALF_OPEN][0], "half-open: probes"),
)


def draw(bare: Run, guarded: Run) -> str:
    """Return the picture of a bare and a guarded run of one plan, as SVG."""
    plan, of_bare, of_guarded = bare.plan, figures(bare), figures(guarded)
    said = verdict(of_bare, of_guarded)
    canvas = open_canvas(_HEIGHT, _TITLE, plan.name, _subtitle(plan), said)
    _draw_cards(canvas, of_bare, of_guarded)
    draw_legend(canvas, _LEGEND)
    axes = lanes.axes_for(bare, guarded)
    lanes.draw_outages(canvas, axes, plan.outages, _BARE_TOP, _TIME_Y)
    lanes.draw_lane(canvas, axes, bare, _BARE_TOP, "Without a breaker")
    lanes.draw_lane(canvas, axes, guarded, _GUARDED_TOP, "Behind a breaker")
    lanes.draw_states(canvas, axes, guarded, _BAND_TOP)
    draw_time(canvas, axes, _TIME_Y, "the recording")
    draw_lines(canvas, _HEIGHT, [said], f"The breaker {describe(RECOMMENDED)}.")
    return canvas.render()


def _subtitle(plan: Plan) -> str:
    played = (
        f"{count(len(plan.calls))} of them in each run"
        if len(plan.calls) < plan.recorded
        else "all of them in each run"
    )
    return (
        f"{shortened(plan.name)}: {count(plan.recorded)} calls recorded in {duration(plan.span)}, {played},"
        f" to a real HTTP service at {plan.speed:.3g} times the speed"
    )


def shortened(name: str) -> str:
    """Return a name that has room in a line."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:20]}...{name[-17:]}"


def _draw_cards(canvas: Canvas, bare: Figures, guarded: Figures) -> None:
    draw_cards(
        canvas,
        (
            Card.of_counts(
                "reached the service while it failed", bare.in_outage, guarded.in_outage
            ),
            Card.of_counts("errors seen from the service", bare.failed, guarded.failed),
            Card.of_times("callers waited for errors", bare.lost, guarded.lost),
            Card.of_times("to recover after the outage", bare.recovery, guarded.recovery),
        ),
    )
