"""The fallback: what a caller gets instead when a call fails or is rejected."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeVar

from breakerkit import _fields as fields
from breakerkit._making import Making, pickles_by_name
from breakerkit._policy import Policy
from breakerkit._shell._relief import relieve_coroutine, relieve_plain
from breakerkit._shell._shapes import Shape
from breakerkit.degrade._answers import FallbackCall
from breakerkit.degrade.config import FallbackConfig, hides_workers, is_async
from breakerkit.degrade.events import FallbackFailed, FallbackUsed
from breakerkit.degrade.guard import FallbackGuard, FallbackSnapshot
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from breakerkit._registry import Registry
    from breakerkit.clock import Clock

__all__ = [
    "Fallback",
    "FallbackCall",
    "FallbackConfig",
    "FallbackFailed",
    "FallbackSnapshot",
    "FallbackUsed",
    "fallback",
]

F = TypeVar("F", bound="Callable[..., Any]")


class _Missing(enum.Enum):
    """In place of a cure where none is given: ``None`` is one."""

    CURE = "no cure"

    def __repr__(self) -> str:
        return "..."


#: What is answered where nothing is said.
EVERY: tuple[type[Exception], ...] = (Exception,)
_LEFT_OUT = {"cure": _Missing.CURE, "on": EVERY, "for_rejections": None, "bulkhead": None}
#: The shapes under which nobody can wait for an async cure.
_SYNC = {Shape.PLAIN, Shape.GENERATOR}


class Fallback(Policy):
    """A fallback by name or for one function; make one with `fallback`.

    One object serves threads, tasks and event loops, sync and async.
    """

    __slots__ = ()

    kind = "fallback"
    settings = FallbackConfig
    keeper = FallbackGuard

    def __call__(self, target: F, /) -> F:
        """Decorate ``target``; what this fallback guards already is returned as it is.

        Raises:
            TypeError: it cannot be guarded, or is sync and the cure is async.
        """
        return super().__call__(target)  # type: ignore[no-any-return]  # looks just as ``target`` did

    @property
    def config(self) -> FallbackConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a FallbackConfig

    def snapshot(self) -> FallbackSnapshot:
        """Return all numbers as they belong together now."""
        return self._guard.snapshot()  # type: ignore[no-any-return]  # a FallbackSnapshot

    def reconfigure(
        self, config: FallbackConfig | None = None, /, **changes: Any
    ) -> FallbackConfig:
        """Swap the settings at once; a call that has failed already keeps those it met.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `FallbackConfig` to change in it.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it; then nothing has changed.
            TypeError: a cure is async, and sync functions are guarded.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a FallbackConfig

    def _swap(self, config: FallbackConfig) -> None:
        for shape in self._guard.served:
            _check(shape, config)
        super()._swap(config)

    def _serve(self, shape: Shape) -> None:
        _check(shape, self.config)
        if shape not in self._guard.served:
            self._guard.served |= {shape}

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        if shape is Shape.PLAIN:
            return relieve_plain(self._guard, function)
        if shape is Shape.COROUTINE:
            return relieve_coroutine(self._guard, function)
        from breakerkit._shell import _relief_later as later  # noqa: PLC0415  # few functions need it

        return later.relieve(self._guard, function, shape)


def _check(shape: Shape, config: FallbackConfig) -> None:
    """Refuse an async cure where nobody could await it, and workers that no async call gets at.

    Raises:
        TypeError: as said.
    """
    if shape not in _SYNC:
        if hides_workers(config.bulkhead):
            raise TypeError(
                f"bulkhead={fields.show(config.bulkhead)}: has workers inside of a pipeline, and the"
                f" function is async (a {shape.value} function): give the bulkhead itself"
            )
        return
    for cure in config.cures:
        if is_async(cure):
            raise TypeError(
                f"cure={fields.show(cure)}: is async, and the function is not (a {shape.value}"
                " function), so nobody could await it: give a plain callable or a value,"
                " or make the function async"
            )


def fallback(
    cure: Any = _Missing.CURE,
    /,
    *,
    name: str | None = None,
    on: type[Exception] | Iterable[type[Exception]] | Callable[[Any], object] = EVERY,
    for_rejections: Any = None,
    bulkhead: Any = None,
    config: FallbackConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
) -> Fallback:
    """Make or fetch a fallback: what the caller gets when a call fails or is rejected.

    ``@fallback([])`` returns that list, the very object, whenever the call
    raises; ``@fallback(cached)`` calls ``cached`` with one `FallbackCall`. If
    that fails, its own error is raised from the first one. A cancellation is
    never answered. Of a generator only the beginning can be: once an item has
    been delivered, an error is the reader's.

    Args:
        cure: a value (a text is one too), or a callable of one `FallbackCall`;
            a coroutine function where the calls are async. For generators it
            is the items: an iterable gives its items, ``None`` none, a text,
            a dict or what cannot be iterated is one item. Left out: fetch the
            fallback called ``name``.
        name: its name in the registry; ``None`` for one that is not shared.
        on: exception types, or a predicate, that are failures to be answered.
        for_rejections: another cure for calls that were not run
            (`CallRejectedError`); ``None``: the same one.
        bulkhead: a policy through which a callable cure is called.
        config: the settings as one object.
        clock: where time comes from; monotonic by default.
        registry: where names live; the shared `registry` by default.

    Returns:
        A policy: decorate with it, or call through it.

    Raises:
        ConfigError: a setting is wrong, or there is no cure.
        NameConflictError: the name is taken by a fallback with other settings.
    """
    given = {"cure": cure, "on": on, "for_rejections": for_rejections, "bulkhead": bulkhead}
    settings = {key: value for key, value in given.items() if value is not _LEFT_OUT[key]}
    making = Making(Fallback, config, clock, registry, settings)
    known = name is not None and name in making.registry.names(Fallback.kind)
    if "cure" not in settings and config is None and not known:
        raise ConfigError(
            "cure: is missing: fallback(value) or fallback(callable), fallback(None) for None"
        )
    return making.any(name)


pickles_by_name(Fallback)
