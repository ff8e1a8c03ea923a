"""Nothing of a caller's is kept: no frame, no error, no argument (C066, C067 for this wing)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import weakref

import pytest

from breakerkit import Rule, degradable, degradation, fallback
from tests.degrade.rig import answered_async_shapes, answered_sync_shapes

DOWN = "down"


class Local:
    """Something that only a frame holds."""


def fallbacks():
    return [
        fallback("x"),
        fallback(lambda call: "x"),
        fallback("x", on=(KeyError,)),
        fallback(lambda call: {}["key"]),
    ]


def ruled():
    d = degradable("memory", mock=lambda *args: "x")
    for rule in (Rule.fail_call(), Rule.fail_raise(TimeoutError), Rule.force_raise(TimeoutError)):
        degradation.set("memory", rule)
        yield d


def calls(shape, seen):
    """Make one failing call through each policy, and drop whatever comes of it."""

    def behave():
        local = Local()
        seen.append(weakref.ref(local))
        raise ConnectionError(DOWN)

    for policy in itertools.chain(fallbacks(), ruled()):
        policy.subscribe(lambda event: None)
        with contextlib.suppress(ConnectionError, KeyError, TimeoutError):
            shape.run(policy, behave)


@answered_sync_shapes
def test_a_frame_is_free_at_once(shape):
    """Nothing of ours is in a cycle with a frame of the call: it is free before the collector runs."""
    seen = []
    gc.collect()
    gc.disable()
    try:
        calls(shape, seen)
        assert [one() for one in seen] == [None] * len(seen)
        assert len(seen) == 6
    finally:
        gc.enable()


@answered_async_shapes
def test_a_frame_is_free(shape):
    """The same in async code, where asyncio itself makes cycles."""
    seen = []
    calls(shape, seen)
    gc.collect()
    assert [one() for one in seen] == [None] * 6


def test_what_is_thrown_into_a_stream_is_free_at_once():
    """An error that a reader threw in is in no cycle with the generator that got it."""

    class Thrown(Exception):
        pass

    @fallback("x")
    def items():
        for _ in range(3):
            with contextlib.suppress(Thrown):
                yield 1
        yield 2

    seen = []

    def throw(stream):
        error = Thrown()
        seen.append(weakref.ref(error))
        stream.throw(error)

    gc.collect()
    gc.disable()
    try:
        stream = items()
        next(stream)
        throw(stream)
        throw(stream)
        next(stream, None)
        stream.close()
        assert [one() for one in seen] == [None, None]
    finally:
        gc.enable()


def test_an_argument_is_free():
    """The record of a fallback lives as long as its cure runs."""
    seen = []

    @fallback(lambda call: seen.append(weakref.ref(call.args[0])))
    def work(local):
        raise ConnectionError(DOWN)

    work(Local())
    asyncio.run(fallback(None)(_fail)(Local()))
    gc.collect()
    assert seen[0]() is None


async def _fail(local):
    raise ConnectionError(DOWN)


def test_tracebacks_do_not_grow():
    """A cure's very exception object that is raised again and again has its own cause only."""
    f = fallback(lambda call: {}["key"])
    errors = []
    for _ in range(5):
        with pytest.raises(KeyError) as caught:
            f.call(_raise)
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 5
    assert all(error.__cause__.__cause__ is None for error in errors)


def _raise():
    raise ConnectionError(DOWN)
