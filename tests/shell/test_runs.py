"""Generators and coroutines: everything goes through, settled once, whatever way they end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import types

import pytest

from breakerkit import CircuitOpenError, ProbeLimitError, State
from tests.shapes import exhaust, raising


@pytest.fixture
def half_open(circuit, clock):
    """Return a breaker whose open period has just ended."""
    b = circuit(failure_threshold=1)
    with pytest.raises(ConnectionError):
        b.call(raising(ConnectionError()))
    clock.advance(10)
    return b


def _slot_is_free(b, outcome):
    """Tell that the only slot is free after an end that was ``outcome``, and no other."""
    seen = b.snapshot()
    assert seen.probes_active == 0
    counts = {"successes": seen.successes, "failures": seen.failures - 1, "ignored": seen.ignored}
    assert counts == {"successes": 0, "failures": 0, "ignored": 0} | (
        {outcome: 1} if outcome else {}
    )


# -- generators --------------------------------------------------------------


def echo(log):
    """Yield what is sent; tell what arrives; return when told to."""
    try:
        received = yield "first"
        while received != "stop":
            try:
                received = yield received
            except LookupError as error:
                log.append(error)
                received = "caught"
    finally:
        log.append("closed")
    return "returned"


def test_a_generator_passes_everything_on(half_open):
    """Send, throw and the return value go through; its end is one success."""
    log, error = [], LookupError()
    stream = half_open(echo)(log)
    assert next(stream) == "first"
    assert stream.send("a") == "a"
    assert stream.throw(error) == "caught"
    with pytest.raises(StopIteration) as stop:
        stream.send("stop")
    assert stop.value.value == "returned"
    assert log == [error, "closed"]
    assert (half_open.state, half_open.snapshot().successes) == (State.CLOSED, 1)


def test_a_guarded_generator_is_a_generator(circuit):
    """It has the generator's state, frame and name, and can be delegated to."""
    guarded = circuit()(echo)
    stream = guarded([])
    assert isinstance(stream, types.GeneratorType)
    assert stream.__name__ == "echo" or guarded.__name__ == "echo"
    assert inspect.getgeneratorstate(stream) == inspect.GEN_CREATED

    def outer():
        return (yield from guarded([]))

    delegated = outer()
    assert next(delegated) == "first"
    with pytest.raises(StopIteration) as stop:
        delegated.send("stop")
    assert stop.value.value == "returned"


def _leave(stream):
    for _ in stream:  # pragma: no branch  # it is left
        break
    return True


ENDINGS = {
    "never started": lambda stream: None,
    "half read, then dropped": next,
    "half read, then closed": lambda stream: (next(stream), stream.close()),
    "closed before the start": lambda stream: stream.close(),
    "left by break": _leave,
}


@pytest.mark.parametrize("leave", ENDINGS.values(), ids=ENDINGS)
def test_a_generator_left_early_is_neutral(leave, half_open):
    """C025: dropped, closed, left or never started: no slot is held, nothing failed; finally ran."""
    log = []
    stream = half_open(echo)(log)
    started = leave(stream) is not None
    del stream
    gc.collect()
    assert log == (["closed"] if started else [])
    _slot_is_free(half_open, "ignored" if started else None)
    half_open.call(lambda: 7)
    assert half_open.state is State.CLOSED


def test_a_failing_generator_opens(circuit):
    """C025: yields once and raises: open after two; the third is rejected at its first item."""
    b = circuit()

    @b
    def work():
        yield 1
        raise ConnectionError("down")

    for _ in range(2):
        stream = work()
        assert next(stream) == 1
        with pytest.raises(ConnectionError):
            next(stream)
    stream = work()
    with pytest.raises(CircuitOpenError):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)


def test_a_generator_is_admitted_at_its_first_item(half_open):
    """The making of a generator asks for nothing: of two, the one that begins first has the slot."""
    guarded = half_open(echo)
    made_first, begun_first = guarded([]), guarded([])
    next(begun_first)
    with pytest.raises(ProbeLimitError):
        next(made_first)
    begun_first.close()


def test_wrong_arguments_of_a_generator_are_a_failure(circuit):
    """A ``TypeError`` from calling it wrongly comes at its first item, and is a failure."""
    b = circuit()
    stream = b(echo)()
    with pytest.raises(TypeError, match="log"):
        next(stream)
    assert b.snapshot().failures == 1


def test_an_error_thrown_into_a_generator_and_not_caught_is_a_failure(circuit):
    """What is thrown in and comes out again is how the call ended: the very error, a failure."""
    b, error = circuit(), ConnectionError("thrown")
    stream = b(echo)([])
    next(stream)
    with pytest.raises(ConnectionError) as caught:
        stream.throw(error)
    assert caught.value is error
    assert b.snapshot().failures == 1


