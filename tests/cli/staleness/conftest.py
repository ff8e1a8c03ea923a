"""A play made by hand, so that every figure is known."""

from __future__ import annotations

import pytest

from breakerkit.cli._trace import Answer, Call, Recording
from breakerkit.cli.staleness._plan import Plan, make_plan
from breakerkit.cli.staleness._reader import WITH, WITHOUT
from breakerkit.cli.staleness._run import Kind, Outcome, Run


def a_recording() -> Recording:
    """Twenty calls a second for 20 s; from second 6 to 12 the service resets, and once a caller is at fault."""
    calls = []
    for number in range(400):
        start = number / 20
        if 6 <= start < 12:
            calls.append(Call(start, 0.0, Answer.RESET))
        elif number == 10:
            calls.append(Call(start, 0.02, Answer.CALLER_ERROR, 404))
        else:
            calls.append(Call(start, 0.02, Answer.RIGHT, 200))
    return Recording("an-outage.csv", tuple(calls))


@pytest.fixture
def recording() -> Recording:
    """A small recording with one outage."""
    return a_recording()


def a_plan() -> Plan:
    """Ten seconds of the recording, then a second each of a calm, a frozen and a dead store."""
    from dataclasses import replace

    return replace(make_plan(a_recording(), 2.0), calm=1.0, frozen=1.0, dead=1.0)


@pytest.fixture
def run() -> Run:
    """Ten calls a second each way: down from 3 to 6, stale from 4, disasters from 5; frozen at 11, dead at 12."""
    run = Run(a_plan(), frozen=11.0, killed=12.0, before={(WITH, 0): 1, (WITHOUT, 0): 1})
    asked = 1
    for number in range(130):
        at = number / 10
        down = 3 <= at < 6
        kind, age, took = Kind.CACHED, 0.5, 0.001
        if down:
            kind, age = (Kind.STALE, at - 3) if at < 5 else (Kind.DISASTER, None)
        if number % 10 == 0 or at >= 11:
            asked += 1
            kind, age, took = (Kind.STALE, at - 3, 0.1) if down else (Kind.FRESH, 0.0, 0.02)
        if 11 <= at < 12:
            took = 0.12
        run.calls.append(Outcome(WITH, 0, at, at + took, kind, age, took, asked))
        bare = (Kind.FAILED, None) if down else (Kind.FRESH, 0.0)
        run.calls.append(Outcome(WITHOUT, 0, at, at + 0.02, *bare, 0.02, number + 2))
    return run
