"""What the degradation wing tells: answers that were given, rules that came and went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from breakerkit.events import Event

if TYPE_CHECKING:
    from breakerkit.degrade._standing import StandingRule

__all__ = [
    "CallDegraded",
    "FallbackFailed",
    "FallbackUsed",
    "RuleCleared",
    "RuleExpired",
    "RuleReplaced",
    "RuleSet",
    "RulesRefused",
    "RulesReloaded",
]


# Without slots attrs fills a frozen record by one dict, twice as fast: one is made per event.
@attrs.frozen(slots=False)
class FallbackUsed(Event):
    """A fallback answered. ``error`` is what it answered for; ``rejected``: nothing had been run."""

    error: Exception
    rejected: bool


@attrs.frozen(slots=False)
class FallbackFailed(Event):
    """A fallback failed itself, with ``failure``, when it should have answered for ``error``."""

    error: Exception
    failure: Exception


@attrs.frozen(slots=False)
class CallDegraded(Event):
    """A rule decided how a call ended.

    Attributes:
        rule: the rule, with who and why.
        error: the failure it answered for; ``None``: the function was not run.
    """

    rule: StandingRule
    error: Exception | None


@attrs.frozen(slots=False)
class RuleSet(Event):
    """A rule came, where that source had none. ``name`` is the name or pattern it is for."""

    rule: StandingRule


@attrs.frozen(slots=False)
class RuleReplaced(Event):
    """A rule took the place of the ``old`` one of the same source."""

    rule: StandingRule
    old: StandingRule


@attrs.frozen(slots=False)
class RuleCleared(Event):
    """A rule was taken away: ``by`` whom and for what ``reason``, if they said so."""

    rule: StandingRule
    by: str | None
    reason: str | None


@attrs.frozen(slots=False)
class RuleExpired(Event):
    """A rule had reached its ``until``; ``timestamp`` is that moment, not the one when it was noticed."""

    rule: StandingRule


@attrs.frozen(slots=False)
class RulesReloaded(Event):
    """A file was read. ``name`` is its path, ``rules`` how many of it are in force now."""

    rules: int


@attrs.frozen(slots=False)
class RulesRefused(Event):
    """A file could not be taken; the last good rules stay. ``name`` is its path, ``why`` the reason."""

    why: str
