"""What a call looks at, and what it then finds: the sign of its name, and the rules as one state."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from breakerkit.degrade._book import Book
    from breakerkit.degrade._standing import StandingRule


class Sign:
    """A name under rules: ``up`` while a rule may be in force for it.

    Every call of a degradable function reads it, so it is all that such a call
    costs. It goes up before a rule is in force and down after none is, and only
    the book decides in between: a change of many rules is one for all names.
    """

    __slots__ = ("_unmocked", "name", "up")

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = False
        self._unmocked: tuple[tuple[str, weakref.ref[Any]], ...] = ()

    def lacks_mock(self, function: Any, name: str) -> None:
        """Keep in mind, for as long as it lives, that a function of this name has no mock."""
        self._unmocked = (*self._alive(), (name, weakref.ref(function)))

    def forget(self) -> None:
        """Keep none of them in mind (for tests)."""
        self._unmocked = ()

    @property
    def unmocked(self) -> list[str]:
        """The functions of this name that have no mock."""
        return sorted({name for name, _ in self._alive()})

    def _alive(self) -> Iterator[tuple[str, weakref.ref[Any]]]:
        return (one for one in self._unmocked if one[1]() is not None)


class State(NamedTuple):
    """What is in force, replaced as one."""

    book: Book
    #: The rule for each name that has one.
    world: Mapping[str, StandingRule]
