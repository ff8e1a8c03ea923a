"""How a callable is called: plain, coroutine, generator or async generator, whatever it is wrapped in."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import types
from typing import Any

from breakerkit._fields import show


class Shape(enum.Enum):
    """The ways a callable can give its result."""

    PLAIN = "plain"  # at once, or as something to be awaited or iterated later
    COROUTINE = "coroutine"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"
    ITERABLE_COROUTINE = "coroutine made by types.coroutine"


_ASYNC_GENERATOR = inspect.CO_ASYNC_GENERATOR
_GENERATOR = inspect.CO_GENERATOR
_ITERABLE_COROUTINE = inspect.CO_ITERABLE_COROUTINE
_NOT_PLAIN = inspect.CO_COROUTINE | _GENERATOR | _ASYNC_GENERATOR | _ITERABLE_COROUTINE

# Both factories give every function they make one code object: that tells their work.
_MANAGER = contextlib.contextmanager(lambda: iter(())).__code__
_ASYNC_MANAGER = contextlib.asynccontextmanager(lambda: None).__code__  # type: ignore[arg-type, return-value]  # never called


def shape_of(function: Any) -> Shape:
    """Return how ``function`` is called.

    Raises:
        TypeError: it cannot be judged by its call; says what to do instead.
    """
    target = function
    while isinstance(target, functools.partial | types.MethodType):
        target = target.func if isinstance(target, functools.partial) else target.__func__
    if _manages(getattr(target, "__code__", None)):
        raise TypeError(
            f"{show(function)}: calling it runs nothing of yours; put the decorator under"
            " @contextmanager or @asynccontextmanager, on the generator function itself"
        )
    if inspect.iscoroutinefunction(target):
        return Shape.COROUTINE
    if not isinstance(target, types.FunctionType):
        call = getattr(type(target), "__call__", None)  # noqa: B004  # the method itself is wanted
        target = call if isinstance(call, types.FunctionType) else target
    return _by_code(target)


def _by_code(target: Any) -> Shape:
    if inspect.iscoroutinefunction(target):
        return Shape.COROUTINE
    if inspect.isasyncgenfunction(target):
        return Shape.ASYNC_GENERATOR
    if not inspect.isgeneratorfunction(target):
        return Shape.PLAIN
    awaited = target.__code__.co_flags & _ITERABLE_COROUTINE
    return Shape.ITERABLE_COROUTINE if awaited else Shape.GENERATOR


def surely_plain(function: Any) -> bool:
    """Tell cheaply whether ``function`` is a plain Python function; ``False`` may be wrong."""
    if type(function) is not types.FunctionType:
        return False
    code = function.__code__
    return not (code.co_flags & _NOT_PLAIN or _manages(code))


def _manages(code: object) -> bool:
    return code is _MANAGER or code is _ASYNC_MANAGER


def runs_later(kind: type) -> bool:
    """Tell whether a returned value of this type stands for work that is yet to run."""
    try:
        return _known(kind)
    except Exception:  # a metaclass may make classes unhashable, or hash them in its own way
        return _look(kind)


def _look(kind: Any) -> bool:
    return (
        kind is types.GeneratorType
        or kind is types.AsyncGeneratorType
        or _defines(kind, "__await__")
        or _defines(kind, "add_done_callback")
    )


def _defines(kind: Any, name: str) -> bool:
    """Look for a method of instances, past whatever a metaclass answers by itself."""
    return any(name in _NAMES_OF(base) for base in _BASES_OF(kind))


_BASES_OF = type.__dict__["__mro__"].__get__
_NAMES_OF = type.__dict__["__dict__"].__get__
_known = functools.lru_cache(maxsize=512)(_look)
