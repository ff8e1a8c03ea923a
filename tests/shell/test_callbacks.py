"""Opening callbacks and listeners in every shape: when they run, in which thread, and that they may raise."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from breakerkit import (
    BreakerReset,
    CallFailed,
    CallIgnored,
    CallRejected,
    CallRejectedError,
    CallSucceeded,
    CircuitOpenError,
    ConfigChanged,
    Mode,
    OpenCallback,
    OpenReason,
    State,
    StateChanged,
    registry,
)
from tests.shapes import (
    SHAPES,
    async_shapes,
    every_shape,
    raising,
    returning,
    sync_shapes,
    value_shapes,
)


@every_shape
def test_an_opening_calls_back_once_before_the_caller_knows(shape, circuit, clock):
    """The callback runs in the thread of the call that opened, before its caller gets its error."""
    told = []

    def callback(context, *extras):
        told.append((context, extras, threading.get_ident()))

    b = circuit("api", on_open=(callback, "one", {"two": 2}), window_size=5)
    error = ConnectionError("down")
    shape.run(b, returning())
    for seen in ([], told):
        assert told == []
        with pytest.raises(ConnectionError):
            shape.run(b, raising(error))
    ((context, extras, thread),) = seen
    assert extras == ("one", {"two": 2})
    assert thread == threading.get_ident()
    assert (context.name, context.reason) == ("api", OpenReason.CONSECUTIVE_FAILURES)
    assert (context.state, context.error) == (State.OPEN, error)
    assert (context.failure_threshold, context.window_size) == (2, 5)
    assert (context.consecutive_failures, context.window_calls, context.window_failures) == (
        2,
        3,
        2,
    )
    assert context.window_failure_rate == pytest.approx(66.67, abs=0.01)
    assert (context.open_duration, context.openings) == (10, 1)
    assert datetime.now(UTC) - context.opened_at < timedelta(minutes=1)


@every_shape
def test_what_calls_back_and_what_does_not(shape, circuit, clock):
    """Called at each opening, a re-opening by a probe too; not on half-open, close, reset, rejection."""
    told = []
    b = circuit(failure_threshold=1)
    b.on_open(lambda context: told.append((context.reason, context.openings)))
    shape.fail(b)
    with pytest.raises(CircuitOpenError):
        shape.run(b, returning())
    clock.advance(10)
    shape.fail(b)
    opened = [(OpenReason.CONSECUTIVE_FAILURES, 1), (OpenReason.PROBE_FAILURE, 2)]
    assert told == opened
    clock.advance(10)
    shape.run(b, returning())
    assert b.state is State.CLOSED
    b.reset()
    with b.force_open(), pytest.raises(CircuitOpenError):
        shape.run(b, returning())
    assert told == opened
    shape.fail(b)
    assert told[2:] == [(OpenReason.CONSECUTIVE_FAILURES, 1)]


@value_shapes
def test_a_value_can_open(shape, circuit):
    """A value that opens reaches its caller, and the context carries no error."""
    told = []
    b = circuit(failure_threshold=1, failure_if=lambda value: value < 0, on_open=told.append)
    assert shape.run(b, returning(-1)) == -1
    assert [context.error for context in told] == [None]


@every_shape
def test_a_success_can_open(shape, circuit):
    """C014: a success that fills the window opens; its caller gets its value."""
    told = []
    b = circuit(
        failure_threshold=None,
        window_size=3,
        minimum_calls=3,
        failure_rate_threshold=50,
        on_open=[told.append],
    )
    shape.fail(b, 2)
    assert shape.run(b, returning(7)) == 7
    assert [(one.reason, one.error) for one in told] == [(OpenReason.FAILURE_RATE, None)]
    assert b.state is State.OPEN


@every_shape
def test_a_callback_may_raise(shape, circuit, caplog):
    """A callback that raises is logged with its name; the outcome and its neighbours stand."""
    told = []

    def broken(context):
        raise LookupError("broken")

    b = circuit(on_open=[broken, told.append])
    shape.fail(b, 2)
    assert len(told) == 1
    assert b.state is State.OPEN
    (record,) = caplog.records
    assert "opening callback" in record.getMessage()
    assert "broken" in record.getMessage()
    assert record.exc_info[0] is LookupError


@every_shape
def test_a_callback_may_use_the_breaker(shape, circuit):
    """C072: it may read the breaker, call through it and reset it; the caller's outcome stands."""
    seen = []

    def callback(context):
        seen.append((b.state, b.snapshot().openings))
        with pytest.raises(CallRejectedError):
            b.call(returning())
        b.reset()
        seen.append(b.call(returning(7)))

    b = circuit(on_open=callback)
    shape.fail(b, 2)
    assert seen == [(State.OPEN, 1), 7]
    assert b.state is State.CLOSED


