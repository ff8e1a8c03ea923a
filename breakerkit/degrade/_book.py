"""All rules at one moment, as pure data: which one is for a name, and what a change makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.degrade._standing import Pattern, StandingRule, is_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Book:
    """Rules by source and name; never changed, only followed by another.

    A rule set by hand wins over a file's, whatever their patterns; then the
    exact name over any pattern; then the more specific pattern; then, among
    files, the newer rule.
    """

    __slots__ = ("_exact", "_patterns", "_rules", "_timed")

    def __init__(self, rules: Mapping[tuple[str, str], StandingRule]) -> None:
        self._rules = dict(rules)
        exact: dict[str, list[StandingRule]] = {}
        for rule in self._rules.values():
            # A name may look like a pattern: the function called that is meant as well.
            exact.setdefault(rule.name, []).append(rule)
        self._exact = {name: sorted(found, key=_exact_rank) for name, found in exact.items()}
        patterns = [Pattern(rule) for rule in self._rules.values() if is_pattern(rule.name)]
        self._patterns = sorted(patterns, key=lambda one: one.rank, reverse=True)
        self._timed = [rule for rule in self._rules.values() if rule.end is not None]

    def winner(self, name: str, now: float | None = None) -> StandingRule | None:
        """Return the rule for ``name``, of those that are not over at ``now``."""
        exact = [rule for rule in self._exact.get(name, ()) if now is None or not rule.over(now)]
        if exact and exact[0].by_hand:
            return exact[0]
        for pattern in self._patterns:
            if exact and not pattern.rule.by_hand:
                break
            if pattern.matches(name) and (now is None or not pattern.rule.over(now)):
                return pattern.rule
        return exact[0] if exact else None

    def over(self, now: float) -> list[StandingRule]:
        """Return the rules that have ended by themselves at ``now``, in the order of their ends."""
        return sorted(
            (rule for rule in self._timed if rule.over(now)), key=lambda one: one.end or 0.0
        )

    def get(self, key: tuple[str, str]) -> StandingRule | None:
        """Return the rule of a source for a name or pattern."""
        return self._rules.get(key)

    def of(self, source: str) -> list[StandingRule]:
        """Return the rules of a source."""
        return [rule for rule in self._rules.values() if rule.source == source]

    def all(self) -> list[StandingRule]:
        """Return all rules, by name, those set by hand first."""
        return sorted(self._rules.values(), key=lambda one: (one.name, not one.by_hand, one.source))

    def with_rules(self, come: Iterable[StandingRule], gone: Iterable[StandingRule] = ()) -> Book:
        """Return the book that follows when some rules go and others come."""
        rules = dict(self._rules)
        for rule in gone:
            del rules[rule.key]
        return Book(rules | {rule.key: rule for rule in come})

    def __len__(self) -> int:
        return len(self._rules)


def _exact_rank(rule: StandingRule) -> tuple[bool, int]:
    return not rule.by_hand, -rule.version
