"""The recommended settings, tried on every real recording: no HTTP, no threads, the same every time."""

from __future__ import annotations

import heapq
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from breakerkit import BreakerConfig, CircuitOpenError, Registry, State, StateChanged, breaker
from breakerkit.cli._client import CallerError, ServerError
from breakerkit.cli._demo import RECORDING
from breakerkit.cli._settings import RECOMMENDED, describe, make_breaker
from breakerkit.cli._trace import Answer, read
from breakerkit.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from breakerkit.cli._trace import Call

FIVE_IN_A_ROW = RECOMMENDED.evolve(failure_threshold=5, window_size=0, minimum_calls=0)


@dataclass
class Sums:
    """What became of the calls: ``spared`` had failed, ``turned_away`` had been answered."""

    openings: int = 0
    failed: int = 0
    answered: int = 0
    spared: int = 0
    turned_away: int = 0


def simulate(calls: Iterable[Call], config: BreakerConfig) -> Sums:
    """Admit each call at the moment it began and settle it at the moment it ended."""
    clock, sums = ManualClock(), Sums()
    guarded = breaker("simulated", config=config, clock=clock, registry=Registry())

    def count_opening(event: StateChanged) -> None:
        sums.openings += event.new is State.OPEN

    guarded.subscribe(count_opening, StateChanged)
    # Of two steps at one moment the end comes first: 0 before 1.
    steps = [(call.start, 1, number, call, None) for number, call in enumerate(calls)]
    heapq.heapify(steps)
    while steps:
        moment, _, number, call, running = heapq.heappop(steps)
        clock.advance(max(0.0, moment - clock.now()))
        if running is not None:
            settle(running, call)
            sums.failed += call.failed
            sums.answered += not call.failed
            continue
        block = guarded.guard()
        try:
            block.__enter__()
        except CircuitOpenError:
            sums.spared += call.failed
            sums.turned_away += not call.failed
        else:
            heapq.heappush(steps, (call.end, 0, number, call, block))
    return sums


def settle(running, call: Call) -> None:
    """Leave the guarded block as the call ended."""
    error = None
    if call.failed:
        error = ServerError(call.status)
    elif call.answer is Answer.CALLER_ERROR:
        error = CallerError(call.status)
    with suppress(ServerError, CallerError):
        running.__exit__(type(error) if error else None, error, None)


def test_steady_single_failures_do_not_open_it(traces: Path) -> None:
    """On healthy-with-noise.jtl, 3 % failures over 24 minutes, it never opens."""
    sums = simulate(read(traces / "healthy-with-noise.jtl").calls, RECOMMENDED)
    assert sums == Sums(openings=0, failed=109, answered=4846)


def test_an_outage_of_502_opens_it(traces: Path) -> None:
    """On outage-recovery.jtl it spares more than nine failing calls in ten and closes again."""
    sums = simulate(read(traces / "outage-recovery.jtl").calls, RECOMMENDED)
    assert (sums.openings, sums.spared, sums.turned_away) == (17, 3398, 320)
    assert sums.spared > 0.9 * 3531


def test_a_killed_process_opens_it(traces: Path) -> None:
    """On process-killed.jtl it spares nine refused calls in ten, and few good ones pay for it."""
    calls = read(traces / "process-killed.jtl").calls
    sums = simulate(calls, RECOMMENDED)
    refused = sum(call.answer is Answer.REFUSED for call in calls)
    assert (sums.openings, sums.spared, sums.turned_away) == (11, 671, 33)
    assert sums.spared > 0.9 * refused


def test_flapping_at_capacity_is_left_alone(traces: Path) -> None:
    """On flapping-at-capacity.jtl a streak rule turns away five good calls per bad one; this does nothing."""
    calls = read(traces / "flapping-at-capacity.jtl").calls
    badly = simulate(calls, FIVE_IN_A_ROW)
    assert badly.turned_away > 5 * badly.spared > 0
    assert simulate(calls, RECOMMENDED) == Sums(openings=0, failed=687, answered=4921)


def test_the_worst_burst_stays_far_from_the_threshold(traces: Path) -> None:
    """Where it must not open, no hundred calls in a row have even 40 failures."""
    for name in ("flapping-at-capacity.jtl", "healthy-with-noise.jtl"):
        ended = sorted(read(traces / name).calls, key=lambda call: call.end)
        size = RECOMMENDED.window_size
        worst = max(sum(c.failed for c in ended[n : n + size]) for n in range(len(ended) - size))
        assert worst < 40 < RECOMMENDED.failure_rate_threshold


def test_the_recording_that_ships_opens_it() -> None:
    """It has one outage, of a frozen and then a killed process; most failing calls are spared."""
    recording = read(RECORDING)
    failing = sum(call.failed for call in recording.calls)
    assert 1500 <= len(recording.calls) <= 3000
    assert {call.answer for call in recording.calls} >= {
        Answer.RIGHT, Answer.CALLER_ERROR, Answer.SERVER_ERROR, Answer.REFUSED, Answer.RESET,
    }  # fmt: skip
    sums = simulate(recording.calls, RECOMMENDED)
    assert sums.spared > 0.8 * failing
    assert sums.turned_away < 0.2 * failing


def test_the_breaker_judges_values_and_exceptions() -> None:
    """A wrong answer is a failure, a 4xx proves that the service is there."""
    guarded = make_breaker(ManualClock())

    def not_found() -> bool:
        raise CallerError(404)

    assert guarded.call(lambda: True) is True
    assert guarded.call(lambda: False) is False
    with pytest.raises(CallerError):
        guarded.call(not_found)
    assert (guarded.snapshot().successes, guarded.snapshot().failures) == (2, 1)


def test_the_settings_in_words() -> None:
    """One line says what they do, with their figures."""
    assert describe(RECOMMENDED) == (
        "opens when 60 % of the last 100 calls failed (of at least 20), for 5 s;"
        " closes when 2 probes in a row have succeeded"
    )
