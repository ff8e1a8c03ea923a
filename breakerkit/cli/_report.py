"""What two runs of a recording came to: the figures, the table and the sentence under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakerkit import State
from breakerkit.cli._drive import Kind, Tally
from breakerkit.cli._words import NOTHING, count, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from breakerkit.cli._drive import Run
    from breakerkit.cli._plan import Plan

__all__ = ["Figures", "count", "duration", "figures", "notes", "table", "verdict"]

_LATE = 0.05  # seconds of real time


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run; times in seconds of the recording.

    Attributes:
        calls: calls that clients made.
        let_through: those that went to the service.
        in_outage: those that went to it and came back during an outage; ``None``
            if there was no outage.
        failed: errors that came from the service.
        rejected: calls the breaker turned away.
        spared: rejected calls that had failed when they were recorded.
        turned_away: rejected calls that had been answered then: the price.
        lost: time callers waited for errors.
        waited: time callers waited in all.
        recovery: time from the end of the longest outage to the first good
            answer through a closed breaker; ``None`` if there was no outage, or
            no such answer.
        openings: how often the breaker opened, a failed probe included.
    """

    calls: int
    let_through: int
    in_outage: int | None
    failed: int
    rejected: int
    spared: int
    turned_away: int
    lost: float
    waited: float
    recovery: float | None
    openings: int


def figures(run: Run) -> Figures:
    """Work out the figures of a run."""
    plan, tally = run.plan, Tally()
    tally.add(run.outcomes)
    rejected = [plan.calls[one.number] for one in run.outcomes if one.kind is Kind.REJECTED]
    spared = sum(call.failed for call in rejected)
    went = [one.ended for one in run.outcomes if one.kind is not Kind.REJECTED]
    return Figures(
        calls=len(run.outcomes),
        let_through=tally.let_through,
        in_outage=sum(any(out.began <= end <= out.ended for out in plan.outages) for end in went)
        if plan.outages
        else None,
        failed=tally.failed,
        rejected=tally.rejected,
        spared=spared,
        turned_away=len(rejected) - spared,
        lost=tally.lost,
        waited=tally.waited,
        recovery=_recovery(run),
        openings=sum(move.state is State.OPEN for move in run.moves),
    )


def _recovery(run: Run) -> float | None:
    if not run.plan.outages:
        return None
    over = max(run.plan.outages, key=lambda outage: outage.ended - outage.began).ended
    later = sorted(
        one.ended for one in run.outcomes if one.kind is Kind.ANSWERED and one.ended > over
    )
    good = next((end for end in later if run.state_at(end) is State.CLOSED), None)
    return None if good is None else good - over


def table(bare: Figures, guarded: Figures) -> list[tuple[str, str, str]]:
    """Return the rows of the final table: what, bare, guarded."""

    def row(what: str, of_bare: str, of_guarded: str) -> tuple[str, str, str]:
        return what, of_bare, of_guarded

    return [
        row("calls made", count(bare.calls), count(guarded.calls)),
        row("calls that reached the service", count(bare.let_through), count(guarded.let_through)),
        row(
            "calls that reached it while it failed", count(bare.in_outage), count(guarded.in_outage)
        ),
        row("errors seen from the service", count(bare.failed), count(guarded.failed)),
        row("calls rejected at once", NOTHING, count(guarded.rejected)),
        row("  that had failed in the recording", NOTHING, count(guarded.spared)),
        row("  that had been answered", NOTHING, count(guarded.turned_away)),
        row("time callers waited for errors", duration(bare.lost), duration(guarded.lost)),
        row("time callers waited in all", duration(bare.waited), duration(guarded.waited)),
        row(
            "time to recover after the outage", duration(bare.recovery), duration(guarded.recovery)
        ),
        row("times the breaker opened", NOTHING, count(guarded.openings)),
    ]


def verdict(bare: Figures, guarded: Figures) -> str:
    """Say in a sentence or two what the breaker did, good and bad."""
    if not guarded.openings:
        return (
            f"The breaker never opened: {count(bare.failed)} errors among {count(bare.calls)} calls"
            " were no reason to turn anybody away."
        )
    saved = bare.lost - guarded.lost
    waiting = f" and {duration(saved)} of waiting for errors from the callers" if saved >= 1 else ""
    return (
        f"The breaker kept {count(guarded.spared)} calls from failing{waiting}; it turned"
        f" {count(guarded.turned_away)} calls away that would have been answered."
    )


def notes(plan: Plan, runs: Sequence[Run]) -> list[str]:
    """Say what a reader must know to judge the figures."""
    said = []
    if plan.speed != 1:
        said.append(
            f"All times are the recording's: 1 ms of this machine counts as {plan.speed:.3g} ms."
        )
    if len(plan.calls) < plan.recorded:
        said.append(
            f"At this speed {count(len(plan.calls))} of the {count(plan.recorded)} recorded calls"
            " were issued, evenly chosen, with the recorded share of failures."
        )
    late = max(run.lateness() for run in runs)
    if late > _LATE:
        said.append(
            f"This machine or {plan.threads} threads are too slow for this speed: calls began"
            f" up to {duration(late)} late."
        )
    return said
