"""A guarded generator behaves as the bare one, whatever one does to it: compared step by step."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from breakerkit import State, breaker

#: What a generator does each time it is resumed.
PLANS = st.lists(
    st.sampled_from(["yield", "catch", "late", "return", "raise", "translate", "cleanup", "leave"]),
    max_size=3,
)
#: What is done to it.
STEPS = st.lists(st.sampled_from(["next", "send", "throw", "close"]), max_size=4)
# And this, which ``yield from`` turns into "close".
ASYNC_STEPS = st.lists(st.sampled_from(["next", "send", "throw", "exit", "close"]), max_size=4)


class Fault(Exception):
    """What is thrown in, or raised."""


def generator(plan, log):
    """Follow a plan and note what arrives."""
    for number, step in enumerate(plan):
        caught = False
        try:
            log.append((yield number))
            if step == "raise":
                raise Fault(number)
        except Fault as fault:
            log.append(repr(fault))
            caught = True
            if step == "translate":
                raise LookupError(number) from fault
            if step not in {"catch", "late"}:
                raise
        except GeneratorExit:
            log.append("exit")
            if step == "leave":
                return "left"
            if step == "cleanup":
                raise Fault("in cleanup")  # noqa: B904  # its context is what is compared
            raise
        if step == "late" and caught:
            raise LookupError("after what was thrown in has been dealt with")
        if step == "return":
            return "returned"
    return "done"


async def async_generator(plan, log):
    """Do the same, with a turn of the loop between."""
    inner = generator(plan, log)
    send, value = inner.send, None
    while True:
        try:
            item = send(value)
        except StopIteration:
            return
        await asyncio.sleep(0)
        try:
            send, value = inner.send, (yield item)
        except BaseException as error:
            send, value = inner.throw, error


def do(stream, step):
    """Take one step and return what came of it."""
    try:
        match step:
            case "next":
                return next(stream)
            case "send":
                return stream.send("sent")
            case "throw":
                return stream.throw(Fault("thrown"))
            case _:
                stream.close()  # since 3.13 it returns a value, which ``yield from`` does not pass on
    except BaseException as error:
        return told(error)


async def do_async(stream, step):
    """Take one step of an async generator."""
    try:
        match step:
            case "next":
                return await anext(stream)
            case "send":
                return await stream.asend("sent")
            case "throw":
                return await stream.athrow(Fault("thrown"))
            case "exit":
                return await stream.athrow(GeneratorExit())
            case _:
                await stream.aclose()
    except BaseException as error:
        return told(error)


def told(error):
    """Return what a caller sees of an error: type, text, cause and context."""
    cause, context = error.__cause__, error.__context__
    return repr(error), repr(cause), repr(context), error.__suppress_context__


@settings(max_examples=300)
@given(PLANS, STEPS)
def test_a_generator_step_by_step(plan, steps):
    """Items, errors with cause and context, what arrives inside: all as without a breaker."""
    bare_log, log, b = [], [], breaker(failure_threshold=1_000_000)
    bare, guarded = generator(plan, bare_log), b(generator)(plan, log)
    for step in ["next", *steps, "close"]:
        assert do(guarded, step) == do(bare, step)
        assert log == bare_log
    assert b.state is State.CLOSED
    seen = b.snapshot()
    assert seen.calls <= 1


@settings(max_examples=300)
@given(PLANS, ASYNC_STEPS)
def test_an_async_generator_step_by_step(plan, steps):
    """The same for an async generator."""

    async def compare():
        bare_log, log, b = [], [], breaker(failure_threshold=1_000_000)
        bare, guarded = async_generator(plan, bare_log), b(async_generator)(plan, log)
        for step in ["next", *steps, "close"]:
            assert await do_async(guarded, step) == await do_async(bare, step)
            assert log == bare_log
        assert b.snapshot().calls <= 1

    asyncio.run(compare())
