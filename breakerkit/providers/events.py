"""What a failover tells: the enums, and the frozen records that listeners and callbacks get."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit.events import ConfigChanged, Event

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FailedOver",
    "GiveUpReason",
    "NoProviderReason",
    "ProviderFailed",
    "ProvidersExhausted",
    "RetryGivenUp",
    "RetryQueued",
    "RetrySucceeded",
]


class NoProviderReason(enum.StrEnum):
    """Why a call was given to no provider at all."""

    NONE_LISTED = "no provider is listed"
    ALL_BROKEN = "no provider's circuit breaker lets a call through"
    FORKS_RUNNING = "too many forks of earlier calls still run"


class GiveUpReason(enum.StrEnum):
    """Why a failed call of strategy ``"failback"`` is not tried again (any more)."""

    RETRIES_USED_UP = "every retry failed"
    QUEUE_FULL = "as many calls wait as may wait"
    NOT_A_FAILURE = "it ended in a way that is no provider's failure"
    LOOP_GONE = "its event loop is closed, or cancelled it"
    CLOSED = "the failover was closed"


@attrs.frozen(slots=False)
class ProviderFailed(Event):
    """A call failed with one provider, whatever came of it then."""

    provider: str
    error: BaseException


@attrs.frozen(slots=False)
class FailedOver(Event):
    """A call ended well with ``provider``, after those of ``failed`` had failed."""

    provider: str
    failed: tuple[str, ...]


@attrs.frozen(slots=False)
class ProvidersExhausted(Event):
    """A call ended in an error, or a default, of the failover's own: ``error`` says what was tried."""

    error: BaseException


@attrs.frozen(slots=False)
class RetryQueued(Event):
    """A failed call will be tried again in the background, after ``delay`` seconds."""

    error: BaseException
    delay: float


@attrs.frozen(slots=False)
class RetrySucceeded(Event):
    """A call that had failed was tried again in the background and ended well.

    Attributes:
        provider: name of the provider that answered.
        value: what it answered.
        args: the arguments of the call, without provider and ``self``.
        kwargs: its keywords.
        retries: how often it was tried again.
    """

    provider: str
    value: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    retries: int


@attrs.frozen(slots=False)
class RetryGivenUp(Event):
    """A call that had failed will not be tried again.

    Attributes:
        reason: why.
        error: its last error; what it raised keeps no frame alive.
        args: the arguments of the call, without provider and ``self``.
        kwargs: its keywords.
        retries: how often it was tried again.
    """

    reason: GiveUpReason
    error: BaseException
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    retries: int


EVENT_KINDS: tuple[type[Any], ...] = (
    ProviderFailed,
    FailedOver,
    ProvidersExhausted,
    RetryQueued,
    RetrySucceeded,
    RetryGivenUp,
    ConfigChanged,
)
