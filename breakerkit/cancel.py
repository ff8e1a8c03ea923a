"""The cancellation signal: one switch, thrown once, read anywhere."""

from __future__ import annotations

from typing import Any

from breakerkit.errors import CallCancelledError

__all__ = ["CancelSignal"]


class CancelSignal:
    """A flag that says "do not begin", with a reason; safe across threads.

    Pass it to ``apply(..., cancel=signal)``: an operation that has not begun
    when the signal is set is not run. It does not stop one that has.

    Example:
        >>> signal = CancelSignal()
        >>> signal.cancel("the user hung up"), signal.cancel("too late")
        (True, False)
        >>> signal.reason
        'the user hung up'
    """

    __slots__ = ("_set",)

    def __init__(self) -> None:
        # Holds the first reason once set. ``dict.setdefault`` is atomic, so there
        # is no lock for a fork or a signal handler to trip over.
        self._set: dict[str, Any] = {}

    def cancel(self, reason: Any = None) -> bool:
        """Set the signal; the first reason wins.

        Args:
            reason: why, for the `CallCancelledError`.

        Returns:
            Whether this call was the one that set it.
        """
        mine = (reason,)
        return self._set.setdefault("first", mine) is mine

    @property
    def cancelled(self) -> bool:
        """Whether it is set."""
        return bool(self._set)

    @property
    def reason(self) -> Any:
        """What the first ``cancel`` gave, ``None`` before."""
        return self._set.get("first", (None,))[0]

    def raise_if_cancelled(self, name: str = "cancel signal") -> None:
        """Raise if it is set.

        Args:
            name: name of the policy or step, for the error.

        Raises:
            CallCancelledError: it is set.
        """
        if self.cancelled:
            raise CallCancelledError(name, self.reason)

    def __repr__(self) -> str:
        return f"<CancelSignal {f'cancelled: {self.reason!r}' if self.cancelled else 'not set'}>"
