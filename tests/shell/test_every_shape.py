"""What holds for a guarded call whatever its shape: values, errors, rejections, outcomes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import pickle
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from breakerkit import (
    CallCancelledError,
    CallRejectedError,
    CircuitOpenError,
    OpenReason,
    ProbeLimitError,
    State,
)
from tests.shapes import (
    SHAPES,
    Service,
    every_shape,
    raising,
    returning,
    value_shapes,
)


@every_shape
def test_the_caller_gets_the_very_value(shape, circuit):
    """A value passes through as the object it is."""
    value = object()
    assert shape.run(circuit(), returning(value)) is value


@every_shape
def test_the_tripping_caller_gets_its_own_error(shape, circuit):
    """C020: the call that opens the breaker gets its own exception, cause and context untouched."""
    cause, context = OSError("cause"), OSError("context")
    error = ConnectionError("down")
    error.__context__ = context
    error.__cause__ = cause
    b = circuit(failure_threshold=1)
    with pytest.raises(ConnectionError) as caught:
        shape.run(b, raising(error))
    assert caught.value is error
    assert error.__cause__ is cause
    assert error.__context__ is context
    assert b.state is State.OPEN


@every_shape
def test_a_rejection_runs_nothing_and_says_all(shape, circuit, clock):
    """C021: while open nothing of the user's runs, and the error has name, reason and times."""
    b, service = circuit("payments"), Service()
    shape.fail(b, 2)
    clock.advance(3)
    with pytest.raises(CircuitOpenError) as caught:
        shape.run(b, service)
    error = caught.value
    assert service.runs == 0
    assert (error.name, error.reason) == ("payments", OpenReason.CONSECUTIVE_FAILURES)
    assert error.retry_after == 7
    assert timedelta(0) <= datetime.now(UTC) - error.opened_at < timedelta(minutes=1)
    assert not isinstance(error, ProbeLimitError)
    assert "'payments' is open" in str(error)


@every_shape
def test_each_rejection_is_new_and_pickles(shape, circuit):
    """C027: a rejection is a fresh object that arrives in another process with the same fields."""
    b = circuit()
    shape.fail(b, 2)
    errors = []
    for _ in range(2):
        with pytest.raises(CircuitOpenError) as caught:
            shape.run(b, returning())
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    again = pickle.loads(pickle.dumps(errors[0]))
    assert type(again) is CircuitOpenError
    assert vars(again) == vars(errors[0])
    assert str(again) == str(errors[0])


@every_shape
def test_rejections_change_nothing(shape, circuit, clock):
    """Rejections neither prolong the open period nor are evidence; they are counted."""
    b = circuit()
    shape.fail(b, 2)
    before = b.snapshot()
    for _ in range(3):
        clock.advance(3)
        with pytest.raises(CallRejectedError):
            shape.run(b, returning())
    after = b.snapshot()
    assert (after.opened_at, after.openings) == (before.opened_at, before.openings)
    assert (after.rejected, after.calls) == (3, 5)
    assert after.consecutive_failures == 2
    clock.advance(1)
    assert b.state is State.HALF_OPEN


@every_shape
def test_a_probe_closes(shape, circuit, clock):
    """At the very end of the open period a call is let in, and its success closes."""
    b = circuit()
    shape.fail(b, 2)
    clock.advance(10)
    assert shape.run(b, returning(7)) == 7
    assert b.state is State.CLOSED


@every_shape
def test_a_failing_probe_opens_again(shape, circuit, clock):
    """A failing probe opens for a full new period, and its caller gets its own error."""
    b = circuit()
    shape.fail(b, 2)
    clock.advance(10)
    shape.fail(b)
    clock.advance(9)
    with pytest.raises(CircuitOpenError) as caught:
        shape.run(b, returning())
    assert (caught.value.reason, caught.value.retry_after) == (OpenReason.PROBE_FAILURE, 1)


@every_shape
def test_a_success_ends_the_streak(shape, circuit):
    """A success sets the streak to 0."""
    b = circuit()
    shape.fail(b)
    shape.run(b, returning())
    shape.fail(b)
    assert b.state is State.CLOSED
    assert b.snapshot().consecutive_failures == 1


NEUTRAL = [
    asyncio.CancelledError("cancelled"),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    LookupError("ignored"),
    CircuitOpenError("inner", OpenReason.FORCED, None, datetime.now(UTC)),
    BaseExceptionGroup("", [asyncio.CancelledError(), CallRejectedError("inner", "full", None)]),
    ExceptionGroup("", [CallRejectedError("inner", "full", None), LookupError("ignored")]),
]


