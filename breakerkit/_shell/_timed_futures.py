"""Futures that a plain function returned: a limit from the call to their end, in the loop they belong to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._ambient import Limit
    from breakerkit._shell._timed import Limiter


def limit_future(limiter: Limiter, future: Any, over: Callable[[], object]) -> Any:
    """Return a future that ends when ``future`` does, or when the time from now on is over.

    Then ``future`` is cancelled, whether it heeds that or not. ``over`` is called
    when it has ended.

    Raises:
        TypeError: it is no future of the loop that runs here. It has been cancelled.
    """
    if not asyncio.isfuture(future):
        return _other(limiter, future)
    loop = future.get_loop()
    if loop is not asyncio._get_running_loop():
        loop.call_soon_threadsafe(future.cancel)
        raise TypeError(
            f"timeout {limiter.name!r}: the function returned a future of an event loop that does"
            " not run here; put the timeout on the coroutine function instead"
        )
    future.add_done_callback(lambda _: over())
    return future if future.done() else _limited_future(limiter, future, loop)


def _other(limiter: Limiter, future: Any) -> Any:
    if not hasattr(type(future), "result"):
        return future  # something with a method of that name and other manners
    future.cancel()
    raise TypeError(
        f"timeout {limiter.name!r}: the function returned a {type(future).__qualname__}, which"
        " nobody here waits for; put the timeout on what runs in the executor, or give"
        " result(timeout=...)"
    )


def _check_time(limiter: Limiter, outer: Limit | None, future: Any) -> None:
    """End a future for which no time is left: it was begun, so that is no rejection.

    Raises:
        CallTimeoutError: as said.
    """
    if outer is not None and (late := ambient.binding(outer))[0] <= 0:
        future.cancel()
        raise limiter.expired(late[1], own=False)


def _limited_future(limiter: Limiter, future: Any, loop: asyncio.AbstractEventLoop) -> Any:
    outer, now = ambient.live(ambient.limit.get()), limiter.clock.now()
    terms = limiter.terms
    end = now + terms.seconds
    _check_time(limiter, outer, future)
    limit = limiter.within(outer, now, terms)
    left, bound = ambient.binding(limit)
    next(limiter.ticks)
    stand_in = loop.create_future()
    timer: asyncio.TimerHandle

    def expire() -> None:
        nonlocal bound, timer
        if ambient.live(bound) is not bound:  # the call around is over before its time
            left, bound = ambient.binding(limit)
            timer = loop.call_later(left, expire)
        elif not stand_in.done():
            stand_in.set_exception(limiter.expired(bound, own=bound is limit is not outer))
            future.cancel()

    def ended(_: object) -> None:
        timer.cancel()
        error = None if future.cancelled() else future.exception()
        if stand_in.done():
            return
        if future.cancelled():
            stand_in.cancel()
        elif error is None:
            stand_in.set_result(future.result())
        else:
            stand_in.set_exception(error)
            limiter.failed(error, end, own=limit is not outer)

    def left_alone(_: object) -> None:
        timer.cancel()
        if stand_in.cancelled():
            future.cancel()

    timer = loop.call_at(loop.time() + left, expire)
    future.add_done_callback(ended)
    stand_in.add_done_callback(left_alone)
    return stand_in
