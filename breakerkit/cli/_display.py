"""What the terminal shows while the runs go on, and at their end: plain lines for pipes and logs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol, TextIO

from breakerkit.cli._drive import Tally
from breakerkit.cli._report import count, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Plan

__all__ = ["Display", "PlainDisplay", "facts", "open_display", "opening_line"]

_PERIOD = 2.0  # seconds between two plain lines


class Display(Protocol):
    """Something that shows the runs."""

    def say(self, line: str) -> None:
        """Show a line of text."""
        ...

    def watch(self, run: Run) -> None:
        """Show how far a run has come; called a few times a second."""
        ...

    def finish(self, run: Run) -> None:
        """Show that a run is complete."""
        ...

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Show the final table."""
        ...

    def close(self) -> None:
        """Give the terminal back."""
        ...


def open_display(stream: TextIO, plan: Plan) -> Display:
    """Return a live display for a terminal with rich installed, else plain lines."""
    if not _can_draw(stream):
        return PlainDisplay(stream)
    try:
        from breakerkit.cli._live import LiveDisplay  # noqa: PLC0415  # rich is an extra
    except ImportError:
        return PlainDisplay(stream)
    return LiveDisplay(stream, plan)


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


def facts(run: Run, tally: Tally) -> list[tuple[str, str]]:
    """Return the running figures of a run, as pairs of name and value."""
    shown = [
        ("let through", count(tally.let_through)),
        ("failed", count(tally.failed)),
        ("rejected", count(tally.rejected)),
        ("time lost", duration(tally.lost)),
    ]
    return shown if run.breaker is None else [("breaker", run.breaker.state.value), *shown]


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

    def watch(self, run: Run) -> None:
        """Write a line if the last one is two seconds old."""
        if self._now() >= self._next:
            self._write(run, "")

    def finish(self, run: Run) -> None:
        """Write the last line of the run."""
        self._write(run, "done: ")

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Write the table with its columns aligned."""
        lines = [("", "bare", "guarded"), *rows]
        left, middle, right = (max(len(line[place]) for line in lines) for place in range(3))
        for what, bare, guarded in lines:
            self.say(f"{what:<{left}}  {bare:>{middle}}  {guarded:>{right}}")

    def close(self) -> None:
        """Nothing to give back."""

    def _write(self, run: Run, prefix: str) -> None:
        self._next = self._now() + _PERIOD
        tally = Tally()
        tally.add(list(run.outcomes))
        at = min(run.clock.now(), run.plan.span) if run.clock else 0.0
        shown = ", ".join(f"{name} {value}" for name, value in facts(run, tally))
        self.say(f"{run.label:<7}  {at:6.1f} of {run.plan.span:.1f} s  {prefix}{shown}")
