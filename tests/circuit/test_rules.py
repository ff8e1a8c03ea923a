"""What opens a closed breaker: the exact rate, the order of the rules, and rules of the user's own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from breakerkit import BreakerConfig, Evidence, Mode, OpenReason, State, TripRule, backoff
from breakerkit.circuit._rules import Rate, built_in, verdict
from tests.circuit.rig import Rig


@attrs.frozen(eq=False)
class Rule:
    """A rule made of a function, which it is hashed by."""

    answer: Callable[[Evidence], Any]

    def judge(self, evidence: Evidence) -> Any:
        """Ask the function."""
        return self.answer(evidence)


def at_streak(length: int, reason: str = "my own reason") -> Rule:
    """Return a rule that fires at so many failures in a row."""
    return Rule(lambda seen: reason if seen.consecutive_failures >= length else None)


@settings(derandomize=True, database=None)
@given(st.integers(1, 500), st.integers(0, 500), st.integers(10, 1000))
@example(100, 29, 290)
@example(100, 57, 570)
@example(100, 58, 580)
def test_rate_is_exact(calls: int, marked: int, tenths: int) -> None:
    """Reached means reached, and a rate is never touched by a float division."""
    rate = Rate.of(0, tenths / 10)
    assert rate.reached(calls, marked) is (Fraction(marked, calls) >= Fraction(tenths, 1000))


@pytest.mark.parametrize("percent", range(1, 101))
def test_every_percent_of_a_hundred(percent: int) -> None:
    """Of 100 calls just as many as the percentage reach it, one less does not (C017)."""
    rate = Rate.of(100, float(percent))
    assert rate.reached(100, percent)
    assert not rate.reached(100, percent - 1)


@pytest.mark.parametrize(
    ("minimum", "calls", "reached"), [(0, 0, False), (0, 1, True), (3, 2, False), (3, 3, True)]
)
def test_rate_waits_for_the_minimum(minimum: int, calls: int, reached: bool) -> None:
    """A rate is judged from ``minimum_calls`` on, and never of no calls at all."""
    assert Rate.of(minimum, 100.0).reached(calls, calls) is reached


def test_rules_are_judged_in_order() -> None:
    """The streak rule comes first, then the failure rate, then slow calls."""
    rules = built_in(BreakerConfig(window_size=5, slow_call_duration=1))
    everything = Evidence(5, 5, 5, 5, 5)
    fired = [rule.judge(everything) for rule in rules]
    assert fired == [
        OpenReason.CONSECUTIVE_FAILURES,
        OpenReason.FAILURE_RATE,
        OpenReason.SLOW_CALL_RATE,
    ]
    assert verdict(rules, everything) is OpenReason.CONSECUTIVE_FAILURES
    assert verdict(rules, Evidence()) is None
    assert verdict((), everything) is None


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({}, ["StreakRule"]),
        ({"failure_threshold": None, "window_size": 3}, ["FailureRateRule"]),
        ({"window_duration": 3}, ["StreakRule", "FailureRateRule"]),
        (
            {"window_size": 3, "slow_call_duration": 1},
            ["StreakRule", "FailureRateRule", "SlowCallRule"],
        ),
        ({"failure_threshold": None, "trip_rules": at_streak(1)}, []),
    ],
)
def test_only_what_is_turned_on_is_judged(config: dict[str, Any], kinds: list[str]) -> None:
    """A rule that is off costs nothing."""
    assert [type(rule).__name__ for rule in built_in(BreakerConfig(**config))] == kinds


def test_each_rate_has_its_own_threshold() -> None:
    """The failure rate and the slow-call rate have thresholds of their own."""
    config = BreakerConfig(
        failure_threshold=None,
        window_size=10,
        slow_call_duration=1,
        failure_rate_threshold=50,
        slow_call_rate_threshold=20,
    )
    rules = built_in(config)
    assert verdict(rules, Evidence(0, 10, 4, 10, 1)) is None
    assert verdict(rules, Evidence(0, 10, 5, 10, 1)) is OpenReason.FAILURE_RATE
    assert verdict(rules, Evidence(0, 10, 4, 10, 2)) is OpenReason.SLOW_CALL_RATE


# -- a user's own ------------------------------------------------------------


def test_a_rule_is_any_object_that_judges() -> None:
    """The protocol is a method: evidence in, reason out."""
    assert isinstance(at_streak(1), TripRule)
    assert not isinstance(object(), TripRule)


def test_an_own_rule_opens_with_its_own_reason() -> None:
    """A rule of the user's opens the breaker, and its text is the reason everywhere."""
    rig = Rig(failure_threshold=None, trip_rules=at_streak(2))
    rig.fail(2)
    assert rig.state is State.OPEN
    assert rig.rejected().reason == rig.contexts[0].reason == rig.seen.reason == "my own reason"


