"""Hooks of the user's: what they may raise, how that is told, in which order listeners hear."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import types

import pytest

from breakerkit import (
    CallFailed,
    CallSucceeded,
    CircuitOpenError,
    OpenCallback,
    State,
    StateChanged,
    _hub,
    _log,
)
from breakerkit.events import Event
from tests.shapes import raising, returning

PASSING = [KeyboardInterrupt, SystemExit, GeneratorExit]


class Odd(BaseException):
    """Something a hook may raise that is no ``Exception``."""


def _open(b):
    with pytest.raises(ConnectionError) as caught:
        b.call(raising(ConnectionError("down")))
    return caught.value


# -- what hooks raise --------------------------------------------------------


@pytest.mark.parametrize("kind", PASSING)
def test_what_ends_the_program_passes(kind, circuit):
    """A hook that is told to end the program ends it; the breaker has settled the call before."""
    for register, kinds in (("on_open", ()), ("subscribe", (CallFailed,))):
        b = circuit(failure_threshold=1)
        getattr(b, register)(raising_hook(kind()), *kinds)
        with pytest.raises(kind):
            b.call(raising(ConnectionError("down")))
        assert b.state is State.OPEN
        assert b.snapshot().failures == 1


def raising_hook(error):
    """Return a hook that raises ``error`` whatever it is told."""

    def hook(*_):
        raise error

    return hook


@pytest.mark.parametrize("kind", [LookupError, Odd, asyncio.CancelledError])
@pytest.mark.parametrize("register", ["on_open", "subscribe"])
def test_all_else_is_logged(kind, register, circuit, caplog):
    """Whatever else a hook raises is logged with its name, and the caller gets its own error."""
    b = circuit("api", failure_threshold=1)
    getattr(b, register)(raising_hook(kind()))
    _open(b)
    assert b.state is State.OPEN
    record = caplog.records[0]
    assert "raising_hook.<locals>.hook of 'api' raised (1 so far)" in record.getMessage()
    assert record.exc_info[0] is kind


async def _cancelled_elsewhere(context):
    """Await something that somebody else has cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize("error", [LookupError, asyncio.CancelledError])
async def test_a_coroutine_callback_that_meets_a_stray_cancellation(error, circuit, caplog):
    """What a callback awaited and somebody cancelled is a fault of the callback, not of the call."""

    async def broken(context):
        if error is asyncio.CancelledError:
            await _cancelled_elsewhere(context)
        raise error

    b = circuit(failure_threshold=1, on_open=broken)
    with pytest.raises(ConnectionError):
        await b.call(_failing)
    assert "broken" in caplog.text


async def _failing():
    raise ConnectionError("down")


async def test_a_call_that_is_cancelled_in_its_callback(circuit):
    """A cancellation of the calling task passes through the callback it waits for."""
    begun = asyncio.Event()

    async def waits(context):
        begun.set()
        await asyncio.Event().wait()

    b = circuit(failure_threshold=1, on_open=waits)
    task = asyncio.create_task(b.call(_failing))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert b.state is State.OPEN


async def test_a_coroutine_callback_that_ends_the_program(circuit):
    """``SystemExit`` out of a coroutine callback passes too."""

    async def leaves(context):
        raise GeneratorExit

    b = circuit(failure_threshold=1, on_open=leaves)
    with pytest.raises(GeneratorExit):
        await b.call(_failing)


def test_a_coroutine_callback_that_nobody_can_await(circuit, caplog):
    """Registered between a sync call's start and its failure it cannot be awaited: that is logged."""

    async def callback(context):
        pytest.fail("awaited by whom?")

    b = circuit(failure_threshold=1)

    def work():
        b.on_open(callback)
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        b.call(work)
    assert "a coroutine callback met a call that cannot await" in caplog.text
    gc.collect()


def test_a_coroutine_under_way_that_is_closed(circuit, clock, caplog):
    """A coroutine that is closed in the middle settles, and awaits no callback: it may not."""

    async def callback(context):
        pytest.fail("awaited by whom?")

    @types.coroutine
    def suspends():
        yield

    b = circuit(
        failure_threshold=None,
        window_size=1,
        slow_call_duration=1,
        slow_call_rate_threshold=1,
        on_open=callback,
    )

    @b
    async def work():
        await suspends()

    coroutine = work()
    coroutine.send(None)
    clock.advance(1)
    coroutine.close()
    assert b.state is State.OPEN
    assert "a call that cannot await" in caplog.text
    gc.collect()


