"""A fallback, or a name under rules, changes nothing of the type of what it decorates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, assert_type

from breakerkit import (
    Degradable,
    Degradation,
    Fallback,
    FallbackCall,
    FallbackConfig,
    FallbackSnapshot,
    Rule,
    RuleWatch,
    StandingRule,
    degradable,
    degradation,
    fallback,
)


def cure(call: FallbackCall) -> int:
    assert_type(call.error, Exception)
    assert_type(call.args, tuple[Any, ...])
    return 0


async def async_cure(call: FallbackCall) -> int:
    return 0


shared: Fallback = fallback(cure, name="typing.fallback")
ruled: Degradable = degradable("typing.degradable")


@fallback(cure)
def by_cure(number: int, *, text: str = "") -> int:
    return number


@fallback(0, on=(OSError,), for_rejections=cure)
def by_value(number: int, *, text: str = "") -> int:
    return number


@fallback(async_cure, on=lambda error: True)
async def awaited(number: int) -> int:
    return number


@shared
def items(number: int) -> Iterator[int]:
    yield number


@degradable("typing.reviews", mock=lambda number: number, on=ConnectionError)
def reviews(number: int) -> int:
    return number


@ruled
async def async_items(number: int) -> AsyncIterator[int]:
    yield number


class Shop:
    @fallback(0)
    def price(self, item: str) -> int:
        return len(item)

    @classmethod
    @fallback(0)
    def make(cls, item: str) -> int:
        return len(item)

    @staticmethod
    @degradable("typing.shop")
    def static(item: str) -> int:
        return len(item)


def test_functions() -> None:
    """Arguments and result are those of the bare function, sync, async, generator, method."""
    assert_type(by_cure(1, text="a"), int)
    assert_type(by_value(1), int)
    awaiting: Callable[[int], Coroutine[Any, Any, int]] = awaited
    assert awaiting is awaited
    assert_type(items(1), Iterator[int])
    assert_type(reviews(1), int)
    assert_type(async_items(1), AsyncIterator[int])
    assert_type(Shop().price("a"), int)
    assert_type(Shop.make("a"), int)
    assert_type(Shop.static("a"), int)


def test_calls() -> None:
    """``call`` and ``apply`` give what the function gives."""
    assert_type(shared.call(by_value, 1), int)
    assert_type(shared.apply(len, ["abc"]), int)
    assert_type(ruled.call(len, "abc"), int)


def test_wrong_arguments() -> None:
    """What the bare function would not take, the guarded one does not take either."""
    try:
        by_cure("a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the test
    except AssertionError:
        raise
    assert_type(by_cure(number=2), int)


def test_policies() -> None:
    """What can be asked of them is typed."""
    assert_type(shared.config, FallbackConfig)
    assert_type(shared.snapshot(), FallbackSnapshot)
    assert_type(shared.reconfigure(on=(OSError,)), FallbackConfig)


def test_rules() -> None:
    """Rules and what is said about them are typed."""
    assert_type(degradation, Degradation)
    rule = Rule.force_return([1])
    assert_type(rule, Rule)
    assert_type(Rule.parse("force:call"), Rule)
    made = degradation.set("typing.rules", rule)
    assert_type(made, StandingRule)
    assert_type(degradation.rules(), list[StandingRule])
    assert_type(degradation.rule_for("x"), StandingRule | None)
    assert_type(degradation.clear("typing.rules"), list[StandingRule])
    watch: Callable[..., RuleWatch] = degradation.watch
    assert watch is not None
