"""The steps of a call through the cache, each of which a thread and a task take in a way of their own.

What to do is written once, as generators that yield these; `run` takes the steps
in a thread, `run_async` in a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from breakerkit.stale._shelf import Shelf
    from breakerkit.store.commands import Command

    Course = Generator["Step", Any, Any]


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
