"""What a circuit breaker is told: one frozen, checked set of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from breakerkit import _fields as fields
from breakerkit._callbacks import OpenCallback, to_callbacks
from breakerkit._outcome import to_failure_filter, to_ignore_filter, to_value_filter
from breakerkit.circuit._backoff import Backoff
from breakerkit.circuit._rules import TripRule, to_rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from breakerkit._outcome import ErrorFilter, ValueFilter
    from breakerkit.events import OpenContext

    OpenDuration: TypeAlias = float | Backoff | Callable[[OpenContext], float | timedelta]

__all__ = ["BreakerConfig"]


#: The least ``window_duration``, in seconds: a tenth of it must still divide any clock's reading.
NARROWEST = 1e-6


def _to_open_duration(
    value: float | timedelta | Backoff | Callable[[OpenContext], float | timedelta],
) -> OpenDuration:
    if isinstance(value, Backoff) or fields.answers_at_once(value):
        return value
    seconds = fields.to_seconds(value)  # type: ignore[arg-type]  # what is left may be anything: a Fault then
    if fields.sound(seconds):
        return seconds
    return fields.fault(  # type: ignore[no-any-return]  # a Fault
        value,
        "must be a finite number of seconds or a timedelta above 0, backoff(...), or a callable (OpenContext) -> seconds",
    )


@attrs.frozen(kw_only=True)
class BreakerConfig:
    """Settings of a circuit breaker, checked together when the object is made.

    Durations are seconds or ``timedelta`` and are kept as float seconds.
    ``None`` means off. Equal configs are equal and hash alike.

    Args:
        failure_threshold: failures in a row that open it; ``None`` = rule off.
        open_duration: how long it stays open: seconds, ``timedelta``,
            `backoff`, or a callable ``(OpenContext) -> seconds``.
        window_size: how many of the last completed calls the failure rate
            looks at; 0 = rate rule off.
        window_duration: the same over the last so many seconds, kept in ten
            buckets; not together with ``window_size``.
        minimum_calls: calls that must be in the window before a rate is judged.
            With 0, one failure of one call is 100 percent.
        failure_rate_threshold: percent, 1 to 100; reached = opens.
        slow_call_duration: a call at least this long is slow, whether it failed
            or not, and already while it still runs; needs a window.
        slow_call_rate_threshold: percent of slow calls that opens.
        probe_limit: probes that may run at the same time while half-open.
        probe_success_threshold: successful probes needed to close.
        probe_timeout: how long a probe may hold its slot; ``None`` = as long as
            the open period was.
        failure_on: exception types, or a predicate, that count as failures.
        success_on: exceptions that prove the dependency answered.
        ignore_on: exceptions that are no evidence at all. ``ignore_on`` is
            asked first, then ``success_on``, then ``failure_on``.
        failure_if: predicate on a returned value that makes it a failure; the
            caller still gets the value.
        on_open: a callback ``(OpenContext, *extras)``, a tuple of one and its
            extras, or a list of several.
        trip_rules: further rules, see `TripRule`.

    Raises:
        ConfigError: one error that names every wrong field, its value and what
            is allowed.
    """

    failure_threshold: int | None = attrs.field(default=5, converter=fields.to_optional_count)
    open_duration: OpenDuration = attrs.field(default=30.0, converter=_to_open_duration)
    window_size: int = attrs.field(default=0, converter=fields.to_count)
    window_duration: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)
    minimum_calls: int = attrs.field(default=0, converter=fields.to_count)
    failure_rate_threshold: float = attrs.field(default=100.0, converter=fields.to_percent)
    slow_call_duration: float | None = attrs.field(
        default=None, converter=fields.to_optional_seconds
    )
    slow_call_rate_threshold: float = attrs.field(default=100.0, converter=fields.to_percent)
    probe_limit: int = attrs.field(default=1, converter=fields.to_positive)
    probe_success_threshold: int = attrs.field(default=1, converter=fields.to_positive)
    probe_timeout: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)
    failure_on: ErrorFilter = attrs.field(default=(Exception,), converter=to_failure_filter)
    success_on: ErrorFilter = attrs.field(default=(), converter=to_failure_filter)
    ignore_on: ErrorFilter = attrs.field(default=(), converter=to_ignore_filter)
    failure_if: ValueFilter | None = attrs.field(default=None, converter=to_value_filter)
    on_open: tuple[OpenCallback, ...] = attrs.field(default=(), converter=to_callbacks)
    trip_rules: tuple[TripRule, ...] = attrs.field(default=(), converter=to_rules)

    def __attrs_post_init__(self) -> None:
        fields.check(
            self,
            self._window_pair(),
            self._narrow(),
            self._minimum(),
            self._slow(),
            self._some_rule(),
        )

    @property
    def has_window(self) -> bool:
        """Whether a failure rate is looked at."""
        return self.window_size != 0 or self.window_duration is not None

    def evolve(self, **changes: Any) -> BreakerConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong, alone or with the rest.
        """
        return fields.evolve(self, changes)

    def changed(self, other: BreakerConfig | None = None) -> str:
        """Return the fields that differ from the defaults, or from ``other``, as one would write them."""
        return fields.changed(self, other)

    def _window_pair(self) -> str | None:
        if not fields.sound(self.window_size, self.window_duration):
            return None
        if self.window_size == 0 or self.window_duration is None:
            return None
        return (
            f"window_size={self.window_size}, window_duration={self.window_duration}: "
            "only one of them may be given"
        )

    def _narrow(self) -> str | None:
        width = self.window_duration
        if not fields.sound(width) or width is None or width >= NARROWEST:
            return None
        return f"window_duration={width}: must be at least {NARROWEST} (a microsecond)"

    def _minimum(self) -> str | None:
        if not fields.sound(self.window_size, self.minimum_calls) or not self.window_size:
            return None
        if self.minimum_calls <= self.window_size:
            return None
        return (
            f"minimum_calls={self.minimum_calls}, window_size={self.window_size}: "
            "minimum_calls may not exceed window_size"
        )

    def _slow(self) -> str | None:
        window = (self.window_size, self.window_duration, self.slow_call_duration)
        if not fields.sound(*window) or self.slow_call_duration is None or self.has_window:
            return None
        return f"slow_call_duration={self.slow_call_duration}: needs window_size or window_duration"

    def _some_rule(self) -> str | None:
        judged = (self.failure_threshold, self.window_size, self.window_duration, self.trip_rules)
        if not fields.sound(*judged):
            return None
        if self.failure_threshold is not None or self.has_window or self.trip_rules:
            return None
        return (
            "failure_threshold=None with no window_size, window_duration or trip_rules: "
            "at least one rule must be on"
        )
