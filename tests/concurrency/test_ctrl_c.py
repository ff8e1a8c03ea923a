"""Ctrl-C in any code of the user's: it passes, and the slot it may have held comes back."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from breakerkit import ProbeLimitError, State, breaker
from breakerkit.events import CallRejected, CallSucceeded, StateChanged
from breakerkit.testing import ManualClock
from tests.shapes import Shape, every_shape, raising, returning, value_shapes


class Striking:
    """A hook that raises ``KeyboardInterrupt`` while it is armed, else answers."""

    def __init__(self, answer: Any = None) -> None:
        self.armed = False
        self._answer = answer

    def __call__(self, *_: Any) -> Any:
        if self.armed:
            raise KeyboardInterrupt
        return self._answer


@attrs.frozen
class StrikingRule:
    strike: Striking = attrs.field(eq=False)

    def judge(self, evidence: Any) -> None:
        self.strike()


class StrikingClock(ManualClock):
    def __init__(self) -> None:
        super().__init__()
        self.strike = Striking()

    def now(self) -> float:
        self.strike()
        return super().now()


def _half_open(clock: ManualClock, **settings: Any) -> Any:
    usual = {"failure_threshold": 1, "open_duration": 1, "clock": clock}
    guarded = breaker(**{**usual, **settings})
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError("down")))
    clock.advance(1)
    return guarded


def _probes_again(guarded: Any, clock: ManualClock) -> None:
    """Assert that no slot is taken: after an open period at most, a probe runs and closes."""
    assert guarded.snapshot().probes_active == 0
    if guarded.state is State.OPEN:
        clock.advance(1)
    assert guarded.call(returning("well")) == "well"
    assert guarded.state is State.CLOSED


@every_shape
def test_in_the_function(clock: ManualClock, shape: Shape) -> None:
    """An interrupted probe is neither success nor failure."""
    guarded = _half_open(clock)
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, raising(KeyboardInterrupt()))
    assert guarded.state is State.HALF_OPEN
    _probes_again(guarded, clock)


@every_shape
@pytest.mark.parametrize("name", ["failure_on", "success_on", "ignore_on"])
def test_in_a_filter_of_errors(clock: ManualClock, shape: Shape, name: str) -> None:
    """A filter that is interrupted leaves no evidence and no slot taken."""
    strike = Striking(answer=name == "failure_on")
    guarded = _half_open(clock, **{name: strike})
    strike.armed = True
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, raising(ConnectionError("down")))
    strike.armed = False
    assert guarded.state is State.HALF_OPEN
    _probes_again(guarded, clock)


@value_shapes
def test_in_a_filter_of_values(clock: ManualClock, shape: Shape) -> None:
    """So does a filter of returned values."""
    strike = Striking(answer=False)
    guarded = _half_open(clock, failure_if=strike)
    strike.armed = True
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, returning())
    strike.armed = False
    assert guarded.state is State.HALF_OPEN
    _probes_again(guarded, clock)


@every_shape
@pytest.mark.parametrize("name", ["on_open", "open_duration"])
def test_in_a_hook_of_the_opening(clock: ManualClock, shape: Shape, name: str) -> None:
    """A callback that is interrupted comes after the opening, which stands."""
    strike = Striking(answer=1)
    guarded = _half_open(clock, **{name: strike})
    strike.armed = True
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, raising(ConnectionError("down")))
    strike.armed = False
    assert guarded.state is State.OPEN
    clock.advance(30)
    _probes_again(guarded, clock)


@every_shape
@pytest.mark.parametrize("kind", [StateChanged, CallSucceeded])
def test_in_a_listener(clock: ManualClock, shape: Shape, kind: type) -> None:
    """A listener that is interrupted at the admission or the end of a probe costs no slot."""
    strike = Striking()
    guarded = _half_open(clock)
    guarded.subscribe(strike, kind)
    strike.armed = True
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, returning())
    strike.armed = False
    _probes_again(guarded, clock)


@every_shape
def test_in_a_listener_of_rejections(clock: ManualClock, shape: Shape) -> None:
    """A listener that is interrupted by a rejection takes no slot either."""
    strike = Striking()
    guarded = _half_open(clock)
    guarded.subscribe(strike, CallRejected)
    with guarded.guard():
        strike.armed = True
        with pytest.raises(KeyboardInterrupt):
            shape.run(guarded, returning())
        strike.armed = False
    assert guarded.snapshot().rejected == 1
    assert guarded.state is State.CLOSED


@every_shape
def test_in_a_rule(clock: ManualClock, shape: Shape) -> None:
    """A trip rule that is interrupted leaves the evidence and the breaker as they are."""
    strike = Striking()
    guarded = breaker(failure_threshold=3, trip_rules=StrikingRule(strike), clock=clock)
    strike.armed = True
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, raising(ConnectionError("down")))
    strike.armed = False
    assert guarded.snapshot().consecutive_failures == 1
    assert shape.run(guarded, returning(7)) == 7


@every_shape
@pytest.mark.parametrize("error", [None, ConnectionError("down")], ids=["success", "failure"])
def test_in_the_clock(shape: Shape, error: Exception | None) -> None:
    """A clock that is interrupted as a probe ends takes no slot with it; nor does it in closed state."""
    clock = StrikingClock()

    def behave() -> None:
        clock.strike.armed = True
        if error is not None:
            raise error

    guarded = _half_open(clock)
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, behave)
    clock.strike.armed = False
    _probes_again(guarded, clock)
    closed = breaker(failure_threshold=9, window_duration=5, clock=clock)
    closed.reconfigure(minimum_calls=9)
    with pytest.raises(KeyboardInterrupt):
        shape.run(closed, behave)
    clock.strike.armed = False
    assert shape.run(closed, returning(7)) == 7
    assert closed.snapshot().calls == 2


@every_shape
def test_a_clock_that_fails_at_the_admission(shape: Shape) -> None:
    """What the clock raises before a call is let in reaches the caller, and nothing has run."""
    clock = StrikingClock()
    guarded = _half_open(clock)
    clock.strike.armed = True
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, raising(ProbeLimitError("", "", 0, None)))  # type: ignore[arg-type]  # never raised
    clock.strike.armed = False
    _probes_again(guarded, clock)