def test_an_own_rule_may_give_a_reason_of_ours() -> None:
    """It may give an `OpenReason` as well."""
    rig = Rig(failure_threshold=None, trip_rules=at_streak(1, OpenReason.FAILURE_RATE))
    rig.fail()
    assert rig.seen.reason is OpenReason.FAILURE_RATE


def test_own_rules_come_last() -> None:
    """If several rules fire on one call, ours come first, then theirs in their order."""
    rig = Rig(
        failure_threshold=2,
        trip_rules=[at_streak(2), at_streak(1, "first"), at_streak(1, "second")],
    )
    rig.fail()
    assert rig.seen.reason == "first"
    rig = Rig(failure_threshold=1, trip_rules=at_streak(1))
    rig.fail()
    assert rig.seen.reason is OpenReason.CONSECUTIVE_FAILURES


def test_what_a_rule_is_told() -> None:
    """It gets one frozen record: streak, both tallies, and the error, ``None`` after a success."""
    told: list[Evidence] = []
    rig = Rig(window_size=4, minimum_calls=4, slow_call_duration=1, trip_rules=Rule(told.append))
    error = ConnectionError()
    rig.fail(error=error)
    rig.ok()
    assert told == [Evidence(1, 1, 1, 1, 0, error), Evidence(0, 2, 1, 2, 0, None)]


def test_rules_are_asked_after_a_success_too() -> None:
    """A success may open it; the context then carries no error."""
    rig = Rig(
        failure_threshold=None,
        trip_rules=Rule(lambda seen: "a success" if seen.error is None else None),
    )
    rig.ok()
    assert rig.contexts[0].error is None
    assert rig.state is State.OPEN


def test_rules_are_not_asked_about_what_is_no_evidence() -> None:
    """Neutral calls, probes and late results are not judged."""
    told: list[Evidence] = []
    rig = Rig(failure_threshold=1, ignore_on=ValueError, trip_rules=Rule(told.append))
    late = rig.start()
    rig.raises(ValueError())
    rig.open()
    told.clear()
    rig.wait(30)
    rig.ok()
    rig.end(late)
    assert told == []


def test_a_rule_that_raises_is_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its name, the caller's value stands, and the next rule is asked."""
    rig = Rig(failure_threshold=None, trip_rules=[Rule(lambda _: 1 / 0), at_streak(2)])
    rig.ok()
    rig.fail(2)
    assert rig.seen.reason == "my own reason"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "trip rule Rule of 'rig' raised" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("nonsense", [True, 1, object(), ["text"]])
def test_nonsense_is_no_verdict(caplog: pytest.LogCaptureFixture, nonsense: object) -> None:
    """What is neither a text nor ``None`` is logged and opens nothing."""
    rig = Rig(failure_threshold=None, trip_rules=Rule(lambda _: nonsense))
    rig.fail(3)
    assert rig.state is State.CLOSED
    assert "not a text or None" in caplog.text


def test_an_empty_text_is_no_verdict() -> None:
    """A reason says something."""
    rig = Rig(failure_threshold=None, trip_rules=Rule(lambda _: ""))
    rig.fail(3)
    assert rig.state is State.CLOSED


def test_a_rule_runs_outside_the_lock() -> None:
    """It may read the breaker; one that resets it has judged a period that is over."""
    rigs: list[Rig] = []

    def answer(_: Evidence) -> str:
        assert rigs[0].seen.mode is Mode.AUTO
        rigs[0].breaker.reset()
        return "too late"

    rigs.append(Rig(failure_threshold=None, trip_rules=Rule(answer)))
    rigs[0].fail()
    assert rigs[0].state is State.CLOSED
    assert rigs[0].contexts == []


def test_a_verdict_that_comes_too_late_grows_nothing() -> None:
    """A verdict on a period that is over opens nothing, and the next open period is the first."""
    rigs: list[Rig] = []

    def answer(seen: Evidence) -> str | None:
        if seen.consecutive_failures == 1:
            rigs[0].breaker.reset()
        return "mine"

    rigs.append(Rig(failure_threshold=2, trip_rules=Rule(answer), open_duration=backoff(1)))
    rigs[0].fail()
    rigs[0].breaker.reconfigure(trip_rules=())
    rigs[0].fail(2)
    assert rigs[0].seen.retry_after == 1
