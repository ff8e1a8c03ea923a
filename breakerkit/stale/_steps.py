"""The steps of a call through the cache, each of which a thread and a task take in a way of their own.

What to do is written once, as generators that yield these; `run` takes the steps
in a thread, `run_async` in a task.
"""

from __future__ import annotations

import contextlib
import threading
import time
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit import _ambient as ambient
from breakerkit._deadline import check_deadline

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

    from breakerkit.clock import Clock
    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._shelf import Shelf
    from breakerkit.store.commands import Command

    Course = Generator["Step", Any, Any]

#: Seconds a waiting thread sleeps at most without looking up: a signal that comes just
#: before the wait does not end it, and Ctrl-C shall.
LONGEST_NAP = 1.0
#: The same where time is not that of ``time.monotonic``: nothing wakes anybody there.
SHORT_NAP = 0.01
#: Seconds between two looks whether another process has stored what it loads.
LOOK_AGAIN = 0.05


class Step(Protocol):
    """One step."""

    def do(self) -> Any:
        """Take it in a thread."""

    async def do_async(self) -> Any:
        """Take it in a task."""


class Work(Protocol):
    """One call of the origin, made by the shell."""

    args: tuple[Any, ...]
    kwargs: Any
    refused: TypeError | None

    def do(self) -> Any:
        """Call it: what it returns, or raises."""

    async def do_async(self) -> Any:
        """Do the same in a task."""


def run(course: Course) -> Any:
    """Take all steps in this thread and return what they come to."""
    step: Step | None = None
    try:
        step = next(course)
        while True:
            try:
                answer = step.do()
            except BaseException as error:
                step = course.throw(error)
            else:
                step = course.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        del course, step  # an error may lead to this frame, and they to the error: no cycle


async def run_async(course: Course) -> Any:
    """Take all steps in this task."""
    step: Step | None = None
    try:
        step = next(course)
        while True:
            try:
                answer = await step.do_async()
            except BaseException as error:
                step = course.throw(error)
            else:
                step = course.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        del course, step  # an error may lead to this frame, and they to the error: no cycle


class Ask:
    """Ask the store."""

    __slots__ = ("_command", "_shelf")

    def __init__(self, shelf: Shelf, command: Command) -> None:
        self._shelf = shelf
        self._command = command

    def do(self) -> Any:
        return self._shelf.do(self._command)

    async def do_async(self) -> Any:
        return await self._shelf.do_async(self._command)


class Answer:
    """Ask a disaster strategy that is a function; under an async call it may be async."""

    __slots__ = ("_call", "_strategy")

    def __init__(self, strategy: Callable[[Any], Any], call: Any) -> None:
        self._strategy = strategy
        self._call = call

    def do(self) -> Any:
        return self._strategy(self._call)

    async def do_async(self) -> Any:
        value = self._strategy(self._call)
        return await value if hasattr(value, "__await__") else value


class Wait:
    """Wait for an attempt, or until a moment; tell whether it has ended."""

    __slots__ = ("_attempt", "_clock", "_until")

    def __init__(self, attempt: Attempt | None, clock: Clock, until: float) -> None:
        self._attempt = attempt
        self._clock = clock
        self._until = until

    def _nap(self) -> float:
        """Return the seconds to the next look, 0.0 if the moment has come.

        Raises:
            CallTimeoutError: the deadline of the calls around came first.
            CallCancelledError: their signal is set.
        """
        check_deadline()
        left = self._until - self._clock.now()
        steady, around = self._clock.now is time.monotonic, ambient.live(ambient.limit.get())
        if around is not None:
            steady = steady and ambient.steady(around)
            left = min(left, ambient.binding(around)[0])
        return max(0.0, min(left, LONGEST_NAP if steady else SHORT_NAP))

    def do(self) -> bool:
        gate = threading.Lock()
        gate.acquire()
        if not self._listen(gate.release):
            return True
        try:
            while nap := self._nap():
                if gate.acquire(timeout=nap):
                    return True
            return False
        finally:
            self._forget(gate.release)

    async def do_async(self) -> bool:
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there
                loop.call_soon_threadsafe(_set, ended)

        if not self._listen(tell):
            return True
        try:
            while nap := self._nap():
                await asyncio.wait([ended], timeout=nap)
                if ended.done():
                    return True
            return False
        finally:
            self._forget(tell)

    def _listen(self, tell: Callable[[], object]) -> bool:
        return self._attempt is None or self._attempt.listen(tell)

    def _forget(self, tell: Callable[[], object]) -> None:
        if self._attempt is not None:
            self._attempt.forget(tell)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Places(Protocol):
    """Who has the places for background threads."""

    def take_place(self, places: list[int]) -> bool:
        """Put a place into a list; ``False`` if all are taken."""
        ...

    def give_back(self, places: list[int]) -> None:
        """Take it out again; doing so twice is no error."""


class Start:
    """Begin an attempt: in this thread, in one of its own, or in a task; tell whether it was begun.

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
        if not self._detached:
            self._run()
            return True
        try:
            if not self._owner.take_place(self._places):
                self._end()
                return False
            context = copy_context()
            context.run(ambient.limit.set, None)  # nobody waits for it: no deadline is around it
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

    async def do_async(self) -> bool:
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        context = copy_context()
        if self._detached:
            context.run(ambient.limit.set, None)
        course, self._course = self._course, None
        assert course is not None
        task = asyncio.get_running_loop().create_task(run_async(course), context=context)
        self._attempt.stop, self._attempt.begun = partial(_stop, task), True
        _tasks.add(task)  # a loop holds its tasks weakly
        task.add_done_callback(self._ended)
        return True

    def _ended(self, task: asyncio.Task[Any]) -> None:
        _tasks.discard(task)
        self._attempt.stop = None
        self._end()
        if not task.cancelled():
            task.exception()  # whoever waits has been told


def _stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task, from whatever thread."""
    import asyncio  # noqa: PLC0415  # only where a loop runs already

    loop = task.get_loop()
    if asyncio._get_running_loop() is loop:
        task.cancel()
        return
    with contextlib.suppress(RuntimeError):  # the loop is closed: it runs no more
        loop.call_soon_threadsafe(task.cancel)


_tasks: set[asyncio.Task[Any]] = set()
