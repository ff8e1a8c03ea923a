"""From the arguments of a call to the text its value is stored under; two different calls never share one.

A text is the only kind of key there is, so that every store, process and
language may have it. What has no text of its own that says all of it (a list, an
object that is compared by identity) is refused with advice: give ``key=``.
"""

from __future__ import annotations

import enum
import inspect
import types
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from breakerkit import _fields as fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.stale._instances import Instances

__all__ = ["AmbiguousKeyError"]

#: Their ``repr`` says all of a value, and its type.
_PLAIN = frozenset(
    {
        str, int, float, complex, bool, bytes, type(None), type(...), Decimal, Fraction, UUID,
        date, datetime, time, timedelta, timezone,
    }
)  # fmt: skip
#: How far a chain of decorators is followed; a mock may pretend to be wrapped for ever.
_DEEPEST = 100


class Key(str):
    """A text that has been made of a key already: to say it again makes no other of it."""

    __slots__ = ()


class AmbiguousKeyError(TypeError):
    """Say that no key can be made of an argument, and what to do."""


def text(key: Any) -> str:
    """Return the text of a key: a text is itself, of other values their ``repr`` in ``<>``.

    Raises:
        AmbiguousKeyError: the value has no text that says all of it.
    """
    if type(key) is str:
        # One that looks like another value's is not taken for it.
        return key if key[:1] != "<" and (key.isascii() or _sound(key)) else f"<{key!r}>"
    return key if type(key) is Key else f"<{_written(key)}>"


def _sound(key: str) -> bool:
    """Tell whether a text can be sent: half of a surrogate pair cannot; its ``repr`` can."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _written(value: Any) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return _repr(value)
    if kind is tuple:
        return f"({', '.join(map(_written, value))},)"
    if kind is frozenset:
        return f"frozenset({{{', '.join(sorted(map(_written, value)))}}})"
    return _of_a_class(value, kind)


def _repr(value: Any) -> str:
    """Return the ``repr``; of a moment with a time zone of somebody else's, with its offset.

    Raises:
        AmbiguousKeyError: it is a number that Python does not write out.
    """
    zone = getattr(value, "tzinfo", None)
    if zone is not None and not _says_all(zone):
        if type(zone) is ZoneInfo or getattr(type(zone), "__repr__", None) is object.__repr__:
            raise AmbiguousKeyError(
                f"{fields.show(value)}: its time zone, a {type(zone).__name__}, has no text that"
                " tells it from others (__repr__): use zoneinfo, or give key="
            )
        return f"{value.replace(tzinfo=None)!r} {zone!r} {value.utcoffset()}"
    try:
        return repr(value)
    except ValueError as error:
        raise AmbiguousKeyError(f"a {type(value).__name__}: {error}; give key=") from None


def _says_all(zone: Any) -> bool:
    """Tell whether the ``repr`` of a time zone says all of it; of one that was read from a file it says where that was."""
    return type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None)


def _of_a_class(value: Any, kind: type) -> str:
    if isinstance(value, enum.Enum) and "<locals>" not in kind.__qualname__:
        # Members of a flag need have no name.
        which = f"({value.value})" if isinstance(value, enum.Flag) else f".{value.name}"
        return f"{kind.__module__}.{kind.__qualname__}{which}"
    if isinstance(value, PurePath):
        return repr(value)
    if isinstance(value, type) and "<locals>" not in value.__qualname__:
        return f"{value.__module__}.{value.__qualname__}"
    if (
        isinstance(value, tuple)
        and hasattr(kind, "_fields")
        and "<locals>" not in kind.__qualname__
    ):
        return f"{kind.__module__}.{kind.__qualname__}{_written(tuple(value))}"
    raise AmbiguousKeyError(
        f"{fields.show(value)}: no key can be made of a {kind.__name__}: allowed are texts, numbers,"
        " bytes, dates, UUIDs, enums, paths, classes, and tuples and frozensets of them; give"
        " key=, a function of the same arguments that returns one of these"
    )


class KeyMaker:
    """Makes the key of a call of one function."""

    __slots__ = ("_bind", "_count", "_instances", "_key", "_method", "_name")

    def __init__(self, function: Any, key: Callable[..., Any] | None, instances: Instances) -> None:
        self._key = key
        self._instances = instances
        self._method = is_method(function)
        self._name = str(getattr(function, "__qualname__", type(function).__qualname__))
        self._bind: inspect.Signature | None = None
        self._count = -1
        if key is None:
            self._bind = _signature(function)
            self._count = _positional(self._bind)

    def __call__(self, args: tuple[Any, ...], kwargs: Any) -> str:
        """Return the key of a call with these arguments.

        Raises:
            AmbiguousKeyError: an argument has no text that says all of it.
            TypeError: the function cannot be called with these arguments.
        """
        if self._key is not None:
            return text(self._key(*args, **kwargs))
        if kwargs or len(args) != self._count:
            args = self._bound(args, kwargs)
        if self._method:
            return self._of_instance(args)
        return text(args[0]) if len(args) == 1 else text(args)

    def _bound(self, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, ...]:
        """Return the arguments as values in the order of the parameters, defaults included."""
        assert self._bind is not None
        try:
            bound = self._bind.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}() {error}") from None
        bound.apply_defaults()
        found: list[Any] = []
        for name, parameter in self._bind.parameters.items():
            value = bound.arguments[name]
            named = parameter.kind is inspect.Parameter.VAR_KEYWORD
            found.append(tuple(sorted(value.items())) if named else value)
        return tuple(found)

    def _of_instance(self, args: tuple[Any, ...]) -> str:
        owner, rest = args[0], args[1:]
        if isinstance(owner, type):
            return text(args)
        what = _written(rest[0]) if len(rest) == 1 else _written(rest)
        return f"<{type(owner).__qualname__} {self._instances.number(owner)}: {what}>"

    @property
    def of_instances(self) -> bool:
        """Whether its keys mean something in this process only."""
        return self._method and self._key is None


def is_method(function: Any) -> bool:
    """Tell whether a function stands in a class and its first argument is the instance, or the class."""
    for _ in range(_DEEPEST):
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    where = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not where or where.endswith("<locals>") or hasattr(function, "__self__"):
        return False
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or not code.co_argcount:
        return False
    return code.co_varnames[0] in {"self", "cls"}


def _signature(function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise AmbiguousKeyError(
            f"{fields.show(function)}: its parameters are not known, so no key can be made of the"
            " arguments: give key="
        ) from None


def _positional(signature: inspect.Signature) -> int:
    """Return with how many positional arguments a call needs no binding, -1 if there is no such number."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    plain = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return len(signature.parameters) if kinds <= plain else -1
