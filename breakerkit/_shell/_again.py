"""A call that has failed and is made again later, away from its caller: in a thread, or on its own loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._ambient import limit
from breakerkit._shell._tries import Work, run_coroutine, run_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._shell._tries import Plan

    #: Is told the value, or the error.
    Done = Callable[[Any, BaseException | None], None]


class Runner:
    """Runs calls in the context they came from, but for its deadline: that was their caller's."""

    __slots__ = ()

    def loop(self, work: Work) -> Any:
        """Return the running loop if the work is async, else ``None``."""
        if not work.awaited:
            return None
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        return asyncio.get_running_loop()

    def run(self, one: Any, plan: Plan) -> Any:
        """Call it now."""
        return one.context.run(_now, plan)

    def send(self, one: Any, plan: Plan, done: Done) -> None:
        """Let its loop call it, in a task of its own.

        Raises:
            RuntimeError: the loop is closed.
        """
        loop = one.loop

        def start() -> None:
            task = loop.create_task(_awaited(plan, done), context=one.context)
            _running.add(task)
            task.add_done_callback(_running.discard)

        loop.call_soon_threadsafe(start)


#: A loop holds its tasks weakly.
_running: set[Any] = set()


def _now(plan: Plan) -> Any:
    limit.set(None)
    return run_plain(plan)


async def _awaited(plan: Plan, done: Done) -> None:
    limit.set(None)
    try:
        value = await run_coroutine(plan)
    except BaseException as error:
        done(None, error)
        if not isinstance(error, Exception):
            raise
    else:
        done(value, None)
