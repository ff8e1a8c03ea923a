"""``call`` and ``apply``: any callable, counted once, and the cancellation signal after admission."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import types
from unittest import mock

import pytest

from breakerkit import (
    CallCancelledError,
    CallRejectedError,
    CancelSignal,
    CircuitOpenError,
    ProbeLimitError,
    State,
    breaker,
)
from tests.shapes import Service, exhaust, in_thread, raising, returning


def test_arguments_arrive(circuit):
    """Positional and keyword arguments reach the function, also those named as ours."""

    def work(*args, **kwargs):
        return args, kwargs

    b = circuit()
    assert b.call(work, 1, function=2, self=3) == ((1,), {"function": 2, "self": 3})
    assert b.apply(work, (1,), {"operation": 2}) == ((1,), {"operation": 2})
    assert b.apply(work, [1]) == ((1,), {})


@pytest.mark.parametrize("way", ["call", "apply"])
@pytest.mark.parametrize("thing", [None, 42, "os.getcwd", b"x", [], property(len)])
def test_what_is_not_callable_is_refused_before_admission(way, thing, circuit):
    """Not callable: a ``TypeError`` before admission; a text is never evaluated."""
    b = circuit()
    with b.force_open(), pytest.raises(TypeError, match="must be callable"):
        getattr(b, way)(thing)
    assert b.snapshot().calls == 0


@pytest.mark.parametrize("args", ["abc", 42, None, {1, 2}, iter([])])
def test_arguments_of_apply_are_a_sequence(args, circuit):
    """Positional arguments come as a list or tuple; a text is not taken apart."""
    b = circuit()
    with pytest.raises(TypeError, match="args=.*must be a list or tuple of arguments"):
        b.apply(returning(), args)
    assert b.snapshot().calls == 0


@pytest.mark.parametrize("kwargs", [42, "abc", [("a", 1)]])
def test_keyword_arguments_of_apply_are_a_mapping(kwargs, circuit):
    """Keyword arguments come as a mapping."""
    b = circuit()
    with pytest.raises(TypeError, match="kwargs=.*must be a dict of arguments, or None"):
        b.apply(returning(), (), kwargs)
    assert b.snapshot().calls == 0


async def test_a_coroutine_is_no_operation(circuit):
    """A coroutine object has begun to exist already: it is refused, not awaited."""

    async def work():
        pytest.fail("run")

    coroutine = work()
    with pytest.raises(TypeError, match="must be callable"):
        circuit().call(coroutine)
    coroutine.close()


def test_a_context_manager_is_refused_before_admission(circuit):
    """What cannot be judged by its call is a ``TypeError`` here too."""

    @contextlib.contextmanager
    def managed():
        yield  # pragma: no cover  # it is refused

    b = circuit()
    with pytest.raises(TypeError, match="under @contextmanager"):
        b.call(managed)
    assert b.snapshot().calls == 0


def test_a_class_is_called_as_any_callable(circuit):
    """``call(SomeClass, ...)`` makes an instance behind the breaker: a connection, say."""
    b = circuit()
    assert b.call(dict, a=1) == {"a": 1}
    with pytest.raises(ValueError):
        b.call(int, "x")
    assert (b.snapshot().successes, b.snapshot().failures) == (1, 1)


async def test_each_kind_of_function_can_be_called(circuit):
    """Generators, async generators, old coroutines and mocks are judged at their end."""

    def items():
        yield 1
        return 7

    async def async_items():
        yield 1

    @types.coroutine
    def old():
        yield
        return 7

    b = circuit()
    assert exhaust(b.call(items)) == 7
    assert [item async for item in b.call(async_items)] == [1]
    assert await b.call(old) == 7
    assert await b.call(mock.AsyncMock(return_value=7)) == 7
    assert b.call(mock.Mock(return_value=7)) == 7
    assert b.snapshot().successes == 5
    not_run = b.call(items)
    del not_run
    assert b.snapshot().calls == 5


async def test_what_is_made_is_named_after_the_function(circuit):
    """Warnings and task lists name the user's function, not one of ours."""

    async def work():
        """Work."""

    async def stream():
        yield 1  # pragma: no cover  # it is only made

    def items():
        yield 1  # pragma: no cover  # it is only made

    b = circuit()
    for function in (work, stream, items):
        for made in (b.call(function), b(function)(), b(lambda function=function: function())()):
            assert (made.__name__, made.__qualname__) == (function.__name__, function.__qualname__)
            if function is work:
                await made
    made = b.call(functools.partial(work))
    assert made.__name__ == "guarded"
    await made


