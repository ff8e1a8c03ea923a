"""Functions on their way to another process: by name where a module has them, whatever now stands there."""

from __future__ import annotations

import pickle
import sys
import types
from importlib import import_module
from typing import Any, NamedTuple

#: How far a chain of decorators is followed.
_DEEPEST = 100


class Named(NamedTuple):
    """Where a function is found: under a name of a module, beneath so many decorators.

    A decorated function's name leads to what decorates it, and so it does over
    there, where the module makes the same chain again.
    """

    module: str
    qualname: str
    above: int

    def find(self) -> Any:
        """Return the function, its module imported."""
        return _chain(import_module(self.module), self.qualname)[self.above]


def packed(function: Any, args: Any, kwargs: Any) -> bytes:
    """Return a call as bytes.

    Raises:
        TypeError: the function or an argument cannot be sent; says which and why.
    """
    target = _named(function) or function
    try:
        return pickle.dumps((target, args, kwargs), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        _blame("the function", target, error)
        for number, value in enumerate(args):
            _blame(f"argument {number}", value, error)
        for name, value in kwargs.items():
            _blame(f"argument {name!r}", value, error)
        raise TypeError(f"the call cannot be sent to a worker process: {error}") from error


def _blame(what: str, value: Any, error: Exception) -> None:
    try:
        pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as own:
        raise TypeError(
            f"{what} cannot be sent to a worker process: {own}; allowed are functions that a"
            " module has by name, and what pickles"
        ) from error


def unpacked(data: bytes) -> tuple[Any, Any, Any]:
    """Return the function, the arguments and the keywords."""
    target, args, kwargs = pickle.loads(data)  # noqa: S301  # from our own parent process
    return (target.find() if type(target) is Named else target), args, kwargs


def _named(function: Any) -> Named | None:
    """Return where another process finds this very function, ``None`` if nowhere by name."""
    name, home = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    module = sys.modules.get(home) if isinstance(home, str) else None
    if module is None or not isinstance(name, str):
        return None
    for above, one in enumerate(_chain(module, name)):
        if one is function:
            return Named(module.__name__ if home != "__main__" else "__main__", name, above)
    return None


def _chain(module: Any, qualname: str) -> list[Any]:
    """Return what stands under a name, and what that was put around, step by step."""
    found = module
    for step in qualname.split("."):
        found = getattr(found, step, None)
    chain: list[Any] = []
    while found is not None and len(chain) < _DEEPEST:
        if isinstance(found, types.MethodType):
            found = found.__func__
        chain.append(found)
        found = getattr(found, "__wrapped__", None)
    return chain
