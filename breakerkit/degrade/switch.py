"""What stands behind a degradable function: its sign, its settings, and what the rule in force answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit._keeper import Keeper
from breakerkit._log import fault_in
from breakerkit.degrade._actions import Call, Raise
from breakerkit.degrade._answers import Answer, awaited, rethrow
from breakerkit.degrade._verdict import Judge, Verdict
from breakerkit.degrade.events import CallDegraded
from breakerkit.errors import RuleError
from breakerkit.events import ConfigChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.degrade._signs import Sign
    from breakerkit.degrade._standing import StandingRule
    from breakerkit.degrade.board import Board
    from breakerkit.degrade.config import DegradableConfig

__all__ = ["DegradableSnapshot"]


@attrs.frozen(kw_only=True)
class DegradableSnapshot:
    """All numbers of a degradable name as they belong together at one moment.

    Attributes:
        name: the name.
        rule: the rule in force, ``None`` if there is none.
        forced: calls that were not run, because a rule answered.
        rescued: calls that failed, and a rule answered.
    """

    name: str
    rule: StandingRule | None
    forced: int
    rescued: int


class DegradableGuard(Keeper):
    """Settings and numbers of one name; it is asked only while a rule may be in force."""

    __slots__ = ("_judge", "board", "config", "forced", "mock", "rescued", "sign")

    kinds = (CallDegraded, ConfigChanged)

    def __init__(
        self,
        name: str,
        config: DegradableConfig,
        clock: Clock,
        parent: Hub | None,
        board: Board,
        mock: Callable[..., Any] | None,
    ) -> None:
        super().__init__(name, clock, parent)
        self.board = board
        self.sign: Sign = board.sign(name)
        #: The mock it was made with: that of functions which bring none of their own.
        self.mock = mock
        self.forced = self.rescued = 0
        self.adopt(config)

    def adopt(self, config: DegradableConfig) -> None:
        """Take new settings. Under the lock."""
        self.config = config
        self._judge = Judge(self.name, config.on)

    def fails(self, error: Exception) -> bool:
        """Tell whether an error is a failure that a rule may answer."""
        return self._judge.verdict(error) is Verdict.FAILURE

    def gave(self, rule: StandingRule, error: Exception | None) -> None:
        """Count a call that a rule decided and tell it."""
        with self.lock:
            self.forced += error is None
            self.rescued += error is not None
            self.post(CallDegraded, rule=rule, error=error)
        self.hub.drain()

    def snapshot(self) -> DegradableSnapshot:
        """Return all numbers as they belong together now."""
        rule = self.board.in_force(self.name)
        with self.lock:
            return DegradableSnapshot(
                name=self.name, rule=rule, forced=self.forced, rescued=self.rescued
            )


class Switch:
    """One function under a name: whether a rule may be in force, and what it does here."""

    __slots__ = ("_guard", "_mock", "sign")

    def __init__(self, guard: DegradableGuard, mock: Callable[..., Any] | None) -> None:
        self._guard = guard
        self._mock = mock
        self.sign = guard.sign

    def relief(self) -> Ruling | None:
        """Return what the rule in force does, ``None`` if there is none after all."""
        rule = self._guard.board.in_force(self.sign.name)
        return None if rule is None else Ruling(self._guard, rule, self._mock)


class Ruling:
    """The rule that was in force when a call began: it decides that call, whatever comes later."""

    __slots__ = ("_guard", "_mock", "_rule")

    def __init__(
        self, guard: DegradableGuard, rule: StandingRule, mock: Callable[..., Any] | None
    ) -> None:
        self._guard = guard
        self._rule = rule
        self._mock = mock

    @property
    def forces(self) -> bool:
        """Whether the function is not run."""
        return self._rule.rule.force

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Ruled:
        """Return the answer of a rule by force."""
        return Ruled(self._guard, self._rule, self._mock, None, args, kwargs)

    def answer(
        self, error: Exception, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Ruled | None:
        """Return the answer to a failure, ``None`` where the error is the caller's."""
        if not self._guard.fails(error):
            return None
        answer = Ruled(self._guard, self._rule, self._mock, error, args, kwargs)
        if (missing := answer.missing()) is not None:
            fault_in(
                "mock", self._guard.name, missing
            )  # the caller is told better by its own error
            return None
        return answer


class Ruled(Answer):
    """The answer of a rule to one call."""

    __slots__ = ("_args", "_guard", "_kwargs", "_mock", "_rule")

    def __init__(
        self,
        guard: DegradableGuard,
        rule: StandingRule,
        mock: Callable[..., Any] | None,
        error: Exception | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        super().__init__(error)
        self._guard = guard
        self._rule = rule
        self._mock = mock
        self._args = args
        self._kwargs = kwargs

    def make(self) -> Any:
        """Return the value or what the mock returns, or raise."""
        action = self._rule.rule._action
        if isinstance(action, Call):
            return self._mocked()(*self._args, **self._kwargs)
        if isinstance(action, Raise):
            return rethrow(action.give())
        return action.give()

    async def make_async(self) -> Any:
        """Do the same for an async call; the mock may be sync or async."""
        if isinstance(self._rule.rule._action, Call):
            return await awaited(self._mocked(), *self._args, **self._kwargs)
        return self.make()

    def missing(self) -> RuleError | None:
        """Return what is wrong with a rule that asks for a mock where there is none."""
        if self._mock is not None or not isinstance(self._rule.rule._action, Call):
            return None
        return RuleError(
            f"the rule {self._rule} asks for the mock of {self._guard.name!r}, which has none:"
            " give mock= to @degradable, or set another rule"
        )

    def _mocked(self) -> Callable[..., Any]:
        if (missing := self.missing()) is not None:
            raise missing
        assert self._mock is not None  # else it would be missing
        return self._mock

    def gave(self) -> None:
        """Hear that the caller gets it."""
        self._guard.gave(self._rule, self.error)

    def failed(self, failure: Exception) -> None:
        """Hear that the caller gets an error instead: the one the rule says, or the mock's own."""
        super().failed(failure)
        self._guard.gave(self._rule, self.error)