# -- the log -----------------------------------------------------------------


def test_a_broken_hook_does_not_flood_the_log(circuit, caplog):
    """The 1st, 10th, 100th fault of a kind is told, with how many there were."""
    b = circuit("api", failure_threshold=None, window_size=1, minimum_calls=1, open_duration=1e-9)
    b.subscribe(raising_hook(LookupError()), CallSucceeded)
    for _ in range(150):
        b.call(returning())
    told = [record.getMessage().partition(" raised ")[2] for record in caplog.records]
    assert [text.partition(" so far")[0] for text in told] == ["(1", "(10", "(100"]


def test_what_has_been_told_is_bounded(caplog):
    """Names from traffic cannot make the memory of told faults grow."""
    for number in range(3 * _log._MOST):
        _log.fault_in("hook", f"name {number}", LookupError())
    assert len(_log._told) <= _log._MOST


def test_the_name_of_a_hook():
    """A hook is named by its qualified name, or its type's, whatever it does when asked."""

    class Shy:
        def __getattr__(self, name):
            raise RuntimeError

    class Named:
        __qualname__ = "Named"

    assert _log.hook_name(raising_hook) == "raising_hook"
    assert _log.hook_name(Shy()).endswith("Shy")
    assert _log.hook_name(Named()) == "Named"


def test_moves_are_logged_once_each(circuit, clock, caplog):
    """One line per move at INFO, none per call or rejection, nothing formatted for a level that is off."""
    b = circuit("api", failure_threshold=1)
    with caplog.at_level(logging.INFO, "breakerkit"):
        _open(b)
        for _ in range(100):
            with pytest.raises(CircuitOpenError):
                b.call(returning())
        clock.advance(10)
        b.call(returning())
    assert [record.getMessage() for record in caplog.records] == [
        "circuit breaker 'api' opened: consecutive failures",
        "circuit breaker 'api' is half-open",
        "circuit breaker 'api' is closed",
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "breakerkit"):
        _open(b)
    assert caplog.records == []


# -- listeners ---------------------------------------------------------------


def test_events_arrive_in_order_from_many_threads(circuit):
    """However many threads call, each event is told once, and one listener is called by one at a time."""
    b, heard, inside = circuit(), [], []

    def listener(event):
        inside.append(1)
        heard.append((type(event), len(inside)))
        inside.pop()

    b.subscribe(listener, CallSucceeded, CallFailed)

    def work():
        for _ in range(200):
            b.call(returning())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [(CallSucceeded, 1)] * 800


def test_a_listener_that_is_at_it_gets_the_rest(circuit):
    """An event that comes while another is being told is told after it, by whoever tells."""
    b, heard = circuit(), []
    told, go_on = threading.Event(), threading.Event()

    def listener(event):
        heard.append(threading.get_ident())
        told.set()
        assert go_on.wait(30)

    b.subscribe(listener, CallSucceeded)
    first = threading.Thread(target=lambda: b.call(returning()))
    first.start()
    assert told.wait(30)
    b.call(returning())  # does not wait for the slow listener
    assert len(heard) == 1
    go_on.set()
    first.join()
    assert heard == [heard[0]] * 2
    assert heard[0] != threading.get_ident()


def test_events_that_nobody_can_take_are_dropped(circuit, caplog, monkeypatch):
    """What waits for a slow listener is bounded: the oldest go, and that is told once they go on."""
    monkeypatch.setattr(_hub, "MOST_WAITING", 5)
    b, heard = circuit("api"), []

    def listener(event):
        heard.append(event)
        if len(heard) == 1:
            for _ in range(20):
                b.call(returning())

    b.subscribe(listener, CallSucceeded)
    b.call(returning())
    assert len(heard) == 1 + 5
    (record,) = caplog.records
    assert "listeners of 'api'" in record.getMessage()
    assert "15 events dropped" in str(record.exc_info[1])


