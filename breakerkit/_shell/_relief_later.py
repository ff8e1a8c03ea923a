"""Work that a plain function returned to be run later: its end may be answered when it has run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._log import fault_in
from breakerkit._shell._deferred import shape_of_work
from breakerkit._shell._relief import iterable_coroutine, relieve_coroutine, relieve_plain
from breakerkit._shell._relief_streams import relieve_async_generator, relieve_generator
from breakerkit._shell._runs import named_after
from breakerkit._shell._shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._shell._relief import Relief


def stand_in(relief: Relief, value: Any, args: Any, kwargs: Any) -> Any:
    """Return work of the same kind whose end ``relief`` may answer.

    Args:
        relief: who has answers.
        value: a coroutine, generator, future or other awaitable.
        args: those of the call that returned it.
        kwargs: likewise.
    """
    if hasattr(type(value), "add_done_callback"):
        return _future(relief, value, args, kwargs)
    shape = shape_of_work(value)
    if shape is not None:
        around = relieve(relief, lambda *_args, **_kwargs: value, shape)
        return named_after(value, around(*args, **kwargs))
    from breakerkit._shell import _proxies as proxies  # noqa: PLC0415  # wrapt is slow to import

    def within(work: Callable[[], Any]) -> Any:
        return relieve_coroutine(relief, lambda *_args, **_kwargs: work())(*args, **kwargs)

    return proxies.RelievedAwaitable(value, within)


def relieve(relief: Relief, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
    """Return a bare function of a kind that runs later, whose end ``relief`` may answer."""
    if shape is Shape.COROUTINE:
        return relieve_coroutine(relief, function)
    if shape is Shape.ITERABLE_COROUTINE:
        return iterable_coroutine(relieve_coroutine(relief, function))
    streams = relieve_generator if shape is Shape.GENERATOR else relieve_async_generator
    return streams(lambda: relief, function)


def _future(relief: Relief, future: Any, args: Any, kwargs: Any) -> Any:
    """Return a future that gives what this one gives, or the answer to its error.

    One that has ended well already is returned as it is; so is something with
    a method of that name and other manners.
    """
    try:
        if future.done() and not future.cancelled() and future.exception() is None:
            return future
        if hasattr(type(future), "get_loop"):
            return _task(future, relieve_coroutine(relief, _waiting(future))(*args, **kwargs))
        return _pooled(relief, future, args, kwargs)
    except Exception as odd:
        fault_in("future returned through", "fallback", odd)
        return future


def _waiting(future: Any) -> Callable[..., Any]:
    async def wait(*_args: Any, **_kwargs: Any) -> Any:
        return await future

    return wait


def _task(future: Any, waiting: Any) -> Any:
    """Return a task of the future's own loop: to cancel it is to cancel the future."""
    try:
        return future.get_loop().create_task(waiting)
    except BaseException:
        waiting.close()
        raise


def _pooled(relief: Relief, future: Any, args: Any, kwargs: Any) -> Any:
    """Return a pool's future; the answer is made in the thread that ended the work."""
    from breakerkit._shell._relief_pools import RelievedFuture  # noqa: PLC0415  # few functions need it

    def finish(ended: Any) -> Any:
        return relieve_plain(relief, lambda *_args, **_kwargs: ended.result())(*args, **kwargs)

    return RelievedFuture(future, finish)
