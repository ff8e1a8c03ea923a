"""Calls that may be made several times, each time with another first argument: driven sync and async.

A plan says with what to call next and hears what came of it; this module knows
how a function is called, and nothing of why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from breakerkit._shell._gate import refuse
from breakerkit._shell._shapes import runs_later
from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable


class Work(NamedTuple):
    """A call that lacks one argument.

    Attributes:
        function: what is called.
        lead: arguments that come before the missing one: ``self``, or nothing.
        rest: arguments that come after it.
        kwargs: the keywords.
        awaited: whether it is a coroutine function.
    """

    function: Callable[..., Any]
    lead: tuple[Any, ...]
    rest: tuple[Any, ...]
    kwargs: dict[str, Any]
    awaited: bool = False

    def begin(self, value: Any) -> Any:
        """Call it with what was missing."""
        return self.function(*self.lead, value, *self.rest, **self.kwargs)


class Plan(Protocol):
    """What decides with what a call is made, and how often."""

    work: Work
    #: Whether the function may return work that runs later.
    carries: bool

    def next(self, later: Any = None) -> Any:
        """Return the next try, with a ``value`` for the function; ``None``: there is none."""

    def succeeded(self, attempt: Any, value: object, later: Any = None) -> bool:
        """Hear a value; tell whether that ends the call."""
        ...

    def failed(self, attempt: Any, error: BaseException, later: Any = None) -> bool:
        """Hear an exception; tell whether the call goes on without it."""
        ...

    def end(self) -> tuple[BaseException | None, Any]:
        """Return the error the call ends in, or ``None`` and its value."""
        ...


def run_plain(plan: Plan) -> Any:
    """Make the tries of a plain call.

    What is kept in local names is let go of in the end: errors lead to this
    frame, and it shall not lead to them.
    """
    attempt = error = None
    try:
        while (attempt := plan.next()) is not None:
            try:
                value = plan.work.begin(attempt.value)
            except BaseException as caught:
                if not plan.failed(attempt, caught):
                    raise
                continue
            if runs_later(type(value)):
                from breakerkit._shell._streams import carry_on  # noqa: PLC0415  # it stands above

                return carry_on(plan, attempt, value)
            if plan.succeeded(attempt, value):
                return value
        error, value = plan.end()
        return value if error is None else raised(error)
    finally:
        del plan, attempt, error


def raised(error: BaseException) -> NoReturn:
    """Raise what a call ends in."""
    try:
        if isinstance(error, CallRejectedError):
            refuse(error)
        raise error
    finally:
        del error  # its traceback leads here: no cycle


async def run_coroutine(plan: Plan, first: Any = None) -> Any:
    """Make the tries of a call whose results are awaited.

    Args:
        plan: says what to try.
        first: a try that is under way, and what is to be awaited.
    """
    attempt = error = work = None
    try:
        while True:
            attempt, work = first or (await following(plan), None)
            first = None
            if attempt is None:
                break
            try:
                work = plan.work.begin(attempt.value) if work is None else work
                value = await work if runs_later(type(work)) else work
            except BaseException as caught:
                if not await failed(plan, attempt, caught):
                    raise
                continue
            await succeeded(plan, attempt, value)
            return value
        error, value = plan.end()
        return value if error is None else raised(error)
    finally:
        del plan, first, attempt, error, work


async def following(plan: Plan) -> Any:
    """Return the next try, and await what its admission set off."""
    later: list[Any] = []
    attempt = plan.next(later)
    for notice in later:
        await notice()
    return attempt


async def failed(plan: Plan, attempt: Any, error: BaseException) -> bool:
    """Tell the plan of an exception and await what that sets off."""
    if isinstance(error, GeneratorExit):
        return plan.failed(attempt, error)  # a coroutine that is being closed may await nothing
    later: list[Any] = []
    goes_on = plan.failed(attempt, error, later)
    for notice in later:
        await notice()
    return goes_on


async def succeeded(plan: Plan, attempt: Any, value: object) -> bool:
    """Tell the plan of a value and await what that sets off."""
    later: list[Any] = []
    ends = plan.succeeded(attempt, value, later)
    for notice in later:
        await notice()
    return ends
