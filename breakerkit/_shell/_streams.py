"""Tries of what runs later: generators, async generators, and work that a plain function returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._fields import show
from breakerkit._outcome import NO_VALUE
from breakerkit._shell._deferred import error_of, shape_of_work
from breakerkit._shell._runs import named_after
from breakerkit._shell._shapes import Shape
from breakerkit._shell._tries import failed, following, raised, run_coroutine, succeeded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from breakerkit._shell._tries import Plan

    #: From the arguments of a call to its plan, and the try that is under way.
    Start = Callable[[Any, Any], tuple[Plan, Any]]


def run_generator(plan: Plan, first: Any = None) -> Generator[Any, Any, Any]:
    """Make the tries of a generator: after its first item there is no other, for items come once."""
    attempt = error = stream = None
    try:
        while True:
            attempt, stream = first or (plan.next(), None)
            first = None
            if attempt is None:
                break
            try:
                stream = plan.work.begin(attempt.value) if stream is None else stream
                item = next(stream)
            except StopIteration as stop:
                plan.succeeded(attempt, stop.value)
                return stop.value
            except BaseException as caught:
                if not plan.failed(attempt, caught):
                    raise
                continue
            return (yield from _rest(plan, attempt, stream, item))
        error, value = plan.end()
        return value if error is None else raised(error)
    finally:
        del plan, first, attempt, error, stream


def _rest(plan: Plan, attempt: Any, stream: Any, item: Any) -> Generator[Any, Any, Any]:
    """Pass on what comes, from the first item on; send, throw, close and the return value go through."""
    thrown = None
    try:
        while True:
            thrown = sent = None
            try:
                sent = yield item
            except BaseException as error:
                thrown = error
            # Outside of the handler: it shall not be the context of errors it has no part in.
            item = stream.send(sent) if thrown is None else stream.throw(thrown)
    except StopIteration as stop:
        if isinstance(thrown, GeneratorExit):
            plan.failed(attempt, thrown)  # left early, though it ended well
        else:
            plan.succeeded(attempt, stop.value)
        return stop.value
    except BaseException as error:
        plan.failed(attempt, error)
        raise
    finally:
        del plan, attempt, thrown  # tracebacks lead here: no cycle


def async_generator_of(start: Start) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return an async generator function that makes the tries of what ``start`` begins.

    Another try comes only before the first item.

    Args:
        start: from the arguments of a call to its plan, and the try that is
            under way with its stream, if one is.
    """

    async def called(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        plan, first = start(args, kwargs)
        attempt = stream = thrown = None
        del args, kwargs
        try:
            attempt, stream, item = await _first_item(plan, first)
            while attempt is not None:
                thrown = sent = None
                try:
                    sent = yield item
                except BaseException as caught:
                    thrown = caught
                # Outside of the handler: it shall not be the context of errors it has no part in.
                item = await (stream.asend(sent) if thrown is None else stream.athrow(thrown))
                if thrown is not None and getattr(stream, "ag_frame", stream) is None:
                    raise thrown  # an event loop that ends had closed the stream before us
        except StopAsyncIteration:
            if isinstance(thrown, GeneratorExit):
                plan.failed(attempt, thrown)  # left early, though it ended well
            else:
                await succeeded(plan, attempt, NO_VALUE)
        except BaseException as caught:
            if attempt is not None:
                await failed(plan, attempt, caught)
            raise
        finally:
            del plan, first, attempt, stream, thrown  # errors lead to this frame: no cycle

    return called


async def _first_item(plan: Plan, first: Any) -> tuple[Any, Any, Any]:
    """Return the try that has given an item, its stream, and the item; no try if there is no item."""
    attempt = error = stream = None
    try:
        while True:
            attempt, stream = first or (await following(plan), None)
            first = None
            if attempt is None:
                break
            try:
                stream = plan.work.begin(attempt.value) if stream is None else stream
                return attempt, stream, await anext(stream)
            except StopAsyncIteration:
                await succeeded(plan, attempt, NO_VALUE)
                return None, None, None
            except BaseException as caught:
                if not await failed(plan, attempt, caught):
                    raise
        error, _ = plan.end()
        return (None, None, None) if error is None else raised(error)
    finally:
        del plan, first, attempt, error, stream


def carry_on(plan: Plan, attempt: Any, work: Any) -> Any:
    """Return what stands for the work that a plain function returned, to be tried until it has run well.

    A future that cannot be awaited is the caller's as it is: its end is heard
    of, and there is no other try.

    Raises:
        TypeError: the plan must know at once how a call ends.
    """
    if not plan.carries:
        refuse_later(plan, attempt, work)
    shape = shape_of_work(work)
    if shape is Shape.GENERATOR:
        return named_after(work, run_generator(plan, (attempt, work)))
    if shape is Shape.ASYNC_GENERATOR:
        return named_after(work, async_generator_of(lambda args, _: args)(plan, (attempt, work)))
    if shape is None and not hasattr(type(work), "__await__"):
        work.add_done_callback(lambda ended: _heard(plan, attempt, ended))
        return work
    return named_after(plan.work.function, run_coroutine(plan, (attempt, work)))


def _heard(plan: Plan, attempt: Any, future: Any) -> None:
    error = error_of(future)
    if error is None:
        plan.succeeded(attempt, future.result())
    else:
        plan.failed(attempt, error)


def refuse_later(plan: Plan, attempt: Any, work: Any) -> None:
    """Refuse work that runs later, where it must be known at once how a call ends.

    Raises:
        TypeError: always.
    """
    plan.failed(attempt, GeneratorExit("it is not run"))  # no evidence
    if callable(close := getattr(work, "close", None)):
        close()
    raise TypeError(
        f"{show(plan.work.function)} returned {show(work)}, which runs later: with this strategy"
        " decorate the coroutine function itself, or a plain function that returns its value"
    )
