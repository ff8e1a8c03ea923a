"""Nothing of a caller's is kept: no frame, no error, no chain of contexts, whatever the shape."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from breakerkit import CircuitOpenError, OpenReason, ProbeLimitError, State, registry
from tests.shapes import every_shape, in_thread, raising, returning, sync_shapes

MEGABYTE = 1024 * 1024


class Payload:
    """Something large in the frame of a failing call."""

    def __init__(self):
        self.data = bytearray(50 * MEGABYTE)


def _fail(shape, b, seen):
    def behave():
        payload = Payload()
        seen.append(weakref.ref(payload))
        raise ConnectionError("down")

    with contextlib.suppress(ConnectionError):
        shape.run(b, behave)


@every_shape
def test_the_frame_of_the_failing_call_is_free(shape, circuit):
    """C066: once its caller has dropped the exception, nothing of the library's leads to that frame."""
    b, seen = circuit(failure_threshold=1, on_open=lambda context: None), []
    b.subscribe(lambda event: None)
    registry.subscribe(lambda event: None)
    tracemalloc.start()
    try:
        _fail(shape, b, seen)
        rejections = []
        for _ in range(3):
            with pytest.raises(CircuitOpenError) as caught:
                shape.run(b, returning())
            rejections.append(caught.value)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b.state is State.OPEN
    assert seen[0]() is None
    assert held < 10 * MEGABYTE
    assert b.snapshot().reason is OpenReason.CONSECUTIVE_FAILURES
    assert len(rejections) == 3


class Local:
    """Something that only a frame holds."""


@sync_shapes
@pytest.mark.parametrize("rejected", [False, True], ids=["failed", "rejected"])
def test_it_is_free_at_once(shape, rejected, circuit):
    """C066: nothing of ours is in a cycle with a frame: it is free before the collector runs."""
    b, seen = circuit(failure_threshold=1), []
    if rejected:
        shape.fail(b)

    def behave():
        local = Local()
        seen.append(weakref.ref(local))
        raise ConnectionError("down")

    def call():
        local = Local()
        seen.append(weakref.ref(local))
        with contextlib.suppress(ConnectionError, CircuitOpenError):
            shape.run(b, behave)

    gc.collect()
    gc.disable()
    try:
        call()
        assert len(seen) == (1 if rejected else 2)
        assert [one() for one in seen] == [None] * len(seen)
    finally:
        gc.enable()


def _retried(call, tries, note):
    """Try again inside the handler of the last try, as retry loops do."""
    try:
        call()
    except CircuitOpenError as error:
        note(error)
        if tries:
            _retried(call, tries - 1, note)


async def _retried_async(call, tries, note):
    """Do the same in one task."""
    try:
        await call()
    except CircuitOpenError as error:
        note(error)
        if tries:
            await _retried_async(call, tries - 1, note)


def _rejections(shape, b, tries):
    """Return what a retry loop in this shape catches."""
    errors = []
    call = shape.bind(b, returning())
    if shape.is_async:
        asyncio.run(_retried_async(call, tries, errors.append))
    else:
        _retried(call, tries, errors.append)
    return errors


def _length(error):
    trace, length = error.__traceback__, 0
    while trace is not None:
        trace, length = trace.tb_next, length + 1
    return length


@every_shape
def test_rejections_in_a_retry_loop_make_no_chain(shape, circuit):
    """C067: raised inside the handler of the last, each is new, without context, of constant length."""
    b = circuit(failure_threshold=1)
    shape.fail(b)
    errors = _rejections(shape, b, 20)
    assert len({id(error) for error in errors}) == len(errors) == 21
    assert all(error.__context__ is None and error.__cause__ is None for error in errors)
    assert len({_length(error) for error in errors[1:]}) == 1


@every_shape
def test_a_probe_rejection_makes_no_chain_either(shape, circuit, clock):
    """C067: the same while half-open."""
    b = circuit(failure_threshold=1)
    shape.fail(b)
    clock.advance(10)
    with b.guard():
        errors = in_thread(lambda: _rejections(shape, b, 3))
    assert [type(error) for error in errors] == 4 * [ProbeLimitError]
    assert all(error.__context__ is None for error in errors)


def test_a_hundred_thousand_rejections(circuit):
    """C067: from four threads, some in a retry loop: traceback of constant length, no frame alive."""
    b = circuit(failure_threshold=1)
    with pytest.raises(ConnectionError):
        b.call(raising(ConnectionError("down")))
    requests, lengths, contexts = [], set(), set()

    class Request:
        """What a rejected call was given."""

    @b
    def work(request):
        pytest.fail("run")

    def note(error):
        lengths.add(_length(error))
        contexts.add(error.__context__)

    def handle():
        request = Request()
        requests.append(weakref.ref(request))
        _retried(lambda: work(request), 4, note)

    def many(_):
        for _ in range(5000):
            handle()

    gc.collect()
    gc.disable()
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(many, range(4)))
        alive = sum(request() is not None for request in requests)
    finally:
        gc.enable()
    assert (b.snapshot().rejected, alive) == (100_000, 0)
    assert contexts == {None}
    assert len(lengths) == 2  # outside and inside of a handler


def test_one_callers_error_is_never_in_anothers(circuit):
    """C066: a rejection holds plain values: nothing of the call that opened the breaker."""
    b = circuit(failure_threshold=1)
    secret = ConnectionError("token=secret")
    with pytest.raises(ConnectionError):
        b.call(raising(secret))
    with pytest.raises(CircuitOpenError) as caught:
        b.call(returning())
    assert "secret" not in repr(vars(caught.value)) + str(caught.value)
    assert secret not in gc.get_referents(b, b._guard, b._guard.machine.state)
