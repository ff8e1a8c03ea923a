"""A rule of degradation, and its text form: parsing and printing are inverse."""

from __future__ import annotations

import re
from typing import Any

import attrs

from breakerkit._fields import show
from breakerkit.degrade import _allowed as allowed
from breakerkit.degrade import _json as exact
from breakerkit.degrade._actions import Action, Call, Raise, Return
from breakerkit.errors import RuleError

__all__ = ["Rule"]

_FORMS = (
    'allowed are "force:return <JSON>", "force:raise <Error>", "force:call", "fail:raise <Error>"'
    ' and "fail:call"; an <Error> is a name such as TimeoutError or TimeoutError("slow")'
)
#: Characters of a text that an error message shows.
LONGEST_SHOWN = 200
#: Characters the text of a rule may have.
MOST_TEXT = 65_536
_RULE = re.compile(r"(force|fail)\s*:\s*(return|raise|call)(?:\s+(.*))?", re.DOTALL)
_ERROR = re.compile(rf"({allowed.NAME.pattern})\s*(?:\((.*)\))?", re.DOTALL)


@attrs.frozen(repr=False)
class Rule:
    """What happens to the calls of a degradable function: made by one of its class methods.

    Equal rules are equal to the type: ``1``, ``1.0`` and ``True`` are three values.

    Example:
        >>> rule = Rule.parse('force:return {"stars": 5}')
        >>> rule == Rule.force_return({"stars": 5}), str(rule)
        (True, 'force:return {"stars": 5}')
    """

    _force: bool
    _action: Action

    def __attrs_post_init__(self) -> None:
        sound = type(self._force) is bool and isinstance(self._action, Action)
        if not sound or (not self._force and isinstance(self._action, Return)):
            raise RuleError("make a rule with Rule.force_return(value), Rule.parse(text) ...")

    # -- making -------------------------------------------------------------

    @classmethod
    def force_return(cls, value: Any) -> Rule:
        """Do not run the function; return ``value``.

        Args:
            value: where JSON knows it exactly (a list, a dict, a number ...) it
                is copied now and for each call, so that no caller's change shows
                anywhere else. Any other object is returned as it is.
        """
        return cls(True, Return(value))

    @classmethod
    def force_raise(cls, error: Exception | type[Exception]) -> Rule:
        """Do not run the function; raise a new exception like ``error`` each time.

        Raises:
            RuleError: it is no `Exception`, or cannot be made anew.
        """
        return cls(True, Raise(error))

    @classmethod
    def force_call(cls) -> Rule:
        """Do not run the function; call its ``mock`` with the same arguments."""
        return cls(True, Call())

    @classmethod
    def fail_raise(cls, error: Exception | type[Exception]) -> Rule:
        """Run the function; if it fails, raise a new exception like ``error`` from its own.

        Raises:
            RuleError: it is no `Exception`, or cannot be made anew.
        """
        return cls(False, Raise(error))

    @classmethod
    def fail_call(cls) -> Rule:
        """Run the function; if it fails, call its ``mock`` with the same arguments."""
        return cls(False, Call())

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Return the rule of a text; nothing in it is evaluated.

        Raises:
            RuleError: it is no rule; names the text and says what is allowed.
        """
        if not isinstance(text, str):
            raise RuleError(f"rule {shown(text)}: must be a text; {_FORMS}")
        try:
            return _parsed(cls, text)
        except ValueError as odd:
            raise RuleError(f"rule {shown(text)}: {odd}") from None

    # -- looking ------------------------------------------------------------

    @property
    def force(self) -> bool:
        """Whether the function is not run at all; if not, the rule is for calls that fail."""
        return self._force

    @property
    def action(self) -> str:
        """What is done: ``"return"``, ``"raise"`` or ``"call"``."""
        return self._action.word

    @property
    def value(self) -> Any:
        """What is returned, ``None`` where nothing is."""
        return self._action.give() if isinstance(self._action, Return) else None

    @property
    def error(self) -> Exception | None:
        """A new exception of the kind that is raised, ``None`` where none is."""
        return self._action.give() if isinstance(self._action, Raise) else None

    @property
    def spelled(self) -> str:
        """Its text, or something like it where it has none; for messages, so it cannot fail or flood."""
        try:
            text = self._text()
        except Exception:  # an exception of the user's may say no to anything
            return f"{self._when}:{self.action} {show(self._action.shown)}"
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."

    def __str__(self) -> str:
        try:
            return self._text()
        except ValueError as odd:
            raise RuleError(f"{self!r} has no text: it {odd}") from None

    def __repr__(self) -> str:
        return f"<Rule {self.spelled}>"

    def _text(self) -> str:
        text = f"{self._when}:{self._action}"
        if len(text) > MOST_TEXT:
            raise ValueError(f"has {len(text)} characters, allowed are {MOST_TEXT}")
        return text

    @property
    def _when(self) -> str:
        return "force" if self._force else "fail"


def shown(text: object) -> str:
    """Return what was given, cut where it is too long for a message."""
    if not isinstance(text, str) or len(text) <= LONGEST_SHOWN:
        return repr(text) if isinstance(text, str) else show(text)
    half = LONGEST_SHOWN // 2
    return f"{text[:half]!r} ... {text[-half:]!r}"


def _parsed(kind: type[Rule], text: str) -> Rule:
    if len(text) > MOST_TEXT:
        raise ValueError(f"has {len(text)} characters, allowed are {MOST_TEXT}")
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"is no rule; {_FORMS}")
    when, word, rest = found.groups("")
    return kind(when == "force", _ACTIONS[word](when, rest))


def _return(when: str, rest: str) -> Action:
    if when == "fail":
        raise ValueError(f"is no rule: to return a value for a failure use fail:call; {_FORMS}")
    if not rest:
        raise ValueError('needs a value in JSON after "return", such as null or []')
    return Return(_read(rest))


def _raise(_when: str, rest: str) -> Action:
    found = _ERROR.fullmatch(rest)
    if found is None:
        raise ValueError(
            'needs an exception after "raise", such as TimeoutError or OSError("down")'
        )
    kind = allowed.kind_of(found[1])
    arguments = _read(f"[{found[2] or ''}]")
    try:
        return Raise(kind(*arguments))
    except Exception as odd:
        raise ValueError(f"cannot make a {found[1]} of these arguments: {odd}") from None


def _call(_when: str, rest: str) -> Action:
    if rest:
        raise ValueError(f'has {show(rest)} after "call", where nothing may be')
    return Call()


def _read(text: str) -> Any:
    try:
        return exact.read(text)
    except ValueError as odd:
        raise ValueError(f"its value {shown(text)} {_said(odd)}") from None


def _said(odd: ValueError) -> str:
    """Say what is wrong in one way, whoever found it."""
    said = str(odd)
    return said if said.startswith(("has ", "nests ")) else f"is not JSON ({said})"


_ACTIONS = {"return": _return, "raise": _raise, "call": _call}