# -- async generators --------------------------------------------------------


async def echo_async(log):
    """Yield what is sent; tell what arrives; end when told to."""
    try:
        received = yield "first"
        while received != "stop":
            await asyncio.sleep(0)
            try:
                received = yield received
            except LookupError as error:
                log.append(error)
                received = "caught"
    finally:
        await asyncio.sleep(0)
        log.append("closed")


async def test_an_async_generator_passes_everything_on(half_open):
    """Asend, athrow and the end go through; its end is one success."""
    log, error = [], LookupError()
    stream = half_open(echo_async)(log)
    assert isinstance(stream, types.AsyncGeneratorType)
    assert await anext(stream) == "first"
    assert await stream.asend("a") == "a"
    assert await stream.athrow(error) == "caught"
    with pytest.raises(StopAsyncIteration):
        await stream.asend("stop")
    assert log == [error, "closed"]
    assert (half_open.state, half_open.snapshot().successes) == (State.CLOSED, 1)


async def test_a_thrown_error_may_end_an_async_generator(half_open):
    """An error thrown in that makes the generator return is a normal end."""

    async def work():
        with contextlib.suppress(LookupError):
            yield 1

    stream = half_open(work)()
    await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await stream.athrow(LookupError())
    assert half_open.state is State.CLOSED


async def test_an_error_thrown_into_an_async_generator_comes_out(circuit):
    """What is thrown in and not caught comes out as the very error, and is a failure."""
    b, error = circuit(), ConnectionError("thrown")
    stream = b(echo_async)([])
    await anext(stream)
    with pytest.raises(ConnectionError) as caught:
        await stream.athrow(error)
    assert caught.value is error
    assert b.snapshot().failures == 1


async def _close(stream):
    await anext(stream)
    await stream.aclose()
    return True


async def _break(stream):
    async for _ in stream:  # pragma: no branch  # it is left
        break
    await stream.aclose()
    return True


async def _drop(stream):
    await anext(stream)
    return True


async def _close_unstarted(stream):
    await stream.aclose()


async def _never(stream):
    return None


@pytest.mark.parametrize("leave", [_close, _break, _drop, _close_unstarted, _never])
async def test_an_async_generator_left_early_is_neutral(leave, half_open):
    """C025: closed, left, dropped in a loop or never started: slot free, no failure, finally ran."""
    log = []
    stream = half_open(echo_async)(log)
    started = await leave(stream)
    del stream
    gc.collect()
    for _ in range(20):  # the loop finalises what was dropped
        await asyncio.sleep(0)
    assert log == (["closed"] if started else [])
    _slot_is_free(half_open, "ignored" if started else None)


async def test_what_ends_well_when_it_is_left_is_neutral(half_open):
    """A generator that takes being closed for a normal end was left early all the same."""

    def work():
        with contextlib.suppress(GeneratorExit):
            yield 1

    async def work_async():
        with contextlib.suppress(GeneratorExit):
            yield 1

    stream = half_open(work)()
    next(stream)
    stream.close()
    _slot_is_free(half_open, "ignored")
    stream = half_open(work_async)()
    await anext(stream)
    await stream.aclose()
    assert half_open.snapshot().ignored == 2
    assert half_open.state is State.HALF_OPEN


async def test_aclose_that_fails_is_a_failure(circuit):
    """A generator whose cleanup raises at ``aclose`` has failed, with that very error."""
    b, error = circuit(), ConnectionError("in finally")

    @b
    async def work():
        try:
            yield 1
        finally:
            raise error

    stream = work()
    await anext(stream)
    with pytest.raises(ConnectionError) as caught:
        await stream.aclose()
    assert caught.value is error
    assert b.snapshot().failures == 1


async def test_a_failing_async_generator_opens(circuit):
    """C025: yields once and raises: open after two; the third is rejected at its first item."""
    b = circuit()

    @b
    async def work():
        yield 1
        raise ConnectionError("down")

    for _ in range(2):
        stream = work()
        assert await anext(stream) == 1
        with pytest.raises(ConnectionError):
            await anext(stream)
    with pytest.raises(CircuitOpenError):
        await anext(work())


def test_an_async_generator_dropped_without_a_loop(half_open, monkeypatch):
    """Where no event loop finalises it, a half-read async generator still gives its slot back."""

    @half_open
    async def work():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)  # suspends: without a loop it can never end

    stream = work()
    with pytest.raises(StopIteration) as stop:
        anext(stream).send(None)
    assert stop.value.value == 1
    assert half_open.snapshot().probes_active == 1
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda one: told.append(str(one.exc_value)))
    del stream
    gc.collect()
    assert told == ["async generator ignored GeneratorExit"]  # as without a breaker
    assert half_open.snapshot().probes_active == 0


