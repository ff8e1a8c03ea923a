"""Sync code under a limit in time: plain functions, generators and blocks; it is told, not stopped.

The limit is in force only while that code runs, and what was in force before
it is put back by value: a token would be lost to an interrupt that comes
between setting and keeping it.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit import _ambient as ambient
from breakerkit._ambient import AROUND, OVER
from breakerkit._log import hook_name
from breakerkit._shell._deferred import around_deferred
from breakerkit._shell._shapes import Shape, runs_later
from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from breakerkit._ambient import Limit, Terms
    from breakerkit.clock import Clock
    from breakerkit.errors import CallTimeoutError


class Limiter(Protocol):
    """A timeout, seen from the shell."""

    name: str
    ticks: Iterator[int]

    @property
    def clock(self) -> Clock:
        """Where its time comes from."""
        ...

    @property
    def terms(self) -> Terms:
        """What its limits have in common."""
        ...

    def within(self, outer: Limit | None, now: float, terms: Any = None) -> Limit:
        """Return the limit for a call that begins ``now`` under ``outer``, or raise."""
        ...

    def failed(self, error: BaseException, end: float, *, own: bool = True) -> None:
        """Hear an exception; raise in its place, or return for it to be raised."""
        ...

    def late(self, error: BaseException | None = None) -> None:
        """Hear that a call ended by itself after its time."""
        ...

    def expired(self, limit: Limit, *, own: bool = True) -> CallTimeoutError:
        """Return the error for a limit that has passed."""
        ...

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a call in a thread, and leave it behind when its time is over."""


def limit_plain(limiter: Limiter, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare function that runs ``function`` under a limit it may ask for.

    The body is written out because every call pays for it. So the limit is not
    taken back afterwards, which takes as long as to set it: it is over, and one
    that is over is none. Setting it is inside the ``try`` and ending it comes
    first after it: an interrupt anywhere between leaves no limit in force.
    """
    plain: type = type(None)  # the last type seen that is not deferred work
    get, put = ambient.limit.get, ambient.limit.set
    clock, ticks = limiter.clock, limiter.ticks

    def limited(*args: Any, **kwargs: Any) -> Any:
        nonlocal plain
        outer = get()
        if outer is not None and (outer[AROUND] is not None or not outer[OVER]):
            return run_step(limiter, outer, function, args, kwargs)
        next(ticks)
        terms = limiter.terms
        end = clock.now() + terms.seconds
        limit: Limit = [end, terms, None, None, False]
        try:
            put(limit)
            # Passing on no keywords as no keywords saves CPython a copy of nothing.
            value = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            limit[OVER] = True
            limiter.failed(error, end)
            raise
        if type(value) is not plain:
            try:
                later = runs_later(type(value))
            except BaseException:
                limit[OVER] = True
                raise
            if later:
                put(None)  # not over: a future's work may be under way, under it
                return limit_deferred(limiter, value, functools.partial(ambient.end, limit, None))
            plain = type(value)
        limit[OVER] = True
        if clock.now() >= end:
            limiter.late()
        return value

    return limited


def run_step(
    limiter: Limiter, outer: Limit | None, function: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    """Run a call, or one step of a generator, under a limit."""
    put, terms, clock = ambient.limit.set, limiter.terms, limiter.clock
    next(limiter.ticks)
    now = clock.now()
    end, outer = now + terms.seconds, ambient.live(outer)
    limit = limiter.within(outer, now, terms)
    try:
        put(limit)
        value = function(*args, **kwargs)
    except BaseException as error:
        put(outer)
        ambient.end(limit, outer)
        limiter.failed(error, end, own=limit is not outer)
        raise
    put(outer)
    over = functools.partial(ambient.end, limit, outer)
    if runs_later(type(value)):
        return limit_deferred(limiter, value, over)
    over()
    if clock.now() >= end:
        limiter.late()
    return value


def _nothing() -> None:
    """Do nothing: work in a thread has a limit of its own, that ends with it."""


def limit_in_thread(limiter: Limiter, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare function that runs ``function`` in a thread that may be left behind."""

    def limited(*args: Any, **kwargs: Any) -> Any:
        value = limiter.run(function, args, kwargs)
        if runs_later(type(value)):
            return limit_deferred(limiter, value, _nothing, in_thread=True)
        return value

    return limited


def limit_generator(
    limiter: Limiter, function: Callable[..., Any], *, in_thread: bool = False
) -> Callable[..., Any]:
    """Return a generator function with a limit for each item, from asking for it to getting it.

    Between two items nothing is in force here: what the reader does then, in
    whatever thread or task, is its own. Closing it early has no limit.
    """

    def limited(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        stream = function(*args, **kwargs)
        run: Callable[[Any], Any] = stream.send
        given: list[Any] = [None]
        while True:
            try:
                if in_thread:
                    ended, item = limiter.run(step, (run, given), {})
                else:
                    ended, item = run_step(limiter, ambient.limit.get(), step, (run, given), {})
            except CallRejectedError:
                stream.close()  # refused before it was asked: it will not be again
                raise
            if ended:
                return item
            try:
                given.append((yield item))
                run = stream.send
            except GeneratorExit:
                stream.close()
                raise
            except BaseException as error:
                given.append(error)
                run = stream.throw

    def step(run: Callable[[Any], Any], given: list[Any]) -> tuple[bool, Any]:
        """Run to the next item; tell whether the generator has ended instead, and with what."""
        try:
            # Out of the list, so that no frame keeps an error whose traceback leads to it.
            return False, run(given.pop())
        except StopIteration as end:
            return True, end.value

    step.__qualname__ = hook_name(function)
    return limited


def limit_function(
    limiter: Limiter, function: Callable[..., Any], shape: Shape, *, in_thread: bool
) -> Callable[..., Any]:
    """Return a bare function of the same shape under limits."""
    if shape is Shape.PLAIN:
        return (limit_in_thread if in_thread else limit_plain)(limiter, function)
    if shape is Shape.GENERATOR:
        return limit_generator(limiter, function, in_thread=in_thread)
    from breakerkit._shell import _timed_async as later  # noqa: PLC0415  # asyncio is slow to import

    return later.MAKERS[shape](limiter, function)


def limit_deferred(
    limiter: Limiter, value: Any, over: Callable[[], object], *, in_thread: bool = False
) -> Any:
    """Return what stands for work that a plain function returned, with a limit of its own.

    Args:
        limiter: the timeout.
        value: the work; a future's may be under way, under the limit of the call that began it.
        over: ends that limit.
        in_thread: whether sync work runs in a thread.

    Raises:
        TypeError: it is a future that no event loop of the caller's can limit.
    """
    if hasattr(type(value), "add_done_callback"):
        from breakerkit._shell import _timed_futures as futures  # noqa: PLC0415  # asyncio is slow to import

        return futures.limit_future(limiter, value, over)
    over()

    def around(function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        made = limit_function(limiter, function, shape, in_thread=in_thread)
        if not isinstance(value, types.CoroutineType):
            return made
        from breakerkit._shell import _timed_async as later  # noqa: PLC0415  # asyncio is slow to import

        return later.closing(made, value)

    return around_deferred(value, around)
