"""The rules that open a closed breaker: evidence in, reason or nothing out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from breakerkit import _fields as fields
from breakerkit.events import OpenReason

if TYPE_CHECKING:
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.events import Evidence

__all__ = ["TripRule"]


@runtime_checkable
class TripRule(Protocol):
    """A further rule for ``trip_rules``: a frozen, hashable object with a ``judge`` method.

    It is asked after every completed call of the closed state, outside every
    lock; what it raises is logged and counts as no verdict. Among several that
    fire on one call, the first wins.
    """

    def judge(self, evidence: Evidence, /) -> OpenReason | str | None:
        """Return why to open (a text of your own, or an `OpenReason`), or ``None``."""
        ...


class StreakRule(NamedTuple):
    """Open at so many failures in a row."""

    threshold: int

    def judge(self, evidence: Evidence) -> OpenReason | None:
        """Return the reason if the streak is long enough."""
        reached = evidence.consecutive_failures >= self.threshold
        return OpenReason.CONSECUTIVE_FAILURES if reached else None


class Rate(NamedTuple):
    """A share of calls, compared without any division or float."""

    minimum: int
    numerator: int
    denominator: int

    @classmethod
    def of(cls, minimum: int, percent: float) -> Rate:
        """Make a rate from a percentage, read as the decimal the user wrote."""
        # Between 1 and 100 a float is written without an exponent.
        whole, _, part = repr(percent).partition(".")
        return cls(max(minimum, 1), int(whole + part), 10 ** len(part))

    def reached(self, calls: int, marked: int) -> bool:
        """Tell whether ``marked`` of ``calls`` is at least this share; reached means reached."""
        return calls >= self.minimum and marked * 100 * self.denominator >= self.numerator * calls


class FailureRateRule(NamedTuple):
    """Open at a share of failures among the calls in the window."""

    rate: Rate

    def judge(self, evidence: Evidence) -> OpenReason | None:
        """Return the reason if the share is reached."""
        reached = self.rate.reached(evidence.window_calls, evidence.window_failures)
        return OpenReason.FAILURE_RATE if reached else None


class SlowCallRule(NamedTuple):
    """Open at a share of slow calls among those in the slow-call tally."""

    rate: Rate

    def judge(self, evidence: Evidence) -> OpenReason | None:
        """Return the reason if the share is reached."""
        reached = self.rate.reached(evidence.slow_window_calls, evidence.slow_calls)
        return OpenReason.SLOW_CALL_RATE if reached else None


BuiltInRule = StreakRule | FailureRateRule | SlowCallRule


def built_in(config: BreakerConfig) -> tuple[BuiltInRule, ...]:
    """Return the library's own rules that ``config`` turns on, in the order they are judged."""
    rules: list[BuiltInRule] = []
    if config.failure_threshold is not None:
        rules.append(StreakRule(config.failure_threshold))
    if config.has_window:
        rules.append(FailureRateRule(Rate.of(config.minimum_calls, config.failure_rate_threshold)))
    if config.slow_call_duration is not None:
        rules.append(SlowCallRule(Rate.of(config.minimum_calls, config.slow_call_rate_threshold)))
    return tuple(rules)


def verdict(rules: tuple[BuiltInRule, ...], evidence: Evidence) -> OpenReason | None:
    """Return the reason of the first rule that fires."""
    for rule in rules:
        if reason := rule.judge(evidence):
            return reason
    return None


def to_rules(value: Any) -> tuple[TripRule, ...]:
    """Return trip rules from one rule, or a tuple or list of them."""
    rules = (value,) if isinstance(value, TripRule) else value
    if isinstance(rules, list):
        rules = tuple(rules)
    if isinstance(rules, tuple) and all(map(_is_rule, rules)):
        return rules
    return fields.fault(value, "must be frozen, hashable objects with judge(evidence)")  # type: ignore[no-any-return]  # a Fault


def _is_rule(rule: Any) -> bool:
    try:
        hash(rule)
    except TypeError:
        return False
    return not isinstance(rule, type) and fields.answers_at_once(getattr(rule, "judge", None))
