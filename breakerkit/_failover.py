"""The verb of several providers: a list and settings -> keeper -> failover."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from breakerkit import _fields as fields
from breakerkit._making import Making
from breakerkit._providing import Failover
from breakerkit._registry import registry as shared
from breakerkit._shell._again import Runner
from breakerkit._watching import Equipment
from breakerkit.errors import ConfigError
from breakerkit.providers._roster import check_source
from breakerkit.providers.keeper import FailoverKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from typing import TypedDict

    from breakerkit._registry import Registry
    from breakerkit._typing import Kinds
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.clock import Clock
    from breakerkit.providers._provider import Provider
    from breakerkit.providers.config import FailoverConfig
    from breakerkit.providers.events import RetryGivenUp, RetrySucceeded

__all__ = ["Failover", "failover"]

T = TypeVar("T")

if TYPE_CHECKING:

    class Settings(TypedDict, total=False):
        """The fields of `FailoverConfig`, as keywords of the verb."""

        strategy: str
        order: str
        attempts: int | None
        on: Kinds | Callable[[Any], object]
        default: Any
        retry_interval: float | timedelta
        retries: int
        max_pending: int
        on_success: Callable[[RetrySucceeded], object] | None
        on_give_up: Callable[[RetryGivenUp], object] | None
        background: bool
        fail_percent: float | None
        forks: int
        max_ejected: float
        breaker: BreakerConfig | bool | None


class _Making(Making[Failover[Any]]):
    """The making of a failover: its name stands for its providers too."""

    def __init__(self, source: Any, config: Any, clock: Any, into: Any, settings: Any) -> None:
        equip = Equipment(clock, into)
        super().__init__(
            Failover,
            config,
            clock,
            into,
            settings,
            lambda own, settings, time, hub: FailoverKeeper(
                own, settings, time, hub, source, equip, Runner()
            ),
        )
        self._source = source

    def _conflict(self, found: Any) -> str | None:
        if isinstance(found, Failover) and not _same(found._guard.roster.source, self._source):
            return (
                f"it has providers={fields.show(found._guard.roster.source)},"
                f" asked was providers={fields.show(self._source)}"
            )
        return super()._conflict(found)


def _same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # providers may compare as they like
        return False


@overload
def failover(name: str, /, *, registry: Registry | None = None) -> Failover[Any]: ...
@overload
def failover(
    providers: Sequence[Provider[T]] | Callable[[], Sequence[Provider[T]]],
    /,
    name: str | None = None,
    *,
    config: FailoverConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[Settings],
) -> Failover[T]: ...
@overload
def failover(
    providers: Sequence[Provider[T] | T] | Callable[[], Sequence[Provider[T] | T]],
    /,
    name: str | None = None,
    *,
    config: FailoverConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[Settings],
) -> Failover[T]: ...
def failover(
    providers: Any,
    /,
    name: str | None = None,
    *,
    config: FailoverConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Any,
) -> Any:
    """Make or fetch a failover: what it decorates is given one of several providers as its first argument.

    ``@failover([eu, us])`` gives the function a failover of its own, named
    after it. ``failover([eu, us], "search", ...)`` is the one of that name, and
    ``failover("search")`` fetches it.

    Args:
        providers: a list or tuple of values or `Provider` objects, or a
            callable that returns one; it is read anew before each try.
        name: its name in the registry; ``None`` for one that is not shared.
        config: the settings as one object.
        clock: where time comes from, for the breakers too; monotonic by default.
        registry: where names live; the shared `registry` by default.
        **settings: fields of `FailoverConfig`, instead of or on top of ``config``.

    Raises:
        ConfigError: a setting is wrong, two providers have one name, or none
            of the name asked for exists.
        NameConflictError: the name is taken by a failover with other settings
            or providers.
        TypeError: what is decorated cannot be served.
    """
    if isinstance(providers, str):
        if name is not None or config is not None or clock is not None or settings:
            raise ConfigError(f"providers={fields.show(providers)}: must be a list, not a text")
        return _fetch(providers, registry)
    check_source(providers)
    return _Making(providers, config, clock, registry, settings).any(name)


def _fetch(name: str, into: Registry | None = None) -> Failover[Any]:
    listed = shared if into is None else into
    if name not in listed.names(Failover.kind):
        raise ConfigError(
            f"no failover is named {fields.show(name)}{fields.near(name, listed.names(Failover.kind))}:"
            " to make one, give its providers"
        )
    return listed.get(name, Failover.kind)  # type: ignore[no-any-return]  # of that kind


def _reduce(one: Failover[Any]) -> tuple[Any, ...]:
    if not one._named:
        raise TypeError(
            f"{one!r} is not in the shared registry: only a failover named there pickles"
        )
    return _fetch, (one.name,)


copyreg.pickle(Failover, _reduce)
