"""Nothing of a caller's is kept: no frame, no error, no chain of contexts, whatever the shape."""

from __future__ import annotations

import contextlib
import gc
import threading
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


@sync_shapes
def test_it_is_free_at_once(shape, circuit):
    """C066: nothing of ours is in a cycle with it: it is free before the collector runs."""
    b, seen = circuit(failure_threshold=1), []
    gc.collect()
    gc.disable()
    try:
        _fail(shape, b, seen)
        assert seen[0]() is None
    finally:
        gc.enable()


def _retried(call, tries, errors):
    """Try again inside the handler of the last try, as retry loops do."""
    try:
        call()
    except CircuitOpenError as error:
        errors.append(error)
        if tries:
            _retried(call, tries - 1, errors)


def _length(error):
    trace, length = error.__traceback__, 0
    while trace is not None:
        trace, length = trace.tb_next, length + 1
    return length


@every_shape
def test_rejections_in_a_retry_loop_make_no_chain(shape, circuit):
    """C067: raised inside the handler of the last, each rejection is new and has no context."""
    b, errors = circuit(failure_threshold=1), []
    shape.fail(b)
    _retried(lambda: shape.run(b, returning()), 20, errors)
    assert len({id(error) for error in errors}) == len(errors) == 21
    assert all(error.__context__ is None and error.__cause__ is None for error in errors)
    assert len({_length(error) for error in errors}) == 1


@every_shape
def test_a_probe_rejection_makes_no_chain_either(shape, circuit, clock):
    """C067: the same while half-open."""
    b, errors = circuit(failure_threshold=1), []
    shape.fail(b)
    clock.advance(10)
    with b.guard():
        in_thread(lambda: _retried(lambda: shape.run(b, returning()), 3, errors))
    assert [type(error) for error in errors] == 4 * [ProbeLimitError]
    assert all(error.__context__ is None for error in errors)


def test_a_hundred_thousand_rejections(circuit):
    """C067: from four threads, some in a retry loop: traceback of constant length, no frame alive."""
    b = circuit(failure_threshold=1)
    with pytest.raises(ConnectionError):
        b.call(raising(ConnectionError("down")))
    requests = []

    class Request:
        """What a rejected call was given."""

    def handle(guarded):
        request = Request()
        requests.append(weakref.ref(request))
        errors = []
        _retried(lambda: guarded(request), 4, errors)
        return {_length(error) for error in errors}, {error.__context__ for error in errors}

    @b
    def work(request):
        pytest.fail("run")

    def many(_):
        return [handle(work) for _ in range(5000)]

    gc.collect()
    gc.disable()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = [one for many_of in pool.map(many, range(4)) for one in many_of]
        alive = sum(request() is not None for request in requests)
    finally:
        gc.enable()
    assert len({frozenset(lengths) for lengths, _ in found}) == 1
    assert all(contexts == {None} for _, contexts in found)
    assert b.snapshot().rejected == 100_000
    assert alive == 0
    assert threading.active_count() < 20


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
