"""What the play came to: the figures of either way to ask, the table and the sentences under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakerkit.cli._words import NOTHING, count, duration
from breakerkit.cli.staleness._run import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from breakerkit.cli.staleness._plan import Plan
    from breakerkit.cli.staleness._run import Outcome, Run

__all__ = ["HEAD", "Figures", "figures", "notes", "table", "verdict"]

#: The head of the table.
HEAD = ("", "without cache", "with cache")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one way to ask; times in seconds.

    Attributes:
        kinds: how many calls came to what.
        oldest: how old the oldest price was that a caller got.
        asked: how often the price service was asked.
        asked_before: how often before the store was frozen.
        asked_down: how often while it was down.
        wait_well: the longest time a reader took while all was well; ``None``: it
            never was.
        wait_down: the same while the price service was down.
        wait_frozen: the same while the store was frozen.
        wait_dead: the same while it was dead.
        storeless: calls that began while it was either.
        lost: those of them that ended in an error.
    """

    kinds: Mapping[Kind, int]
    oldest: float
    asked: int
    asked_before: int
    asked_down: int
    wait_well: float | None
    wait_down: float | None
    wait_frozen: float | None
    wait_dead: float | None
    storeless: int
    lost: int

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return sum(self.kinds.values())

    @property
    def errors(self) -> int:
        """How many ended in an error."""
        return self.kinds[Kind.FAILED]

    @property
    def wait_storeless(self) -> float | None:
        """The longest time a reader took while the store was frozen or dead."""
        return max((one for one in (self.wait_frozen, self.wait_dead) if one), default=None)


def figures(run: Run, way: str) -> Figures:
    """Work out the figures of a way to ask."""
    calls, asked = run.of(way), run.asked(way)
    frozen = run.span if run.frozen is None else run.frozen
    killed = run.span if run.killed is None else run.killed
    down = [one for one in calls if _during(run.plan, one.began)]
    before = [one for one in calls if one.began < frozen and not _during(run.plan, one.began)]
    of_frozen = [one for one in calls if frozen <= one.began < killed]
    of_dead = [one for one in calls if one.began >= killed]
    kinds = [one.kind for one in calls]
    return Figures(
        kinds={kind: kinds.count(kind) for kind in Kind},
        oldest=max((one.age for one in calls if one.age is not None), default=0.0),
        asked=len(asked),
        asked_before=sum(moment < frozen for moment in asked),
        asked_down=sum(_during(run.plan, moment) for moment in asked),
        wait_well=_longest(before),
        wait_down=_longest(down),
        wait_frozen=_longest(of_frozen),
        wait_dead=_longest(of_dead),
        storeless=len(of_frozen) + len(of_dead),
        lost=sum(one.kind is Kind.FAILED for one in (*of_frozen, *of_dead)),
    )


def _during(plan: Plan, moment: float) -> bool:
    return any(began <= moment < ended for began, ended in plan.down)


def _longest(calls: Iterable[Outcome]) -> float | None:
    return max((one.took for one in calls), default=None)


def table(without: Figures, through: Figures) -> list[tuple[str, str, str]]:
    """Return the rows of the table: what, without the cache, with it."""
    both = (without, through)
    return [
        _row("calls made", *(count(one.calls) for one in both)),
        _row("errors seen by callers", *(count(one.errors) for one in both)),
        _row("fresh prices", *(count(one.kinds[Kind.FRESH]) for one in both)),
        _row("cached prices", NOTHING, count(through.kinds[Kind.CACHED])),
        _row("stale prices", NOTHING, count(through.kinds[Kind.STALE])),
        _row("disaster answers", NOTHING, count(through.kinds[Kind.DISASTER])),
        _row("oldest price served", NOTHING, duration(through.oldest)),
        _row("calls of the price service", *(count(one.asked) for one in both)),
        _row("of them before the Valkey froze", *(count(one.asked_before) for one in both)),
        _row("of them while it was down", *(count(one.asked_down) for one in both)),
        _row("longest wait, all well", *(duration(one.wait_well) for one in both)),
        _row("longest wait, service down", *(duration(one.wait_down) for one in both)),
        _row("longest wait, Valkey frozen", *(duration(one.wait_frozen) for one in both)),
        _row("longest wait, Valkey dead", *(duration(one.wait_dead) for one in both)),
    ]


def _row(what: str, without: str, through: str) -> tuple[str, str, str]:
    return what, without, through


def verdict(run: Run, without: Figures, through: Figures) -> list[str]:
    """Say what the cache did, and what came of the end of its store."""
    length = sum(ended - began for began, ended in run.plan.down)
    outage = (
        f"The price service was down for {duration(length)}"
        if length
        else "The price service was never down for long"
    )
    errors = (
        f"{outage}: of {count(without.calls)} calls without the cache {count(without.errors)}"
        f" failed, of {count(through.calls)} with it {count(through.errors)};"
        f" {count(through.kinds[Kind.STALE])} got a stale price and"
        f" {count(through.kinds[Kind.DISASTER])} the disaster answer."
    )
    asked = (
        f"Until the Valkey was frozen the price service was asked {count(without.asked_before)} times"
        f" without the cache and {count(through.asked_before)} times with it; while it was down,"
        f" {count(without.asked_down)} and {count(through.asked_down)} times."
    )
    store = (
        f"With the Valkey frozen, then dead, {count(through.lost)} of {count(through.storeless)}"
        f" calls failed; the longest took {duration(through.wait_storeless)}, of which the store"
        f" may have {duration(run.plan.store_timeout)}."
    )
    return [errors, asked, store]


def notes(plan: Plan) -> list[str]:
    """Say what a reader must know to judge the figures."""
    speed = plan.recorded.speed
    if speed == 1:
        return []
    return [
        f"The recording was played at {speed:.3g} times its speed; times of the cache are real time."
    ]
