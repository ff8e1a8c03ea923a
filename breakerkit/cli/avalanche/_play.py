"""``breakerkit demo avalanche`` from beginning to end: two rounds, an operator, the table, the picture."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from breakerkit.cli import _service
from breakerkit.cli._child import Child
from breakerkit.cli._demo import RECORDING
from breakerkit.cli._display import open_display
from breakerkit.cli._trace import read
from breakerkit.cli._words import duration
from breakerkit.cli.avalanche import _shop
from breakerkit.cli.avalanche._picture import draw
from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG, make_plan
from breakerkit.cli.avalanche._report import HEAD, notes, results, table, verdict
from breakerkit.cli.avalanche._rounds import Clients, Round, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.cli._child import ServiceLike, Start
    from breakerkit.cli._options import AvalancheOptions
    from breakerkit.cli.avalanche._plan import Plan

__all__ = ["play", "play_round"]

_RULE = """\
[[rules]]
name = "reviews"
rule = "force:return []"
by = "the operator of the demo"
reason = "its dependency hangs"
"""
_NO_RULES = "rules = []\n"
_WARM_UP = 1  # calls of each endpoint before the clock starts


def play(options: AvalancheOptions, stream: TextIO, start: Start = Child) -> None:
    """Play the demo and show it on the stream.

    Raises:
        TraceError: if the trace is none, before anything ran.
        UsageError: if the trace or the speed has nothing to play, before anything ran.
        ServiceDiedError: if a service ended before its time.
        OSError: if the stream or the picture could not be written.
    """
    recording = read(options.trace or RECORDING)
    plan = make_plan(recording, options.speed)
    display = open_display(stream, plan)
    display.say(opening_line(plan))
    for note in recording.notes:
        display.say(f"{note}.")
    shared, isolated = Round(plan, isolated=False), Round(plan, isolated=True)
    with closing(display):
        for played in (shared, isolated):
            play_round(played, display.watch, start)
            display.finish(played)
    found = results(shared, isolated)
    display.table(table(found), HEAD)
    for line in (*verdict(found, isolated), *notes(plan, found)):
        display.say(line)
    options.svg.write_text(draw(shared, isolated), encoding="utf-8")
    display.say(f"picture: {options.svg}")


def opening_line(plan: Plan) -> str:
    """Say what is going to be played."""
    return (
        f"{plan.name}: its outage of {duration(plan.recorded)} hangs the dependency of {HUNG}, one"
        f" of three endpoints, at {plan.speed:.3g} times the speed; about {2 * plan.span:.0f} s."
    )


def play_round(played: Round, watch: Callable[[Round], None], start: Start = Child) -> None:
    """Play a round to its end with services of its own, calling ``watch(round)`` a few times a second.

    Raises:
        ServiceDiedError: if a service ends before the round does.
    """
    plan = played.plan
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="breakerkit-demo-"))
        rules = Path(folder) / "rules.toml"
        children = {
            name: stack.enter_context(
                start(_service.__file__, plan.script_of(name).dumps(), f"the dependency of {name}")
            )
            for name in ENDPOINTS
        }
        shop = stack.enter_context(
            start(
                _shop.__file__, _settings(played, children, rules).dumps(), "the service", sys.path
            )
        )
        for name in ENDPOINTS * _WARM_UP:
            ask(shop.port, name, plan.patience)
        for child in children.values():
            child.go()
        crew = Clients(played, shop.port)
        stack.callback(crew.stop)
        crew.start()
        while crew.working():
            _operate(played, rules)
            watch(played)
            for child in (shop, *children.values()):
                child.check()


def _settings(played: Round, children: dict[str, ServiceLike], rules: Path) -> _shop.Settings:
    plan, ports = played.plan, {name: child.port for name, child in children.items()}
    settings = _shop.Settings(ports, plan.workers, plan.waiting)
    if played.isolated:
        rules.write_text(_NO_RULES, encoding="utf-8")
        settings = settings._replace(limit=plan.limit, rules=str(rules))
    return settings


def _operate(played: Round, rules: Path) -> None:
    """Do what the operator does: degrade the endpoint in mid-outage, and undo it afterwards."""
    if not played.isolated:
        return
    at = played.at()
    if played.written is None and at >= played.plan.rule_at:
        _replace(rules, _RULE)
        played.written = at
    elif played.cleared is None and at >= played.plan.cleared_at:
        _replace(rules, _NO_RULES)
        played.cleared = at


def _replace(rules: Path, text: str) -> None:
    # In one step, as any tool that writes what others watch.
    new = rules.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(rules)
