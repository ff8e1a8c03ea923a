"""What the terminal shows while the runs go on, and at their end: plain lines for pipes and logs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

from breakerkit.cli._words import count, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from breakerkit.cli._plan import Plan

__all__ = [
    "TWO_RUNS",
    "Display",
    "Lane",
    "Panel",
    "PlainDisplay",
    "Programme",
    "Show",
    "open_display",
    "opening_line",
]

#: The head of a table of a bare and a guarded run.
TWO_RUNS = ("", "bare", "guarded")

_PERIOD = 2.0  # seconds between two plain lines


class Lane(NamedTuple):
    """One line of bars: when each call ended, and how it is counted."""

    name: str
    ends: Sequence[tuple[float, str]]


class Panel(NamedTuple):
    """A run that is going to be shown: its title, and how many lanes it has."""

    title: str
    lanes: int = 1


class Programme(Protocol):
    """What a display knows of a demo before it begins."""

    @property
    def panels(self) -> Mapping[str, Panel]:
        """The runs by their labels, in the order in which they are shown."""
        ...


class Show(Protocol):
    """A run as a display sees it; times in seconds of its clock."""

    @property
    def label(self) -> str:
        """Which of the programme's panels it is."""
        ...

    @property
    def span(self) -> float:
        """How long it is."""
        ...

    def at(self) -> float:
        """Return how far it has come."""
        ...

    def facts(self) -> list[tuple[str, str]]:
        """Return the running figures, as pairs of name and value."""
        ...

    def lanes(self) -> list[Lane]:
        """Return the lines of bars."""
        ...


class Display(Protocol):
    """Something that shows the runs."""

    def say(self, line: str) -> None:
        """Show a line of text."""
        ...

    def watch(self, run: Show) -> None:
        """Show how far a run has come; called a few times a second."""
        ...

    def finish(self, run: Show) -> None:
        """Show that a run is complete."""
        ...

    def table(self, rows: Sequence[Sequence[str]], head: Sequence[str] = TWO_RUNS) -> None:
        """Show the final table: names to the left, figures to the right."""
        ...

    def close(self) -> None:
        """Give the terminal back."""
        ...


def open_display(stream: TextIO, programme: Programme) -> Display:
    """Return a live display for a terminal with rich installed, else plain lines."""
    if not _can_draw(stream):
        return PlainDisplay(stream)
    try:
        from breakerkit.cli._live import LiveDisplay  # noqa: PLC0415  # rich is an extra
    except ImportError:
        return PlainDisplay(stream)
    return LiveDisplay(stream, programme)


def _can_draw(stream: TextIO) -> bool:
    encoding = (getattr(stream, "encoding", None) or "").lower()
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))
    return stream.isatty() and not dumb and encoding.startswith("utf")


def opening_line(plan: Plan) -> str:
    """Say what is going to be played."""
    calls = f"{count(plan.recorded)} calls in {duration(plan.span)}"
    return (
        f"{plan.name}: {calls}, at {plan.speed:.3g} times the speed with {plan.threads} client"
        f" threads; about {2 * plan.span / plan.speed:.0f} s."
    )


class PlainDisplay:
    """A line every two seconds, in ASCII, with no control characters."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._now = now
        self._next = now() + _PERIOD

    def say(self, line: str) -> None:
        """Write the line."""
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def watch(self, run: Show) -> None:
        """Write a line if the last one is two seconds old."""
        if self._now() >= self._next:
            self._write(run, "")

    def finish(self, run: Show) -> None:
        """Write the last line of the run."""
        self._write(run, "done: ")

    def table(self, rows: Sequence[Sequence[str]], head: Sequence[str] = TWO_RUNS) -> None:
        """Write the table with its columns aligned."""
        lines = [head, *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for what, *values in lines:
            shown = [f"{one:>{width}}" for one, width in zip(values, widths[1:], strict=True)]
            self.say("  ".join([f"{what:<{widths[0]}}", *shown]))

    def close(self) -> None:
        """Nothing to give back."""

    def _write(self, run: Show, prefix: str) -> None:
        self._next = self._now() + _PERIOD
        shown = ", ".join(f"{name} {value}" for name, value in run.facts())
        self.say(f"{run.label:<7}  {run.at():6.1f} of {run.span:.1f} s  {prefix}{shown}")
