"""Rounds of the avalanche made by hand, so that every figure is known."""

from __future__ import annotations

import pytest

from breakerkit.cli.avalanche._plan import ENDPOINTS, HUNG, Plan
from breakerkit.cli.avalanche._rounds import Kind, Outcome, Round


def a_plan(**changes: object) -> Plan:
    """Ten seconds: the dependency hangs from 2 to 8; the rule is due at 5, and removed at 8.67."""
    usual = {
        "name": "an-outage.csv", "recorded": 60.0, "speed": 10.0, "span": 10.0, "hung_at": 2.0,
        "over_at": 8.0, "hangs": ((2.0, 8.0),), "takes": 0.08,
    }  # fmt: skip
    return Plan(**(usual | changes))


def kind_of(endpoint: str, at: float, isolated: bool) -> tuple[Kind, float]:
    """Return what a call came to that began then, and how long it took."""
    plan = a_plan()
    if not plan.hung_at <= at < plan.over_at:
        return Kind.ANSWERED, 0.1
    if not isolated:
        return (Kind.TIMED_OUT, 1.0) if at < 4 else (Kind.REFUSED, 0.0)
    if endpoint != HUNG:
        return Kind.ANSWERED, 0.12
    if at >= 5.5:
        return Kind.STAND_IN, 0.01
    return (Kind.TIMED_OUT, 1.0) if at < 2.2 else (Kind.REFUSED, 0.0)


def a_round(plan: Plan, isolated: bool) -> Round:
    """A round with ten calls a second of each endpoint."""
    played = Round(plan, isolated=isolated)
    for number in range(100):
        at = number / 10
        for endpoint in ENDPOINTS:
            kind, took = kind_of(endpoint, at, isolated)
            played.outcomes.append(Outcome(endpoint, at, at + took, kind))
    if isolated:
        played.written, played.cleared = 5.0, 8.7
    return played


@pytest.fixture
def rounds() -> tuple[Round, Round]:
    """Both rounds of one plan."""
    plan = a_plan()
    return a_round(plan, isolated=False), a_round(plan, isolated=True)
