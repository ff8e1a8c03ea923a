"""A rule in force, with who set it, why and until when; and which of several wins."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit._fields import show
from breakerkit.errors import RuleError

if TYPE_CHECKING:
    from datetime import datetime

    from breakerkit.degrade.rule import Rule

__all__ = ["StandingRule"]

#: The source of what was set with ``degradation.set``.
HAND = "hand"
#: Characters a name or pattern may have.
LONGEST_NAME = 500
_SPECIAL = re.compile(r"[*?\[]")


@attrs.frozen(kw_only=True)
class StandingRule:
    """A rule, with all that was said about it.

    Attributes:
        name: the name or pattern it is for.
        rule: what happens to the calls.
        by: who set it, as given.
        reason: why, as given.
        until: when it ends by itself, aware UTC, or ``None``.
        source: ``"hand"``, or the path of the file it stands in.
        version: a number that grows with each rule that is set.
        since: when it was set, aware UTC.
    """

    name: str
    rule: Rule
    by: str | None
    reason: str | None
    until: datetime | None
    source: str
    version: int
    since: datetime
    #: The same end on the clock of the rules.
    end: float | None = attrs.field(repr=False, eq=False)

    @property
    def key(self) -> tuple[str, str]:
        """What there is one rule for: a source and a name or pattern."""
        return self.source, self.name

    @property
    def by_hand(self) -> bool:
        """Whether it was set with ``degradation.set``."""
        return self.source == HAND

    def over(self, now: float) -> bool:
        """Tell whether it has ended by itself at ``now``."""
        return self.end is not None and now >= self.end

    def says(self, rule: Rule, by: Any, reason: Any, until: Any) -> bool:
        """Tell whether it says just this."""
        return (self.rule, self.by, self.reason, self.until) == (rule, by, reason, until)

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        why = f" ({self.reason})" if self.reason else ""
        end = f" until {self.until:%Y-%m-%d %H:%M:%S} UTC" if self.until else ""
        return f"{self.name}: {self.rule.spelled}{who}{why}{end}, source {self.source}"


def check_name(name: Any) -> str:
    """Return a name or pattern that a rule may be for.

    Raises:
        RuleError: it is none.
    """
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name == name.strip():
        return name
    raise RuleError(
        f"name={show(name)}: must be a name or a pattern such as 'reviews.*', a text of 1 to"
        f" {LONGEST_NAME} characters without blanks around it"
    )


def check_text(field: str, value: Any) -> str | None:
    """Return who or why.

    Raises:
        RuleError: it is no text.
    """
    if value is None or isinstance(value, str):
        return value
    raise RuleError(f"{field}={show(value)}: must be a text, or left out")


class Pattern:
    """A rule whose name is a pattern, ready to be asked."""

    __slots__ = ("_match", "rank", "rule")

    def __init__(self, rule: StandingRule) -> None:
        self.rule = rule
        self._match = re.compile(fnmatch.translate(rule.name)).match
        special = _SPECIAL.search(rule.name)
        literal = special.start() if special else len(rule.name)
        others = len(rule.name) - sum(map(rule.name.count, "*?[]"))
        #: By hand before a file's, then the longest text before the first special
        #: character, then the most characters that are none, then the newest.
        self.rank = (rule.by_hand, literal, others, rule.version)

    def matches(self, name: str) -> bool:
        """Tell whether it is for ``name``: case counts, and ``*`` goes over dots too."""
        return self._match(name) is not None


def is_pattern(name: str) -> bool:
    """Tell whether a name is a pattern: it has a ``*``, a ``?`` or a ``[`` in it."""
    return _SPECIAL.search(name) is not None