def test_unsubscribing_twice_is_no_error(circuit):
    """What ends a subscription may be called again, and by a listener about itself."""
    b, heard = circuit(), []

    def once(event):
        heard.append(event)
        unsubscribe()

    unsubscribe = b.subscribe(once)
    b.subscribe(heard.append)
    b.call(returning())
    b.call(returning())
    unsubscribe()
    assert len(heard) == 3


def test_an_event_that_is_under_way_when_the_last_listener_goes(circuit):
    """A call that ends after the last listener has gone tells nobody."""
    b, heard = circuit(failure_threshold=1), []
    unsubscribe = b.subscribe(heard.append)

    def work():
        unsubscribe()
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        b.call(work)
    assert heard == []


def test_after_a_fork_nothing_waits():
    """In a forked child the queue is empty and the lock is free, and listeners are still there."""
    hub, heard = _hub.Hub(), []
    hub.add(_hub.subscription(heard.append, (StateChanged,), (StateChanged,)))
    hub.retune((StateChanged,))
    delivering = hub._delivering
    hub.post("waits")
    assert delivering.run(hub.forget)  # the child begins in the middle of a delivery
    hub.post("nobody is told before the hub is tuned again")
    hub.drain()
    assert heard == []
    hub.retune((StateChanged,))
    assert hub._delivering is not delivering


def test_a_listener_that_forks():
    """A listener in whose middle the hub is made new lets go of the queue it was reading."""
    hub, heard = _hub.Hub(), []

    class Other(Event):
        """An event of no policy."""

    def forks(event):
        heard.append(event)
        hub.forget()
        hub.retune((Other,))

    hub.add(_hub.Subscription(forks, (Other,)))
    hub.retune((Other,))
    hub.post(Other("api", 0.0))
    hub.post(Other("api", 0.0))
    hub.drain()
    assert len(heard) == 1
    assert not hub.waiting


def test_a_callback_that_is_compared():
    """Callbacks are equal by what they call and with what, and can be in a set, whatever the extras."""
    assert OpenCallback(print, ([],)) == OpenCallback(print, ([],))
    assert len({OpenCallback(print, ([],)), OpenCallback(print, ([],))}) == 1
    assert OpenCallback(print) != OpenCallback(len)


# -- filters -----------------------------------------------------------------


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("setting", ["failure_on", "ignore_on", "success_on", "failure_if"])
def test_a_filter_that_ends_the_program(kind, setting, circuit, clock):
    """It passes, and the slot of the call it was asked about is free."""

    def ends(_):
        raise kind

    b = circuit(failure_threshold=1)
    _open(b)
    clock.advance(10)
    b.reconfigure(**{setting: ends})
    behave = returning(7) if setting == "failure_if" else raising(ConnectionError("down"))
    with pytest.raises(kind):
        b.call(behave)
    assert b.snapshot().probes_active == 0


@pytest.mark.parametrize("kind", [LookupError, Odd])
def test_a_filter_that_raises(kind, circuit, caplog):
    """A filter that raises, whatever it raises, makes a failure of an error and nothing of a value."""

    def broken(_):
        raise kind

    b = circuit(failure_threshold=2, failure_on=broken, failure_if=broken)
    _open(b)
    assert b.call(returning(7)) == 7
    seen = b.snapshot()
    assert (seen.failures, seen.ignored, seen.successes) == (1, 1, 0)
    assert "failure filter" in caplog.text
    assert "failure_if" in caplog.text


def test_a_group_is_judged_by_a_filter_that_lists_it(circuit):
    """A group type in a filter decides for the whole group; a predicate sees the leaves."""
    group = ExceptionGroup("", [KeyError(), OSError()])
    listed = circuit(ignore_on=(ExceptionGroup,))
    by_leaf = circuit(ignore_on=lambda error: isinstance(error, KeyError | OSError))
    succeeds = circuit(success_on=lambda error: True)
    for b in (listed, by_leaf, succeeds):
        with pytest.raises(ExceptionGroup):
            b.call(raising(group))
    assert (listed.snapshot().ignored, by_leaf.snapshot().ignored) == (1, 1)
    assert succeeds.snapshot().successes == 1
