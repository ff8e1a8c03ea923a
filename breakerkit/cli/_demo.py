"""The demo from beginning to end: read, plan, play bare, play guarded, compare, draw."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from breakerkit.cli._child import ServiceProcess
from breakerkit.cli._display import open_display, opening_line
from breakerkit.cli._drive import Run, drive
from breakerkit.cli._plan import make_plan
from breakerkit.cli._report import figures, notes, table, verdict
from breakerkit.cli._timeline import draw
from breakerkit.cli._trace import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from breakerkit.cli._child import ServiceLike
    from breakerkit.cli._display import Display
    from breakerkit.cli._options import Options
    from breakerkit.cli._plan import Plan

__all__ = ["RECORDING", "play"]

#: The recording that ships; benchmarks/record_outage.py made it.
RECORDING = Path(__file__).with_name("recording.csv")


def play(
    options: Options,
    stream: TextIO,
    start_service: Callable[[Plan], AbstractContextManager[ServiceLike]] = ServiceProcess,
) -> None:
    """Play the demo and show it on the stream.

    Raises:
        TraceError: if the trace is none, before anything ran.
        ServiceDiedError: if the service ended before its time.
        OSError: if the stream or the picture could not be written.
    """
    recording = read(options.trace or RECORDING)
    plan = make_plan(recording, options.speed, options.threads)
    display = open_display(stream, plan)
    display.say(opening_line(plan))
    for note in recording.notes:
        display.say(f"{note}.")
    bare, guarded = Run(plan, guarded=False), Run(plan, guarded=True)
    with closing(display), start_service(plan) as service:
        for run in (bare, guarded):
            drive(run, service, display.watch)
            display.finish(run)
    _conclude(display, bare, guarded)
    options.svg.write_text(draw(bare, guarded), encoding="utf-8")
    display.say(f"picture: {options.svg}")


def _conclude(display: Display, bare: Run, guarded: Run) -> None:
    of_bare, of_guarded = figures(bare), figures(guarded)
    display.table(table(of_bare, of_guarded))
    display.say(verdict(of_bare, of_guarded))
    for note in notes(bare.plan, (bare, guarded)):
        display.say(note)
