"""Opening callbacks: a callable with its extra arguments, and a loop where it is a coroutine function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields
from breakerkit._log import PASSING, fault_in, hook_name

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    #: Where an async call collects the coroutine callbacks it will await itself.
    Later: TypeAlias = list[Callable[[], Awaitable[None]]]

__all__ = ["OpenCallback"]

_ALLOWED = "must be a callable that takes (context, *extras), a tuple (callable, *extras), or a list of these"


def cannot_await(name: str) -> TypeError:
    """Return what is raised where a sync call meets a coroutine callback."""
    return TypeError(
        f"breaker {name!r} has a coroutine opening callback, which a sync call cannot await:"
        " give a plain callable, or OpenCallback(..., loop=loop)"
    )


@attrs.frozen
class OpenCallback:
    """What is called at an opening: ``callback(context, *extras)``.

    Args:
        callback: a callable or a coroutine function.
        extras: further positional arguments for it.
        loop: the event loop a coroutine callback is sent to when a sync call
            opened the breaker; without one it serves async calls only.
    """

    callback: Callable[..., Any]
    # Extras may be lists or dicts: they are compared, but have no part in the hash.
    extras: tuple[Any, ...] = attrs.field(default=(), hash=False)
    loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, kw_only=True)

    @property
    def awaits(self) -> bool:
        """Whether it is a coroutine function that only an async call can serve."""
        return self.loop is None and fields.is_coroutine_function(self.callback)

    def tell(self, context: Any, later: Later | None) -> None:
        """Call it now, or leave a coroutine callback in ``later``; whatever it raises is logged."""
        if fields.is_coroutine_function(self.callback):
            self._tell_async(context, later)
            return
        try:
            self.callback(context, *self.extras)
        except PASSING:
            raise
        except BaseException as error:
            self._failed(context, error)

    def _tell_async(self, context: Any, later: Later | None) -> None:
        if later is not None:
            later.append(lambda: self._run(context))
        elif self.loop is not None:
            self._send(context, self.loop)
        else:
            self._failed(context, RuntimeError("a coroutine callback met a call that cannot await"))

    def _send(self, context: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Send the coroutine to its loop and do not wait: the loop may be the caller's own."""
        coroutine = self._run(context)
        try:
            loop.call_soon_threadsafe(lambda: _keep(loop.create_task(coroutine)))
        except RuntimeError as error:
            coroutine.close()
            self._failed(context, error)

    async def _run(self, context: Any) -> None:
        try:
            await self.callback(context, *self.extras)
        except Exception as error:
            self._failed(context, error)
        except BaseException as error:
            if not _is_stray_cancellation(error):
                raise
            self._failed(context, error)

    def _failed(self, context: Any, error: BaseException) -> None:
        fault_in(f"opening callback {hook_name(self.callback)}", context.name, error)


def _is_stray_cancellation(error: BaseException) -> bool:
    """Tell whether asyncio cancelled something a callback awaited, and not the task that awaits it."""
    import asyncio  # noqa: PLC0415  # an async call is running: it is there

    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and not task.cancelling()


#: The loop keeps only weak references to tasks; these are ours until they end.
_running: set[Any] = set()


def _keep(task: asyncio.Task[None]) -> None:
    _running.add(task)
    task.add_done_callback(_running.discard)


def to_callbacks(value: Any) -> tuple[OpenCallback, ...]:
    """Return callbacks from one callable, one tuple with extras, or a list of either."""
    if value is None or (isinstance(value, tuple) and not value):
        return ()
    if isinstance(value, tuple) and all(isinstance(one, OpenCallback) for one in value):
        return value
    made = [_one(one) for one in (value if isinstance(value, list) else [value])]
    if all(isinstance(one, OpenCallback) for one in made):
        return tuple(made)
    return fields.fault(value, _ALLOWED)  # type: ignore[no-any-return]  # a Fault


def _one(value: Any) -> Any:
    if isinstance(value, OpenCallback):
        return value
    callback, *extras = value if isinstance(value, tuple) and value else (value,)
    if not callable(callback) or not fields.takes(callback, 1 + len(extras)):
        return None
    return OpenCallback(callback, tuple(extras))
