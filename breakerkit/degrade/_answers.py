"""What a caller gets in place of a call's own end: how it is made, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit._outcome import blame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FallbackCall"]


@attrs.frozen(kw_only=True)
class FallbackCall:
    """What a fallback's callable is told.

    Attributes:
        error: what the call raised, or why it was rejected.
        args: positional arguments of the call; of a method, ``self`` first.
        kwargs: its keyword arguments.
        name: name of the fallback.
    """

    error: Exception
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    name: str


class Answer:
    """What all answers to one call have in common.

    The shell calls ``make`` or awaits ``make_async``, then exactly one of
    ``gave`` and ``failed``, unless it was cut off by what is no ``Exception``.

    Attributes:
        error: what it answers for; ``None`` if the function was not run.
    """

    __slots__ = ("error",)

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def failed(self, failure: Exception) -> None:
        """Hear that it failed itself; the caller gets that failure, raised from the first error."""
        blame(failure, self.error)


def awaits(value: Any) -> bool:
    """Tell whether a value is there to be awaited."""
    return hasattr(type(value), "__await__")


async def awaited(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function``, sync or async, and return its value."""
    value = function(*args, **kwargs)
    return await value if awaits(value) else value


def rethrow(error: Exception) -> Any:
    """Raise an error that was made for this call, without a context that would grow in a retry loop."""
    try:
        raise error
    except Exception:
        error.__context__ = None
        raise
    finally:
        del error  # its traceback leads here, and a cycle would keep the caller's frames
