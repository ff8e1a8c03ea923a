"""The picture of two runs: figures on top, the bare lane, the guarded lane, the breaker's state under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from breakerkit import State
from breakerkit.cli import _lanes as lanes
from breakerkit.cli._drive import Kind
from breakerkit.cli._report import count, duration, figures, verdict
from breakerkit.cli._settings import RECOMMENDED, describe
from breakerkit.cli._svg import Canvas

if TYPE_CHECKING:
    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Plan
    from breakerkit.cli._report import Figures

__all__ = ["draw"]

_WIDTH, _HEIGHT = 1200, 850
_MARGIN = 32
_CARDS_TOP, _CARD_HEIGHT = 94, 82
_LEGEND_Y = 204
_LONGEST_NAME = 40
_GAP = 16
_ARROW = "\N{RIGHTWARDS ARROW}"
_BARE_TOP = 276
_GUARDED_TOP = _BARE_TOP + lanes.LANE_HEIGHT + 58
_BAND_TOP = _GUARDED_TOP + lanes.LANE_HEIGHT + 10
_TIME_Y = _BAND_TOP + lanes.BAND_HEIGHT + 6

_TITLE = "The same calls, without and with a circuit breaker"
_PAPER, _CARD, _BETTER, _WORSE = "#ffffff", "#f5f7fa", "#1d6b57", "#a3452c"
_LEGEND = (
    (Kind.ANSWERED, "answered"),
    (Kind.REJECTED, "rejected by the breaker at once"),
    (Kind.FAILED, "failed in the service"),
)


class _Card(NamedTuple):
    """One figure, bare and guarded, as it is written."""

    what: str
    bare: str
    guarded: str
    worse: bool

    @classmethod
    def of_counts(cls, what: str, bare: int | None, guarded: int | None) -> _Card:
        return cls(what, count(bare), count(guarded), _worse(bare, guarded))

    @classmethod
    def of_times(cls, what: str, bare: float | None, guarded: float | None) -> _Card:
        return cls(what, duration(bare), duration(guarded), _worse(bare, guarded))


def _worse(bare: float | None, guarded: float | None) -> bool:
    # A few percent are what two runs of anything differ by.
    return bare is not None and guarded is not None and guarded > bare * 1.05


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
    canvas.text(_MARGIN, _HEIGHT - 44, said, 14, lanes.INK)
    canvas.text(_MARGIN, _HEIGHT - 20, f"The breaker {describe(RECOMMENDED)}.", 13, lanes.SOFT)
    return canvas.render()


def _draw_head(canvas: Canvas, plan: Plan) -> None:
    played = (
        f"{count(len(plan.calls))} of them in each run"
        if len(plan.calls) < plan.recorded
        else "all of them in each run"
    )
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
    return name if len(name) <= _LONGEST_NAME else f"{name[:20]}...{name[-17:]}"


def _draw_cards(canvas: Canvas, bare: Figures, guarded: Figures) -> None:
    cards = (
        _Card.of_counts("reached the service while it failed", bare.in_outage, guarded.in_outage),
        _Card.of_counts("errors seen from the service", bare.failed, guarded.failed),
        _Card.of_times("callers waited for errors", bare.lost, guarded.lost),
        _Card.of_times("to recover after the outage", bare.recovery, guarded.recovery),
    )
    width = (_WIDTH - 2 * _MARGIN - _GAP * (len(cards) - 1)) / len(cards)
    for place, card in enumerate(cards):
        left = _MARGIN + place * (width + _GAP)
        right, y = left + width - 16, _CARDS_TOP + 60
        canvas.rect(left, _CARDS_TOP, width, _CARD_HEIGHT, _CARD, rx=8)
        canvas.text(left + 16, _CARDS_TOP + 26, card.what, 13, lanes.SOFT)
        canvas.text(left + 16, y, card.bare, 24, lanes.INK, font_weight=600)
        canvas.text(left + width / 2, y, _ARROW, 20, lanes.SOFT, anchor="middle")
        ink = _WORSE if card.worse else _BETTER
        canvas.text(right, y, card.guarded, 24, ink, anchor="end", font_weight=700)


def _draw_legend(canvas: Canvas) -> None:
    x = lanes.LEFT
    for colour, label in (
        *((lanes.COLOURS[kind], label) for kind, label in _LEGEND),
        (lanes.OUTAGE, "outage: most calls fail"),
        (lanes.STATES[State.OPEN][0], "open"),
        (lanes.STATES[State.HALF_OPEN][0], "half-open: probes"),
    ):
        canvas.rect(x, _LEGEND_Y - 11, 14, 14, colour, rx=2)
        canvas.text(x + 21, _LEGEND_Y + 1, label, 13, lanes.SOFT)
        x += 50 + int(len(label) * 6.6)
