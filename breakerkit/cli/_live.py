"""The same on a terminal, drawn over and over with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.box import HEAVY_HEAD, SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from breakerkit.cli._display import TWO_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from breakerkit.cli._display import Lane, Programme, Show

__all__ = ["LiveDisplay"]

#: How a kind of end is coloured; where a slice of time has as many of two, the first one counts.
_COLOURS = {
    "answered": "green",
    "fresh": "green",
    "cached": "bright_green",
    "stale": "yellow",
    "disaster": "magenta",
    "stand-in": "cyan",
    "failed": "red",
    "timed out": "red",
    "rejected": "yellow",
    "refused": "yellow",
}
_STATES = {"closed": "bold green", "open": "bold white on red", "half-open": "bold black on yellow"}
_BARS = "▁▂▃▄▅▆▇█"


class LiveDisplay:
    """A panel per run: the calls so far as coloured bars over time, and the figures."""

    def __init__(self, stream: TextIO, programme: Programme) -> None:
        self._console = Console(file=stream, highlight=False)
        # Not up to the edge: a ^C that the terminal echoes there would wrap.
        self._width = max(24, self._console.width - 3)
        self._titles = {label: panel.title for label, panel in programme.panels.items()}
        self._panels: dict[str, RenderableType] = {
            label: self._frame(label, Text("\n" * (panel.lanes + 1)), "dim")
            for label, panel in programme.panels.items()
        }
        self._live = Live(self._screen(), console=self._console, refresh_per_second=10)
        self._started = False

    def say(self, line: str) -> None:
        """Write the line, above the panels while they are there."""
        self._console.print(line, markup=False)

    def watch(self, run: Show) -> None:
        """Draw the run's panel anew."""
        if not self._started:
            self._live.start()
            self._started = True
        self._panels[run.label] = self._panel(run, done=False)
        self._live.update(self._screen())

    def finish(self, run: Show) -> None:
        """Draw the run's panel a last time."""
        self._panels[run.label] = self._panel(run, done=True)
        self._live.update(self._screen())

    def table(self, rows: Sequence[Sequence[str]], head: Sequence[str] = TWO_RUNS) -> None:
        """Write the table."""
        # Lines between the columns only where all that is in them fits a narrow terminal.
        narrow = len(head) > len(TWO_RUNS)
        table = Table(*head, box=SIMPLE_HEAD if narrow else HEAVY_HEAD, pad_edge=not narrow)
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

    def _panel(self, run: Show, *, done: bool) -> RenderableType:
        width = self._width - 4  # inside the frame
        line = Text(no_wrap=True, overflow="ellipsis")
        for name, value in run.facts():
            line.append(f"{name} ", "dim").append(value, _STATES.get(value, "bold")).append("   ")
        lanes = run.lanes()
        room = max(len(lane.name) for lane in lanes)
        bars = [self._bars(lane, run.span, width, room + 1 if room else 0) for lane in lanes]
        at = run.span if done else run.at()
        inside = Group(*bars, self._progress(width, at, run.span), line)
        return self._frame(run.label, inside, "dim" if done else "cyan")

    def _frame(self, label: str, inside: RenderableType, style: str) -> RenderableType:
        title = self._titles[label]
        return Panel(inside, title=title, title_align="left", border_style=style, width=self._width)

    def _progress(self, width: int, at: float, span: float) -> Text:
        label = f" {at:.0f} of {span:.0f} s"
        room = width - len(label)
        full = int(room * at / span)
        return (
            Text("━" * full, "cyan")
            .append("━" * (room - full), "bright_black")
            .append(label, "dim")
        )

    def _bars(self, lane: Lane, span: float, width: int, room: int) -> Text:
        width = max(1, width - room)
        slices: list[dict[str, int]] = [dict.fromkeys(_COLOURS, 0) for _ in range(width)]
        for ended, kind in lane.ends:
            slices[min(width - 1, int(ended / span * width))][kind] += 1
        highest = max(1, *(sum(kinds.values()) for kinds in slices))
        bars = Text(f"{lane.name:<{room}}")
        for kinds in slices:
            total = sum(kinds.values())
            # What most calls of the slice came to; a bar per kind has no room here.
            most = max(_COLOURS, key=kinds.__getitem__)
            level = -(-total * len(_BARS) // highest) - 1
            bars.append(_BARS[level] if total else " ", _COLOURS[most])
        return bars
