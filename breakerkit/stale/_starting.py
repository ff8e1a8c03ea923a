"""Beginning an attempt: in the caller's thread, in one of its own, or in a task."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit import _ambient as ambient
from breakerkit._deadline import check_deadline
from breakerkit.stale._nested import inside, making
from breakerkit.stale._steps import run, run_async

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextvars import Context

    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._steps import Course


class Places(Protocol):
    """Who has the places for background threads."""

    def take_place(self, places: list[int]) -> bool:
        """Put a place into a list; ``False`` if all are taken."""
        ...

    def give_back(self, places: list[int]) -> None:
        """Take it out again; doing so twice is no error."""


class Start:
    """Begin an attempt; tell whether it was begun.

    Args:
        attempt: the attempt.
        course: what it does, and how it ends.
        end: ends the attempt if that has not: a task may be cancelled before it begins.
        owner: has the places for threads.
        detached: whether the caller need not wait for it.
    """

    __slots__ = ("_attempt", "_course", "_detached", "_end", "_owner", "_places")

    def __init__(
        self,
        attempt: Attempt,
        course: Course,
        end: Callable[[], object],
        owner: Places,
        *,
        detached: bool,
    ) -> None:
        self._attempt = attempt
        self._course: Course | None = course
        self._end = end
        self._owner = owner
        self._detached = detached
        self._places: list[int] = []

    def do(self) -> bool:
        """Begin it in this thread, and see it through; or in another one."""
        if not self._detached:
            before = making.get()
            try:
                making.set(inside(self._attempt))
                self._run()
            finally:
                making.set(before)
            return True
        try:
            if not self._owner.take_place(self._places):
                self._end()
                return False
            context = self._context()
            name = f"breakerkit refresh {self._attempt.key}"
            threading.Thread(
                target=context.run, args=(self._in_thread,), name=name, daemon=True
            ).start()
        except BaseException as error:
            self._owner.give_back(self._places)
            self._end()
            if isinstance(error, RuntimeError):
                return False  # there are no more threads to be had
            raise
        self._attempt.begun = True
        return True

    async def do_async(self) -> bool:
        """Begin it in a task."""
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        if not self._detached:
            check_deadline()  # the task has none, and may begin at once
        course, self._course = self._course, None
        assert course is not None
        task = asyncio.get_running_loop().create_task(run_async(course), context=self._context())
        self._attempt.task, self._attempt.begun = task, True
        _sweep()
        _tasks.add(task)  # a loop holds its tasks weakly
        task.add_done_callback(self._ended)
        return True

    def _context(self) -> Context:
        """Return the context variables for a thread or a task of its own."""
        context = copy_context()
        context.run(making.set, inside(self._attempt))
        # No deadline is around it, nor a signal: others may wait for it when those of this
        # caller have come. It is called off when nobody does any more.
        context.run(ambient.limit.set, None)
        return context

    def _run(self) -> None:
        course, self._course = self._course, None
        assert course is not None
        self._attempt.begun = True
        try:
            run(course)
        finally:
            self._end()
            del course

    def _in_thread(self) -> None:
        try:
            self._run()
        finally:
            self._owner.give_back(self._places)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        _tasks.discard(task)
        self._attempt.task = None
        self._end()
        if not task.cancelled():
            task.exception()  # whoever waits has been told


#: With fewer tasks than this nobody looks for those of closed event loops.
_CROWD = 64
_tasks: set[asyncio.Task[Any]] = set()
_crowd = _CROWD


def _sweep() -> None:
    """Let go of tasks whose event loop was closed under them, now and then."""
    global _crowd  # noqa: PLW0603  # one set, one bound
    if len(_tasks) >= _crowd:
        for task in [one for one in tuple(_tasks) if one.get_loop().is_closed()]:
            _tasks.discard(task)
        _crowd = max(_CROWD, 2 * len(_tasks))
