"""tenacity beside breakerkit: a retry that spares rejections and waits as long as an error says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tenacity

from breakerkit import _fields as fields
from breakerkit._layers import ForeignPolicy
from breakerkit.errors import ConfigError
from breakerkit.integrations._retries import checked_kinds, in_time, wait_for, worth_retrying

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.integrations._retries import Kinds

__all__ = ["retry_policy", "retry_unless_rejected", "stop_at_deadline", "wait_retry_after"]


class retry_unless_rejected(tenacity.retry_base):  # noqa: N801  # named as tenacity names its own
    """Retry errors, but not calls that a policy refused: those are over until ``retry_after``.

    Args:
        on: the errors to retry: types, or a predicate.
        rejections: retry refused calls as well; then wait by `wait_retry_after`.

    Example:
        >>> import tenacity
        >>> @tenacity.retry(retry=retry_unless_rejected(OSError), stop=tenacity.stop_after_attempt(3))
        ... def fetch(): ...
    """

    def __init__(self, on: Kinds = Exception, *, rejections: bool = False) -> None:
        self._on = checked_kinds(on)
        self._rejections = rejections

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        """Tell whether to retry (tenacity asks)."""
        ended = retry_state.outcome
        error = ended.exception() if ended is not None and ended.failed else None
        return error is not None and worth_retrying(error, self._on, rejections=self._rejections)


class wait_retry_after(tenacity.wait.wait_base):  # noqa: N801  # named as tenacity names its own
    """Wait as long as the error says (``retry_after``), else as ``otherwise`` says.

    Args:
        otherwise: a wait of tenacity's for errors that say nothing.
        maximum: seconds to wait at most.
    """

    def __init__(self, otherwise: Any = None, *, maximum: float = 60.0) -> None:
        self._otherwise = tenacity.wait_none() if otherwise is None else otherwise
        self._maximum = maximum

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Return seconds (tenacity asks)."""
        ended = retry_state.outcome
        error = ended.exception() if ended is not None and ended.failed else None
        told = None if error is None else wait_for(error)
        seconds = self._otherwise(retry_state) if told is None else told
        return min(float(seconds), self._maximum)


class stop_at_deadline(tenacity.stop.stop_base):  # noqa: N801  # named as tenacity names its own
    """Stop when the next call would begin after the deadline of the calls around (that of a timeout)."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        """Tell whether to stop (tenacity asks, when it knows how long it would wait)."""
        return not in_time(retry_state.upcoming_sleep)


class RetryPolicy(ForeignPolicy):
    """A retry in a pipeline that spares rejections."""

    __slots__ = ("spares_rejections",)

    def __init__(
        self,
        decorator: Callable[[Any], Any],
        name: str,
        raises: tuple[type[BaseException], ...],
        *,
        spares: bool,
    ) -> None:
        super().__init__(decorator, name, "retry", raises)
        self.spares_rejections = spares


def _usual_wait() -> Any:
    """A tenth of a second, doubled each time up to five, and up to a tenth more by chance."""
    return tenacity.wait_exponential(multiplier=0.1, max=4.9) + tenacity.wait_random(0, 0.1)


def retry_policy(
    name: str,
    /,
    *,
    on: Kinds = Exception,
    attempts: int = 3,
    wait: Any = None,
    rejections: bool = False,
    **settings: Any,
) -> RetryPolicy:
    """Return a retry of tenacity's as a policy for `breakerkit.pipeline`.

    It re-raises the last error as it was, does not retry what a policy refused
    unless ``rejections`` is set, and waits as long as an error says. A call that
    would begin after the deadline of the calls around is not waited for.

    Args:
        name: its name.
        on: the errors to retry: types, or a predicate.
        attempts: calls in all, at least 1.
        wait: a wait of tenacity's for errors without a ``retry_after``;
            exponential with jitter from 0.1 to 5 seconds if not given.
        rejections: retry refused calls as well, after their ``retry_after``.
        **settings: further arguments of ``tenacity.retry``, such as ``sleep``,
            or a ``stop`` instead of ``attempts``.

    Each call makes another one: it keeps nothing, and is not in the registry.

    Raises:
        ConfigError: a setting is wrong.
    """
    if "retry" in settings:
        raise ConfigError(
            f"retry={fields.show(settings['retry'])}: say what is retried by on= and rejections="
        )
    if not fields.sound(fields.to_positive(attempts)):
        raise ConfigError(f"attempts={fields.show(attempts)}: must be an int of at least 1")
    if wait is not None and not callable(wait):
        raise ConfigError(
            f"wait={fields.show(wait)}: must be a wait of tenacity's, such as"
            " tenacity.wait_fixed(1), or None"
        )
    stop = settings.pop("stop", None) or tenacity.stop_after_attempt(attempts)
    otherwise = _usual_wait() if wait is None else wait
    given: dict[str, Any] = {
        "retry": retry_unless_rejected(on, rejections=rejections),
        "stop": tenacity.stop_any(stop, stop_at_deadline()),
        "wait": wait_retry_after(otherwise),
        "reraise": True,
    }
    given |= settings
    raises = () if given["reraise"] else (tenacity.RetryError,)
    return RetryPolicy(tenacity.retry(**given), name, raises, spares=not rejections)
