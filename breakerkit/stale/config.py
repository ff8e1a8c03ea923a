"""What a stale-if-error cache is told: a frozen, checked set of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields
from breakerkit._outcome import to_failure_filter
from breakerkit.stale.disaster import Raise, to_disaster
from breakerkit.store.commands import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._outcome import ErrorFilter

__all__ = ["StaleConfig"]


def _to_part(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return fields.fault(value, "must be a number from 0 to 1")


def _to_key(value: Any) -> Any:
    if value is None:
        return value
    # How many arguments there are is the origin's matter.
    if callable(value) and not isinstance(value, type) and not fields.is_coroutine_function(value):
        return value
    return fields.fault(
        value, "must be a plain function of the same arguments that returns a key, or None"
    )


def _to_store(value: Any) -> Any:
    if value is None or (not isinstance(value, type) and isinstance(value, Store)):
        return value
    return fields.fault(value, "must be a store, such as MemoryStore() or RedisStore(url), or None")


def _to_breaker(value: Any) -> Any:
    if value is None or (not isinstance(value, type) and callable(getattr(value, "call", None))):
        return value
    return fields.fault(value, "must be a policy with call(function, *args), such as a breaker")


def _to_flag(value: Any) -> Any:
    return value if isinstance(value, bool) else fields.fault(value, "must be True or False")


@attrs.frozen(kw_only=True)
class StaleConfig:
    """Settings of a stale-if-error cache, checked together when the object is made.

    Durations are seconds or ``timedelta`` and are kept as float seconds.
    ``None`` means off, or what the text says. Equal configs are equal.

    Args:
        refresh_after: cache refresh period: seconds that must pass after an
            attempt, successful or not, before the origin is asked again for the
            same key.
        max_stale: how old a value may get at most before it is no longer
            served, counted from the moment the origin gave it.
        max_stale_in_disaster: the same while ``breaker`` does not let calls
            through, or the call was refused by a circuit breaker further
            inside; ``None``: ``max_stale``.
        key: from the arguments of a call to its key: a text, or what
            a text can be made of; ``None``: from all arguments.
        disaster: what to do when the origin fails and there is nothing to
            serve: `raise_`, `return_value`, or a callable of one `DisasterCall`.
        store: where values are kept; ``None``: a `MemoryStore` of its own.
        on: exception types, or a predicate, that are failures of the origin;
            any other error passes to the caller, and changes nothing.
        jitter: up to this part of ``refresh_after`` is added by chance to each
            refresh time, so that keys that were loaded together are not due
            together; 0 to 1.
        soft_timeout: with a stale value at hand a caller waits for the origin
            no longer than this; the attempt goes on in the background.
        attempt_timeout: an attempt that takes longer loses its key: another
            caller may try, and callers with nothing to serve wait no longer;
            ``None``: ``refresh_after``.
        background: whether a due refresh always runs in the background while a
            stale value is served.
        max_background: refreshes of sync functions that may run in background
            threads at the same time; while so many do, stale values are served
            and no further one begins.
        breaker: a policy through which the origin is called, such as a breaker:
            while it is open a stale value is served at once, and attempts are
            its probes.
        min_hit_ratio: warn if less than this part of calls is answered from the
            store, looked at each ``warn_after`` calls; 0: never.
        warn_after: see there.

    Raises:
        ConfigError: one error that names every wrong field, its value and what
            is allowed.
    """

    refresh_after: float = attrs.field(default=30.0, converter=fields.to_seconds)
    max_stale: float = attrs.field(default=3600.0, converter=fields.to_seconds)
    max_stale_in_disaster: float | None = attrs.field(
        default=None, converter=fields.to_optional_seconds
    )
    key: Callable[..., Any] | None = attrs.field(default=None, converter=_to_key)
    disaster: Any = attrs.field(default=Raise(), converter=to_disaster)
    store: Store | None = attrs.field(default=None, converter=_to_store, eq=id)
    on: ErrorFilter = attrs.field(default=(Exception,), converter=to_failure_filter)
    jitter: float = attrs.field(default=0.1, converter=_to_part)
    soft_timeout: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)
    attempt_timeout: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)
    background: bool = attrs.field(default=False, converter=_to_flag)
    max_background: int = attrs.field(default=32, converter=fields.to_positive)
    breaker: Any = attrs.field(default=None, converter=_to_breaker, eq=id)
    min_hit_ratio: float = attrs.field(default=0.1, converter=_to_part)
    warn_after: int = attrs.field(default=1000, converter=fields.to_positive)

    def __attrs_post_init__(self) -> None:
        fields.check(self, self._too_young("max_stale"), self._too_young("max_stale_in_disaster"))

    def _too_young(self, name: str) -> str | None:
        least, limit = (
            ("refresh_after", "max_stale") if name == "max_stale" else ("max_stale", name)
        )
        value, other = getattr(self, limit), getattr(self, least)
        if value is None or not fields.sound(value, other) or value >= other:
            return None
        return f"{name}={value:g}: must be at least {least}, which is {other:g}"

    def evolve(self, **changes: Any) -> StaleConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong.
        """
        return fields.evolve(self, changes)

    def changed(self) -> str:
        """Return the fields that differ from the defaults, as one would write them."""
        return fields.changed(self)

    @property
    def patience(self) -> float:
        """Seconds after which an attempt loses its key."""
        return self.refresh_after if self.attempt_timeout is None else self.attempt_timeout

    @property
    def keep(self) -> float:
        """Seconds after which nobody wants a value."""
        return max(self.max_stale, self.max_stale_in_disaster or 0.0)
