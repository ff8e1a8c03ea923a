"""The errors breakerkit raises, ordered by what a caller can do about them.

    BreakerkitError
    ├── ConfigError (ValueError)      the program is wrong: mend the settings
    │   ├── NameConflictError         two settings under one name
    │   └── RuleError                 a degradation rule that cannot be read
    ├── CallRejectedError             your code was not run: come back later
    │   ├── CircuitOpenError          a circuit breaker is open
    │   │   └── ProbeLimitError       it is half-open and every probe slot is taken
    │   ├── BulkheadFullError         every slot is taken, and every place in the queue
    │   ├── LedgerFullError           too much abandoned work is still running
    │   ├── NoProviderError           a failover had nobody to give the call to
    │   └── DeadlineExceededError     the time of the calls around it was over before it began
    ├── CallTimeoutError (TimeoutError)          your code was run, and time ran out
    ├── WorkerLostError               your code was run by a process that died
    ├── NoCachedValueError            your code was run and failed, and no stored value could stand in
    │   └── OriginRestingError (CallRejectedError)   the same, and your code was not run
    ├── AllProvidersFailedError (ExceptionGroup) your code was run with every provider it could be
    └── CallCancelledError            you cancelled it: your code was not run, or nobody waits for it

All of them hold plain values only, beside a reason of yours, so they pickle and keep no
frame alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = [
    "AllProvidersFailedError",
    "BreakerkitError",
    "BulkheadFullError",
    "CallCancelledError",
    "CallRejectedError",
    "CallTimeoutError",
    "CircuitOpenError",
    "ConfigError",
    "DeadlineExceededError",
    "LedgerFullError",
    "NameConflictError",
    "NoCachedValueError",
    "NoProviderError",
    "OriginRestingError",
    "ProbeLimitError",
    "RuleError",
    "WorkerLostError",
]


#: Characters of a provider's error that a group's message shows.
LONGEST = 200


class BreakerkitError(Exception):
    """The root of every error that breakerkit itself raises."""


class ConfigError(BreakerkitError, ValueError):
    """Say which settings are wrong, what they were, and what is allowed."""


class NameConflictError(ConfigError):
    """Say that a name is taken by a policy with other settings, and show both."""


class RuleError(ConfigError):
    """Say what of a degradation rule cannot be read, where it stands, and what is allowed."""


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


class BulkheadFullError(CallRejectedError):
    """Say that a bulkhead has no slot for the call, and no place to wait or no time left for it.

    ``reason`` is a `breakerkit.FullReason`; ``retry_after`` is ``None``: nobody knows when a slot
    comes free.
    """

    policy = "bulkhead"


class LedgerFullError(CallRejectedError):
    """Say that so much abandoned work is still running that no more may be begun."""

    policy = "timeout"


class NoProviderError(CallRejectedError):
    """Say that a failover had no provider to give the call to.

    ``reason`` is a `breakerkit.NoProviderReason`; ``retry_after`` the shortest that a
    provider's breaker gives, ``None`` if none does.
    """

    policy = "failover"


class DeadlineExceededError(CallRejectedError):
    """Say that the deadline of the calls around this one had passed before it began.

    ``name`` is that of the policy whose deadline it was; ``retry_after`` is ``None``.
    """

    policy = "deadline"
    #: When that was, by its clock: the policy knows its own by it.
    _end: float | None = None


class CallTimeoutError(BreakerkitError, TimeoutError):
    """Say that a call was run and its time ran out; a `TimeoutError`, and a failure.

    Attributes:
        name: name of the policy whose limit it was.
        seconds: the limit.
        abandoned: whether the work goes on in a thread nobody waits for.
    """

    #: When the limit ended, by its clock: the policy knows its own by it.
    _end: float | None = None

    def __new__(cls, *_: object, **__: object) -> Self:
        """Take no arguments: an OSError would read an error number, its text and a file in them."""
        return super().__new__(cls)

    def __init__(
        self, name: str, seconds: float, abandoned: bool = False
    ) -> None:  # pickle gives it by position
        super().__init__()
        self.args = (name, seconds, abandoned)
        self.name = name
        self.seconds = seconds
        self.abandoned = abandoned

    def __str__(self) -> str:
        rest = "; the work goes on, abandoned" if self.abandoned else ""
        return f"the call through {self.name!r} took longer than {self.seconds:g} s{rest}"


class WorkerLostError(BreakerkitError):
    """Say that the process that ran the call died in the middle of it.

    Attributes:
        name: name of the bulkhead.
        code: exit status of the process; negative: the signal that killed it; ``None``: unknown.
    """

    def __init__(self, name: str, code: int | None = None) -> None:
        super().__init__(name, code)
        self.name = name
        self.code = code

    def __str__(self) -> str:
        how = "" if self.code is None else f" (exit status {self.code})"
        return f"the worker process of bulkhead {self.name!r} died in the middle of the call{how}"


class NoCachedValueError(BreakerkitError):
    """Say that the origin failed, and that there is no stored value young enough to be served.

    It is raised from the origin's error.

    Attributes:
        name: name of the cache.
        key: the key that was asked for.
    """

    def __init__(self, name: str, key: str) -> None:
        super().__init__(name, key)
        self.key = key

    @property
    def name(self) -> str:
        """Name of the cache."""
        return self.args[0]  # type: ignore[no-any-return]  # what __init__ took

    def __str__(self) -> str:
        return f"cache {self.name!r} has nothing to serve for {self.key!r}"


class OriginRestingError(CallRejectedError, NoCachedValueError):
    """Say the same of an origin that was not asked: a policy inside refused the call.

    Attributes:
        key: the key that was asked for.
        reason: that of the refusal.
        retry_after: seconds until the origin may be asked, ``None`` where that is unknown.
    """

    policy = "cache"

    def __init__(self, name: str, reason: Any, retry_after: float | None, key: str) -> None:
        BreakerkitError.__init__(self, name, reason, retry_after, key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"cache {self.name!r} has nothing to serve for {self.key!r}, and the origin was not"
            f" asked ({self.reason}){_when(self.retry_after)}"
        )


class AllProvidersFailedError(BreakerkitError, ExceptionGroup[Exception]):
    """Say that every provider that could be tried failed; a group of their errors, in order.

    Of a provider that was passed over it holds the rejection of its circuit breaker.

    Attributes:
        name: name of the failover.
        providers: names of the providers, beside ``exceptions``.
        of: how many providers there were, where more than these had a say.
    """

    name: str
    providers: tuple[str, ...]
    of: int | None

    def __new__(
        cls, name: str, failures: Sequence[tuple[str, Exception]], of: int | None = None
    ) -> Self:
        """Make a group of what each provider raised; ``failures`` may not be empty."""
        listed = "; ".join(f"{provider}: {_shown(error)}" for provider, error in failures)
        who = "all" if of is None else f"{len(failures)} of {of}"
        made = super().__new__(
            cls, f"{name!r}: {who} providers failed ({listed})", [error for _, error in failures]
        )
        made.name = name
        made.providers = tuple(provider for provider, _ in failures)
        made.of = of
        return made

    def __init__(
        self,
        name: str,  # noqa: ARG002  # __new__ has used them, all three
        failures: Sequence[tuple[str, Exception]],  # noqa: ARG002  # likewise
        of: int | None = None,  # noqa: ARG002  # likewise
    ) -> None:
        super().__init__(self.message, self.exceptions)

    def __reduce__(self) -> tuple[Any, ...]:
        failures = list(zip(self.providers, self.exceptions, strict=True))
        return type(self), (self.name, failures, self.of)

    def derive(self, excs: Sequence[Any]) -> Any:
        """Return a plain group: what ``except*`` splits off is no longer all of them."""
        return ExceptionGroup(self.message, excs)


def _shown(error: Exception) -> str:
    """Return the ``repr`` of somebody's error: it may fail, and it may be long."""
    try:
        text = repr(error)
    except Exception:
        text = f"<{type(error).__name__} whose repr fails>"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class CallCancelledError(BreakerkitError):
    """Say that the `CancelSignal` was set before the operation began, or while a worker ran it.

    Attributes:
        name: name of the policy that would have run it.
        reason: what was given to ``cancel(reason)``.
        begun: whether the function itself raised it; if not, it is no evidence
            to the policies around.
        abandoned: whether the call had begun and goes on in a worker, with
            nobody waiting for it.
    """

    begun = True
    abandoned = False

    def __init__(self, name: str, reason: Any = None) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        because = "" if self.reason is None else f": {self.reason}"
        when = "" if self.begun or self.abandoned else " before it began"
        rest = "; the work goes on, abandoned" if self.abandoned else ""
        return f"the call through {self.name!r} was cancelled{when}{because}{rest}"


def _when(seconds: float | None) -> str:
    return "" if seconds is None else f"; retry after {seconds:.3g} s"
