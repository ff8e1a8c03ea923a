"""What a call's end means: success, failure or neutral, and how user filters say so."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeAlias

from breakerkit import _fields as fields
from breakerkit._log import PASSING, fault_in
from breakerkit.errors import (
    CallCancelledError,
    CallRejectedError,
    CallTimeoutError,
    DeadlineExceededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    ErrorFilter: TypeAlias = tuple[type[BaseException], ...] | Callable[[Any], object]
    ValueFilter: TypeAlias = Callable[[Any], object]


class Outcome(enum.Enum):
    """What an ended call says about the dependency."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


#: In place of a returned value where there is none: a block, an async generator.
NO_VALUE = object()


class Classifier:
    """Judge errors and values by a policy's filters; a filter that raises is logged."""

    __slots__ = ("_failure_if", "_failure_on", "_ignore_on", "_name", "_success_on")

    def __init__(
        self,
        name: str,
        failure_on: ErrorFilter,
        success_on: ErrorFilter,
        ignore_on: ErrorFilter,
        failure_if: ValueFilter | None,
    ) -> None:
        self._name = name
        self._failure_on = failure_on
        self._success_on = success_on
        self._ignore_on = ignore_on
        self._failure_if = failure_if

    def error(self, error: BaseException) -> Outcome:
        """Return what ``error`` means; a group by its leaves."""
        try:
            return self._judge(error)
        except PASSING:
            raise
        except BaseException as broken:
            fault_in("failure filter", self._name, broken)
            return Outcome.FAILURE

    def value(self, value: object) -> Outcome:
        """Return what a returned value means."""
        if self._failure_if is None or value is NO_VALUE:
            return Outcome.SUCCESS
        try:
            return Outcome.FAILURE if self._failure_if(value) else Outcome.SUCCESS
        except PASSING:
            raise
        except BaseException as broken:
            fault_in("failure_if", self._name, broken)
            return Outcome.NEUTRAL

    def _judge(self, error: BaseException) -> Outcome:
        if isinstance(error, BaseExceptionGroup):
            return self._judge_group(error)
        # Filters are not asked about a cancellation: one that expects an Exception would raise.
        if is_neutral(error) or of_the_time_around(error):
            return Outcome.NEUTRAL
        if _matches(self._ignore_on, error):
            return Outcome.NEUTRAL
        if _matches(self._success_on, error) or isinstance(
            error, StopIteration | StopAsyncIteration
        ):
            return Outcome.SUCCESS
        return Outcome.FAILURE if _matches(self._failure_on, error) else Outcome.NEUTRAL

    def _judge_group(self, group: BaseExceptionGroup[BaseException]) -> Outcome:
        """Judge a group: by its own type where a filter lists one, else by its leaves.

        One of nothing but rejections and cancellations is neutral, whatever is listed.
        """
        leaves = leaves_of(group)
        if all(map(is_neutral, leaves)):
            return Outcome.NEUTRAL
        for listed, outcome in (
            (self._ignore_on, Outcome.NEUTRAL),
            (self._success_on, Outcome.SUCCESS),
            (self._failure_on, Outcome.FAILURE),
        ):
            if _lists_group(listed, group):
                return outcome
        outcomes = {self.error(leaf) for leaf in leaves}
        for outcome in (Outcome.FAILURE, Outcome.SUCCESS):
            if outcome in outcomes:
                return outcome
        return Outcome.NEUTRAL


def is_neutral(error: BaseException) -> bool:
    """Tell what no filter can make evidence: nothing was run, or somebody ended it."""
    return (
        isinstance(error, CallRejectedError)
        or not isinstance(error, Exception)
        or (isinstance(error, CallCancelledError) and not error.begun)
    )


def is_refusal(error: BaseException) -> bool:
    """Tell whether nothing was run: a rejection, or a group of nothing but rejections."""
    leaves = leaves_of(error) if isinstance(error, BaseExceptionGroup) else [error]
    return all(isinstance(leaf, CallRejectedError) for leaf in leaves)


def of_the_time_around(error: BaseException) -> bool:
    """Tell whether this is a limit around us that has run out: it says nothing of what is inside.

    Async code is cancelled then; sync code that looks at its deadline raises it.
    """
    if not isinstance(error, CallTimeoutError | DeadlineExceededError):
        return False
    from breakerkit._ambient import too_late  # noqa: PLC0415  # whoever raises these has it; others need not wait for it

    return too_late() is not None


def blame(failure: Exception, error: Exception | None) -> None:
    """Make ``error`` the cause of ``failure``, as ``raise failure from error`` does.

    An error that came out of the first one's own chain is left as it is: a
    chain must have an end.
    """
    if error is not None and not _leads_to(error, failure):
        failure.__cause__ = error


def part_from(error: BaseException, around: BaseException | None) -> None:
    """Cut from the chain of an error what was being handled when its call began.

    Several callers get it, and what one of them handles is not the others'.
    """
    if around is None:
        return
    for one in _chain(error):
        if one is not around and one.__context__ is around:
            one.__context__ = None


def _leads_to(error: BaseException, other: BaseException) -> bool:
    return any(one is other for one in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Go through an error, its causes and contexts, and those of a group's members, each once."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                waiting += one.exceptions


def is_neutral_type(kind: type[BaseException]) -> bool:
    """Tell whether every error of this type is neutral."""
    return issubclass(kind, CallRejectedError) or not issubclass(kind, Exception)


def leaves_of(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the leaves, without recursion: a hostile group may nest deeper than the stack."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)
        else:
            found.append(error)
    return found


def _matches(wanted: ErrorFilter, error: BaseException) -> bool:
    # BaseException.__instancecheck__ may be a user's, hence inside the caller's try.
    return isinstance(error, wanted) if isinstance(wanted, tuple) else bool(wanted(error))


def _lists_group(wanted: ErrorFilter, group: BaseExceptionGroup[BaseException]) -> bool:
    if not isinstance(wanted, tuple):
        return False
    return any(issubclass(kind, BaseExceptionGroup) and isinstance(group, kind) for kind in wanted)


def _to_filter(value: Any, root: type[BaseException]) -> Any:
    if isinstance(value, type):
        value = (value,)
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)  # equal sets may come in any order, equal configs are equal
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple):
        if all(isinstance(kind, type) and issubclass(kind, root) for kind in value):
            return value
    elif fields.answers_at_once(value):
        return value
    return fields.fault(
        value, f"must be {root.__name__} types, or a predicate that is called with the exception"
    )


def to_failure_filter(value: Any) -> ErrorFilter:
    """Return a filter over ``Exception`` types: types, one type, or a predicate."""
    return _to_filter(value, Exception)  # type: ignore[no-any-return]  # a filter or a Fault


def to_ignore_filter(value: Any) -> ErrorFilter:
    """Return a filter that may also list types that are no ``Exception``, such as a cancellation."""
    return _to_filter(value, BaseException)  # type: ignore[no-any-return]  # a filter or a Fault


def to_value_filter(value: ValueFilter | None) -> ValueFilter | None:
    """Return a predicate on a returned value, or ``None`` for off."""
    if value is None or fields.answers_at_once(value):
        return value
    return fields.fault(  # type: ignore[no-any-return]  # a Fault
        value, "must be a predicate that is called with the returned value, or None"
    )