@every_shape
@pytest.mark.parametrize("error", NEUTRAL, ids=lambda error: type(error).__name__)
def test_neutral_ends_pass_and_are_no_evidence(shape, circuit, error, clock):
    """C004, C018: cancellations, exits, ignored errors and inner rejections pass and free the slot."""
    b = circuit(ignore_on=(LookupError,))
    shape.fail(b)
    with pytest.raises(type(error)):
        shape.run(b, raising(error))
    assert b.snapshot().consecutive_failures == 1
    assert b.snapshot().ignored == 1
    shape.fail(b)
    clock.advance(10)
    with pytest.raises(type(error)):
        shape.run(b, raising(error))
    seen = b.snapshot()
    assert (seen.state, seen.probes_active, seen.probe_successes) == (State.HALF_OPEN, 0, 0)
    shape.run(b, returning())
    assert b.state is State.CLOSED


FAILURES = [
    TypeError("a wrong argument is a failure like any other"),
    CallCancelledError("an operation that has started", "it gave up by itself"),
    ExceptionGroup("", [CallRejectedError("inner", "full", None), ConnectionError("down")]),
    BaseExceptionGroup("", [asyncio.CancelledError(), ConnectionError("down")]),
]


@every_shape
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_failures(shape, circuit, error):
    """Any other ``Exception``, and a group with such a leaf, is a failure."""
    b = circuit(failure_threshold=1)
    with pytest.raises(type(error)) as caught:
        shape.run(b, raising(error))
    assert caught.value is error
    assert b.state is State.OPEN


@every_shape
def test_an_error_that_proves_an_answer_is_a_success(shape, circuit, clock):
    """``success_on`` counts as a success: it ends a streak, and as a probe it closes."""
    b = circuit(success_on=(KeyError,))
    shape.fail(b, 2)
    clock.advance(10)
    with pytest.raises(KeyError):
        shape.run(b, raising(KeyError("404")))
    assert b.state is State.CLOSED


ENDS_AT_ONCE = [shape for shape in SHAPES if not shape.is_async and shape.name != "generator"]


@pytest.mark.parametrize("shape", ENDS_AT_ONCE, ids=[shape.name for shape in ENDS_AT_ONCE])
@pytest.mark.parametrize("error", [StopIteration(7), StopAsyncIteration()])
def test_the_end_of_an_iteration_is_a_success(shape, circuit, error):
    """``StopIteration`` from a guarded callable is how ``next`` ends, and a success."""
    b = circuit()
    shape.fail(b)
    with pytest.raises(type(error)) as caught:
        shape.run(b, raising(error))
    assert caught.value is error
    assert b.snapshot().consecutive_failures == 0


@every_shape
def test_a_classifier_that_raises_counts_as_failure(shape, circuit, clock, caplog):
    """C005: the caller gets its own error, the predicate's is logged, no slot is lost."""
    b = circuit(failure_on=lambda error: error.code >= 500)
    error = OSError("no code")
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            shape.run(b, raising(error))
        assert caught.value is error
    assert b.state is State.OPEN
    clock.advance(10)
    with pytest.raises(OSError):
        shape.run(b, raising(error))
    assert b.state is State.OPEN
    clock.advance(10)
    assert shape.run(b, returning(7)) == 7
    assert b.state is State.CLOSED
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "failure filter" in record.getMessage()
    assert record.exc_info[0] is AttributeError


@value_shapes
def test_a_value_can_be_a_failure(shape, circuit):
    """C016: ``failure_if`` makes a failure of a value, and the caller still gets that very value."""
    b = circuit(failure_threshold=3, failure_if=lambda answer: answer.code != 0)
    answer = SimpleNamespace(code=1)
    for _ in range(3):
        assert b.state is State.CLOSED
        assert shape.run(b, returning(answer)) is answer
    assert b.state is State.OPEN


@value_shapes
def test_a_value_filter_that_raises_makes_it_neutral(shape, circuit, clock, caplog):
    """C016: a ``failure_if`` that raises is logged; the value is neutral, delivered, its slot free."""
    b = circuit(failure_if=lambda answer: answer.code != 0)
    assert shape.run(b, returning("no code")) == "no code"
    assert b.snapshot().ignored == 1
    assert "failure_if" in caplog.text
    shape.fail(b, 2)
    clock.advance(10)
    assert shape.run(b, returning("no code")) == "no code"
    assert b.state is State.HALF_OPEN
    assert b.snapshot().probes_active == 0


@pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES if not shape.judges_values],
    ids=[shape.name for shape in SHAPES if not shape.judges_values],
)
def test_where_there_is_no_value_none_is_judged(shape, circuit, clock):
    """A block and an async generator return nothing: ``failure_if`` is not asked, it is a success."""
    b = circuit(failure_if=lambda answer: pytest.fail("asked"))
    shape.fail(b, 2)
    clock.advance(10)
    shape.run(b, returning())
    assert b.state is State.CLOSED


@every_shape
def test_a_reset_drops_what_is_in_flight(shape, circuit, clock):
    """A call that ends after a reset changes nothing; its caller gets its own error."""
    b = circuit(failure_threshold=1)
    error = ConnectionError("late")

    def behave():
        b.reset()
        raise error

    with pytest.raises(ConnectionError) as caught:
        shape.run(b, behave)
    assert caught.value is error
    assert b.state is State.CLOSED
    shape.fail(b)
    clock.advance(10)
    with pytest.raises(ConnectionError):
        shape.run(b, behave)
    seen = b.snapshot()
    assert (seen.state, seen.failures, seen.consecutive_failures) == (State.CLOSED, 3, 0)


@every_shape
def test_a_disabled_breaker_records_nothing(shape, circuit):
    """In mode ``DISABLED`` every call passes and nothing is recorded."""
    b = circuit(failure_threshold=1)
    with b.disable():
        shape.fail(b, 3)
        assert shape.run(b, returning(7)) == 7
    assert b.snapshot().calls == 0
    assert b.state is State.CLOSED


@every_shape
def test_an_observed_breaker_lets_pass_and_records(shape, circuit):
    """In mode ``OBSERVE`` calls pass, and ``state`` reads what it would be."""
    b = circuit(failure_threshold=1)
    with b.observe():
        shape.fail(b)
        assert b.state is State.OPEN
        assert shape.run(b, returning(7)) == 7
        assert b.snapshot().successes == 1


@every_shape
def test_a_forced_breaker_rejects(shape, circuit):
    """Forced open, each call is rejected with reason ``FORCED`` and no end in sight."""
    b, service = circuit(), Service()
    with b.force_open():
        with pytest.raises(CircuitOpenError) as caught:
            shape.run(b, service)
    assert (caught.value.reason, caught.value.retry_after) == (OpenReason.FORCED, None)
    assert service.runs == 0
    assert shape.run(b, service) == 1


@every_shape
def test_a_slow_call_is_measured_from_admission_to_end(shape, circuit, clock):
    """The duration of a call runs from its admission to its end, on the breaker's clock."""
    b = circuit(
        failure_threshold=None, window_size=1, slow_call_duration=5, slow_call_rate_threshold=100
    )

    def slow():
        clock.advance(5)
        return 7

    assert shape.run(b, returning(7)) == 7
    assert b.state is State.CLOSED
    assert shape.run(b, slow) == 7
    with pytest.raises(CircuitOpenError) as caught:
        shape.run(b, returning())
    assert caught.value.reason is OpenReason.SLOW_CALL_RATE


@every_shape
def test_a_time_window_looks_at_the_last_seconds(shape, circuit, clock):
    """With ``window_duration`` the rate is that of the last so many seconds, in every shape."""
    b = circuit(
        failure_threshold=None, window_duration=60, minimum_calls=4, failure_rate_threshold=50
    )
    shape.fail(b, 3)
    clock.advance(61)
    for _ in range(3):
        assert shape.run(b, returning(7)) == 7
    assert b.snapshot().window_calls == 3
    shape.fail(b, 2)
    assert b.state is State.CLOSED
    shape.fail(b)
    assert b.state is State.OPEN


@every_shape
def test_what_is_guarded_may_call_through_the_breaker(shape, circuit, clock):
    """C030: a nested call passes while closed; inside a probe it is rejected, without a deadlock."""
    b = circuit()
    assert shape.run(b, lambda: b.call(lambda: 7)) == 7
    shape.fail(b, 2)
    clock.advance(10)
    with pytest.raises(ProbeLimitError):
        shape.run(b, lambda: b.call(lambda: 7))
    assert b.state is State.HALF_OPEN


@every_shape
def test_many_threads_in_one_closed_breaker(shape, circuit):
    """C030: calls through a closed breaker run side by side; no lock is held meanwhile."""
    b = circuit()
    together = threading.Barrier(8)

    def behave():
        together.wait(30)
        return 7

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(shape.run, b, behave) for _ in range(8)]
        assert [call.result() for call in calls] == [7] * 8
    assert b.snapshot().successes == 8
