"""A recording played to a breaker on a manual clock: no HTTP, no threads, no waiting, the same every time."""

from __future__ import annotations

import heapq
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakerkit import BreakerConfig, CircuitOpenError, Registry, State, StateChanged, breaker
from breakerkit.cli._client import CallerError, ServerError
from breakerkit.cli._trace import Answer
from breakerkit.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from breakerkit.cli._trace import Call


@dataclass
class Sums:
    """What became of the calls: ``spared`` had failed, ``turned_away`` had been answered."""

    openings: int = 0
    failed: int = 0
    answered: int = 0
    spared: int = 0
    turned_away: int = 0


def simulate(calls: Iterable[Call], config: BreakerConfig) -> Sums:
    """Admit each call when it began and settle it when it ended."""
    clock, sums = ManualClock(), Sums()
    guarded = breaker("simulated", config=config, clock=clock, registry=Registry())

    def count_opening(event: StateChanged) -> None:
        sums.openings += event.new is State.OPEN

    guarded.subscribe(count_opening, StateChanged)
    steps: list[tuple[float, int, int, Call, AbstractContextManager[object] | None]] = [
        (call.start, 1, number, call, None) for number, call in enumerate(calls)
    ]
    heapq.heapify(steps)
    while steps:
        moment, _, number, call, running = heapq.heappop(steps)
        clock.advance(max(0.0, moment - clock.now()))
        if running is not None:
            _settle(running, call)
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
            # Of two steps at one moment the end comes first: 0 before 1.
            heapq.heappush(steps, (call.end, 0, number, call, block))
    return sums


def _settle(running: AbstractContextManager[object], call: Call) -> None:
    error: Exception | None = None
    if call.failed:
        error = ServerError(call.status)
    elif call.answer is Answer.CALLER_ERROR:
        error = CallerError(call.status)
    with suppress(ServerError, CallerError):
        running.__exit__(None if error is None else type(error), error, None)
