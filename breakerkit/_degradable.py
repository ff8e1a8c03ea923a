"""Functions under rules that change while the program runs: `degradable`, and `degradation` that keeps the rules."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, TypeVar

from breakerkit import _fields as fields
from breakerkit._making import Making
from breakerkit._policy import Policy, qualified
from breakerkit._registry import registry as shared
from breakerkit._shell._relief import (
    iterable_coroutine,
    switched_coroutine,
    switched_plain,
)
from breakerkit._shell._shapes import Shape
from breakerkit.degrade.config import DegradableConfig, is_async
from breakerkit.degrade.events import CallDegraded
from breakerkit.degrade.rules import Degradation
from breakerkit.degrade.switch import DegradableGuard, DegradableSnapshot, Switch
from breakerkit.errors import ConfigError, NameConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from breakerkit._hub import Hub
    from breakerkit._registry import Registry
    from breakerkit.clock import Clock

__all__ = [
    "CallDegraded",
    "Degradable",
    "DegradableConfig",
    "DegradableSnapshot",
    "Degradation",
    "degradable",
    "degradation",
]

F = TypeVar("F", bound="Callable[..., Any]")

#: The rules of every degradable function that was given no others.
degradation = Degradation()

#: What a ``fail:`` rule answers where nothing is said.
EVERY: tuple[type[Exception], ...] = (Exception,)


class Degradable(Policy):
    """A name under rules, and a mock for its functions; make one with `degradable`."""

    __slots__ = ("_own_mock",)

    kind = "degradable"
    settings = DegradableConfig
    keeper = DegradableGuard

    def __init__(
        self, guard: Any, *, named: bool = False, mock: Any = None, **settings: Any
    ) -> None:
        super().__init__(guard, named=named, **settings)
        self._own_mock = mock

    def __call__(self, target: F, /) -> F:
        """Decorate ``target``; what is under this name already is returned as it is.

        Raises:
            TypeError: it cannot be guarded, or is sync and the mock is async.
        """
        made = super().__call__(target)
        if self.mock is None:
            bare, kept = (getattr(one, "__func__", one) for one in (target, made))
            self._guard.sign.lacks_mock(kept, qualified(bare))
        return made  # type: ignore[no-any-return]  # looks just as ``target`` did

    @property
    def mock(self) -> Callable[..., Any] | None:
        """What a ``call`` rule calls instead, ``None`` if there is nothing."""
        return self._own_mock or self._guard.mock  # type: ignore[no-any-return]  # a mock

    @property
    def config(self) -> DegradableConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a DegradableConfig

    def snapshot(self) -> DegradableSnapshot:
        """Return all numbers as they belong together now."""
        return self._guard.snapshot()  # type: ignore[no-any-return]  # a DegradableSnapshot

    def reconfigure(
        self, config: DegradableConfig | None = None, /, **changes: Any
    ) -> DegradableConfig:
        """Swap the settings at once.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `DegradableConfig` to change in it.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it; then nothing has changed.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a DegradableConfig

    def _serve(self, shape: Shape) -> None:
        if shape in {Shape.PLAIN, Shape.GENERATOR} and is_async(self.mock):
            raise TypeError(
                f"mock={fields.show(self.mock)}: is async, and the function is not (a {shape.value}"
                " function), so nobody could await it: give a plain mock, or make the function async"
            )

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        switch = Switch(self._guard, self.mock)
        if shape is Shape.PLAIN:
            return switched_plain(switch, function)
        if shape is Shape.COROUTINE:
            return switched_coroutine(switch, function)
        if shape is Shape.ITERABLE_COROUTINE:
            return iterable_coroutine(switched_coroutine(switch, function))
        from breakerkit._shell import _relief_streams as streams  # noqa: PLC0415  # few functions need it

        of_kind = {
            Shape.GENERATOR: streams.relieve_generator,
            Shape.ASYNC_GENERATOR: streams.relieve_async_generator,
        }
        return of_kind[shape](lambda: switch.relief() if switch.sign.up else None, function)


def degradable(
    name: str,
    /,
    *,
    mock: Callable[..., Any] | None = None,
    on: type[Exception] | Iterable[type[Exception]] | Callable[[Any], object] = EVERY,
    config: DegradableConfig | None = None,
    registry: Registry | None = None,
    rules: Degradation | None = None,
) -> Degradable:
    """Put functions under the rules for ``name``, or fetch what they are under.

    While no rule is in force a call costs one look. A rule that is set is in
    force for the next call in every thread, whether the function was decorated
    before or after.

    Args:
        name: what rules call it; several functions may have one name.
        mock: what a ``call`` rule calls in its place, with the same arguments
            (of a method: ``self`` first); a coroutine function where the calls
            are async. It belongs to what is decorated here: functions of one
            name may have a mock each.
        on: exception types, or a predicate, that are failures a ``fail:`` rule
            answers; the same for all functions of the name.
        config: the settings as one object.
        registry: where names live; the shared `registry` by default.
        rules: whose rules; those of `degradation` by default.

    Returns:
        A policy: decorate with it, or call through it.

    Raises:
        ConfigError: a setting is wrong.
        NameConflictError: the name has other settings, or other rules.
    """
    if not isinstance(name, str):
        raise ConfigError(f'name={fields.show(name)}: must be a text: @degradable("name")')
    if mock is not None and (isinstance(mock, type) or not callable(mock)):
        raise ConfigError(
            f"mock={fields.show(mock)}: must be a function with the same arguments, or None"
        )
    if rules is not None and not isinstance(rules, Degradation):
        raise ConfigError(f"rules={fields.show(rules)}: must be a Degradation")
    board = (degradation if rules is None else rules)._board

    def keeper(name: str, config: DegradableConfig, clock: Clock, hub: Hub) -> DegradableGuard:
        return DegradableGuard(name, config, clock, hub, board, mock)

    settings = {} if on is EVERY else {"on": on}
    found = Making(Degradable, config, None, registry, settings, keeper).named(name)
    if found._guard.board is not board:
        raise NameConflictError(f"the name {name!r} is taken: it is under other rules")
    if mock is None or mock is found.mock:
        return found
    return Degradable(found._guard, named=found._named, mock=mock)


def _reduce(one: Degradable) -> tuple[Any, ...]:
    if not one._named or one._guard.board is not degradation._board:
        raise TypeError(
            f"{one!r} is not in the shared registry, or under rules of its own:"
            " only what is under degradation in the shared registry pickles"
        )
    return _again, (one.name, one.config, one.mock)


def _again(name: str, config: DegradableConfig, mock: Any) -> Degradable:
    """Return what is under this name here, made if there is nothing (for pickle)."""
    if name in shared.names(Degradable.kind):
        return degradable(name, mock=mock)
    return degradable(name, mock=mock, config=config)


def _reduce_rules(one: Degradation) -> tuple[Any, ...]:
    if one is not degradation:
        raise TypeError(
            f"{one!r}: only the shared degradation pickles, by name: its rules stay here"
        )
    return _shared_rules, ()


def _shared_rules() -> Degradation:
    """Return the shared rules of this process (for pickle)."""
    return degradation


copyreg.pickle(Degradable, _reduce)
copyreg.pickle(Degradation, _reduce_rules)
