"""The errors breakerkit raises, ordered by what a caller can do about them.

    BreakerkitError
    ├── ConfigError (ValueError)      the program is wrong: mend the settings
    │   └── NameConflictError         two settings under one name
    ├── CallRejectedError             your code was not run: come back later
    │   └── CircuitOpenError          a circuit breaker is open
    │       └── ProbeLimitError       it is half-open and every probe slot is taken
    └── CallCancelledError            your code was not run: you cancelled it first

All of them hold plain values only, beside a reason of yours, so they pickle and keep no
frame alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "BreakerkitError",
    "CallCancelledError",
    "CallRejectedError",
    "CircuitOpenError",
    "ConfigError",
    "NameConflictError",
    "ProbeLimitError",
]


class BreakerkitError(Exception):
    """The root of every error that breakerkit itself raises."""


class ConfigError(BreakerkitError, ValueError):
    """Say which settings are wrong, what they were, and what is allowed."""


class NameConflictError(ConfigError):
    """Say that a name is taken by a policy with other settings, and show both."""


class CallRejectedError(BreakerkitError):
    """Say that a policy did not run the call.

    One ``except CallRejectedError`` catches "my code was not run" from every
    policy. It is no ``OSError``, so common retry lists do not catch it by
    accident.

    Attributes:
        name: name of the policy object that refused.
        reason: why, as an enum member of that policy or a user's own text.
        retry_after: seconds until asking again makes sense, never negative;
            ``None`` where that moment is unknown.
    """

    # The fields live in ``args`` alone: pickle calls the class with them, and an
    # exception without attributes of its own is made three times as fast, which
    # is what an outage is full of.
    policy = "policy"

    def __init__(self, name: str, reason: Any, retry_after: float | None) -> None:
        super().__init__(name, reason, retry_after)

    @property
    def name(self) -> str:
        """Name of the policy object that refused."""
        return self.args[0]  # type: ignore[no-any-return]  # what __init__ took

    @property
    def reason(self) -> Any:
        """Why."""
        return self.args[1]

    @property
    def retry_after(self) -> float | None:
        """Seconds, or ``None``."""
        return self.args[2]  # type: ignore[no-any-return]  # what __init__ took

    def __str__(self) -> str:
        return f"{self.policy} {self.name!r} rejected the call ({self.reason}){_when(self.retry_after)}"


class CircuitOpenError(CallRejectedError):
    """Say that the circuit breaker is open and the call was not run.

    Attributes:
        name: name of the breaker.
        reason: an `OpenReason`, or the text of a user's own trip rule.
        retry_after: seconds until the open period ends, never negative;
            ``None`` for a forced opening without an end.
        opened_at: when it opened, an aware UTC ``datetime``.
    """

    policy = "circuit breaker"

    def __init__(
        self, name: str, reason: Any, retry_after: float | None, opened_at: datetime
    ) -> None:
        super().__init__(name, reason, retry_after)
        self.args = (name, reason, retry_after, opened_at)

    @property
    def opened_at(self) -> datetime:
        """When it opened."""
        return self.args[3]  # type: ignore[no-any-return]  # what __init__ took

    def __str__(self) -> str:
        return f"circuit breaker {self.name!r} is open ({self.reason}){_when(self.retry_after)}"


class ProbeLimitError(CircuitOpenError):
    """Say that the breaker is half-open and as many probes run as may run.

    ``retry_after`` is the time until the longest-running probe loses its slot.
    """

    def __str__(self) -> str:
        return (
            f"circuit breaker {self.name!r} is half-open and every probe slot is taken"
            f" ({self.reason}){_when(self.retry_after)}"
        )


class CallCancelledError(BreakerkitError):
    """Say that the `CancelSignal` was set before the operation began.

    Attributes:
        name: name of the policy that would have run it.
        reason: what was given to ``cancel(reason)``.
    """

    def __init__(self, name: str, reason: Any = None) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        because = "" if self.reason is None else f": {self.reason}"
        return f"the call through {self.name!r} was cancelled before it began{because}"


def _when(seconds: float | None) -> str:
    return "" if seconds is None else f"; retry after {seconds:.3g} s"
