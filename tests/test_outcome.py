"""What the end of a call means: success, failure or neutral, and how filters say so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from breakerkit import CallCancelledError, CircuitOpenError, OpenReason, ProbeLimitError, breaker
from breakerkit._fields import Fault
from breakerkit._outcome import (
    NO_VALUE,
    Classifier,
    Outcome,
    to_failure_filter,
    to_ignore_filter,
    to_value_filter,
)

SUCCESS, FAILURE, NEUTRAL = Outcome.SUCCESS, Outcome.FAILURE, Outcome.NEUTRAL
REJECTED = CircuitOpenError("inner", OpenReason.FAILURE_RATE, 1.0, datetime.now(UTC))
NO_SLOT = ProbeLimitError("inner", OpenReason.FAILURE_RATE, 1.0, datetime.now(UTC))


def judge(error: BaseException, **filters: Any) -> Outcome:
    """Return what an error means under filters given as a config takes them."""
    return Classifier(
        "judge",
        to_failure_filter(filters.get("failure_on", Exception)),
        to_failure_filter(filters.get("success_on", ())),
        to_ignore_filter(filters.get("ignore_on", ())),
        None,
    ).error(error)


def judge_value(value: object, failure_if: Callable[[Any], object] | None) -> Outcome:
    """Return what a value means."""
    return Classifier("judge", (Exception,), (), (), failure_if).value(value)


@pytest.mark.parametrize(
    "error", [Exception(), OSError(), TypeError(), CallCancelledError("inner")]
)
def test_any_exception_is_a_failure(error: Exception) -> None:
    """By default every `Exception` is one, a `TypeError` from wrong arguments and a `CallCancelledError` too."""
    assert judge(error) is FAILURE


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(), GeneratorExit(), BaseException()],
)
@pytest.mark.parametrize("filters", [{}, {"failure_on": bool}, {"ignore_on": BaseException}])
def test_what_is_no_exception_is_neutral(error: BaseException, filters: dict[str, Any]) -> None:
    """Whatever is not an `Exception` is no evidence, and no filter has a say."""
    if filters.get("failure_on"):
        filters = {"failure_on": lambda _: True, "success_on": lambda _: True}
    assert judge(error, **filters) is NEUTRAL


@pytest.mark.parametrize("name", ["failure_on", "success_on", "ignore_on"])
def test_filters_are_not_asked_about_a_cancellation(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A predicate that expects an `Exception` cannot make a failure of a cancellation by raising."""
    assert judge(asyncio.CancelledError(), **{name: lambda error: error.code > 1}) is NEUTRAL
    assert caplog.text == ""


@pytest.mark.parametrize("error", [REJECTED, NO_SLOT])
@pytest.mark.parametrize(
    "filters", [{}, {"failure_on": CircuitOpenError}, {"success_on": Exception}]
)
def test_a_rejection_further_inside_is_neutral(error: Exception, filters: dict[str, Any]) -> None:
    """A rejection by another policy of this library says nothing about the dependency."""
    assert judge(error, **filters) is NEUTRAL


@pytest.mark.parametrize("error", [StopIteration(), StopAsyncIteration()])
@pytest.mark.parametrize("filters", [{}, {"failure_on": lambda _: True}, {"failure_on": ()}])
def test_the_end_of_an_iteration_is_a_success(error: Exception, filters: dict[str, Any]) -> None:
    """`StopIteration` and `StopAsyncIteration` from a guarded callable are successes."""
    assert judge(error, **filters) is SUCCESS


def test_the_end_of_an_iteration_may_be_ignored() -> None:
    """What is ignored comes first, here as everywhere."""
    assert judge(StopIteration(), ignore_on=StopIteration) is NEUTRAL


