"""What a plain function returns to be run later is judged when it has run, not when it was made."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

from breakerkit._log import fault_in
from breakerkit._shell._gate import Carried, Gate
from breakerkit._shell._runs import MAKERS, named_after
from breakerkit._shell._shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable


def carry(gate: Gate, entry: Any, value: Any) -> Any:
    """Return ``value``, or what stands for it, so that its end settles ``entry``."""
    if hasattr(type(value), "add_done_callback"):
        return _watch(gate, entry, value)
    carried = Carried(gate, entry)
    shape = shape_of_work(value)
    if shape is None:
        from breakerkit._shell import _proxies as proxies  # noqa: PLC0415  # wrapt is slow to import

        return proxies.GuardedAwaitable(value, gate, carried)
    return named_after(value, MAKERS[shape](lambda _args, _kwargs: gate, lambda: value, carried)())


def around_deferred(value: Any, around: Callable[[Any, Shape], Callable[..., Any]]) -> Any:
    """Return what stands for returned work, run inside a function of the policy's own.

    Args:
        value: a coroutine, a generator, or another awaitable that is no future.
        around: from a function that returns ``value``, and its shape, to a
            function of that shape around it.
    """
    shape = shape_of_work(value)
    if shape is None:
        from breakerkit._shell import _proxies as proxies  # noqa: PLC0415  # wrapt is slow to import

        return proxies.AwaitableWithin(value, lambda what: around(what, Shape.COROUTINE)())
    return named_after(value, around(lambda: value, shape)())


def shape_of_work(value: Any) -> Shape | None:
    """Return which kind of deferred work this is, ``None`` for an awaitable of any other kind."""
    if isinstance(value, types.CoroutineType):
        return Shape.COROUTINE
    if isinstance(value, types.AsyncGeneratorType):
        return Shape.ASYNC_GENERATOR
    if not isinstance(value, types.GeneratorType):
        return None
    awaited = value.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE
    return Shape.ITERABLE_COROUTINE if awaited else Shape.GENERATOR


def _watch(gate: Gate, entry: Any, future: Any) -> Any:
    """Settle when a future is done; the caller gets that very future.

    Ours is its first callback, so whoever awaits it finds the breaker up to
    date; one that is done already is settled here, for awaiting it would not
    give the loop a turn.
    """
    carried = Carried(gate, entry)

    def done(ended: Any) -> None:
        entry = carried.take()
        if (error := error_of(ended)) is not None:
            gate.failed(entry, error)
        elif (ticket := next(entry.ticks)) >= entry.attention:
            gate.succeeded(entry, ticket, ended.result())

    try:
        done(future) if future.done() else future.add_done_callback(done)
    except Exception as odd:
        # Something with a method of that name and other manners: it is the
        # caller's all the same, and its end stays unknown.
        fault_in("future returned through", "breaker", odd)
        if not carried.taken:
            gate.drop(carried.take())
    return future


def error_of(future: Any) -> BaseException | None:
    """Return how a future failed, if it did."""
    if future.cancelled():
        # Not the future's own error: that of ``concurrent.futures`` is an
        # ``Exception``, and a call that was cancelled is no evidence.
        return GeneratorExit("the future was cancelled")
    return future.exception()  # type: ignore[no-any-return]  # any future's
