"""What a retry should know of an error: whether calling again makes sense, and when, and if there is time for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit import _fields as fields
from breakerkit._fields import is_number
from breakerkit._outcome import is_neutral, leaves_of, to_ignore_filter
from breakerkit.errors import CallRejectedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    Kinds = type[BaseException] | tuple[type[BaseException], ...] | Callable[[Any], object]


def checked_kinds(on: Any) -> Any:
    """Return the errors to retry as they were given.

    Raises:
        ConfigError: they are neither types of error nor a predicate.
    """
    found = to_ignore_filter(on)
    if fields.sound(found):
        return on
    raise ConfigError(f"on={fields.show(on)}: must be exception types, or a predicate of one error")


def worth_retrying(error: BaseException, on: Kinds, *, rejections: bool) -> bool:
    """Tell whether a call that ended so should be made again.

    Args:
        error: how it ended.
        on: the errors to retry: types, or a predicate.
        rejections: whether to retry what a policy refused, too.

    Returns:
        ``False`` as well where the deadline of the calls around leaves no time
        for the wait the error tells, or their signal is set.
    """
    signal = ambient.current_signal()
    if (signal is not None and signal.cancelled) or not in_time(wait_for(error) or 0.0):
        return False
    if isinstance(error, BaseExceptionGroup):
        leaves = leaves_of(error)
        return any(worth_retrying(leaf, on, rejections=rejections) for leaf in leaves) and all(
            isinstance(leaf, Exception) for leaf in leaves
        )
    if isinstance(error, CallRejectedError):
        return rejections
    if is_neutral(error):
        return False
    return isinstance(error, on) if isinstance(on, type | tuple) else bool(on(error))


def wait_for(error: BaseException) -> float | None:
    """Return the seconds an error says to wait (its ``retry_after``), ``None`` if it says nothing."""
    seconds: Any = getattr(error, "retry_after", None)
    return max(0.0, float(seconds)) if is_number(seconds) else None


def in_time(wait: float) -> bool:
    """Tell whether a call after so many seconds would begin before the deadline of the calls around."""
    left = ambient.remaining()
    return left is None or left > wait