@pytest.mark.parametrize(
    ("lists", "outcome"),
    [
        ({"ignore_on": OSError, "success_on": OSError, "failure_on": OSError}, NEUTRAL),
        ({"success_on": OSError, "failure_on": OSError}, SUCCESS),
        ({"failure_on": OSError}, FAILURE),
        ({"failure_on": LookupError}, NEUTRAL),
        ({"failure_on": ()}, NEUTRAL),
        ({"ignore_on": ConnectionError, "failure_on": OSError}, FAILURE),
    ],
)
def test_the_order_of_the_lists(lists: dict[str, Any], outcome: Outcome) -> None:
    """``ignore_on``, ``success_on``, ``failure_on``; an exception in none of them is neutral."""
    assert judge(OSError(), **lists) is outcome
    predicates = {
        name: lambda error, kind=kind: isinstance(error, kind) for name, kind in lists.items()
    }
    assert judge(OSError(), **predicates) is outcome


def test_subclasses_match() -> None:
    """A type stands for its subclasses."""
    assert judge(ConnectionRefusedError(), failure_on=OSError) is FAILURE


# -- groups ------------------------------------------------------------------


def group(*leaves: BaseException) -> BaseExceptionGroup[BaseException]:
    """Return a group, one level deep."""
    return BaseExceptionGroup("several", leaves)


@pytest.mark.parametrize(
    ("leaves", "outcome"),
    [
        ([OSError()], FAILURE),
        ([KeyError(), OSError()], FAILURE),
        ([asyncio.CancelledError(), OSError()], FAILURE),
        ([group(ValueError(), group(OSError()))], FAILURE),
        ([KeyError()], SUCCESS),
        ([KeyError(), ValueError()], SUCCESS),
        ([ValueError()], NEUTRAL),
        ([REJECTED, asyncio.CancelledError()], NEUTRAL),
        ([group(REJECTED), group(KeyboardInterrupt())], NEUTRAL),
    ],
)
def test_a_group_is_judged_by_its_leaves(leaves: list[BaseException], outcome: Outcome) -> None:
    """A failure if any leaf is one; made of rejections and cancellations only it is neutral."""
    filters = {"failure_on": OSError, "success_on": LookupError, "ignore_on": ValueError}
    assert judge(group(*leaves), **filters) is outcome


@pytest.mark.parametrize(
    ("name", "outcome"), [("ignore_on", NEUTRAL), ("success_on", SUCCESS), ("failure_on", FAILURE)]
)
def test_a_filter_may_name_groups(name: str, outcome: Outcome) -> None:
    """Where a list has a type of group, that decides before the leaves do."""
    leaf: Exception = LookupError() if name == "failure_on" else OSError()
    error = ExceptionGroup("several", [leaf])
    assert judge(error, **{"failure_on": OSError, name: ExceptionGroup}) is outcome
    assert judge(error, **{name: (KeyError, ExceptionGroup)}) is outcome


@pytest.mark.parametrize("name", ["failure_on", "success_on"])
def test_a_listed_group_of_nothing_but_rejections_is_neutral(name: str) -> None:
    """Where nothing was run, a list that names groups makes no evidence of it."""
    assert judge(group(REJECTED, KeyboardInterrupt()), **{name: ExceptionGroup}) is NEUTRAL
    assert judge(group(group(REJECTED)), **{name: BaseExceptionGroup}) is NEUTRAL


def test_a_list_of_other_types_is_no_list_of_groups() -> None:
    """A type that is no group's does not decide for a group, `Exception` itself included."""
    error = ExceptionGroup("several", [ValueError()])
    assert judge(error, ignore_on=ValueError, failure_on=Exception) is NEUTRAL


def test_a_predicate_judges_the_leaves() -> None:
    """A predicate is asked about each leaf, and one that raises makes that leaf a failure."""
    asked: list[BaseException] = []
    leaves = KeyError(), OSError()
    assert judge(group(*leaves), failure_on=lambda error: asked.append(error)) is NEUTRAL
    assert set(asked) == set(leaves)
    assert judge(group(*leaves), failure_on=lambda error: error.code) is FAILURE


def test_a_hostile_group() -> None:
    """A group that nests deeper than the stack is judged all the same."""
    error: BaseException = OSError()
    for _ in range(10_000):
        error = group(error)
    assert judge(error) is FAILURE
    while isinstance(error, BaseExceptionGroup):  # let go of it a level at a time
        error = error.exceptions[0]


# -- values ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "outcome"), [(0, SUCCESS), (1, FAILURE), ([], SUCCESS), ("x", FAILURE)]
)
def test_a_value_may_be_a_failure(value: object, outcome: Outcome) -> None:
    """``failure_if`` makes a returned value a failure; anything true will do."""
    assert judge_value(value, lambda got: got) is outcome


