"""What a hook does to its own breaker: anything, and harms nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from breakerkit import BreakerConfig, CircuitOpenError, State, breaker
from breakerkit.events import (
    BreakerReset,
    CallFailed,
    CallIgnored,
    CallRejected,
    CallSucceeded,
    ConfigChanged,
    Mode,
    StateChanged,
)
from breakerkit.testing import ManualClock
from tests.shapes import Shape, every_shape, raising, returning


def _reads(guarded: Any) -> Any:
    return guarded.state, guarded.snapshot().openings, guarded.why()


def _calls(guarded: Any) -> Any:
    with pytest.raises(CircuitOpenError):
        guarded.call(returning())


def _resets(guarded: Any) -> Any:
    return guarded.reset().call(returning())


def _forces(guarded: Any) -> Any:
    with guarded.force_open():
        return guarded.state


def _reconfigures(guarded: Any) -> Any:
    return guarded.reconfigure(probe_limit=2)


def _listens(guarded: Any) -> Any:
    guarded.subscribe(lambda event: None)()
    return guarded.on_open(lambda context: None)


_deeds = pytest.mark.parametrize(
    "deed",
    [_reads, _calls, _resets, _forces, _reconfigures, _listens],
    ids=lambda deed: deed.__name__,
)


@every_shape
@_deeds
@pytest.mark.parametrize("place", ["callback", "listener", "duration"])
def test_a_hook_may_do_anything_with_its_breaker(
    clock: ManualClock, shape: Shape, deed: Callable[[Any], Any], place: str
) -> None:
    """A hook that reads, calls, resets, forces or reconfigures deadlocks nobody (C072)."""
    done: list[State] = []

    def hook(_: object) -> float:
        if not done:
            done.append(guarded.state)
            deed(guarded)
        return 4.0

    settings: dict[str, Any] = {"open_duration": hook if place == "duration" else 4}
    guarded = breaker(failure_threshold=1, clock=clock, **settings)
    if place == "callback":
        guarded.on_open(hook)
    elif place == "listener":
        guarded.subscribe(hook, StateChanged)
    shape.fail(guarded)
    assert done == [State.OPEN]
    assert guarded.mode is Mode.AUTO
    assert guarded.state is (State.CLOSED if deed is _resets else State.OPEN)


KINDS = [
    StateChanged, CallSucceeded, CallFailed, CallIgnored, CallRejected, BreakerReset, ConfigChanged,
]  # fmt: skip


@every_shape
def test_a_listener_that_raises_harms_nobody(
    clock: ManualClock, shape: Shape, caplog: pytest.LogCaptureFixture
) -> None:
    """Results, the opening and the good listener are as without the one that raises (C071)."""

    def bad_listener(event: Any) -> None:
        raise OSError("no listener of mine")

    guarded = breaker("b", failure_threshold=2, open_duration=1, clock=clock)
    events: list[Any] = []
    guarded.subscribe(bad_listener)
    guarded.subscribe(events.append)
    assert shape.run(guarded, returning(7)) == 7
    with pytest.raises(KeyboardInterrupt):
        shape.run(guarded, raising(KeyboardInterrupt()))
    shape.fail(guarded, 2)
    with pytest.raises(CircuitOpenError):
        shape.run(guarded, returning())
    guarded.reconfigure(BreakerConfig(failure_threshold=3))
    guarded.reset()
    assert {type(event) for event in events} == set(KINDS)
    assert [event.new for event in events if isinstance(event, StateChanged)] == ["open", "closed"]
    [first, *_] = caplog.records
    assert "bad_listener" in first.getMessage()
    assert "'b'" in first.getMessage()
