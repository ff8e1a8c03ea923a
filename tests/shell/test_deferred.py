"""What a plain function returns to be run later: judged when it has run, and given back when dropped."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import types

import pytest

from breakerkit import CallFailed, CallIgnored, CircuitOpenError, ProbeLimitError, State
from tests.shapes import exhaust, raising, returning


@pytest.fixture
def half_open(circuit, clock):
    """Return a breaker whose open period has just ended."""
    b = circuit(failure_threshold=1)
    with pytest.raises(ConnectionError):
        b.call(raising(ConnectionError()))
    clock.advance(10)
    return b


class Request:
    """A client's request object: awaited, or entered, for the response; it has attributes too."""

    method = "GET"

    def __init__(self, error=None):
        self.error = error
        self.closed = False

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        if self.error is not None:
            raise self.error
        return "response"

    async def __aenter__(self):
        return await self

    async def __aexit__(self, *details):
        self.closed = True


class Plain:
    """An awaitable that cannot be entered."""

    def __await__(self):
        yield from ()
        return 7


async def later(value=7):
    """Answer later, or raise."""
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


# -- coroutines and generators that a plain function returns ------------------


async def test_a_returned_coroutine_is_a_coroutine(half_open):
    """It is a real coroutine with the name of the user's function, in messages too."""
    made = half_open(lambda: later())()
    assert isinstance(made, types.CoroutineType)
    assert (made.__name__, made.__qualname__) == ("later", "later")
    assert half_open.snapshot().probes_active == 1
    assert await made == 7
    assert half_open.state is State.CLOSED


def test_a_returned_generator_is_judged_at_its_end(circuit):
    """A function that returns a generator is a generator function in all but name."""
    b = circuit(failure_threshold=1)

    def items(error):
        yield 1
        if error:
            raise error
        return "returned"

    @b
    def make(error=None):
        return items(error)

    stream = make()
    assert isinstance(stream, types.GeneratorType)
    assert stream.__name__ == "items"
    assert exhaust(stream) == "returned"
    assert b.snapshot().successes == 1
    with pytest.raises(ConnectionError):
        exhaust(make(ConnectionError()))
    assert b.state is State.OPEN
    with pytest.raises(CircuitOpenError):
        make()


async def test_a_returned_async_generator_is_judged_at_its_end(circuit):
    """The same for an async generator."""
    b = circuit(failure_threshold=1)

    async def items(error):
        yield 1
        if error:
            raise error

    @b
    def make(error=None):
        return items(error)

    assert inspect.isasyncgen(make())
    assert [item async for item in make()] == [1]
    assert b.snapshot().successes == 1
    with pytest.raises(ConnectionError):
        _ = [item async for item in make(ConnectionError())]
    assert b.state is State.OPEN


async def test_a_returned_coroutine_of_the_old_kind(circuit):
    """A generator that is a coroutine of the old kind stays awaitable."""
    b = circuit(failure_threshold=1)

    @types.coroutine
    def old(error):
        yield
        raise error

    made = b(lambda: old(ConnectionError()))()
    assert inspect.isawaitable(made)
    with pytest.raises(ConnectionError):
        await made
    assert b.state is State.OPEN


def _coroutine():
    return later()


def _generator():
    return (item for item in [1])


def _async_generator():
    async def items():
        yield 1  # pragma: no cover  # it is dropped

    return items()


DROPPED = {
    "coroutine": _coroutine,
    "generator": _generator,
    "async generator": _async_generator,
    "awaitable": Request,
    "future": concurrent.futures.Future,
}


@pytest.mark.filterwarnings("ignore:coroutine 'later' was never awaited")
@pytest.mark.parametrize("make", DROPPED.values(), ids=DROPPED)
def test_what_is_dropped_gives_its_slot_back(make, half_open):
    """Collected without having been run, it frees its slot and is no evidence; the next one probes."""
    guarded = half_open(lambda: make())
    made = guarded()
    with pytest.raises(ProbeLimitError):
        guarded()
    del made
    gc.collect()
    assert half_open.state is State.HALF_OPEN
    seen = half_open.snapshot()
    assert (seen.probes_active, seen.ignored) == (0, 1)
    assert half_open.call(returning(7)) == 7
    assert half_open.state is State.CLOSED


