"""What the rounds came to: each endpoint in each phase, the table, and the sentences under it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._words import NOTHING, count, duration
from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG, OTHERS
from breakerkit.cli.avalanche._rounds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from breakerkit.cli.avalanche._plan import Plan
    from breakerkit.cli.avalanche._rounds import Outcome, Round

__all__ = ["HEAD", "PHASES", "WANTED", "Figures", "Results", "results", "table", "verdict"]

#: The phases in the order in which they are told.
PHASES = ALONE, AVALANCHE, ISOLATED, DEGRADED = ("alone", "avalanche", "isolated", "degraded")

#: The head of the table.
HEAD = ("", "asked", "answered", "refused", "timed out", "p50", "p99")

#: How many times its value alone the p99 of the other endpoints may be.
WANTED = 1.5

_GOOD = (Kind.ANSWERED, Kind.STAND_IN)


class Figures(NamedTuple):
    """What became of the calls of one endpoint in one phase.

    Attributes:
        kinds: how many calls came to what.
        p50: seconds within which half of all the calls were answered; ``None`` if
            they were not.
        p99: the same for 99 of 100.
    """

    kinds: Mapping[Kind, int]
    p50: float | None
    p99: float | None

    @property
    def asked(self) -> int:
        """How many calls there were."""
        return sum(self.kinds.values())

    @property
    def answered(self) -> int:
        """How many got an answer, of the dependency or of the rule."""
        return sum(self.kinds[kind] for kind in _GOOD)


#: The figures of each endpoint in each phase.
Results = dict[tuple[str, str], Figures]


def results(shared: Round, isolated: Round) -> Results:
    """Work out the figures of both rounds."""
    calls = _by_phase(shared, isolated)
    return {
        (endpoint, phase): _figures(one for one in calls[phase] if one.endpoint == endpoint)
        for endpoint in ENDPOINTS
        for phase in PHASES
    }


def _by_phase(shared: Round, isolated: Round) -> dict[str, list[Outcome]]:
    plan = shared.plan
    # A call that begins just before the outage is neither alone nor in it.
    quiet = plan.hung_at - 3 * plan.takes
    cleared = plan.over_at if isolated.cleared is None else isolated.cleared
    degraded = cleared if isolated.in_force is None else isolated.in_force
    return {
        ALONE: _between(shared, 0.0, quiet) + _between(isolated, 0.0, quiet),
        AVALANCHE: _between(shared, plan.hung_at, plan.over_at),
        ISOLATED: _between(isolated, plan.hung_at, min(plan.over_at, degraded)),
        DEGRADED: _between(isolated, degraded, cleared),
    }


def _between(played: Round, start: float, end: float) -> list[Outcome]:
    return [one for one in played.outcomes if start <= one.began < end]


def _figures(calls: Iterable[Outcome]) -> Figures:
    calls = list(calls)
    took = sorted(one.ended - one.began if one.kind in _GOOD else math.inf for one in calls)
    kinds = [one.kind for one in calls]
    counts = {kind: kinds.count(kind) for kind in Kind}
    return Figures(counts, _percentile(took, 50), _percentile(took, 99))


def _percentile(took: list[float], percent: int) -> float | None:
    """Return the time within which that share of the calls was answered."""
    if not took:
        return None
    found = took[math.ceil(len(took) * percent / 100) - 1]
    return None if found == math.inf else found


def ratio(found: Results, endpoint: str) -> float | None:
    """Return the p99 with the other dependency hung and isolated, in terms of its value alone."""
    alone, isolated = found[endpoint, ALONE].p99, found[endpoint, ISOLATED].p99
    return None if alone is None or isolated is None else isolated / alone


def table(found: Results) -> list[tuple[str, ...]]:
    """Return the rows of the table, an endpoint after the other."""
    return [
        (
            f"{endpoint}, {phase}",
            count(figures.asked),
            count(figures.answered),
            count(figures.kinds[Kind.REFUSED]),
            count(figures.kinds[Kind.TIMED_OUT]),
            duration(figures.p50),
            duration(figures.p99),
        )
        for (endpoint, phase), figures in found.items()
    ]


def verdict(found: Results, isolated: Round) -> list[str]:
    """Say what isolation and the rule did, with the ratios that were promised."""
    others = " and ".join(OTHERS)
    before, after = (_share(found, phase) for phase in (AVALANCHE, ISOLATED))
    ratios = ", ".join(f"{name} {_times(ratio(found, name))}" for name in OTHERS)
    answers = (
        f"While the dependency of {HUNG} hung, {before} calls of {others} were answered with one"
        f" pool for all, {after} with a bulkhead per dependency."
    )
    latency = (
        f"p99 with {HUNG} hung and isolated, as a multiple of its value alone: {ratios} (wanted:"
        f" at most {WANTED:g})."
    )
    return [answers, latency, _of_rule(found[HUNG, DEGRADED], isolated)]


def _share(found: Results, phase: str) -> str:
    figures = [found[name, phase] for name in OTHERS]
    answered, asked = (sum(one.answered for one in figures), sum(one.asked for one in figures))
    return f"{count(answered)} of {count(asked)}"


def _times(multiple: float | None) -> str:
    return NOTHING if multiple is None else f"{multiple:.2f}"


def _of_rule(degraded: Figures, isolated: Round) -> str:
    if isolated.in_force is None or isolated.written is None:
        return f"The rule for {HUNG} never came into force."
    return (
        f"{duration(max(0.0, isolated.in_force - isolated.written))} after the operator wrote the"
        f" rule, callers of {HUNG} got answers again: {count(degraded.answered)} of"
        f" {count(degraded.asked)}, half of them within {duration(degraded.p50)}."
    )


def notes(plan: Plan, found: Results) -> list[str]:
    """Say how to read the table, and what is not in it."""
    dash = (
        f"p50 and p99 are of all calls that were asked; {NOTHING} means that so many were not"
        " answered."
    )
    times = (
        f"The outage of {plan.name} took {duration(plan.recorded)} when it was recorded, and"
        f" {duration(plan.over_at - plan.hung_at)} here; all other times are real."
    )
    failed = sum(figures.kinds[Kind.FAILED] for figures in found.values())
    others = [f"{count(failed)} calls failed in another way."] if failed else []
    return [*others, dash, times]
