"""What lies beneath decorators: whether a policy guards a callable already, and what it wraps."""

from __future__ import annotations

import functools
from typing import Any

#: How far a chain of decorators is followed; a mock may pretend to be wrapped for ever.
_DEEPEST = 100


def guarded_by(owner: Any, function: Any) -> bool:
    """Tell whether ``owner`` guards ``function`` already, under whatever other decorators."""
    for _ in range(_DEEPEST):
        if function is None:
            return False
        if getattr(function, owner.kind, None) is owner:
            return True
        function = beneath(function)
    return False


def beneath(function: Any) -> Any:
    """Return what a decorator or a partial was put around, ``None`` if nothing is known of it."""
    if isinstance(function, functools.partial | functools.partialmethod):
        return function.func
    return getattr(function, "__wrapped__", None)