@pytest.mark.parametrize("make", DROPPED.values(), ids=DROPPED)
@pytest.mark.filterwarnings("ignore:coroutine 'later' was never awaited")
def test_what_is_dropped_while_closed_is_ignored(make, circuit):
    """On the lock-free path, too, what is dropped is counted as ignored and keeps the streak."""
    b = circuit(failure_threshold=3)
    with pytest.raises(ConnectionError):
        b.call(raising(ConnectionError()))
    b(lambda: make())()
    gc.collect()
    seen = b.snapshot()
    assert (seen.ignored, seen.consecutive_failures, seen.successes) == (1, 1, 0)


def test_the_last_slot_that_is_dropped_may_close(half_open):
    """With enough successes, the breaker is closed once the last slot was dropped; reading says so."""
    half_open.reconfigure(probe_limit=2)
    made = half_open(lambda: Request())()
    half_open.call(returning(7))
    assert half_open.state is State.HALF_OPEN
    del made
    gc.collect()
    assert half_open.state is State.CLOSED


def test_a_dropped_call_is_as_long_as_it_lasted(circuit, clock):
    """What was dropped in time is not slow because nobody called for long after."""
    b = circuit(
        window_size=10, slow_call_duration=1, slow_call_rate_threshold=100, minimum_calls=10
    )
    b(lambda: Request())()
    gc.collect()
    clock.advance(60)
    b.call(returning())
    assert b.snapshot().slow_calls == 0


# -- futures -----------------------------------------------------------------


async def test_a_future_is_the_very_future(circuit):
    """The caller gets the future that the function returned, and is judged when it is done."""
    b = circuit(failure_threshold=1, failure_if=lambda value: value == "bad")
    future = asyncio.get_running_loop().create_future()
    assert b(lambda: future)() is future
    assert b.snapshot().calls == 0
    asyncio.get_running_loop().call_soon(future.set_result, "bad")
    assert await future == "bad"
    assert b.state is State.OPEN


async def test_whoever_awaits_a_future_finds_the_breaker_up_to_date(circuit):
    """The breaker hears of a task's end before those who wait for it go on."""
    b = circuit(failure_threshold=1)
    task = b(lambda: asyncio.ensure_future(later(ConnectionError())))()
    with pytest.raises(ConnectionError):
        await task
    assert b.state is State.OPEN


@pytest.mark.parametrize("error", [ConnectionError("down"), None])
async def test_a_future_that_is_done_already(error, half_open):
    """A future that is done when it is returned is judged at once: awaiting it gives no turn."""
    future = asyncio.get_running_loop().create_future()
    future.set_exception(error) if error else future.set_result(7)
    assert half_open(lambda: future)() is future
    assert half_open.state is (State.OPEN if error else State.CLOSED)
    with pytest.raises(ConnectionError) if error else pytest.raises(asyncio.InvalidStateError):
        await future
        raise asyncio.InvalidStateError


async def test_a_cancelled_task_is_neutral(half_open):
    """C018: a task that is cancelled frees the slot and is no evidence."""
    task = half_open(lambda: asyncio.ensure_future(asyncio.Event().wait()))()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    seen = half_open.snapshot()
    assert (seen.state, seen.probes_active, seen.ignored) == (State.HALF_OPEN, 0, 1)


def test_a_future_of_a_thread_pool(circuit):
    """``executor.submit`` is judged when the work ends; a cancelled one is neutral."""
    b = circuit(failure_threshold=1)
    heard = []
    b.subscribe(heard.append)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        submit = b(pool.submit)
        assert submit(pow, 2, 5).result() == 32
        with pytest.raises(ConnectionError):
            submit(raising(ConnectionError())).result()
    with pytest.raises(CircuitOpenError):
        submit(pow, 2, 5)
    assert [one.error for one in heard if isinstance(one, CallFailed)]
    b.reset()
    waiting = b(lambda: concurrent.futures.Future())()
    assert waiting.cancel()
    assert b.state is State.CLOSED
    assert [type(one) for one in heard][-1] is CallIgnored


async def test_a_future_on_the_lock_free_path(circuit):
    """On a closed breaker without further rules a future that ends well is one success."""
    b = circuit()
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 7)
    assert await b(lambda: future)() == 7
    assert b.snapshot().successes == 1


def test_a_future_that_breaks_while_it_is_asked(half_open, caplog):
    """What claims to be done and then cannot say how reaches the caller, and is told in the log."""

    class Odd(concurrent.futures.Future):
        def done(self):
            return True

        def cancelled(self):
            raise LookupError

    odd = Odd()
    assert half_open(lambda: odd)() is odd
    assert "future" in caplog.text


