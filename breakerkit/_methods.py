"""Methods of a class: which ones are public, how each is defined, and whether a call brings ``self``."""

from __future__ import annotations

import functools
import types
import weakref
from typing import TYPE_CHECKING, Any

from breakerkit._fields import near, show
from breakerkit._shell._wrapped import beneath

if TYPE_CHECKING:
    from collections.abc import Iterable

_CALLABLE = (types.FunctionType, classmethod, staticmethod)


def public_methods(
    kind: type, include: Iterable[str] | None, exclude: Iterable[str]
) -> dict[str, Any]:
    """Return the methods to guard by name, as they stand in the class.

    Those that the class itself defines and whose name has no leading
    underscore; with ``include`` just those, inherited ones too.

    Raises:
        TypeError: a name given is no method of the class, or none is left.
    """
    own = {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("_") and isinstance(value, _CALLABLE)
    }
    for name in exclude:
        if _find(kind, name) is None:
            raise TypeError(_no_method(kind, "exclude", name, own))
    if include is not None:
        own = {name: _wanted(kind, name, own) for name in include}
    chosen = {name: value for name, value in own.items() if name not in set(exclude)}
    if not chosen:
        raise TypeError(f"{kind.__qualname__} has no public method of its own to guard")
    return chosen


def _wanted(kind: type, name: str, own: dict[str, Any]) -> Any:
    value = _find(kind, name)
    if value is None or not (isinstance(value, _CALLABLE) or callable(value)):
        raise TypeError(_no_method(kind, "include", name, own))
    return value


def _find(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None


def _no_method(kind: type, option: str, name: str, known: Iterable[str]) -> str:
    return f"{option}={show(name)}: {kind.__qualname__} has no such method{near(name, known)}"


class SelfFinder:
    """Tell whether the first argument of a call is the ``self`` or ``cls`` of a method.

    A decorator sees a plain function and cannot know where it will live, so
    this looks where it lives when it is called: in the class of the first
    argument. The answer is kept per class.
    """

    __slots__ = ("_bare", "_known", "_last")

    def __init__(self, bare: Any) -> None:
        self._bare = bare
        # The answer for the class seen last, for most calls come from one.
        self._last: tuple[type, bool] = (type(None), False)
        self._known: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()

    def __call__(self, first: object) -> bool:
        kind, answer = self._last
        if type(first) is kind:
            return answer
        if isinstance(first, type):
            return self._kind(first) == "class"
        answer = self._kind(type(first)) == "instance"
        self._last = (type(first), answer)
        return answer

    def _kind(self, kind: type) -> str:
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self._look(kind)
        return found

    def _look(self, kind: type) -> str:
        for base in kind.__mro__:
            for value in vars(base).values():
                # By the type alone: a lazy object among them shall not come to life.
                if not (callable(value) or hasattr(type(value), "__get__")):
                    continue
                if any(leads_to(one, self._bare) for one in _functions(value)):
                    if isinstance(value, staticmethod):
                        return "static"
                    return "class" if isinstance(value, classmethod) else "instance"
        return "none"


def _functions(value: Any) -> Iterable[Any]:
    """Return the functions that a method was made of: most have one, a property up to three."""
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):
        return (value.func,)
    if isinstance(value, functools.singledispatchmethod):
        return tuple(value.dispatcher.registry.values())
    return (getattr(value, "__func__", value),)


def leads_to(function: Any, bare: Any) -> bool:
    """Tell whether ``function`` is ``bare`` under any number of decorators."""
    for _ in range(100):
        if function is bare:
            return True
        function = beneath(function)
        if function is None:
            return False
    return False
