"""Half-open: who may probe, what closes it, and what opens it again (SPEC 4)."""

from __future__ import annotations

from typing import Any

import pytest

from breakerkit import OpenReason, ProbeLimitError, Registry, State, backoff, breaker
from tests.circuit.rig import Rig, Steps, probing


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_at_most_so_many_probes_at_once(limit: int) -> None:
    """A further call is rejected with `ProbeLimitError` and counted neither way."""
    rig = probing(probe_limit=limit)
    rig.hang(limit)
    error = rig.rejected()
    assert isinstance(error, ProbeLimitError)
    assert (error.reason, error.opened_at) == (rig.seen.reason, rig.seen.opened_at)
    assert (rig.seen.probes_active, rig.seen.probe_successes, rig.seen.failures) == (limit, 0, 1)


def test_the_limit_is_no_total() -> None:
    """A slot that is free again is given again."""
    rig = probing(probe_success_threshold=10)
    for _ in range(5):
        rig.ok()
    assert (rig.seen.probes_active, rig.seen.probe_successes) == (0, 5)


def test_it_closes_after_so_many_successes() -> None:
    """The threshold may exceed the limit; the last success closes it."""
    rig = probing(probe_limit=1, probe_success_threshold=3)
    rig.ok(2)
    assert rig.state is State.HALF_OPEN
    rig.ok()
    assert rig.state is State.CLOSED


def test_it_waits_for_every_admitted_probe() -> None:
    """With the threshold met it closes when no probe is active any more; admission looks at slots only."""
    rig = probing(probe_limit=2, probe_success_threshold=1)
    first, second = rig.start(), rig.start()
    rig.end(first)
    assert (rig.state, rig.seen.probe_successes) == (State.HALF_OPEN, 1)
    third = rig.start()
    assert isinstance(rig.rejected(), ProbeLimitError)
    rig.end(second)
    assert rig.state is State.HALF_OPEN
    rig.end(third)
    assert rig.state is State.CLOSED


@pytest.mark.parametrize("end", [None, KeyboardInterrupt(), "drop", "lapse", "ignore"])
def test_the_check_comes_at_every_release(end: Any) -> None:
    """It closes when the last slot is freed, however: success, cancel, drop, lapse, an ignored block."""
    rig = probing(probe_limit=2)
    first, second = rig.start(), rig.start()
    rig.end(first)
    assert rig.state is State.HALF_OPEN
    if end == "lapse":
        rig.wait(1)
    elif end == "ignore":
        second.ignore()
        assert rig.state is State.HALF_OPEN, "the slot is freed at the block's end"
        rig.end(second)
    elif end != "drop":
        rig.end(second, end)
    del second
    assert rig.state is rig.seen.state is State.CLOSED


def test_a_failing_probe_opens_it_again() -> None:
    """For a full new period, with a reason of its own; the successes are forgotten."""
    rig = probing(probe_limit=2, probe_success_threshold=3)
    rig.ok(2)
    rig.wait(0.5)
    error = ConnectionError()
    rig.fail(error=error)
    assert (rig.state, rig.seen.retry_after) == (State.OPEN, 1)
    assert rig.seen.reason is OpenReason.PROBE_FAILURE
    assert (rig.contexts[-1].openings, rig.contexts[-1].error) == (2, error)
    rig.wait(1)
    assert rig.seen.probe_successes == 0
    rig.ok(2)
    assert rig.state is State.HALF_OPEN


def test_two_probes_one_fails() -> None:
    """A fails at 0.05, B succeeds at 0.1: open since 0.05 for a full grown period; B changes nothing (C003)."""
    rig = probing(probe_limit=2, probe_success_threshold=2, open_duration=backoff(1, factor=2))
    a, b = rig.start(), rig.start()
    rig.wait(0.05)
    rig.end(a, ConnectionError())
    rig.wait(0.05)
    rig.end(b)
    assert rig.seen.reason is OpenReason.PROBE_FAILURE
    assert rig.seen.retry_after == pytest.approx(1.95)
    assert (rig.seen.successes, len(rig.contexts)) == (1, 2)


