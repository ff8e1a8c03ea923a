"""The rules as users hold them: set, clear, list, load from a file, watch a file."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit import _fork as fork
from breakerkit.clock import Clock, system_clock
from breakerkit.degrade import _allowed as allowed
from breakerkit.degrade import _files as files
from breakerkit.degrade._standing import HAND, StandingRule, check_name, check_text
from breakerkit.degrade.board import Board
from breakerkit.degrade.rule import Rule
from breakerkit.degrade.watch import RuleWatch
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from breakerkit.events import Event

__all__ = ["Degradation", "Rule", "RuleWatch", "StandingRule"]

#: Changes that `Degradation.history` keeps, where nothing is said.
KEPT = 1000


class Degradation:
    """Rules for degradable functions, by name or pattern; `degradation` is the one that is shared.

    Of several rules that are for a name one decides: one set by hand before a
    file's; then the exact name before a pattern; then the pattern with the
    longest text before its first ``*``, ``?`` or ``[``; then the newest.

    Args:
        clock: whose time ends a rule at its ``until``; monotonic if ``None``.
        history: how many changes are kept, at least 1.
    """

    __slots__ = ("__weakref__", "_board", "_lock", "_watches")

    def __init__(self, *, clock: Clock | None = None, history: int = KEPT) -> None:
        if clock is not None and (isinstance(clock, type) or not isinstance(clock, Clock)):
            must = "must be an object with now() in seconds"
            raise ConfigError(f"clock={fields.show(clock)}: {must}")
        if not fields.sound(fields.to_positive(history)):
            raise ConfigError(f"history={fields.show(history)}: must be an int of at least 1")
        self._board = Board(system_clock if clock is None else clock, history)
        self._watches: dict[str, RuleWatch] = {}
        self._lock = threading.RLock()
        fork.remember(self)

    # -- change -------------------------------------------------------------

    def set(
        self,
        name: str,
        rule: Rule | str,
        *,
        by: str | None = None,
        reason: str | None = None,
        until: timedelta | datetime | None = None,
    ) -> StandingRule:
        """Put a rule in force for the next call, in the stead of the one set for just this before.

        Args:
            name: a name, or a pattern: ``*`` is any text, dots too, ``?`` one
                character, ``[ab]`` one of these; case counts.
            rule: a `Rule`, or the text of one.
            by: who sets it, for those who ask.
            reason: why.
            until: when it ends by itself: a ``timedelta`` from now or an aware ``datetime``.

        Returns:
            The rule with all that was said about it.

        Raises:
            RuleError: the rule or the name cannot be read, or the rule asks for
                a mock that a function of this very name has not.
            ConfigError: ``until`` is not in the future.
        """
        meant = rule if isinstance(rule, Rule) else Rule.parse(rule)
        line = files.Line(
            check_name(name), meant, check_text("by", by), check_text("reason", reason), until
        )
        self._board.check_mocks(line)
        made = self._board.made(line, HAND)
        self._board.set(made)
        return made

    def clear(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        reason: str | None = None,
        source: str | os.PathLike[str] | None = None,
    ) -> list[StandingRule]:
        """Take away the rule set for just this name or pattern, in force for the next call.

        Args:
            name: as it was given to `set`; ``None``: all rules of the source.
            by: who clears it, for the history.
            reason: why.
            source: the path of a file whose rules are meant; those set by hand if
                not given. A file's rule comes back when the file has changed.

        Returns:
            What was taken away; nothing if there was nothing.

        Raises:
            RuleError: an argument is not of its kind.
        """
        if name is not None:
            check_name(name)
        whose = HAND if source is None else files.source_of(source)
        return self._board.clear(whose, name, check_text("by", by), check_text("reason", reason))

    def load(self, path: str | os.PathLike[str], /) -> list[StandingRule]:
        """Take the rules of a file, in the stead of those it had before, all at once.

        Args:
            path: a ``.toml`` or ``.json`` file with a list ``rules`` of tables:
                ``name``, ``rule`` (a text), and maybe ``by``, ``reason`` and
                ``until`` (a date and time with an offset). Of a rule that is over
                already nothing is taken.

        Returns:
            The file's rules that are in force now.

        Raises:
            RuleError: it cannot be taken; says where and why. Then nothing has
                changed: the last good rules stay.
        """
        source = files.source_of(path)
        lines = files.parse(source, files.read(source).data)
        return self._board.replace(source, lines)

    def watch(
        self, path: str | os.PathLike[str], /, *, every: float | timedelta | None = 1.0
    ) -> RuleWatch:
        """Take the rules of a file now and whenever it changes.

        A file that is missing or broken is no error here: that is logged once,
        the last good rules stay, and it is taken when it is sound.

        Args:
            path: as for `load`.
            every: seconds (or a ``timedelta``) between two looks, by a daemon
                thread; ``None``: only when its `RuleWatch.look` is called.

        Returns:
            What stops it; it need not be kept.

        Raises:
            RuleError: it is no path of such a file.
            ConfigError: ``every`` is no such number, or the file is watched
                already with another.
        """
        source, seconds = files.source_of(path), fields.to_optional_seconds(every)
        if not fields.sound(seconds):
            must = "must be seconds or a timedelta above 0, or None"
            raise ConfigError(f"every={fields.show(every)}: {must}")
        made = RuleWatch(self._board, source, seconds, self._forget)
        with self._lock:
            found = self._watches.setdefault(source, made)
        if found.every != seconds:
            raise ConfigError(f"every={fields.show(every)}: it is watched already, {found!r}")
        found.begin()
        return found

    def allow(self, name: str, kind: type[Exception], /) -> None:
        """Let texts of rules raise ``kind`` under ``name``, in this whole process.

        Built-in exceptions are allowed from the start.

        Raises:
            RuleError: the name is no dotted name, or ``kind`` no class of `Exception`.
            NameConflictError: the name means another exception.
        """
        allowed.allow(name, kind)

    # -- look ---------------------------------------------------------------

    def rules(self) -> list[StandingRule]:
        """Return all rules in force, by name; those set by hand before a file's."""
        return self._board.rules()

    def rule_for(self, name: str, /) -> StandingRule | None:
        """Return the rule that decides for a name now, ``None`` if none does."""
        return self._board.winner(check_name(name))

    def history(self) -> list[Event]:
        """Return what has happened to the rules, the oldest first: `RuleSet`, `RuleReplaced` ...

        As many of the last changes are kept as ``history`` said.
        """
        return self._board.past()

    def names(self) -> list[str]:
        """Return the names of all functions under these rules, sorted."""
        return self._board.names()

    def watches(self) -> list[RuleWatch]:
        """Return the watches that have not been stopped, by path."""
        with self._lock:
            return [self._watches[path] for path in sorted(self._watches)]

    def subscribe(
        self, listener: Callable[[Any], object], /, *kinds: type[Any]
    ) -> Callable[[], None]:
        """Tell ``listener`` every change, or those of ``kinds``; return what ends that.

        Raises:
            TypeError: the listener is a coroutine function or not callable, or
                a kind is no event class of these.
        """
        return self._board.subscribe(listener, kinds)

    # -- behind it ----------------------------------------------------------

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child; board and watches mend themselves."""
        self._lock = threading.RLock()

    def _forget(self, watch: RuleWatch) -> None:
        with self._lock:
            if self._watches.get(watch.path) is watch:
                del self._watches[watch.path]

    def _reset(self) -> None:
        """Take all rules away, stop all watches, forget the past (for tests)."""
        for watch in self.watches():
            watch.stop()
        self._board.forget()

    def __copy__(self) -> Degradation:
        return self

    def __deepcopy__(self, memo: object) -> Degradation:
        return self

    def __repr__(self) -> str:
        return f"<Degradation of {len(self.names())} names, {len(self.rules())} rules>"
