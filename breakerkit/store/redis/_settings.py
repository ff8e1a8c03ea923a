"""What a store is told, checked; its breaker; and redis-py, if it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit import Registry, backoff, breaker
from breakerkit import _fields as fields
from breakerkit.errors import ConfigError
from breakerkit.store.commands import StoreBusyError

if TYPE_CHECKING:
    from types import ModuleType

    from breakerkit import CircuitBreaker, Clock

#: Seconds of a store that does not answer for which nobody asks it, first and at most.
FIRST_REST, LONGEST_REST = 1, 30


def breaker_of(name: str, clock: Clock | None) -> CircuitBreaker:
    """Return a breaker that is in no shared registry: it is the store's own."""
    return breaker(
        name,
        failure_threshold=1,
        open_duration=backoff(FIRST_REST, factor=2, maximum=LONGEST_REST),
        failure_on=(Exception,),
        ignore_on=(ConfigError, StoreBusyError),
        clock=clock,
        registry=Registry(),
    )


def check(prefix: Any, timeout: Any, most: Any, largest: Any, cluster: Any, name: Any) -> float:
    """Return the timeout in seconds.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    seconds = fields.to_seconds(timeout)
    if not fields.sound(seconds):
        raise ConfigError(
            f"timeout={fields.show(timeout)}: must be seconds or a timedelta above 0,"
            " best 0.05 to 0.25"
        )
    if not isinstance(prefix, str) or not prefix:
        raise ConfigError(f"prefix={fields.show(prefix)}: must be a text that is not empty")
    if not fields.sound(fields.to_positive(most)):
        raise ConfigError(f"max_connections={fields.show(most)}: must be an int of at least 1")
    if largest is not None and not fields.sound(fields.to_positive(largest)):
        raise ConfigError(
            f"max_value_bytes={fields.show(largest)}: must be an int of at least 1, or None"
        )
    if not isinstance(cluster, bool):
        raise ConfigError(f"cluster={fields.show(cluster)}: must be True or False")
    if name is not None and (not isinstance(name, str) or not name):
        raise ConfigError(f"name={fields.show(name)}: must be a text that is not empty, or None")
    return seconds


def redis_py() -> ModuleType:
    """Return what knows redis-py, which is imported for those who use it.

    Raises:
        ImportError: it is missing.
    """
    try:
        from breakerkit.store.redis import _clients  # noqa: PLC0415  # an extra, slow to import
    except ImportError as error:
        raise ImportError("RedisStore needs redis-py: install breakerkit[redis]") from error
    return _clients