def test_neutral_probes_free_their_slots() -> None:
    """Its caller gets its own exception; the slot is free, still half-open, a success closes (C004)."""
    for limit in (1, 3):
        rig = probing(probe_limit=limit, ignore_on=ValueError)
        probes = [rig.start() for _ in range(limit)]
        for probe in probes:
            rig.end(probe, ValueError())
        rig.raises(ValueError())
        assert (rig.state, rig.seen.probes_active) == (State.HALF_OPEN, 0)
        rig.ok()
        assert rig.state is State.CLOSED


def test_a_predicate_that_raises_costs_no_slot(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets its error, the predicate's own is logged, it is a failure, the next probe runs (C005)."""
    rig = probing(failure_on=lambda error: error.code >= 500)
    rig.raises(OSError())
    assert "AttributeError" in caplog.text
    assert rig.seen.reason is OpenReason.PROBE_FAILURE
    rig.wait(1)
    rig.ok()
    assert rig.state is State.CLOSED


def test_a_probe_is_in_no_window() -> None:
    """A probe enters neither window nor streak, and on closing both start empty."""
    rig = probing(window_size=10, probe_success_threshold=2)
    assert (rig.seen.consecutive_failures, rig.window) == (1, (1, 1))
    rig.ok()
    assert (rig.seen.consecutive_failures, rig.window) == (1, (1, 1)), "their last values"
    rig.ok()
    assert (rig.seen.consecutive_failures, rig.window) == (0, (0, 0))


def test_the_minimum_has_no_say_in_half_open() -> None:
    """A failing probe opens it at once, however few calls the window holds (C008)."""
    rig = Rig(failure_threshold=3, window_size=20, minimum_calls=10)
    rig.half_open()
    rig.fail()
    assert (rig.state, rig.seen.retry_after) == (State.OPEN, 30)
    rig.wait(30)
    rig.hang()
    assert rig.seen.probes_active == 1


def test_a_probe_lapses() -> None:
    """Without a timeout of its own a probe holds its slot as long as the open period was (C007)."""
    rig = probing()
    hung = rig.start()
    rig.wait(0.5)
    error = rig.rejected()
    assert isinstance(error, ProbeLimitError)
    assert error.retry_after == rig.seen.retry_after == 0.5
    rig.wait(0.6)
    assert rig.seen.probes_active == 0
    rig.ok()
    assert rig.state is State.CLOSED
    rig.end(hung, ConnectionError())
    assert (rig.state, rig.seen.consecutive_failures, rig.seen.failures) == (State.CLOSED, 0, 2)


@pytest.mark.parametrize(("seconds", "active"), [(2.75, 1), (3, 0)])
def test_probe_timeout(seconds: float, active: int) -> None:
    """``probe_timeout`` says how long a probe may hold its slot; at its very end it has lost it."""
    rig = probing(probe_timeout=3)
    rig.hang()
    rig.wait(seconds)
    assert rig.seen.probes_active == active
    assert rig.seen.retry_after == (0.25 if active else None)


def test_retry_after_is_the_next_lapse() -> None:
    """With every slot taken it is the time until the longest-running probe loses its own."""
    rig = probing(probe_limit=2, probe_timeout=3)
    rig.hang()
    rig.wait(1)
    assert rig.seen.retry_after is None
    rig.hang()
    assert rig.rejected().retry_after == rig.seen.retry_after == 2
    rig.wait(2)
    rig.hang()
    assert rig.seen.retry_after == 1


@pytest.mark.parametrize("error", [None, ConnectionError()])
def test_a_lapsed_probe_still_counts(error: Exception | None) -> None:
    """If it ends within the same half-open period its result counts."""
    rig = probing()
    hung = rig.start()
    rig.wait(5)
    rig.end(hung, error)
    assert rig.state is (State.OPEN if error else State.CLOSED)


def test_a_lapse_acts_at_its_own_moment() -> None:
    """What ends after it is judged as of then, whoever notices it later: the late failure is dropped."""
    rig = probing(probe_limit=2)
    first, second = rig.start(), rig.start()
    rig.end(first)
    rig.wait(10)
    rig.end(second, ConnectionError())
    assert (rig.state, rig.seen.consecutive_failures, rig.seen.failures) == (State.CLOSED, 0, 2)


def test_closed_since_the_lapse() -> None:
    """From the lapse on it is closed: healthy time counts from that moment."""
    rig = probing(probe_limit=2, open_duration=backoff(1, factor=2))
    first, second = rig.start(), rig.start()
    rig.end(first)
    rig.wait(2)  # closed after one second, healthy for one
    rig.fail()
    assert rig.seen.retry_after == 1
    assert second is not None


def test_lapses_come_in_order() -> None:
    """Only the probes whose time is over lose their slots."""
    rig = probing(probe_limit=3, probe_timeout=2)
    rig.hang()
    rig.wait(1)
    rig.hang(2)
    rig.wait(1)
    assert rig.seen.probes_active == 2
    rig.hang()
    assert rig.seen.probes_active == 3
    rig.wait(1)
    assert rig.seen.probes_active == 1


def test_a_probe_that_calls_through_the_same_breaker() -> None:
    """It is rejected inside, with no deadlock, and the rejection is no failure."""
    rig = probing()
    assert isinstance(rig.breaker.call(rig.rejected), ProbeLimitError)
    assert rig.state is State.CLOSED


def test_a_late_success_of_the_closed_time_closes_nothing() -> None:
    """X begins at 0 and succeeds at 0.5; a probe runs from 0.3 to 0.6 and fails: half-open, then open (C010)."""
    rig = Rig(failure_threshold=1, open_duration=0.2)
    x = rig.start()
    rig.wait(0.05)
    rig.fail()
    rig.wait(0.25)
    probe = rig.start()
    rig.wait(0.2)
    rig.end(x)
    rig.wait(0.05)
    assert rig.state is State.HALF_OPEN
    rig.wait(0.05)
    rig.end(probe, ConnectionError())
    rig.wait(0.05)
    assert rig.state is State.OPEN
    assert (rig.seen.successes, rig.seen.probe_successes) == (1, 0)


def test_a_probe_of_an_earlier_period_is_dropped() -> None:
    """It neither frees a slot nor counts in a later half-open period."""
    rig = probing(probe_limit=2)
    old, failing = rig.start(), rig.start()
    rig.end(failing, ConnectionError())
    rig.wait(1)
    rig.hang(2)
    rig.end(old)
    assert (rig.seen.probes_active, rig.seen.probe_successes) == (2, 0)


def test_openings_count_since_it_was_closed() -> None:
    """``openings`` in the context starts over at each closing, the counter does not."""
    rig = probing()
    rig.fail()
    rig.wait(1)
    rig.ok()
    rig.fail()
    assert [context.openings for context in rig.contexts] == [1, 2, 1]
    assert rig.seen.openings == 3


def test_a_clock_that_steps_back_under_a_probe() -> None:
    """A probe holds its slot no longer than its timeout from then on, however far the clock steps back."""
    clock = Steps()
    b = breaker(
        failure_threshold=1, open_duration=1, probe_timeout=5, clock=clock, registry=Registry()
    )
    with pytest.raises(OSError), b.guard():  # noqa: PT011  # whatever it says
        raise OSError
    clock.at += 1
    probe = b.guard().__enter__()
    clock.at = 0.0
    assert b.snapshot().retry_after == 5
    with pytest.raises(ProbeLimitError) as caught, b.guard():
        pass
    assert caught.value.retry_after == 5
    clock.at = 5.0
    assert (b.snapshot().probes_active, probe is None) == (0, False)


def test_a_late_failing_probe_does_not_grow_the_period() -> None:
    """Open periods grow by openings, not by results of an earlier half-open period."""
    rig = probing(probe_limit=2, open_duration=backoff(1, factor=2))
    late = rig.start()
    rig.fail()
    rig.end(late, ConnectionError())
    rig.wait(2)
    rig.fail()
    assert rig.seen.retry_after == 4


def test_the_end_of_a_late_block_closes_nothing() -> None:
    """It frees no slot, so a threshold that was lowered meanwhile is not judged."""
    # A filter on values takes calls off the lock-free path, where a block has no lease to free.
    rig = Rig(
        failure_threshold=1, open_duration=1, probe_success_threshold=3, failure_if=lambda _: False
    )
    late, decided = rig.start(), rig.start()
    decided.ignore()
    rig.fail()
    rig.wait(1)
    rig.ok(2)
    rig.breaker.reconfigure(probe_success_threshold=2)
    rig.end(decided)
    rig.end(late)
    assert rig.state is State.HALF_OPEN
