"""The verb of the stale-if-error cache: settings -> keeper -> cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from breakerkit._caching import StaleCache
from breakerkit._making import Making

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from breakerkit._registry import Registry
    from breakerkit.clock import Clock
    from breakerkit.stale.config import StaleConfig
    from breakerkit.store.commands import Store

__all__ = ["StaleCache", "stale_if_error"]

F = TypeVar("F", bound="Callable[..., Any]")


class StaleSettings(TypedDict, total=False):
    """The keyword arguments of `stale_if_error`: the fields of `StaleConfig`."""

    refresh_after: float | timedelta
    max_stale: float | timedelta
    max_stale_in_disaster: float | timedelta | None
    key: Callable[..., Any] | None
    disaster: Any
    store: Store | None
    on: Any
    jitter: float
    soft_timeout: float | timedelta | None
    attempt_timeout: float | timedelta | None
    background: bool
    max_background: int
    breaker: Any
    min_hit_ratio: float
    warn_after: int


@overload
def stale_if_error(
    name: str | None = None,
    /,
    *,
    config: StaleConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[StaleSettings],
) -> StaleCache: ...
@overload
def stale_if_error(target: F, /) -> F: ...
def stale_if_error(
    name: Any = None,
    /,
    *,
    config: StaleConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Any,
) -> Any:
    """Make or fetch a stale-if-error cache, or decorate a function with a new one.

    The origin, the decorated function, is left alone for ``refresh_after``
    seconds after each attempt, per key. When it fails, the last good value is
    served until it is ``max_stale`` seconds old; then the disaster strategy
    speaks. The words are those of RFC 5861.

    Args:
        name: its name in the registry, and what its keys in a shared store
            begin with; ``None`` for one that takes the function's name.
        config: the settings as one object.
        clock: where time comes from; monotonic by default.
        registry: where names live; the shared `registry` by default.
        **settings: fields of `StaleConfig`, instead of or on top of ``config``.

    Raises:
        ConfigError: a setting is wrong.
        NameConflictError: the name is taken by a cache with other settings.
        TypeError: what is decorated cannot be cached.
    """
    making = Making(StaleCache, config, clock, registry, settings)
    if name is None or isinstance(name, str):
        return making.any(name)
    return making.unnamed()(name)