def test_something_with_a_done_callback_of_other_manners(half_open, caplog):
    """What only looks like a future reaches the caller; that it does not act like one is logged."""

    class Odd:
        def add_done_callback(self):
            pytest.fail("called with nothing to call")

    odd = Odd()
    assert half_open(lambda: odd)() is odd
    assert "future" in caplog.text
    assert half_open.snapshot().probes_active == 0


# -- custom awaitables -------------------------------------------------------


async def test_a_request_is_awaited(half_open):
    """An awaitable object is seen as itself, and judged when awaited."""
    request = Request()
    guarded = half_open(lambda: request)()
    assert isinstance(guarded, Request)
    assert guarded.method == "GET"
    assert await guarded == "response"
    assert half_open.state is State.CLOSED


async def test_a_request_is_entered(half_open):
    """With ``async with`` it is judged when entered; what happens in the body is not its outcome."""
    request = Request()
    with pytest.raises(LookupError):
        async with half_open(lambda: request)() as response:
            assert response == "response"
            assert half_open.state is State.CLOSED
            raise LookupError
    assert request.closed
    assert (half_open.state, half_open.snapshot().failures) == (State.CLOSED, 1)


async def test_a_failing_request(circuit):
    """Awaited or entered, its failure is the very error."""
    b, error = circuit(), ConnectionError("down")
    make = b(lambda: Request(error))
    with pytest.raises(ConnectionError) as caught:
        await make()
    assert caught.value is error
    with pytest.raises(ConnectionError) as caught:
        async with make():
            pytest.fail("entered")
    assert caught.value is error
    assert b.state is State.OPEN


@pytest.mark.parametrize("closed", [True, False])
async def test_a_request_that_is_awaited_again_is_judged_once(closed, circuit):
    """One call, one outcome, however often its awaitable is used."""
    b = circuit()
    if not closed:
        b.subscribe(lambda event: None)
    guarded = b(lambda: Request())()
    assert [await guarded, await guarded] == ["response", "response"]
    async with guarded as response:
        assert response == "response"
    assert b.snapshot().successes == 1


async def test_a_request_can_be_a_task(half_open):
    """A loop drives it as a task, as it would a coroutine."""
    assert await asyncio.create_task(half_open(lambda: Request())()) == "response"
    assert half_open.state is State.CLOSED


async def test_a_request_that_is_a_cancelled_task(half_open):
    """Its cancellation frees the slot."""
    request = Request()
    task = asyncio.create_task(half_open(lambda: request)())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert half_open.snapshot().probes_active == 0


def test_a_request_that_is_closed_before_it_ran(half_open):
    """Closing what never began ends it; its slot comes back with it."""
    guarded = half_open(lambda: Request())()
    guarded.close()
    del guarded
    gc.collect()
    assert half_open.snapshot().probes_active == 0
    assert half_open.snapshot().ignored == 1


def test_a_request_that_is_closed_in_the_middle(half_open):
    """Closed after it began, it ends as neutral, and what it stands for is closed too."""
    closed = []

    class Closable(Request):
        def close(self):
            closed.append(True)

    guarded = half_open(lambda: Closable())()
    guarded.send(None)
    guarded.close()
    guarded.close()
    assert closed == [True, True]
    seen = half_open.snapshot()
    assert (seen.probes_active, seen.ignored) == (0, 1)
    never_begun = half_open(lambda: Closable())()
    never_begun.close()
    never_begun.close()
    assert half_open.snapshot().ignored == 2


async def test_what_cannot_be_entered_says_so(half_open):
    """``async with`` on an awaitable that has no such methods is an error about those."""
    with pytest.raises((TypeError, AttributeError), match="__aenter__|context manager"):
        async with half_open(lambda: Plain())():
            pytest.fail("entered")
    gc.collect()
    assert half_open.snapshot().probes_active == 0
    assert await half_open(lambda: Plain())() == 7


def test_a_class_whose_metaclass_forbids_hashing(circuit):
    """A returned value of an odd type is a value like any other."""

    class Meta(type):
        __hash__ = None

    class Odd(metaclass=Meta):
        pass

    b, odd = circuit(), Odd()
    assert b(lambda: odd)() is odd
    assert b.snapshot().successes == 1
