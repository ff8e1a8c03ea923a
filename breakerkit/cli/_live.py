"""The same on a terminal, drawn over and over with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from breakerkit.cli._display import facts
from breakerkit.cli._drive import Kind, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Plan

__all__ = ["LiveDisplay"]

_COLOURS = {Kind.ANSWERED: "green", Kind.FAILED: "red", Kind.REJECTED: "yellow"}
_STATES = {"closed": "bold green", "open": "bold white on red", "half-open": "bold black on yellow"}
_BARS = "▁▂▃▄▅▆▇█"
_TITLES = {"bare": "without a breaker", "guarded": "behind a breaker"}


class LiveDisplay:
    """A panel per run: the calls so far as coloured bars over time, and the figures."""

    def __init__(self, stream: TextIO, plan: Plan) -> None:
        self._console = Console(file=stream, highlight=False)
        self._plan = plan
        # Not up to the edge: a ^C that the terminal echoes there would wrap.
        self._width = max(24, self._console.width - 3)
        self._panels: dict[str, RenderableType] = {
            label: self._frame(label, Text("\n\n"), "dim") for label in _TITLES
        }
        self._live = Live(self._screen(), console=self._console, refresh_per_second=10)
        self._started = False

    def say(self, line: str) -> None:
        """Write the line, above the panels while they are there."""
        self._console.print(line, markup=False)

    def watch(self, run: Run) -> None:
        """Draw the run's panel anew."""
        if not self._started:
            self._live.start()
            self._started = True
        self._panels[run.label] = self._panel(run, done=False)
        self._live.update(self._screen())

    def finish(self, run: Run) -> None:
        """Draw the run's panel a last time."""
        self._panels[run.label] = self._panel(run, done=True)
        self._live.update(self._screen())

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Write the table."""
        table = Table("", "bare", "guarded")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def close(self) -> None:
        """Leave the panels as they are and give the terminal back."""
        self._live.stop()

    def _screen(self) -> RenderableType:
        return Group(*self._panels.values())

    def _panel(self, run: Run, *, done: bool) -> RenderableType:
        tally, outcomes = Tally(), list(run.outcomes)
        tally.add(outcomes)
        width = self._width - 4  # inside the frame
        at = min(run.clock.now(), self._plan.span) if run.clock and not done else self._plan.span
        line = Text(no_wrap=True, overflow="ellipsis")
        for name, value in facts(run, tally):
            line.append(f"{name} ", "dim").append(value, _STATES.get(value, "bold")).append("   ")
        inside = Group(self._bars(run, width), self._progress(width, at), line)
        return self._frame(run.label, inside, "dim" if done else "cyan")

    def _frame(self, label: str, inside: RenderableType, style: str) -> RenderableType:
        title = _TITLES[label]
        return Panel(inside, title=title, title_align="left", border_style=style, width=self._width)

    def _progress(self, width: int, at: float) -> Text:
        label = f" {at:.0f} of {self._plan.span:.0f} s"
        room = width - len(label)
        full = int(room * at / self._plan.span)
        return (
            Text("━" * full, "cyan")
            .append("━" * (room - full), "bright_black")
            .append(label, "dim")
        )

    def _bars(self, run: Run, width: int) -> Text:
        slices = [dict.fromkeys(Kind, 0) for _ in range(width)]
        for one in run.outcomes[:]:
            slices[min(width - 1, int(one.ended / self._plan.span * width))][one.kind] += 1
        highest = max(1, *(sum(kinds.values()) for kinds in slices))
        bars = Text()
        for kinds in slices:
            total = sum(kinds.values())
            # What most calls of the slice came to; a bar per kind has no room here.
            most = max(Kind, key=kinds.__getitem__)
            level = -(-total * len(_BARS) // highest) - 1
            bars.append(_BARS[level] if total else " ", _COLOURS[most])
        return bars