@async_shapes
def test_a_coroutine_callback_is_awaited(shape, circuit):
    """In an async call a coroutine callback has ended before the caller gets its error."""
    told = []

    async def callback(context, extra):
        await asyncio.sleep(0)
        told.append((context.reason, extra))

    b = circuit(on_open=(callback, "extra"))
    if shape.name == "returned-coroutine":
        with pytest.raises(TypeError, match="coroutine opening callback"):
            shape.run(b, returning())
        return
    shape.fail(b, 2)
    assert told == [(OpenReason.CONSECUTIVE_FAILURES, "extra")]


AWAITING = [one for one in SHAPES if one.is_async and one.name != "returned-coroutine"]
awaiting_shapes = pytest.mark.parametrize("shape", AWAITING, ids=[one.name for one in AWAITING])


@awaiting_shapes
def test_a_coroutine_callback_at_a_success(shape, circuit):
    """A success that opens awaits the callback before the caller gets its value."""
    told = []

    async def callback(context):
        await asyncio.sleep(0)
        told.append(context.error)

    b = circuit(
        failure_threshold=None,
        window_size=2,
        minimum_calls=2,
        failure_rate_threshold=50,
        on_open=callback,
    )
    shape.fail(b)
    assert shape.run(b, returning(7)) == 7
    assert told == [None]


@awaiting_shapes
async def test_a_coroutine_callback_at_an_admission(shape, circuit, clock):
    """An admission that finds a hanging call opens, awaits the callback, and is rejected itself."""
    told = []

    async def callback(context):
        await asyncio.sleep(0)
        told.append(context.reason)

    b = circuit(
        failure_threshold=None,
        window_size=1,
        slow_call_duration=5,
        slow_call_rate_threshold=1,
        on_open=callback,
    )
    hangs = asyncio.create_task(b.call(asyncio.Event().wait))
    await asyncio.sleep(0)
    clock.advance(5)
    with pytest.raises(CircuitOpenError) as caught:
        await shape.bind(b, returning())()
    assert caught.value.reason is OpenReason.SLOW_CALL_RATE
    assert told == [OpenReason.SLOW_CALL_RATE]
    hangs.cancel()
    await asyncio.gather(hangs, return_exceptions=True)


@async_shapes
def test_a_coroutine_callback_may_raise(shape, circuit, caplog):
    """What a coroutine callback raises is logged, and the caller's outcome stands."""

    async def broken(context):
        raise LookupError("broken")

    b = circuit(on_open=OpenCallback(broken))
    if shape.name != "returned-coroutine":
        shape.fail(b, 2)
        assert "broken" in caplog.text
        assert b.state is State.OPEN


DECORATING = [
    shape
    for shape in SHAPES
    if not shape.is_async and shape.name not in {"call", "apply", "guard-block"}
]


@sync_shapes
def test_a_coroutine_callback_is_refused_by_sync_calls(shape, circuit):
    """It is refused when a sync function is decorated and at a sync ``call`` or ``with``."""

    async def callback(context):
        pytest.fail("awaited by whom?")

    b = circuit(on_open=callback)
    with pytest.raises(TypeError, match="coroutine opening callback"):
        shape.run(b, returning())
    assert b.snapshot().calls == 0


@pytest.mark.parametrize("shape", DECORATING, ids=[shape.name for shape in DECORATING])
def test_a_coroutine_callback_is_refused_once_sync_functions_are_guarded(shape, circuit):
    """With a sync function decorated, a coroutine callback is refused when it is registered."""

    async def callback(context):
        pytest.fail("awaited by whom?")

    b = circuit()
    shape.run(b, returning())
    with pytest.raises(TypeError, match="sync functions"):
        b.on_open(callback)
    with pytest.raises(TypeError, match="sync functions"):
        b.reconfigure(on_open=callback)
    shape.fail(b, 2)
    assert b.state is State.OPEN


@sync_shapes
async def test_a_coroutine_callback_with_a_loop_serves_sync_calls(shape, circuit):
    """With ``loop=`` it is sent there; the sync caller does not wait for it."""
    told = asyncio.Event()

    async def callback(context, extra):
        assert extra == "extra"
        told.set()

    b = circuit()
    b.on_open(callback, "extra", loop=asyncio.get_running_loop())
    shape.fail(b, 2)
    assert not told.is_set()
    await told.wait()


@sync_shapes
def test_a_closed_loop_is_told_in_the_log(shape, circuit, caplog):
    """A loop that is closed by then is a fault of the hook, logged; no coroutine is left behind."""

    async def callback(context):
        pytest.fail("the loop is closed")

    loop = asyncio.new_event_loop()
    loop.close()
    b = circuit(on_open=OpenCallback(callback, loop=loop))
    shape.fail(b, 2)
    assert "closed" in caplog.text
    gc.collect()


