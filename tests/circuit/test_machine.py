"""The pure machine and its parts, in moments that threads and signal handlers make."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from breakerkit import BreakerConfig, CallRejected, OpenReason, ProbeLimitError, State
from breakerkit._counters import drawn
from breakerkit._outcome import Outcome
from breakerkit.circuit import _changes as changes
from breakerkit.circuit._counting import FAR, never
from breakerkit.circuit._machine import Machine
from breakerkit.circuit._moves import MOVES
from breakerkit.circuit._slow import SlowCalls
from breakerkit.circuit._states import Closed, Lease
from breakerkit.circuit._window import CountWindow
from tests.circuit.rig import Rig


def test_the_table_of_moves() -> None:
    """There are four moves and no other; a reset is none."""
    closed, opened, half_open = State.CLOSED, State.OPEN, State.HALF_OPEN
    assert {
        (closed, opened),
        (opened, half_open),
        (half_open, opened),
        (half_open, closed),
    } == MOVES


def test_looking_at_a_counter_draws_nothing() -> None:
    """The last number drawn can be told without drawing one."""
    counter = itertools.count(1)
    assert drawn(counter) == 0
    assert next(counter) == 1
    assert (drawn(counter), drawn(counter), next(counter)) == (1, 1, 2)


@pytest.mark.parametrize("last", [0, FAR // 2 - 1, FAR // 2, FAR, 10**12])
def test_never_is_far_away(last: int) -> None:
    """A ticket that stands for never is at least half a billion away."""
    assert never(last) - last > FAR // 2


def test_a_hundred_thousand_successes_leave_nothing() -> None:
    """Memory does not grow with the traffic."""
    rig = Rig(window_size=10)
    work = rig.breaker(lambda: None)
    for _ in range(100_000):
        work()
    assert rig.seen.successes == 100_000
    assert len(rig.breaker._guard.machine.state.window.marks) == 0  # type: ignore[union-attr]  # it is closed


# -- what other threads have done meanwhile ----------------------------------


def machine(**settings: Any) -> Machine:
    """Return a machine at moment 0."""
    return Machine(BreakerConfig(**settings), 0.0, lambda: datetime.now(UTC))


def closed(made: Machine) -> Closed:
    """Return its closed period."""
    assert isinstance(made.state, Closed)
    return made.state


def test_a_success_of_a_period_that_is_over_by_now() -> None:
    """It drew its ticket before the period was retired, which has counted it; then it comes to the lock."""
    made = machine()
    period = closed(made)
    early = next(period.ticks)
    changes.reset(made, 0.0)
    made.succeed(period, early, 0.0)
    assert made.counts.successes == 1


def test_a_success_that_comes_after_its_period() -> None:
    """It draws its ticket after the period was retired, and is counted when it comes to the lock."""
    made = machine()
    period = closed(made)
    changes.reset(made, 0.0)
    late = next(period.ticks)
    assert late >= period.attention
    made.succeed(period, late, 0.0)
    assert made.counts.successes == 1


@pytest.mark.parametrize("passed", [0, 1, 5])
def test_a_rate_reached_at_just_the_minimum(passed: int) -> None:
    """Calls that pass the one that makes the minimum before it has the lock do not hide the rate it reached."""
    made = machine(
        failure_threshold=None, window_size=10, minimum_calls=2, failure_rate_threshold=50
    )
    period = closed(made)
    made.settle(Lease(period, 0.0), Outcome.FAILURE, 0.0)
    ticket = next(period.ticks)
    for _ in range(passed):
        next(period.ticks)
    made.succeed(period, ticket, 0.0)
    (move,) = made.moves
    assert move.opened is not None
    assert (move.opened.reason, move.error) == (OpenReason.FAILURE_RATE, None)
    assert (move.opened.evidence.window_calls, move.opened.evidence.window_failures) == (2, 1)


def test_a_slow_rate_reached_at_just_the_minimum() -> None:
    """The same for the tally of slow calls."""
    made = machine(
        failure_threshold=None,
        window_size=10,
        minimum_calls=2,
        slow_call_duration=1,
        slow_call_rate_threshold=50,
    )
    period = closed(made)
    assert period.slow is not None
    hung: Any = made.admit(0.0)
    made.settle(hung, Outcome.SUCCESS, 1.0)
    fast: list[Any] = [made.admit(2.0) for _ in range(3)]
    for lease in fast:
        assert period.slow.passed(lease, 2.0)
    made.succeed(period, next(period.ticks), 2.0)
    (move,) = made.moves
    assert move.opened is not None
    assert move.opened.reason is OpenReason.SLOW_CALL_RATE
    assert (move.opened.evidence.slow_window_calls, move.opened.evidence.slow_calls) == (2, 1)


def test_a_move_that_was_made_meanwhile() -> None:
    """If a signal handler makes another move in the middle of one, the first is not made."""
    meddling: list[Machine] = []

    def stamp() -> datetime:
        changes.reset(meddling[0], 0.0)
        return datetime.now(UTC)

    made = Machine(BreakerConfig(failure_threshold=1), 0.0, stamp)
    meddling.append(made)
    made.settle(Lease(made.state, 0.0), Outcome.FAILURE, 0.0)
    assert isinstance(made.state, Closed)
    assert made.moves == []


def test_a_hanging_call_that_ends_meanwhile() -> None:
    """A call that another thread takes out while those that hang are counted is not counted twice."""
    slow = SlowCalls(1.0, CountWindow(5))
    first, second = Lease(None, 0.0), Lease(None, 0.0)

    class Racing(type(slow.running)):  # type: ignore[misc]  # whatever it is
        def pop(self, lease: Lease, default: Any = None) -> Any:  # type: ignore[override]  # two arguments at most
            super().pop(lease, default)
            return lease is second

    slow.running = Racing()
    slow.start(first)
    slow.start(second)
    assert slow.sweep(1.0)
    assert slow.tally(1.0) == (1, 1)


def test_a_refused_probe_says_when_it_opened() -> None:
    """A `ProbeLimitError` names the moment of the opening, as every rejection does."""
    rig = Rig()
    rig.half_open()
    opened_at = rig.seen.opened_at
    probe = rig.start()
    refused = rig.rejected()
    rig.end(probe)
    assert isinstance(refused, ProbeLimitError)
    assert opened_at is not None
    assert refused.opened_at == opened_at


class Passing(CountWindow):
    """A window in which other threads draw tickets while a marked call joins."""

    __slots__ = ("period",)

    def mark(self, ticket: int, now: float) -> None:
        """Let two others pass."""
        super().mark(ticket, now)
        next(self.period.ticks), next(self.period.ticks)


def test_a_failure_that_makes_the_minimum_is_not_passed() -> None:
    """With no minimum the very first failure opens it, though others draw tickets before it is judged."""
    made = machine(failure_threshold=None, window_size=10)
    period = closed(made)
    period.window = Passing(10)
    period.window.period = period
    made.settle(Lease(period, 0.0), Outcome.FAILURE, 0.0)
    assert made.moves[0].opened is not None
    assert made.moves[0].opened.evidence.window_calls == 1


def test_a_failure_asks_for_attention_before_it_draws() -> None:
    """A success that draws its ticket after a failure must come to the lock; after a success it need not."""
    made = machine()
    period = closed(made)
    made.watch(period)
    calm = period.attention
    made.settle(Lease(period, 0.0), Outcome.SUCCESS, 0.0)
    assert period.attention == calm > 0
    made.settle(Lease(period, 0.0), Outcome.FAILURE, 0.0)
    assert period.attention < 0


def test_one_reading_of_the_clock_per_admission() -> None:
    """A rejection at the very moment of the opening looks at the clock once, with a listener too."""
    rig = Rig(failure_threshold=1)
    rig.breaker.subscribe(lambda _: None, CallRejected)
    rig.fail()
    readings: list[float] = []
    now = rig.clock.now
    rig.clock.now = lambda: readings.append(now()) or now()  # type: ignore[method-assign]  # it counts
    rig.rejected()
    assert len(readings) == 1


@pytest.mark.parametrize("window", [{}, {"window_size": 10}, {"window_duration": 10}])
def test_a_success_takes_no_lock(window: dict[str, Any]) -> None:
    """While all is well a success is taken in without the lock, whatever window there is."""
    rig = Rig(**window)
    rig.ok(2)
    guard = rig.breaker._guard
    guard.lock, lock = None, guard.lock  # type: ignore[assignment]  # whoever takes it fails
    rig.ok(3)
    guard.lock = lock
    assert rig.seen.successes == 5
