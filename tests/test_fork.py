"""What a forked child mends, asked without a fork; the forks themselves are in tests/concurrency."""

from __future__ import annotations

import gc

import pytest

from breakerkit import Registry, State, _fork, breaker
from breakerkit.testing import ManualClock
from tests.shapes import raising, returning


class Holder:
    """Something that holds a lock."""

    def __init__(self, error: Exception | None = None) -> None:
        self.mended = 0
        self._error = error
        _fork.remember(self)

    def after_fork(self) -> None:
        self.mended += 1
        if self._error is not None:
            raise self._error


def test_everything_alive_is_mended() -> None:
    """Each living object that was remembered is mended once."""
    one, other = Holder(), Holder()
    _fork._after_fork()
    assert (one.mended, other.mended) == (1, 1)


def test_one_that_cannot_be_mended_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    """A fault in mending one object is logged, and the rest is mended."""
    broken, others = Holder(OSError("mine")), [Holder() for _ in range(3)]
    _fork._after_fork()
    assert [one.mended for one in others] == [1, 1, 1]
    assert broken.mended == 1
    assert "after_fork" in caplog.text


def test_what_is_gone_is_forgotten() -> None:
    """Being remembered keeps nothing alive."""
    one = Holder()
    assert one in _fork.alive(Holder)
    del one
    gc.collect()
    assert _fork.alive(Holder) == []


def test_a_mended_breaker_is_a_new_generation(clock: ManualClock) -> None:
    """Locks are others, slots are free, evidence and switches are kept, results in flight are dropped."""
    guarded = breaker(failure_threshold=3, clock=clock, registry=Registry())
    for _ in range(2):
        with pytest.raises(ConnectionError):
            guarded.call(raising(ConnectionError()))
    late = guarded.guard()
    late.__enter__()
    handle = guarded.observe(by="somebody")
    lock = guarded._guard.lock
    _fork._after_fork()
    assert guarded._guard.lock is not lock
    assert guarded.snapshot().consecutive_failures == 2
    assert [one.by for one in guarded.handles] == ["somebody"]
    handle.release()
    late.__exit__(ConnectionError, ConnectionError(), None)
    assert guarded.snapshot().consecutive_failures == 2
    assert guarded.snapshot().failures == 3


def test_a_mended_half_open_breaker_has_its_slots(clock: ManualClock) -> None:
    """Probes of the parent hold no slot; successes counted so far stay."""
    guarded = breaker(
        failure_threshold=1, open_duration=1, probe_limit=2, probe_success_threshold=2, clock=clock
    )
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    clock.advance(1)
    running = guarded.guard()
    running.__enter__()
    guarded.call(returning())
    assert (guarded.snapshot().probes_active, guarded.snapshot().probe_successes) == (1, 1)
    _fork._after_fork()
    assert (guarded.snapshot().probes_active, guarded.snapshot().probe_successes) == (0, 1)
    guarded.call(returning())
    assert guarded.state is State.CLOSED
    running.__exit__(ConnectionError, ConnectionError(), None)
    assert guarded.state is State.CLOSED
