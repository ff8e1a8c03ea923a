"""``breakerkit demo failover`` from beginning to end: providers, a death, a revival, the table, the picture."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TextIO

from breakerkit.cli._child import Child
from breakerkit.cli._display import open_display
from breakerkit.cli.switchover._picture import draw
from breakerkit.cli.switchover._plan import KILLED, PROVIDERS, SETTINGS, Plan, describe
from breakerkit.cli.switchover._report import HEAD, figures, notes, table, verdict
from breakerkit.cli.switchover._run import BOUND, WITH_FAILOVER, Clients, Run
from breakerkit.cli.switchover._sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.cli._child import Start
    from breakerkit.cli._options import FailoverOptions

__all__ = ["play", "play_run"]


def play(options: FailoverOptions, stream: TextIO, start: Start = Child) -> None:
    """Play the demo and show it on the stream.

    Raises:
        ServiceDiedError: if a provider ended that nobody was to kill.
        OSError: if the stream or the picture could not be written.
    """
    run = Run(Plan(options.speed))
    display = open_display(stream, run.plan)
    display.say(opening_line(run.plan))
    with closing(display):
        play_run(run, display.watch, start)
        display.finish(run)
    bound, free = figures(run, BOUND), figures(run, WITH_FAILOVER)
    display.table(table(bound, free), HEAD)
    for line in (*verdict(run, bound, free), describe(SETTINGS), *notes(run.plan)):
        display.say(line)
    options.svg.write_text(draw(run), encoding="utf-8")
    display.say(f"picture: {options.svg}")


def opening_line(plan: Plan) -> str:
    """Say what is going to be played."""
    return (
        f"Three HTTP providers: {', '.join(PROVIDERS)}; {KILLED} is killed at second"
        f" {plan.killed_at:g} and revived at {plan.revived_at:g}. One client is bound to it, one"
        f" has failover; about {plan.span / plan.speed:.0f} s."
    )


def play_run(run: Run, watch: Callable[[Run], None], start: Start = Child) -> None:
    """Play to the end, calling ``watch(run)`` a few times a second.

    Raises:
        ServiceDiedError: if a provider ended that nobody was to kill.
    """
    with ExitStack() as stack:
        sites = {name: stack.enter_context(Site(name, run.plan, start)) for name in PROVIDERS}
        crew = Clients(run, {name: site.port for name, site in sites.items()})
        stack.callback(crew.stop)
        crew.start()
        while crew.working():
            _act(run, sites[KILLED])
            watch(run)
            for site in sites.values():
                site.check()


def _act(run: Run, site: Site) -> None:
    """Kill the provider, and revive it, when it is time."""
    if run.killed is None and run.at() >= run.plan.killed_at:
        site.kill()
        run.killed = run.at()
    elif run.revived is None and run.at() >= run.plan.revived_at:
        site.revive()
        run.revived = run.at()
