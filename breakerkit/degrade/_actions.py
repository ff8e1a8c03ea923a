"""What a rule does for the caller: give a value, raise an error, or call the mock."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import attrs

from breakerkit._fields import show
from breakerkit.degrade import _allowed as allowed
from breakerkit.degrade import _json as exact
from breakerkit.errors import RuleError


def _kept(value: Any) -> Any:
    return exact.copied(value) if exact.is_plain(value) else value


@attrs.frozen
class Return:
    """Give a value: one that JSON knows is given anew each time, any other is the very object."""

    value: Any = attrs.field(converter=_kept, eq=exact.Exact, hash=False)
    _plain: bool = attrs.field(
        default=attrs.Factory(lambda self: exact.is_plain(self.value), takes_self=True),
        init=False,
        eq=False,
        repr=False,
    )

    word = "return"

    @property
    def shown(self) -> Any:
        """What a message shows of it, by a ``repr`` that does not go through the whole of it."""
        return self.value

    def give(self) -> Any:
        """Return what the caller gets."""
        return exact.copied(self.value) if self._plain else self.value

    def __str__(self) -> str:
        return f"return {exact.write(self.value)}"


def _template(error: Any) -> Exception:
    """Return an exception nobody raises, from which each that is raised is made.

    Raises:
        RuleError: it is no `Exception`, or cannot be made anew.
    """
    if not (
        isinstance(error, Exception) or (isinstance(error, type) and issubclass(error, Exception))
    ):
        raise RuleError(f"error={show(error)}: must be an Exception, its class or one made of it")
    try:
        made = error() if isinstance(error, type) else copy.copy(error)
        if type(made) is not (error if isinstance(error, type) else type(error)) or made is error:
            raise TypeError("a copy of it is something else")
        copy.copy(made)
    except Exception as odd:
        raise RuleError(
            f"error={show(error)}: cannot be made anew for each call ({odd}): give an instance"
            " that copy.copy can copy"
        ) from odd
    return made


def _parts(error: Exception) -> exact.Exact:
    """Return what an exception is made of."""
    return exact.Exact((type(error), error.__reduce__()))


@attrs.frozen
class Raise:
    """Raise an error: a new one each time, so that no traceback or context grows or is shared."""

    error: Exception = attrs.field(converter=_template, eq=_parts, hash=False)

    word = "raise"

    @property
    def shown(self) -> Exception:
        """What a message shows of it."""
        return self.error

    def give(self) -> Exception:
        """Return what the caller gets raised."""
        return copy.copy(self.error)

    def __str__(self) -> str:
        name = allowed.name_of(type(self.error))
        made: Any = self.error.__reduce__()
        kind, arguments, *rest = made
        if kind is not type(self.error) or any(rest):
            raise ValueError(
                f"raises {show(self.error)}, which is more than its class and arguments"
            )
        values = exact.write(list(arguments))[1:-1]
        return f"raise {name}({values})" if values else f"raise {name}"


@attrs.frozen
class Call:
    """Call the mock."""

    word = "call"
    shown = "the mock"

    def __str__(self) -> str:
        return "call"


Action: TypeAlias = Return | Raise | Call
