"""What the play came to: the figures of either client, the table and the sentences under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakerkit import State
from breakerkit.cli._drive import Kind
from breakerkit.cli._words import NOTHING, count, duration
from breakerkit.cli.switchover._plan import KILLED, PROVIDERS
from breakerkit.cli.switchover._run import WITH_FAILOVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from breakerkit.cli.switchover._plan import Plan
    from breakerkit.cli.switchover._run import Run

__all__ = ["HEAD", "Figures", "figures", "notes", "table", "verdict"]

#: The head of the table.
HEAD = ("", f"bound to {KILLED}", "with failover")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one client; times in seconds of the play.

    Attributes:
        calls: calls it made.
        errors: those that ended in an error.
        longest: the longest time it waited for an answer or an error.
        tries: how often each provider was asked.
        at_the_dead: how often the killed provider was asked while it was dead.
        openings: how often the breaker of that provider opened, a failed probe included.
        back: time from its revival to the next answer it gave; ``None`` if there
            was none.
    """

    calls: int
    errors: int
    longest: float
    tries: Mapping[str, int]
    at_the_dead: int
    openings: int
    back: float | None


def figures(run: Run, client: str) -> Figures:
    """Work out the figures of a client."""
    calls = [one for one in run.calls if one.client == client]
    tries = [one for one in run.tries if one.client == client]
    killed, revived = _death(run)
    of_killed = [one for one in tries if one.provider == KILLED]
    later = (one.ended for one in of_killed if one.kind is Kind.ANSWERED and one.began >= revived)
    answer = min(later, default=None)
    opened = [move for move in run.moves[KILLED] if move.state is State.OPEN]
    return Figures(
        calls=len(calls),
        errors=sum(one.kind is not Kind.ANSWERED for one in calls),
        longest=max((one.ended - one.began for one in calls), default=0.0),
        tries={name: sum(one.provider == name for one in tries) for name in PROVIDERS},
        at_the_dead=sum(killed <= one.began < revived for one in of_killed),
        openings=len(opened) if client == WITH_FAILOVER else 0,
        back=None if answer is None else answer - revived,
    )


def _death(run: Run) -> tuple[float, float]:
    killed = run.span if run.killed is None else run.killed
    return killed, run.span if run.revived is None else run.revived


def table(bound: Figures, free: Figures) -> list[tuple[str, str, str]]:
    """Return the rows of the table: what, the bound client, the one with failover."""
    return [
        ("calls made", count(bound.calls), count(free.calls)),
        ("errors seen by callers", count(bound.errors), count(free.errors)),
        ("longest wait", duration(bound.longest), duration(free.longest)),
        *(
            (f"tries of {name}", count(bound.tries[name]), count(free.tries[name]))
            for name in PROVIDERS
        ),
        (f"tries of {KILLED} while it was dead", count(bound.at_the_dead), count(free.at_the_dead)),
        (f"times the breaker of {KILLED} opened", NOTHING, count(free.openings)),
        (f"time until {KILLED}, revived, answers again", duration(bound.back), duration(free.back)),
    ]


def verdict(run: Run, bound: Figures, free: Figures) -> list[str]:
    """Say what failover did, and when the revived provider was in rotation again."""
    killed, revived = _death(run)
    back = (
        f"{KILLED} was in rotation again {duration(free.back)} after it was revived"
        if free.back is not None
        else f"{KILLED} did not come back into rotation"
    )
    errors = (
        f"{KILLED} was dead for {duration(revived - killed)}: of {count(bound.calls)} calls of the"
        f" client bound to it {count(bound.errors)} failed, of {count(free.calls)} with failover"
        f" {count(free.errors)}."
    )
    return [errors, f"Failover asked the dead {KILLED} {count(free.at_the_dead)} times; {back}."]


def notes(plan: Plan) -> list[str]:
    """Say what a reader must know to judge the figures."""
    if plan.speed == 1:
        return []
    return [f"All times are the play's: 1 ms of this machine counts as {plan.speed:.3g} ms."]
