"""Callables that are no plain functions: objects, partials, builtins, class and static methods."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

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
    # By the true type: a proxy of another library's calls itself what it stands for.
    if issubclass(type(target), classmethod | staticmethod):
        return type(target)(guard_callable(target.__func__, owner, gate=gate, find=find))
    check_callable(target)
    shape = shape_of(target)
    guarded = (
        guard_function(gate, target, shape) if gate else find_function(find, target, shape)  # type: ignore[arg-type]  # one of the two is given
    )
    if type(target) is types.FunctionType:
        guarded.breaker = owner  # type: ignore[attr-defined]  # what makes it a Guarded
        return guarded
    from breakerkit._shell import _proxies as proxies  # noqa: PLC0415  # wrapt is slow to import

    binds = hasattr(type(target), "__get__")
    kind = proxies.GuardedDescriptor if binds else proxies.GuardedObject
    return kind(target, guarded, owner)


def guard_per_instance(method: Any, make: Callable[[], Any]) -> Any:
    """Return a method whose breaker, from ``make``, belongs to the instance it is called on."""
    from breakerkit._shell import _proxies as proxies  # noqa: PLC0415  # wrapt is slow to import

    return proxies.PerInstance(method, make)


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
