"""The picture of two runs: figures on top, the bare lane, the guarded lane, the breaker's state under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.cli import _lanes as lanes
from breakerkit.cli._drive import Kind
from breakerkit.cli._report import count, duration, figures, verdict
from breakerkit.cli._svg import Canvas

if TYPE_CHECKING:
    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Plan
    from breakerkit.cli._report import Figures

__all__ = ["draw"]

_WIDTH, _HEIGHT = 1200, 846
_MARGIN = 32
_CARDS_TOP, _CARD_HEIGHT = 94, 82
_LEGEND_Y = 204
_BARE_TOP = 276
_GUARDED_TOP = _BARE_TOP + lanes.LANE_HEIGHT + 58
_BAND_TOP = _GUARDED_TOP + lanes.LANE_HEIGHT + 10
_TIME_Y = _BAND_TOP + lanes.BAND_HEIGHT + 6

_TITLE = "One outage, without and with a circuit breaker"
_PAPER, _CARD, _GUARDED_INK = "#ffffff", "#f5f7fa", "#1d6b57"
_LEGEND = (
    (Kind.ANSWERED, "answered"),
    (Kind.REJECTED, "rejected by the breaker at once"),
    (Kind.FAILED, "failed in the service"),
)


def draw(bare: Run, guarded: Run) -> str:
    """Return the picture of a bare and a guarded run of one plan, as SVG."""
    plan, of_bare, of_guarded = bare.plan, figures(bare), figures(guarded)
    said = verdict(of_bare, of_guarded)
    canvas = Canvas(_WIDTH, _HEIGHT, f"{_TITLE}: {plan.name}", said)
    canvas.rect(0, 0, _WIDTH, _HEIGHT, _PAPER)
    _draw_head(canvas, plan)
    _draw_cards(canvas, of_bare, of_guarded)
    _draw_legend(canvas)
    axes = lanes.axes_for(bare, guarded)
    lanes.draw_outages(canvas, axes, plan.outages, _BARE_TOP, _TIME_Y)
    lanes.draw_lane(canvas, axes, bare, _BARE_TOP, "Without a breaker")
    lanes.draw_lane(canvas, axes, guarded, _GUARDED_TOP, "Behind a breaker")
    lanes.draw_states(canvas, axes, guarded, _BAND_TOP)
    lanes.draw_time(canvas, axes, _TIME_Y)
    canvas.text(_MARGIN, _HEIGHT - 20, said, 14, lanes.INK)
    return canvas.render()


def _draw_head(canvas: Canvas, plan: Plan) -> None:
    played = f"{count(len(plan.calls))} of them in each run" if len(plan.calls) < plan.recorded else "all of them in each run"
    canvas.text(_MARGIN, 46, _TITLE, 25, lanes.INK, font_weight=700)
    canvas.text(
        _MARGIN,
        72,
        f"{_shortened(plan.name)}: {count(plan.recorded)} calls recorded in {duration(plan.span)}, {played},"
        f" to a real HTTP service at {plan.speed:.3g} times the speed",
        14,
        lanes.SOFT,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:20]}...{name[-17:]}"


def _draw_cards(canvas: Canvas, bare: Figures, guarded: Figures) -> None:
    cards = (
        ("reached the service while it failed", count(bare.in_outage), count(guarded.in_outage)),
        ("errors seen from the service", count(bare.failed), count(guarded.failed)),
        ("callers waited for errors", duration(bare.lost), duration(guarded.lost)),
        ("to recover after the outage", duration(bare.recovery), duration(guarded.recovery)),
    )
    gap = 16
    width = (_WIDTH - 2 * _MARGIN - gap * (len(cards) - 1)) / len(cards)
    for place, (what, of_bare, of_guarded) in enumerate(cards):
        x = _MARGIN + place * (width + gap)
        canvas.rect(x, _CARDS_TOP, width, _CARD_HEIGHT, _CARD, rx=8)
        canvas.text(x + 16, _CARDS_TOP + 26, what, 13, lanes.SOFT)
        canvas.text(x + 16, _CARDS_TOP + 60, of_bare, 24, lanes.INK, font_weight=600)
        canvas.text(x + width / 2, _CARDS_TOP + 59, "\N{RIGHTWARDS ARROW}", 20, lanes.SOFT, "middle")
        canvas.text(x + width - 16, _CARDS_TOP + 60, of_guarded, 24, _GUARDED_INK, "end", font_weight=700)


def _draw_legend(canvas: Canvas) -> None:
    x = lanes.LEFT
    for colour, label in (
        *((lanes.COLOURS[kind], label) for kind, label in _LEGEND),
        (lanes.OUTAGE, "outage: most calls fail"),
    ):
        canvas.rect(x, _LEGEND_Y - 11, 14, 14, colour, rx=2)
        canvas.text(x + 21, _LEGEND_Y + 1, label, 13, lanes.SOFT)
        x += 50 + int(len(label) * 6.6)
