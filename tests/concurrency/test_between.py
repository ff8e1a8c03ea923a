"""What a signal handler or destructor finds in the middle of a change of its own thread, one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from breakerkit import CircuitOpenError, Mode, ProbeLimitError, State, breaker
from breakerkit.circuit import _core
from breakerkit.testing import ManualClock
from tests.shapes import Shape, every_shape, in_thread, raising, returning


@contextlib.contextmanager
def middle(*guarded: Any) -> Iterator[None]:
    """Be in the middle of a change of these breakers, as an interrupted thread is."""
    with contextlib.ExitStack() as stack:
        for one in guarded:
            stack.enter_context(one._guard.lock)
        yield


@pytest.fixture
def half_open(clock: ManualClock) -> Any:
    """A breaker that is half-open, with its one probe running."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    clock.advance(1)
    guarded.guard().__enter__()
    return guarded


@every_shape
def test_a_call_passes_and_is_no_evidence(clock: ManualClock, shape: Shape) -> None:
    """In the middle of a change of a closed breaker a call runs, is counted, and moves nothing."""
    guarded = breaker(failure_threshold=2, clock=clock)
    guarded.subscribe(lambda event: None)
    shape.fail(guarded)
    with middle(guarded):
        assert shape.run(guarded, returning(7)) == 7
        shape.fail(guarded)
    seen = guarded.snapshot()
    assert (seen.consecutive_failures, seen.calls, seen.state) == (1, 3, State.CLOSED)
    assert guarded._guard.lock.acquire(blocking=False)
    guarded._guard.lock.release()


@every_shape
def test_a_call_is_rejected_while_open_or_half_open(
    clock: ManualClock, half_open: Any, shape: Shape
) -> None:
    """It is no probe, for nobody could say whether a slot is free; open stays open."""
    with middle(half_open), pytest.raises(ProbeLimitError):
        shape.run(half_open, returning())
    half_open._guard.dropped.clear()
    opened = breaker(failure_threshold=1, open_duration=1, clock=clock)
    opened.subscribe(lambda event: None)
    shape.fail(opened)
    with middle(opened), pytest.raises(CircuitOpenError) as caught:
        shape.run(opened, returning())
    assert caught.value.retry_after == 1
    assert opened.snapshot().rejected == 1


def test_a_call_under_a_switch(clock: ManualClock) -> None:
    """Forced open it is rejected; disabled it passes unrecorded; observed it passes and is counted."""
    guarded = breaker(failure_threshold=1, clock=clock)
    with guarded.force_open(), middle(guarded), pytest.raises(CircuitOpenError):
        guarded.call(returning())
    with guarded.disable(), middle(guarded):
        assert guarded.call(returning(7)) == 7
    assert guarded.snapshot().successes == 0
    with guarded.observe(), middle(guarded):
        with pytest.raises(ConnectionError):
            guarded.call(raising(ConnectionError()))
    seen = guarded.snapshot()
    assert (seen.state, seen.ignored, seen.rejected) == (State.CLOSED, 1, 1)


def test_a_success_that_wants_attention_gets_none(clock: ManualClock) -> None:
    """A success on the lock-free path leaves the streak to the next one."""
    guarded = breaker(failure_threshold=3, clock=clock)
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    with middle(guarded):
        guarded.call(returning())
    assert guarded.snapshot().consecutive_failures == 1
    guarded.call(returning())
    assert guarded.snapshot().consecutive_failures == 0


def test_a_probe_that_ends_in_the_middle_frees_its_slot_afterwards(
    clock: ManualClock,
) -> None:
    """The end of a block in the middle of a change is no evidence; its slot comes back."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    clock.advance(1)
    block = guarded.guard()
    block.__enter__()
    with middle(guarded):
        block.fail()
        block.__exit__(None, None, None)
        assert guarded.state is State.HALF_OPEN
    assert guarded.snapshot().probes_active == 0
    assert guarded.call(returning(7)) == 7
    assert guarded.state is State.CLOSED


def _reconfigure(guarded: Any) -> None:
    guarded.reconfigure(failure_threshold=9)


_changes = pytest.mark.parametrize(
    ("change", "made"),
    [
        (lambda guarded: guarded.reset(), lambda guarded: guarded.state is State.CLOSED),
        (lambda guarded: guarded.force_open(), lambda guarded: guarded.mode is Mode.FORCED_OPEN),
        (_reconfigure, lambda guarded: guarded.config.failure_threshold == 9),
    ],
    ids=["reset", "force-open", "reconfigure"],
)


@_changes
def test_a_change_is_made_once_the_present_one_is_over(
    half_open: Any, change: Callable[[Any], Any], made: Callable[[Any], bool]
) -> None:
    """A reset, a switch or new settings wait for the end of the change they came into."""
    with middle(half_open):
        change(half_open)
        assert not made(half_open)
    half_open.why()
    assert made(half_open)
    assert _core._postponed == []


def test_reading_in_the_middle_does_not_wait_for_itself(half_open: Any, clock: ManualClock) -> None:
    """A handler may ask for a change and then read, this breaker or another one."""
    other = breaker(clock=clock)
    other.force_open(until=None)
    with middle(half_open):
        half_open.reset()
        assert half_open.state is State.HALF_OPEN
        assert half_open.snapshot().probes_active == 1
        assert other.state is State.OPEN
        other.reset()
    half_open.why()
    assert half_open.state is State.CLOSED


def test_another_thread_may_make_it(half_open: Any, clock: ManualClock) -> None:
    """Whichever thread is next to change or read a breaker makes what was postponed."""
    with middle(half_open):
        half_open.reset()
    in_thread(breaker(clock=clock).snapshot)
    assert half_open.state is State.CLOSED


def test_two_threads_do_not_make_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds the list emptied by a quicker thread is done."""

    class Emptied(list[Any]):
        def __len__(self) -> int:
            return 1

    monkeypatch.setattr(_core, "_postponed", Emptied())
    assert breaker().snapshot().calls == 0
