"""The instant at which an open period ends: never more probes than allowed, by whatever routes they come."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest

from breakerkit import ProbeLimitError, State, breaker
from breakerkit.testing import ManualClock
from tests.concurrency.crowds import Dependency, crowd, tasks, together
from tests.shapes import SHAPES, Shape, every_shape, in_thread, raising, returning

pytestmark = pytest.mark.usefixtures("eager")

#: The ways to call: sync and async each as function, method, generator, call, apply and block.
ROUTES = [shape for shape in SHAPES if shape.name.removeprefix("async-") in {
    "function", "method", "generator", "call", "apply", "guard-block", "coroutine-function",
}]  # fmt: skip
PAIRS = list(itertools.combinations_with_replacement(ROUTES, 2))


def _expired(clock: ManualClock, **settings: Any) -> Any:
    """Return a breaker at the very instant at which its open period ends."""
    one = breaker(failure_threshold=1, open_duration=1, clock=clock, **settings)
    with pytest.raises(ConnectionError):
        one.call(raising(ConnectionError("down")))
    clock.advance(1)
    return one


@pytest.mark.parametrize(
    ("first", "second"), PAIRS, ids=[f"{one.name}-{other.name}" for one, other in PAIRS]
)
def test_three_of_fifty_run_by_every_pair_of_routes(
    clock: ManualClock, first: Shape, second: Shape
) -> None:
    """Of fifty calls at the instant of expiry exactly ``probe_limit`` run, whatever their routes."""
    guarded = _expired(clock, probe_limit=3, probe_success_threshold=3)
    dependency = Dependency(50)
    sync, asynchronous = [], []
    for shape in (first, second):
        behave = dependency.reach_async if shape.is_async else dependency.reach
        kind = asynchronous if shape.is_async else sync
        kind.extend([shape.bind(guarded, behave)] * 25)
    crowd(sync, asynchronous, dependency.note)
    assert (dependency.runs, dependency.most_running) == (3, 3)
    assert dependency.ended == {"value": 3, "ProbeLimitError": 47}
    assert guarded.state is State.CLOSED
    assert guarded.snapshot().rejected == 47


def test_fifty_threads_and_fifty_tasks_one_probe(clock: ManualClock) -> None:
    """One call runs and fails; nobody who is turned away waits for it (C001)."""
    guarded = breaker(failure_threshold=2, open_duration=1, clock=clock)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            guarded.call(raising(ConnectionError("down")))
    for round_of in ("threads", "tasks"):
        clock.advance(1.1)
        dependency = Dependency(50, ConnectionError("still down"))
        if round_of == "threads":
            together([guarded(dependency.reach)] * 50, dependency.note)
        else:
            asyncio.run(tasks([guarded(dependency.reach_async)] * 50, dependency.note))
        assert dependency.ended == {"ConnectionError": 1, "ProbeLimitError": 49}
        assert guarded.snapshot().retry_after == 1


@every_shape
def test_a_probe_in_a_decorated_function_closes_every_other_route(
    clock: ManualClock, shape: Shape
) -> None:
    """While one route probes, every other one is rejected (C002)."""
    guarded = _expired(clock)
    inside, leave = threading.Event(), threading.Event()

    @guarded
    def probe() -> str:
        inside.set()
        assert leave.wait(20)
        return "well"

    ended: list[str] = []
    thread = threading.Thread(target=lambda: ended.append(probe()))
    thread.start()
    assert inside.wait(20)
    with pytest.raises(ProbeLimitError):
        shape.run(guarded, returning())
    leave.set()
    thread.join()
    assert ended == ["well"]
    assert guarded.state is State.CLOSED


@every_shape
def test_a_probe_that_calls_through_its_breaker_is_rejected_inside(
    clock: ManualClock, shape: Shape
) -> None:
    """A probe that calls through the same breaker is turned away inside, without deadlock."""
    guarded = _expired(clock)
    turned_away: list[Exception] = []

    def probe() -> str:
        with pytest.raises(ProbeLimitError) as caught:
            in_thread(lambda: shape.run(guarded, returning()))
        turned_away.append(caught.value)
        with pytest.raises(ProbeLimitError):
            guarded.call(returning())
        return "well"

    assert guarded.call(probe) == "well"
    assert len(turned_away) == 1
    assert guarded.state is State.CLOSED


@every_shape
def test_a_hung_probe_holds_nobody_for_ever(clock: ManualClock, shape: Shape) -> None:
    """A probe loses its slot after the open period's length; its end changes nothing then (C007)."""
    guarded = _expired(clock)
    inside, leave = threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        assert leave.wait(20)

    thread = threading.Thread(target=lambda: guarded.call(hang))
    thread.start()
    assert inside.wait(20)
    clock.advance(0.5)
    with pytest.raises(ProbeLimitError) as caught:
        shape.run(guarded, returning())
    assert caught.value.retry_after == 0.5
    clock.advance(0.6)
    assert shape.run(guarded, returning("well")) == "well"
    assert guarded.state is State.CLOSED
    before = guarded.snapshot()
    leave.set()
    thread.join()
    after = guarded.snapshot()
    assert guarded.state is State.CLOSED
    assert (after.consecutive_failures, after.openings) == (0, before.openings)
    assert after.successes == before.successes + 1


def test_probes_by_generations(clock: ManualClock) -> None:
    """Round after round of failing probes from many threads: one opening each, never two probes."""
    guarded = _expired(clock)
    opened: list[Any] = []
    guarded.on_open(opened.append)
    for openings in range(2, 12):
        dependency = Dependency(16, ConnectionError("down"))
        together([guarded(dependency.reach)] * 16, dependency.note)
        assert dependency.ended == {"ConnectionError": 1, "ProbeLimitError": 15}
        assert guarded.snapshot().openings == openings
        clock.advance(1)
    assert len(opened) == 10
