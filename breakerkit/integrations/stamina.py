"""stamina beside breakerkit: a backoff hook that spares rejections and waits as long as an error says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.integrations._retries import checked_kinds, wait_for, worth_retrying

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.integrations._retries import Kinds

__all__ = ["unless_rejected"]


def unless_rejected(
    on: Kinds = Exception, *, rejections: bool = False
) -> Callable[[Exception], bool | float]:
    """Return a backoff hook for ``stamina.retry(on=...)``.

    Args:
        on: the errors to retry: types, or a predicate.
        rejections: retry calls that a policy refused as well, after their ``retry_after``.

    Returns:
        A function from an error to ``False``, ``True``, or the seconds the
        error says to wait. ``False``, too, if the deadline of the calls around
        comes first; of a wait that is stamina's own it knows nothing.

    Raises:
        ConfigError: ``on`` is neither types nor a predicate.

    Example:
        >>> import stamina
        >>> @stamina.retry(on=unless_rejected(OSError), attempts=3)
        ... def fetch(): ...
    """
    checked_kinds(on)

    def hook(error: Exception) -> bool | float:
        if not worth_retrying(error, on, rejections=rejections):
            return False
        told = wait_for(error)
        # Zero would read as "no": stamina takes any truth.
        return told or True

    return hook
