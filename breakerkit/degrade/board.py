"""The one mutable thing of the rules: the book in force, the names under it, its past, its listeners."""

from __future__ import annotations

import itertools
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from breakerkit._keeper import Keeper
from breakerkit._until import seconds_until
from breakerkit.degrade import _telling as telling
from breakerkit.degrade._book import Book
from breakerkit.degrade._signs import Sign, State
from breakerkit.degrade._standing import StandingRule
from breakerkit.degrade.events import (
    RuleCleared,
    RuleExpired,
    RuleReplaced,
    RuleSet,
    RulesRefused,
    RulesReloaded,
)
from breakerkit.errors import RuleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from breakerkit.clock import Clock
    from breakerkit.degrade._files import Line
    from breakerkit.events import Event

#: From the book in force to the one that follows, and what is to be told of that.
Move: TypeAlias = "Callable[[Book], tuple[Book, list[Event]]]"


class Board(Keeper):
    """Rules and the names they are for; each change is one step, seen by any thread's next call."""

    __slots__ = ("_past", "_signs", "_state", "_versions", "_waiting")

    kinds = (RuleSet, RuleReplaced, RuleCleared, RuleExpired, RulesReloaded, RulesRefused)

    def __init__(self, clock: Clock, history: int) -> None:
        super().__init__("degradation", clock, None)
        self._state = State(Book({}), {})
        self._signs: dict[str, Sign] = {}
        self._past: deque[Event] = deque(maxlen=history)
        self._versions = itertools.count(1)
        #: What a signal handler or destructor wants changed in the middle of a change.
        self._waiting: deque[Move] = deque()

    # -- what calls ask -----------------------------------------------------

    def sign(self, name: str) -> Sign:
        """Return the sign of a name, made if there is none; rules that exist already are for it too."""
        found = self._signs.get(name)
        if found is not None:
            return found
        made = Sign(name)
        made.up = True  # until the rules have been looked at: another thread may call by it already
        found = self._signs.setdefault(name, made)

        def move(book: Book) -> tuple[Book, list[Event]]:
            found.up = book.winner(name) is not None
            return book, []

        self._turn(move)
        return found

    def in_force(self, name: str) -> StandingRule | None:
        """Return the rule for a name now; nobody need have noticed that another one is over."""
        found = self._state.world.get(name)
        if found is None:  # its sign is up because it is new: nobody has looked for rules yet
            return self._state.book.winner(name, self.clock.now())
        if found.end is None:
            return found
        now = self.clock.now()
        if not found.over(now):
            return found
        self.sweep(now)
        return self._state.book.winner(name, now)

    # -- what changes them --------------------------------------------------

    def set(self, new: StandingRule) -> None:
        """Put a rule in place, in the stead of the one its source had for that name."""

        def move(book: Book) -> tuple[Book, list[Event]]:
            return book.with_rules([new]), [telling.came(new, book.get(new.key))]

        self._turn(move)

    def clear(
        self, source: str, name: str | None, by: str | None, reason: str | None
    ) -> list[StandingRule]:
        """Take away the rule of a source for a name, or all of its rules; return what was taken."""
        taken: list[StandingRule] = []

        def move(book: Book) -> tuple[Book, list[Event]]:
            taken[:] = [rule for rule in book.of(source) if name is None or rule.name == name]
            return book.with_rules([], taken), [telling.gone(rule, by, reason) for rule in taken]

        self._turn(move)
        return taken

    def replace(self, source: str, lines: Iterable[Line]) -> list[StandingRule]:
        """Let a file's rules be just these; one that says what it said keeps its version."""
        now, moment = self.clock.now(), datetime.now(UTC)
        lasting = [(line, _left(line.until, moment)) for line in lines]
        wanted = [(line, left) for line, left in lasting if left is None or left > 0]
        come: list[StandingRule] = []

        def move(book: Book) -> tuple[Book, list[Event]]:
            events: list[Event] = []
            come.clear()
            for line, left in wanted:
                old = book.get((source, line.name))
                if old is not None and old.says(line.rule, line.by, line.reason, line.until):
                    come.append(old)
                    continue
                end = None if left is None else now + left
                come.append(self._made(line, source, moment, end))
                events.append(telling.came(come[-1], old))
            kept = {rule.name for rule in come}
            gone = [rule for rule in book.of(source) if rule.name not in kept]
            events += [telling.gone(rule, source, "not in the file any more") for rule in gone]
            events.append(RulesReloaded(source, moment.timestamp(), len(come)))
            return book.with_rules(come, gone), events

        self._turn(move)
        return come

    def made(self, line: Line, source: str) -> StandingRule:
        """Return a rule set now, with a version of its own.

        Raises:
            ConfigError: its ``until`` is no moment in the future.
        """
        left = seconds_until(line.until)
        end = None if left is None else self.clock.now() + left
        return self._made(line, source, datetime.now(UTC), end)

    def _made(self, line: Line, source: str, moment: datetime, end: float | None) -> StandingRule:
        until = moment + line.until if isinstance(line.until, timedelta) else line.until
        return StandingRule(
            name=line.name,
            rule=line.rule,
            by=line.by,
            reason=line.reason,
            until=until and until.astimezone(UTC),
            source=source,
            version=next(self._versions),
            since=moment,
            end=end,
        )

    def refuse(self, source: str, why: str) -> None:
        """Tell that a file could not be taken; the rules stay as they are."""
        event = RulesRefused(source, datetime.now(UTC).timestamp(), why)
        with self.lock:
            if RulesRefused in self.wanted:
                self.hub.post(event)
        self.hub.drain()
        telling.write(event)

    def sweep(self, now: float) -> None:
        """Take away what is over."""

        def move(book: Book) -> tuple[Book, list[Event]]:
            over = book.over(now)
            return book.with_rules([], over), [telling.expired(rule) for rule in over]

        if self._state.book.over(now):
            self._turn(move)

    def forget(self) -> None:
        """Take all rules away and forget the past (for tests)."""
        with self.lock:
            self._past.clear()
            self._versions = itertools.count(1)
            for sign in self._signs.values():
                sign.forget()
        self._turn(lambda _book: (Book({}), []))

    # -- what they were and are ---------------------------------------------

    def rules(self) -> list[StandingRule]:
        """Return all rules in force."""
        now = self.clock.now()
        self.sweep(now)
        return [rule for rule in self._state.book.all() if not rule.over(now)]

    def winner(self, name: str) -> StandingRule | None:
        """Return the rule for a name now, whether or not a function has that name."""
        return self._state.book.winner(name, self.clock.now())

    def past(self) -> list[Event]:
        """Return what has happened, the oldest first."""
        self.sweep(self.clock.now())
        with self.lock:
            return list(self._past)

    def check_mocks(self, line: Line) -> None:
        """Refuse a rule that asks for a mock which a function of just this name has not.

        Raises:
            RuleError: as said.
        """
        sign = self._signs.get(line.name)
        if line.rule.action == "call" and sign is not None and sign.unmocked:
            raise RuleError(
                f"rule {line.rule}: asks for a mock, which {', '.join(sign.unmocked)} under"
                f" {line.name!r} has not: give mock= to @degradable"
            )

    def names(self) -> list[str]:
        """Return the names of all degradable functions."""
        return sorted(self._signs)

    # -- the one way to change ----------------------------------------------

    def _turn(self, move: Move) -> None:
        """Make a change, and those that came from a signal handler or a destructor meanwhile."""
        if self.between():
            self._waiting.append(move)  # whoever is in the middle of a change makes this one too
            return
        with self.lock:
            told = self._make(move)
        while self._waiting:
            with self.lock:
                if self._waiting:  # another thread may have been quicker
                    told += self._make(self._waiting.popleft())
        self.hub.drain()
        for event in told:
            telling.write(event)

    def _make(self, move: Move) -> list[Event]:
        """Make one change. Under the lock."""
        book, events = move(self._state.book)
        self._publish(book)
        for event in events:
            self._past.append(event)
            if type(event) in self.wanted:
                self.hub.post(event)
        return events

    def _publish(self, book: Book) -> None:
        """Put a book in force: signs up, then the book, then signs down."""
        signs = list(self._signs.values()) if len(book) or self._state.world else []
        found = {sign.name: book.winner(sign.name) for sign in signs}
        world = {name: rule for name, rule in found.items() if rule is not None}
        for sign in signs:
            if sign.name in world:
                sign.up = True
        self._state = State(book, world)
        for sign in signs:
            if sign.name not in world:
                sign.up = False

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child, and see that signs and book belong together."""
        super().after_fork()
        self._waiting.clear()
        self._publish(self._state.book)


def _left(until: Any, moment: datetime) -> float | None:
    return None if until is None else (until - moment).total_seconds()
