"""``breakerkit demo stale`` from beginning to end: a service, readers and their store, two deaths, the table, the picture."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from breakerkit.cli._child import Child
from breakerkit.cli._demo import RECORDING
from breakerkit.cli._display import open_display
from breakerkit.cli._trace import read
from breakerkit.cli._words import duration
from breakerkit.cli.staleness import _prices, _reader
from breakerkit.cli.staleness._picture import draw
from breakerkit.cli.staleness._plan import PRODUCTS, describe, make_plan
from breakerkit.cli.staleness._reader import WITH, WITHOUT, Settings
from breakerkit.cli.staleness._report import HEAD, figures, notes, table, verdict
from breakerkit.cli.staleness._run import WAYS, Callers, Run, ask
from breakerkit.cli.staleness._valkey import Valkey, find_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from breakerkit.cli._child import ServiceLike, Start
    from breakerkit.cli._options import StaleOptions
    from breakerkit.cli.staleness._plan import Plan
    from breakerkit.cli.staleness._valkey import ValkeyLike

__all__ = ["play", "play_run"]


class Share(Protocol):
    """How the store is started: as a `Valkey`."""

    def __call__(self, program: str, folder: Path) -> AbstractContextManager[ValkeyLike]:
        """Return it; it runs for the length of a ``with`` block."""
        ...


def play(
    options: StaleOptions, stream: TextIO, start: Start = Child, share: Share = Valkey
) -> None:
    """Play the demo and show it on the stream.

    Raises:
        UsageError: if something is not installed, or there is nothing to play at
            this speed, before anything ran.
        TraceError: if the trace is none, before anything ran.
        ServiceDiedError: if a process ended before its time.
        OSError: if the stream or the picture could not be written.
    """
    program = find_server()
    recording = read(options.trace or RECORDING)
    run = Run(make_plan(recording, options.speed))
    display = open_display(stream, run.plan)
    display.say(opening_line(run.plan))
    for note in recording.notes:
        display.say(f"{note}.")
    with closing(display):
        play_run(run, display.watch, program, start, share)
        display.finish(run)
    without, through = figures(run, WITHOUT), figures(run, WITH)
    display.table(table(without, through), HEAD)
    for line in (*verdict(run, without, through), describe(run.plan), *notes(run.plan)):
        display.say(line)
    options.svg.write_text(draw(run), encoding="utf-8")
    display.say(f"picture: {options.svg}")


def opening_line(plan: Plan) -> str:
    """Say what is going to be played."""
    return (
        f"A price service that fares as that of {plan.recorded.name} did, at"
        f" {plan.recorded.speed:.3g} times the speed; {plan.readers} processes read it through a"
        f" cache they share in a Valkey, which is frozen at second {plan.frozen_at:.0f} and killed at"
        f" {plan.killed_at:.0f}; about {duration(plan.span)}."
    )


def play_run(
    run: Run,
    watch: Callable[[Run], None],
    program: str,
    start: Start = Child,
    share: Share = Valkey,
) -> None:
    """Play to the end, calling ``watch(run)`` a few times a second.

    Raises:
        ServiceDiedError: if a process ended that nobody was to kill.
    """
    plan = run.plan
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="breakerkit-demo-")))
        store = stack.enter_context(share(program, folder))
        prices = stack.enter_context(
            start(_prices.__file__, plan.script(), "the price service", sys.path)
        )
        settings = _settings(plan, prices, store).dumps()
        readers = [
            stack.enter_context(start(_reader.__file__, settings, f"reader {number}", sys.path))
            for number in range(1, plan.readers + 1)
        ]
        ports = [reader.port for reader in readers]
        for way in WAYS:  # what is first is slow
            for number, port in enumerate(ports):
                run.before[way, number] = ask(port, way, PRODUCTS[0], plan.patience).asked
        prices.go()
        crew = Callers(run, ports)
        stack.callback(crew.stop)
        crew.start()
        while crew.working():
            _act(run, store)
            watch(run)
            store.check()
            for one in (prices, *readers):
                one.check()


def _settings(plan: Plan, prices: ServiceLike, store: ValkeyLike) -> Settings:
    return Settings(
        prices.port,
        store.url,
        plan.refresh_after,
        plan.max_stale,
        plan.soft_timeout,
        plan.store_timeout,
        plan.origin_timeout,
    )


def _act(run: Run, store: ValkeyLike) -> None:
    """Freeze the store, and kill it, when it is time."""
    if run.frozen is None and run.at() >= run.plan.frozen_at:
        store.freeze()
        run.frozen = run.at()
    elif run.killed is None and run.at() >= run.plan.killed_at:
        store.kill()
        run.killed = run.at()