# -- what is guarded already counts once -------------------------------------


class Guarded:
    """Functions that ``make`` guards with one breaker, under all sorts of wrapping."""

    def __init__(self, b):
        @b
        def work(value=0):
            return value

        @functools.wraps(work)
        def wrapped(value=0):
            return work(value)

        class Host:
            @b
            def method(self, value=0):
                return value

            @b
            @classmethod
            def of_class(cls, value=0):
                return value

            @b
            @staticmethod
            def static(value=0):
                return value

        self.ways = {
            "function": work,
            "other decorator": wrapped,
            "partial": functools.partial(work, 0),
            "partial of partial of a decorator": functools.partial(functools.partial(wrapped), 0),
            "bound method": Host().method,
            "class method": Host.of_class,
            "static method": Host.static,
            "partial of a bound method": functools.partial(Host().method),
            "cached": functools.lru_cache(work),
            "guarded object": b(functools.partial(lambda value=0: value)),
            "under another breaker": breaker(failure_threshold=1)(work),
        }


WAYS = list(Guarded(breaker(failure_threshold=1)).ways)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("apply", [False, True], ids=["call", "apply"])
def test_what_is_guarded_already_counts_once(way, apply, circuit, clock):
    """``call`` and ``apply`` of what the breaker guards already is one call and takes one slot."""
    b = circuit()
    function = Guarded(b).ways[way]
    (b.apply if apply else b.call)(function)
    assert b.snapshot().successes == 1
    for _ in range(2):
        with pytest.raises(OSError):
            b.call(raising(OSError()))
    clock.advance(10)
    (b.apply if apply else b.call)(functools.partial(function) if way == "cached" else function)
    assert b.state is (State.HALF_OPEN if way == "cached" else State.CLOSED)


async def test_guarded_async_functions_count_once(circuit):
    """The same for coroutine functions."""
    b = circuit()

    @b
    async def work():
        return 7

    assert await b.call(work) == 7
    assert await b.apply(work) == 7
    assert await b.apply(work, cancel=CancelSignal()) == 7
    assert b.snapshot().successes == 3


def test_what_another_breaker_guards_passes_both(circuit):
    """Two breakers in a row each count the call."""
    a, b = circuit(), circuit()

    @a
    def work():
        return 7

    assert b.call(work) == 7
    assert (a.snapshot().successes, b.snapshot().successes) == (1, 1)


@pytest.mark.parametrize("kind", [mock.Mock, mock.MagicMock])
def test_a_mock_that_has_every_attribute_is_just_called(kind, circuit):
    """A mock answers ``.func`` and ``.breaker`` with further mocks: that makes it no guarded one."""
    b = circuit()
    target = kind(return_value=7)
    assert b.call(target) == 7
    assert b(target)() == 7
    assert b.snapshot().successes == 2


def test_a_chain_without_end_is_given_up(circuit):
    """A callable that claims to wrap itself is called, and counted, like any other."""

    class Endless:
        def __call__(self):
            return 7

    endless = Endless()
    endless.__wrapped__ = endless
    b = circuit()
    assert b.call(endless) == 7
    assert b.snapshot().successes == 1


# -- the cancellation signal -------------------------------------------------


def _plain(service):
    return lambda: service()


def _async(service):
    async def work():
        await asyncio.sleep(0)
        return service()

    return work


def _generator(service):
    def work():
        yield 1
        return service()

    return work


def _async_generator(service):
    async def work():
        yield service()

    return work


def _returning_coroutine(service):
    return lambda: _async(service)()


def _end(value):
    if isinstance(value, types.CoroutineType):
        return asyncio.run(value)
    if isinstance(value, types.GeneratorType):
        return exhaust(value)
    if isinstance(value, types.AsyncGeneratorType):

        async def read():
            return [item async for item in value][-1]

        return asyncio.run(read())
    return value


