"""What stands around the lanes of a picture: the title, the cards with the main figures, the legend, the last lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._axes import INK, LEFT, SOFT
from breakerkit.cli._svg import Canvas
from breakerkit.cli._words import count, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Card", "draw_cards", "draw_legend", "draw_lines", "open_canvas"]

WIDTH = 1200
MARGIN = 32
CARDS_TOP, CARD_HEIGHT = 94, 82
LEGEND_Y = 204
BETTER, WORSE = "#1d6b57", "#a3452c"
_GAP = 16
_ARROW = "\N{RIGHTWARDS ARROW}"
_PAPER, _CARD = "#ffffff", "#f5f7fa"


class Card(NamedTuple):
    """One figure, before and after, as it is written."""

    what: str
    before: str
    after: str
    worse: bool

    @classmethod
    def of_counts(cls, what: str, before: int | None, after: int | None) -> Card:
        """Return a card of two counts; fewer are better."""
        return cls(what, count(before), count(after), _worse(before, after))

    @classmethod
    def of_times(cls, what: str, before: float | None, after: float | None) -> Card:
        """Return a card of two durations; shorter is better."""
        return cls(what, duration(before), duration(after), _worse(before, after))


def _worse(before: float | None, after: float | None) -> bool:
    # A few percent are what two runs of anything differ by.
    return before is not None and after is not None and after > before * 1.05


def open_canvas(height: int, title: str, of_what: str, subtitle: str, said: str) -> Canvas:
    """Return a canvas with a background, a title and a line under it.

    Args:
        height: in pixels; the width is always the same.
        title: what is written on top.
        of_what: what the title is about, for readers that cannot see the picture.
        subtitle: the line under it.
        said: what the picture shows, in a sentence, for the same readers.
    """
    canvas = Canvas(WIDTH, height, f"{title}: {of_what}", said)
    canvas.rect(0, 0, WIDTH, height, _PAPER)
    canvas.text(MARGIN, 46, title, 25, INK, font_weight=700)
    canvas.text(MARGIN, 72, subtitle, 14, SOFT)
    return canvas


def draw_cards(canvas: Canvas, cards: Sequence[Card]) -> None:
    """Draw the cards side by side under the title."""
    width = (WIDTH - 2 * MARGIN - _GAP * (len(cards) - 1)) / len(cards)
    for place, card in enumerate(cards):
        left = MARGIN + place * (width + _GAP)
        right, y = left + width - 16, CARDS_TOP + 60
        canvas.rect(left, CARDS_TOP, width, CARD_HEIGHT, _CARD, rx=8)
        canvas.text(left + 16, CARDS_TOP + 26, card.what, 13, SOFT)
        canvas.text(left + 16, y, card.before, 24, INK, font_weight=600)
        canvas.text(left + width / 2, y, _ARROW, 20, SOFT, anchor="middle")
        ink = WORSE if card.worse else BETTER
        canvas.text(right, y, card.after, 24, ink, anchor="end", font_weight=700)


def draw_legend(canvas: Canvas, entries: Iterable[tuple[str, str]]) -> None:
    """Draw the legend under the cards: pairs of a colour and what it means."""
    x = LEFT
    for colour, label in entries:
        canvas.rect(x, LEGEND_Y - 11, 14, 14, colour, rx=2)
        canvas.text(x + 21, LEGEND_Y + 1, label, 13, SOFT)
        x += 50 + int(len(label) * 6.6)


def draw_lines(canvas: Canvas, height: int, said: Sequence[str], settings: str) -> None:
    """Write the verdict, line by line, and the settings at the foot."""
    for place, line in enumerate(said[::-1]):
        canvas.text(MARGIN, height - 44 - 22 * place, line, 14, INK)
    canvas.text(MARGIN, height - 20, settings, 13, SOFT)
