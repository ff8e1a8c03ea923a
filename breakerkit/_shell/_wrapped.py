"""What lies beneath decorators: whether a policy guards a callable already, and what it wraps."""

from __future__ import annotations

import functools
from typing import Any

#: How far a chain of decorators is followed; a mock may pretend to be wrapped for ever.
_DEEPEST = 100
#: Attribute of a layer of a pipeline: whether what is beneath takes one argument more, its first,
#: than what calls the layer gives.
GIVES_FIRST = "_breakerkit_gives_first"


def guarded_by(owner: Any, function: Any) -> bool:
    """Tell whether ``owner`` guards ``function`` already, under whatever other decorators."""
    for _ in range(_DEEPEST):
        if function is None:
            return False
        if getattr(function, owner.kind, None) is owner:
            return True
        pipeline = getattr(function, "pipeline", None)
        if pipeline is not None and _holds(pipeline, owner):
            return True
        function = beneath(function)
    return False


def _holds(pipeline: Any, owner: Any) -> bool:
    """Ask a pipeline; something else may have an attribute of that name."""
    holds = getattr(type(pipeline), "holds", None)
    return holds is not None and holds(pipeline, owner) is True


def innermost(function: Any) -> Any:
    """Return the function that lies beneath all decorators and partials."""
    depth = 0
    while (inner := beneath(function)) is not None and depth < _DEEPEST:
        function, depth = inner, depth + 1
    return function


def known(function: Any) -> Any:
    """Return the function whose arguments a call through ``function`` has: beneath decorators, not partials.

    Nor beneath a decorator that says that its callers' arguments are others.
    """
    for _ in range(_DEEPEST):
        inner = getattr(function, "_breakerkit_operation", None)
        bound = isinstance(function, functools.partial | functools.partialmethod)
        other = hasattr(function, "__signature__") or getattr(function, GIVES_FIRST, False)
        if inner is None and not bound and not other:
            inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return function


def unbound(function: Any) -> Any:
    """Return the function beneath all decorators, or ``None`` where arguments are bound on the way."""
    for _ in range(_DEEPEST):
        bound = getattr(function, "__self__", None) is not None
        if bound or isinstance(function, functools.partial):
            return None
        inner = beneath(function)
        if inner is None:
            break
        function = inner
    return function


def beneath(function: Any) -> Any:
    """Return what a decorator or a partial was put around, ``None`` if nothing is known of it."""
    if isinstance(function, functools.partial | functools.partialmethod):
        return function.func
    return getattr(function, "__wrapped__", None)