KINDS = [_plain, _async, _generator, _async_generator, _returning_coroutine]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__[1:] for kind in KINDS])
guarded_or_not = pytest.mark.parametrize("guarded", [False, True], ids=["bare", "guarded already"])


@every_kind
@guarded_or_not
def test_a_signal_that_is_not_set(kind, guarded, circuit):
    """With a signal that is not set the operation runs, does not get it, and counts as any other."""
    b, service = circuit(), Service()
    operation = b(kind(service)) if guarded else kind(service)
    assert _end(b.apply(operation, cancel=CancelSignal())) == 1
    service.error = ConnectionError("down")
    for _ in range(2):
        with pytest.raises(ConnectionError) as caught:
            _end(b.apply(operation, cancel=CancelSignal()))
        assert caught.value is service.error
    seen = b.snapshot()
    assert (seen.successes, seen.failures, seen.calls) == (1, 2, 3)
    assert b.state is State.OPEN


@every_kind
@guarded_or_not
def test_admitted_and_cancelled(kind, guarded, circuit, clock):
    """Admitted and cancelled already: the operation is not run, it is neutral, the slot is back."""
    b, service, signal = circuit(), Service(), CancelSignal()
    operation = b(kind(service)) if guarded else kind(service)
    for _ in range(2):
        with pytest.raises(OSError):
            b.call(raising(OSError()))
    clock.advance(10)
    signal.cancel("user left")
    with pytest.raises(CallCancelledError) as caught:
        _end(b.apply(operation, cancel=signal))
    assert (caught.value.name, caught.value.reason) == (b.name, "user left")
    assert not isinstance(caught.value, CallRejectedError)
    seen = b.snapshot()
    assert (service.runs, seen.ignored, seen.probes_active) == (0, 1, 0)
    assert seen.state is State.HALF_OPEN
    assert b.call(returning(7)) == 7


@every_kind
@guarded_or_not
def test_admission_comes_before_the_signal(kind, guarded, circuit, clock):
    """Open, or without a free slot: rejected, whatever the signal says."""
    b, service, signal = circuit(), Service(), CancelSignal()
    operation = b(kind(service)) if guarded else kind(service)
    signal.cancel()
    for _ in range(2):
        with pytest.raises(OSError):
            b.call(raising(OSError()))
    with pytest.raises(CircuitOpenError):
        _end(b.apply(operation, cancel=signal))
    clock.advance(10)
    with b.guard(), pytest.raises(ProbeLimitError):
        in_thread(lambda: _end(b.apply(operation, cancel=signal)))
    assert service.runs == 0


@every_kind
@guarded_or_not
def test_a_signal_after_the_start_changes_nothing(kind, guarded, circuit):
    """Once the operation has started its outcome counts as any other."""
    b, signal = circuit(), CancelSignal()

    def sets():
        signal.cancel()
        return 7

    operation = b(kind(sets)) if guarded else kind(sets)
    assert _end(b.apply(operation, cancel=signal)) == 7
    assert b.snapshot().successes == 1


def test_a_signal_set_before_an_async_call_begins(circuit):
    """An async call looks when it first runs, not when it is made."""
    b, service, signal = circuit(), Service(), CancelSignal()
    coroutine = b.apply(_async(service), cancel=signal)
    signal.cancel("late")
    with pytest.raises(CallCancelledError, match="late"):
        asyncio.run(coroutine)
    assert service.runs == 0


@pytest.mark.parametrize("signal", [True, "now", object(), lambda: True])
def test_only_a_signal_is_a_signal(signal, circuit):
    """Anything else as ``cancel=`` is a ``TypeError`` before admission."""
    b = circuit()
    with pytest.raises(TypeError, match="must be a CancelSignal or None"):
        b.apply(returning(7), cancel=signal)
    assert b.snapshot().calls == 0


@pytest.mark.filterwarnings("ignore:coroutine '_async.<locals>.work' was never awaited")
def test_a_cancellable_call_that_is_dropped(circuit):
    """A coroutine that is returned by a plain function and dropped is ignored, once."""
    b = circuit()
    b.apply(_returning_coroutine(Service()), cancel=CancelSignal())
    b.apply(b(_returning_coroutine(Service())), cancel=CancelSignal())
    gc.collect()
    seen = b.snapshot()
    assert (seen.ignored, seen.calls) == (2, 2)
