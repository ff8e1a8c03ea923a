"""Callables that are no plain functions: objects, partials, builtins, class and static methods."""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING, Any

import wrapt

from breakerkit._fields import show
from breakerkit._shell._functions import find_function, guard_function
from breakerkit._shell._shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._shell._gate import Gate
    from breakerkit._shell._runs import Find


def guard_callable(
    target: Any, owner: Any, *, gate: Gate | None = None, find: Find | None = None
) -> Any:
    """Return ``target`` behind a gate, looking just as before, with ``.breaker`` leading to ``owner``.

    What is a plain function becomes a real function: it binds, pickles and
    answers ``inspect`` by itself, and costs least. All else becomes a proxy.

    Raises:
        TypeError: it is no callable, is a class, or cannot be judged by its call.
    """
    if isinstance(target, classmethod | staticmethod):
        return type(target)(guard_callable(target.__func__, owner, gate=gate, find=find))
    check_callable(target)
    shape = shape_of(target)
    guarded = (
        guard_function(gate, target, shape) if gate else find_function(find, target, shape)  # type: ignore[arg-type]  # one of the two is given
    )
    if isinstance(target, types.FunctionType):
        guarded.breaker = owner  # type: ignore[attr-defined]  # what makes it a Guarded
        return guarded
    binds = hasattr(type(target), "__get__")
    return (GuardedDescriptor if binds else GuardedObject)(target, guarded, owner)


def check_callable(target: Any) -> None:
    """Refuse what no breaker can guard, and say what to do instead."""
    if isinstance(target, type):
        raise TypeError(
            f"{show(target)} is a class: use @breaker_methods(...) for its methods,"
            " or decorate the method or factory that calls out"
        )
    if not callable(target):
        raise TypeError(
            f"{show(target)} cannot be guarded: allowed are functions, methods, static and"
            " class methods, and other callables"
        )


class GuardedObject(wrapt.ObjectProxy[Any]):
    """A callable object behind a gate; in all else it is the object itself."""

    def __init__(self, wrapped: Any, call: Callable[..., Any], owner: Any) -> None:
        super().__init__(wrapped)
        self._self_call = call
        self._self_owner = owner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_call(*args, **kwargs)

    @property
    def breaker(self) -> Any:
        """The breaker in front of it."""
        return self._self_owner

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _again, (self._self_owner, self.__wrapped__)


class GuardedDescriptor(GuardedObject):
    """The same for a callable that binds to instances, such as a compiled method."""

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        bound = self.__wrapped__.__get__(instance, kind)
        return self if bound is self.__wrapped__ else _again(self._self_owner, bound)


def _again(owner: Any, wrapped: Any) -> Any:
    return owner(wrapped)


class PerInstance(wrapt.ObjectProxy[Any]):
    """A method whose breaker belongs to the instance and goes when the instance goes.

    Instances are told apart by identity, so they need be neither hashable nor
    comparable; they must allow weak references.
    """

    def __init__(self, wrapped: Any, make: Callable[[], Any]) -> None:
        super().__init__(wrapped)
        self._self_make = make
        self._self_bound: dict[int, tuple[Any, weakref.ref[Any]]] = {}

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is None:
            return self
        return types.MethodType(self._self_of(instance), instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_of(args[0])(*args, **kwargs) if args else self.__wrapped__(**kwargs)

    def _self_of(self, instance: Any) -> Any:
        """Return the guarded function of one instance; two threads at once get the same."""
        key, bound = id(instance), self._self_bound
        if key not in bound:
            made = self._self_make()(self.__wrapped__)
            gone = weakref.ref(instance, lambda _: bound.pop(key, None))
            return bound.setdefault(key, (made, gone))[0]
        return bound[key][0]