async def test_a_cancelled_async_generator_is_neutral(half_open):
    """A cancellation in the middle of an item passes through and frees the slot."""

    @half_open
    async def work():
        await asyncio.Event().wait()
        yield 1  # pragma: no cover  # it is cancelled before

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            async for _ in work():
                pytest.fail("no item can come")
    _slot_is_free(half_open, "ignored")


# -- under a context manager -------------------------------------------------


def _raise(error):
    if error is not None:
        raise error


@pytest.mark.parametrize("error", [LookupError("in the body"), None])
def test_under_a_context_manager(error, half_open):
    """C026: the body's error is thrown into the generator, which may handle it; finally runs once."""
    log = []

    @contextlib.contextmanager
    @half_open
    def managed():
        try:
            yield "resource"
        except LookupError as caught:
            log.append(caught)
        finally:
            log.append("finally")

    with managed() as resource:
        assert resource == "resource"
        _raise(error)
    assert log == ([error] if error else []) + ["finally"]
    assert half_open.state is State.CLOSED


def test_a_body_that_fails_unhandled(circuit):
    """C026: an error of the body that the generator lets through reaches the caller, one failure."""
    b, error, log = circuit(), ConnectionError("body"), []

    @contextlib.contextmanager
    @b
    def managed():
        try:
            yield
        finally:
            log.append("finally")

    with pytest.raises(ConnectionError) as caught, managed():
        raise error
    assert caught.value is error
    assert log == ["finally"]
    assert b.snapshot().failures == 1


@pytest.mark.parametrize("error", [LookupError("in the body"), None])
async def test_under_an_async_context_manager(error, half_open):
    """C026: the same with ``@asynccontextmanager``."""
    log = []

    @contextlib.asynccontextmanager
    @half_open
    async def managed():
        try:
            yield "resource"
        except LookupError as caught:
            log.append(caught)
        finally:
            await asyncio.sleep(0)
            log.append("finally")

    async with managed() as resource:
        assert resource == "resource"
        _raise(error)
    assert log == ([error] if error else []) + ["finally"]
    assert half_open.state is State.CLOSED


async def test_a_context_manager_left_early(half_open):
    """C026: leaving the body by ``return`` runs ``finally`` at once, and is a normal end."""
    log = []

    @contextlib.asynccontextmanager
    @half_open
    async def managed():
        try:
            yield
        finally:
            log.append("finally")

    async def leaving():
        async with managed():
            return 7

    assert await leaving() == 7
    assert log == ["finally"]
    assert half_open.state is State.CLOSED


# -- coroutines of the old kind ----------------------------------------------


@types.coroutine
def old(value):
    """Give the loop a turn, then return."""
    yield
    if isinstance(value, Exception):
        raise value
    return value


async def test_a_coroutine_of_the_old_kind(half_open):
    """What ``types.coroutine`` makes is awaited as before and judged at its end."""
    guarded = half_open(old)
    assert inspect.isawaitable(guarded(1))
    assert await guarded(7) == 7
    assert half_open.state is State.CLOSED
    error = ConnectionError("down")
    with pytest.raises(ConnectionError) as caught:
        await guarded(error)
    assert caught.value is error
    assert half_open.state is State.OPEN
    with pytest.raises(CircuitOpenError):
        await guarded(7)


def test_a_long_stream_costs_no_memory_of_its_own(circuit):
    """Items are passed on one by one: a stream without end can be read for long."""

    @circuit()
    def count():
        value = 0
        while True:
            yield value
            value += 1

    stream = count()
    for expected in range(10_000):
        assert next(stream) == expected
    stream.close()


def test_the_return_value_of_a_generator_is_judged(circuit):
    """``failure_if`` judges what a generator returns."""
    b = circuit(failure_threshold=1, failure_if=lambda value: value == "returned")
    stream = b(echo)([])
    next(stream)
    with pytest.raises(StopIteration):
        stream.send("stop")
    assert b.state is State.OPEN
    assert exhaust(iter(())) is None


@pytest.mark.parametrize("end", ["close", "throw"])
async def test_an_async_generator_whose_stream_was_closed_behind_its_back(circuit, end):
    """An event loop that ends may close the inner stream first: closing is quiet, what is thrown passes."""
    b = circuit()

    @b
    async def stream():
        yield 1

    running = stream()
    await anext(running)
    await running.ag_frame.f_locals["stream"].aclose()
    if end == "close":
        await running.aclose()
    else:
        with pytest.raises(LookupError):
            await running.athrow(LookupError())
    assert b.snapshot().calls == 1
