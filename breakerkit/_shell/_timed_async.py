"""Async code under a limit in time: it is cancelled, and only that cancellation becomes our error.

The counting is that of ``asyncio.timeout``: each side that cancels a task adds
one to ``Task.cancelling()`` and takes its own back; what is left was somebody
else's and goes on. The limit counts on the loop's own clock, which nothing in a
test should move; the deadline that the code inside may ask for is told by the
clock of the policy.
"""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit._ambient import OVER, Stay
from breakerkit._shell._shapes import Shape
from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from breakerkit._ambient import Limit, Terms
    from breakerkit._shell._timed import Limiter

_running_loop = asyncio.get_running_loop
_current_task = asyncio.current_task


class Expiry(Stay):
    """One limit on one task: it cancels it, and knows afterwards whose cancellation that was.

    Attributes:
        task: the task; ``None`` once the limit is over, so that a timer that an
            interrupt has left behind harms nobody.
        before: how many cancellations of the task were somebody else's.
        fired: whether the time ran out.
    """

    __slots__ = ("before", "fired", "task")

    def __init__(self, task: asyncio.Task[Any], terms: Terms) -> None:
        self.seconds, self.name, self.clock = terms.seconds, terms.name, terms.clock
        self.fired = False
        self.task: asyncio.Task[Any] | None = task
        self.before = before = task.cancelling()
        if before and getattr(task, "_must_cancel", False):
            self.before -= 1  # one that it has not heard of: it will, inside, and that must pass

    def __call__(self) -> None:
        """Cancel the task: its time is over."""
        if self.task is None:
            return
        self.fired = True
        self.task.cancel()

    def watch(self, limit: Limit, bound: Limit) -> None:
        """Hear that the time is counted for the sake of ``bound``, which is ``limit`` or one around it."""


class Nested(Expiry):
    """The same under another limit, which may be the shorter one, and be over before its time.

    Attributes:
        bound: the limit whose time is counted.
    """

    __slots__ = ("_limit", "bound")

    def watch(self, limit: Limit, bound: Limit) -> None:
        """Count the time for the sake of ``bound``."""
        self._limit, self.bound = limit, bound

    def __call__(self) -> None:
        """Cancel the task, or go on counting: the call has outlived the one around it."""
        if self.task is not None and ambient.live(self.bound) is not self.bound:
            left, self.bound = ambient.binding(self._limit)
            self.task.get_loop().call_later(left, self)  # harmless once this is over
        else:
            super().__call__()


def current_task(limiter: Limiter) -> asyncio.Task[Any]:
    """Return the task that runs this code.

    Raises:
        RuntimeError: none does, so nothing could be cancelled.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs this either
        task = None
    if task is not None:
        return task
    raise RuntimeError(
        f"timeout {limiter.name!r}: async code is limited by cancelling its asyncio task, and no"
        " task runs this"
    )


def limit_coroutine(limiter: Limiter, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare coroutine function under a limit, written out because every call pays for it.

    What ends the limit comes in this order, so that an interrupt between any
    two steps leaves neither a limit in force nor a task that will be cancelled.
    """
    get, put, live = ambient.limit.get, ambient.limit.set, ambient.live
    clock, ticks, running = limiter.clock, limiter.ticks, asyncio.get_running_loop

    async def limited(*args: Any, **kwargs: Any) -> Any:
        task = current_task(limiter)
        next(ticks)
        outer, now, terms = get(), clock.now(), limiter.terms
        if outer is not None:
            outer = live(outer)
        expiry, timer = (Expiry if outer is None else Nested)(task, terms), None
        left = terms.seconds
        end = now + left
        limit: Limit = [end, expiry, None, None, False]
        bound = limit
        if outer is not None:
            limit = limiter.within(outer, now, expiry)
            left, bound = ambient.binding(limit)
            expiry.watch(limit, bound)
        try:
            loop = running()
            timer = loop.call_at(loop.time() + left, expiry)
            put(limit)
            value = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            put(outer)
            expiry.task = None
            if timer is not None:
                timer.cancel()
            bound = getattr(expiry, "bound", limit)
            own = bound is limit is not outer
            ambient.end(limit, outer)
            if expiry.fired and ours(task, expiry, error):
                raise limiter.expired(bound, own=own) from error
            limiter.failed(error, end, own=limit is not outer)
            raise
        put(outer)
        expiry.task = None
        if outer is None:
            limit[OVER] = True
        else:
            ambient.end(limit, outer)
        timer.cancel()
        if expiry.fired:
            task.uncancel()
            limiter.late()
        elif clock.now() >= end:  # the loop was kept from cancelling it
            limiter.late()
        return value

    return limited


def closing(run: Callable[..., Any], work: Any) -> Callable[..., Any]:
    """Return a coroutine function that leaves no coroutine behind which was there already and is refused."""

    async def called() -> Any:
        try:
            return await run()
        finally:
            work.close()  # once it has run that does nothing

    return called


def ours(task: asyncio.Task[Any], expiry: Expiry, error: BaseException | None) -> bool:
    """Take our cancellation back; tell whether ``error`` is that one, and nobody else's."""
    return task.uncancel() <= expiry.before and isinstance(error, asyncio.CancelledError)


def limit_iterable_coroutine(limiter: Limiter, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function of the old kind, as ``types.coroutine`` makes it."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    run = limit_coroutine(limiter, call)

    @types.coroutine
    def limited(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from run(*args, **kwargs).__await__())

    return limited


def limit_async_generator(limiter: Limiter, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async generator function with a limit for each item, from asking for it to getting it.

    Each item may be asked for by another task. Between two items nothing of
    this is in force, and closing it early has no limit.
    """

    async def step(run: Callable[[Any], Any], given: list[Any]) -> tuple[bool, Any]:
        """Run to the next item; tell whether the generator has ended instead."""
        try:
            # Out of the list, so that no frame keeps an error whose traceback leads to it.
            return False, await run(given.pop())
        except StopAsyncIteration:
            return True, None

    take = limit_coroutine(limiter, step)

    async def limited(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        stream = function(*args, **kwargs)
        run: Callable[[Any], Any] = stream.asend
        given: list[Any] = [None]
        while True:
            try:
                ended, item = await take(run, given)
            except CallRejectedError:
                await stream.aclose()  # refused before it was asked: it will not be again
                raise
            if ended:
                return
            try:
                given.append((yield item))
                run = stream.asend
            except GeneratorExit:
                await stream.aclose()
                raise
            except BaseException as error:
                if getattr(stream, "ag_frame", stream) is None:
                    raise  # an event loop that ends had closed the stream before us
                given.append(error)
                run = stream.athrow

    return limited


MAKERS: dict[Shape, Callable[..., Callable[..., Any]]] = {
    Shape.COROUTINE: limit_coroutine,
    Shape.ASYNC_GENERATOR: limit_async_generator,
    Shape.ITERABLE_COROUTINE: limit_iterable_coroutine,
}