def test_without_a_predicate_every_value_is_a_success() -> None:
    """With ``failure_if`` off nothing is asked."""
    assert judge_value(None, None) is SUCCESS


def test_no_value_is_a_success() -> None:
    """Where there is no returned value, as in a block, there is nothing to judge."""
    assert judge_value(NO_VALUE, lambda _: True) is SUCCESS


# -- filters that raise ------------------------------------------------------


@pytest.mark.parametrize("name", ["failure_on", "success_on", "ignore_on"])
@pytest.mark.parametrize("raised", [AttributeError("no code"), asyncio.CancelledError()])
def test_a_filter_that_raises(
    name: str, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the exception counts as a failure."""

    def broken(_: object) -> bool:
        raise raised

    assert judge(OSError(), **{name: broken}) is FAILURE
    assert "failure filter of 'judge' raised" in caplog.text
    assert caplog.records[0].exc_info == (type(raised), raised, raised.__traceback__)


def test_a_value_filter_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the value is neutral."""
    assert judge_value(1, lambda got: got.code) is NEUTRAL
    assert "failure_if of 'judge' raised" in caplog.text


class Truthless:
    """An answer that cannot say whether it is true."""

    def __bool__(self) -> bool:
        raise ValueError


def test_an_answer_that_cannot_be_asked(caplog: pytest.LogCaptureFixture) -> None:
    """An answer whose truth raises is a filter that raises."""
    assert judge(OSError(), failure_on=lambda _: Truthless()) is FAILURE
    assert judge_value(1, lambda _: Truthless()) is NEUTRAL
    assert len(caplog.records) == 2


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes(raised: type[BaseException]) -> None:
    """Who ends the program while a filter runs ends the program."""

    def interrupted(_: object) -> bool:
        raise raised

    with pytest.raises(raised):
        judge(OSError(), failure_on=interrupted)
    with pytest.raises(raised):
        judge_value(1, interrupted)


# -- what a filter may be ----------------------------------------------------


@pytest.mark.parametrize("given", [OSError, (OSError,), [OSError], {OSError}, frozenset([OSError])])
def test_types_become_a_tuple(given: Any) -> None:
    """One type, or several in whatever holds them."""
    assert to_failure_filter(given) == to_ignore_filter(given) == (OSError,)


def test_predicates_are_kept() -> None:
    """A predicate is kept as it is."""
    assert (
        to_failure_filter(callable)
        is to_ignore_filter(callable)
        is to_value_filter(callable)
        is callable
    )
    assert to_value_filter(None) is None


@pytest.mark.parametrize(
    "given", ["OSError", None, 5, int, OSError(), (OSError, "x"), KeyboardInterrupt]
)
def test_what_a_failure_filter_may_not_be(given: Any) -> None:
    """Anything else is refused, with what is allowed."""
    refused = to_failure_filter(given)
    assert isinstance(refused, Fault)
    assert refused.value is given or isinstance(given, tuple | type)
    assert (
        refused.allowed
        == "must be Exception types, or a predicate that is called with the exception"
    )


@pytest.mark.parametrize("given", ["x", 5, bool, asyncio.sleep])
def test_what_a_value_filter_may_not_be(given: Any) -> None:
    """A class and a coroutine function are no predicates."""
    refused: Any = to_value_filter(given)
    assert refused.value is given
    assert refused.allowed == "must be a predicate that is called with the returned value, or None"


def test_callers_get_their_own(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a classifier does, the caller gets its own exception or value, and the slot is freed."""
    b = breaker(
        failure_on=lambda error: error.code,
        failure_if=lambda value: value.code,
        failure_threshold=9,
    )
    error, value = OSError(), object()

    def fail() -> None:
        raise error

    with pytest.raises(OSError) as caught:  # noqa: PT011  # it is the very object
        b.call(fail)
    assert caught.value is error
    assert b.call(lambda: value) is value
    assert (b.snapshot().failures, b.snapshot().ignored) == (1, 1)
    assert len(caplog.records) == 2
