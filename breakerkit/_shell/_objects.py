"""Callables that are no plain functions: objects, partials, builtins, class and static methods."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from breakerkit._fields import show
from breakerkit._shell._shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._shell._shapes import Shape


def guard_callable(
    target: Any, owner: Any, around: Callable[[Any, Shape], Callable[..., Any]]
) -> Any:
    """Return ``target`` behind a policy, looking just as before; an attribute leads to ``owner``.

    What is a plain function becomes a real function: it binds, pickles and
    answers ``inspect`` by itself, and costs least. All else becomes a proxy.

    Raises:
        TypeError: it is no callable, is a class, or cannot be judged by its call.
    """
    # By the true type: a proxy of another library's calls itself what it stands for.
    if issubclass(type(target), classmethod | staticmethod):
        return type(target)(guard_callable(target.__func__, owner, around))
    check_callable(target)
    guarded = functools.wraps(target)(around(target, shape_of(target)))
    if type(target) is types.FunctionType:
        setattr(guarded, owner.kind, owner)
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
    """Refuse what no policy can guard, and say what to do instead."""
    if isinstance(target, type):
        raise TypeError(
            f"{show(target)} is a class: decorate its methods, or the factory that calls out;"
            " @breaker_methods(...) gives each method of a class a breaker"
        )
    if not callable(target):
        raise TypeError(
            f"{show(target)} cannot be guarded: allowed are functions, methods, static and"
            " class methods, and other callables"
        )