def test_on_open_is_a_decorator_too(circuit):
    """``@breaker.on_open`` returns the callback as it is."""
    b = circuit(failure_threshold=1)
    told = []

    @b.on_open
    def callback(context):
        told.append(context)

    assert callback.__name__ == "callback"
    with pytest.raises(OSError):
        b.call(raising(OSError()))
    assert len(told) == 1


def test_on_open_wants_a_callable(circuit):
    """A callback that is none is refused when it is registered, with its value."""
    with pytest.raises(TypeError, match="on_open=42: must be callable"):
        circuit().on_open(42)


@every_shape
def test_listeners_hear_every_event_in_order(shape, circuit, clock):
    """One frozen record per event, in order, with the breaker's name; durations on its clock."""
    b = circuit("api", ignore_on=(LookupError,))
    heard = []
    unsubscribe = b.subscribe(heard.append)

    def slow():
        clock.advance(0.5)
        return 7

    shape.run(b, slow)
    with pytest.raises(LookupError):
        shape.run(b, raising(LookupError()))
    shape.fail(b, 2)
    with pytest.raises(CallRejectedError):
        shape.run(b, returning())
    clock.advance(10)
    shape.run(b, returning())
    b.reset()
    b.reconfigure(probe_limit=2)
    unsubscribe()
    shape.run(b, returning())
    assert [type(event) for event in heard] == [
        CallSucceeded, CallIgnored, CallFailed, CallFailed, StateChanged, CallRejected,
        StateChanged, CallSucceeded, StateChanged, BreakerReset, ConfigChanged,
    ]  # fmt: skip
    assert {event.name for event in heard} == {"api"}
    assert heard[0].duration == 0.5
    assert [(one.old, one.new) for one in heard if isinstance(one, StateChanged)] == [
        (State.CLOSED, State.OPEN), (State.OPEN, State.HALF_OPEN), (State.HALF_OPEN, State.CLOSED),
    ]  # fmt: skip
    assert (heard[5].reason, heard[5].retry_after) == (OpenReason.CONSECUTIVE_FAILURES, 10)
    assert heard[5].mode is Mode.AUTO


@every_shape
def test_listeners_of_a_kind_hear_only_that(shape, circuit):
    """``subscribe(listener, Kind)`` asks for those events only, on a breaker and on a registry."""
    b = circuit("api")
    heard, of_all = [], []
    b.subscribe(heard.append, StateChanged)
    registry.subscribe(of_all.append, StateChanged, CallRejected)
    shape.fail(b, 2)
    with pytest.raises(CallRejectedError):
        shape.run(b, returning())
    assert [type(event) for event in heard] == [StateChanged]
    assert [type(event) for event in of_all] == [StateChanged, CallRejected]


@every_shape
def test_a_listener_may_raise(shape, circuit, clock, caplog):
    """C071: beside a listener that raises at all, results stand and the good one hears all."""

    def broken(event):
        raise LookupError("broken listener")

    b, heard = circuit(), []
    b.subscribe(broken)
    b.subscribe(heard.append)
    registry.subscribe(broken)
    assert shape.run(b, returning(7)) == 7
    shape.fail(b, 2)
    with pytest.raises(CircuitOpenError):
        shape.run(b, returning())
    clock.advance(10)
    assert shape.run(b, returning(7)) == 7
    assert len(heard) == 8
    faults = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert faults
    assert all("broken" in one.getMessage() for one in faults)


@every_shape
def test_a_listener_may_use_the_breaker(shape, circuit):
    """A listener that calls through the breaker meets no deadlock; those events come after."""
    b, heard = circuit(), []

    def listener(event):
        heard.append(type(event))
        if len(heard) == 1:
            b.call(returning())

    b.subscribe(listener, CallSucceeded, CallFailed)
    shape.fail(b)
    assert heard == [CallFailed, CallSucceeded]


@pytest.mark.parametrize("source", [registry, None], ids=["registry", "breaker"])
def test_what_cannot_listen_is_refused(source, circuit):
    """A coroutine function, a non-callable, a kind that is no event: refused, with what is allowed."""
    source = source or circuit()

    async def coroutine(event):
        pytest.fail("awaited by whom?")

    with pytest.raises(TypeError, match="no coroutine function"):
        source.subscribe(coroutine)
    with pytest.raises(TypeError, match="listener=42"):
        source.subscribe(42)
    with pytest.raises(TypeError, match="kind='opened'.*StateChanged"):
        source.subscribe(print, "opened")
