"""What is told of a change of rules: the event, and a line in the log."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from breakerkit import _log as log
from breakerkit.degrade.events import (
    RuleCleared,
    RuleExpired,
    RuleReplaced,
    RuleSet,
    RulesRefused,
    RulesReloaded,
)

if TYPE_CHECKING:
    from breakerkit.degrade._standing import StandingRule
    from breakerkit.events import Event


def came(new: StandingRule, old: StandingRule | None) -> Event:
    """Return what is told of a rule that was set."""
    moment = new.since.timestamp()
    if old is None:
        return RuleSet(new.name, moment, new)
    return RuleReplaced(new.name, moment, new, old)


def gone(rule: StandingRule, by: str | None, reason: str | None) -> Event:
    """Return what is told of a rule that was taken away."""
    return RuleCleared(rule.name, datetime.now(UTC).timestamp(), rule, by, reason)


def expired(rule: StandingRule) -> Event:
    """Return what is told of a rule that is over: with the moment when it ended."""
    until = rule.until or datetime.now(UTC)
    return RuleExpired(rule.name, until.timestamp(), rule)


def write(event: Any) -> None:
    """Write a line about a rule that came or went, or about a file."""
    if isinstance(event, RulesRefused):
        log.write(logging.WARNING, "%s; the last good rules of it stay in force", event.why)
    elif isinstance(event, RulesReloaded):
        log.write(logging.INFO, "degradation rules of %s: %d in force", event.name, event.rules)
    else:
        word = type(event).__name__.removeprefix("Rule").lower()
        log.write(logging.INFO, "degradation rule %s: %s", word, event.rule)
