"""The public verbs: from arguments to a config, a breaker and a guarded function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload

from breakerkit import _fields as fields
from breakerkit._breaker import CircuitBreaker
from breakerkit._families import family
from breakerkit._making import Making, pickles_by_name
from breakerkit._methods import public_methods
from breakerkit._shell._foreign import Patch
from breakerkit._shell._objects import guard_per_instance
from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from breakerkit._keyed import KeyedBreakers
    from breakerkit._registry import Registry
    from breakerkit._typing import Guarded, Settings
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.clock import Clock

__all__ = ["breaker", "breaker_methods", "protect"]

#: Bound of a family of keyed breakers, where none is given.
MOST_KEYS = 1024

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@overload
def breaker(target: classmethod[T, P, R], /) -> Guarded[Concatenate[type[T], P], R]: ...
@overload
def breaker(target: Callable[P, R], /) -> Guarded[P, R]: ...
@overload
def breaker(
    name: str | None = None,
    /,
    *,
    key: Callable[..., Hashable],
    max_keys: int = MOST_KEYS,
    config: BreakerConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[Settings],
) -> KeyedBreakers: ...
@overload
def breaker(
    name: str | None = None,
    /,
    *,
    config: BreakerConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[Settings],
) -> CircuitBreaker: ...
def breaker(
    name: Any = None,
    /,
    *,
    key: Callable[..., Hashable] | None = None,
    max_keys: int = MOST_KEYS,
    config: BreakerConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Any,
) -> Any:
    """Make or fetch a circuit breaker, or decorate a function with a new one.

    ``@breaker`` alone gives the function a breaker of its own, named after it.
    ``breaker("payments", ...)`` is the breaker of that name, which decorates,
    calls and can be asked; with no settings it fetches the one that exists.
    With ``key`` it is a family of breakers, one per key.

    Args:
        name: its name in the registry; ``None`` for one that is not shared.
        key: from the arguments of a call (without ``self``) to a hashable key.
        max_keys: bound of the family, at least 1.
        config: the settings as one object.
        clock: where time comes from; monotonic by default.
        registry: where names live; the shared `registry` by default.
        **settings: fields of `BreakerConfig`, instead of or on top of ``config``.

    Raises:
        ConfigError: a setting is wrong.
        NameConflictError: the name is taken by a breaker with other settings.
        TypeError: what is decorated cannot be guarded.
    """
    if key is None and max_keys != MOST_KEYS:
        raise ConfigError(f"max_keys={fields.show(max_keys)}: is for keyed breakers, give key= too")
    making = Making(CircuitBreaker, config, clock, registry, settings)
    target, name = (None, name) if name is None or isinstance(name, str) else (name, None)
    own: Any = making.any(name) if key is None else family(making, name, key, max_keys)
    return own if target is None else own(target)


def breaker_methods(
    name: str | None = None,
    /,
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    scope: Literal["class", "instance"] = "class",
    config: BreakerConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[Settings],
) -> Callable[[type[T]], type[T]]:
    """Give every public method of a class a breaker of its own, called ``name.method``.

    Args:
        name: first part of the names; the class's own name if not given, and
            then the breakers are not shared.
        include: just these methods, inherited ones too; ``None`` = all that the
            class itself defines and that have no leading underscore.
        exclude: not these.
        scope: ``"class"``: all instances share them; ``"instance"``: one each,
            released with the instance.
        config: the settings as one object.
        clock: where time comes from.
        registry: where names live.
        **settings: fields of `BreakerConfig`.

    Raises:
        ConfigError: a setting is wrong.
        TypeError: a name given is no method, there is none to guard, or
            instances of the class cannot be told apart in weak references.
    """
    if scope not in ("class", "instance"):
        raise ConfigError(f"scope={fields.show(scope)}: must be 'class' or 'instance'")
    if name == "":
        raise ConfigError("name='': must be a text that is not empty, or left out")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name={fields.show(name)}: use @breaker_methods(...), with parentheses")
    making = Making(CircuitBreaker, config, clock, registry, dict(settings))

    def decorate(kind: type[T]) -> type[T]:
        if not isinstance(kind, type):
            raise TypeError(f"{fields.show(kind)}: breaker_methods decorates a class")
        if scope == "instance" and not kind.__weakrefoffset__:
            raise TypeError(
                f"{kind.__qualname__}: add '__weakref__' to __slots__ for scope='instance'"
            )
        methods = public_methods(kind, _names(include), _names(exclude) or ())
        for method, value in methods.items():
            making.unlisted(method)(value)  # what cannot be guarded is told before a name is taken
        for method, value in methods.items():
            setattr(kind, method, _guarded(making, kind, name, method, value, scope))
        return kind

    return decorate


def _names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise TypeError(f"{names!r}: must be a list or tuple of method names, not one text")
    return None if names is None else tuple(names)


def _guarded(
    making: Making[CircuitBreaker],
    kind: type,
    name: str | None,
    method: str,
    value: Any,
    scope: str,
) -> Any:
    def one() -> CircuitBreaker:
        return making.unlisted(f"{name or _qualified(kind)}.{method}")

    if scope == "instance" and not isinstance(value, classmethod | staticmethod):
        return guard_per_instance(value, one)
    return one()(value) if name is None else making.named(f"{name}.{method}")(value)


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def protect(target: str, policy: Callable[[Any], Any], /) -> Callable[[], None]:
    """Put a policy in front of code you do not own, now or when it is imported.

    References taken before (``from module import name``) stay as they were.

    Args:
        target: ``"package.module:function"`` or ``"package.module:Class.method"``.
        policy: a breaker, a keyed family, or any decorator.

    Returns:
        A function that takes it back.

    Raises:
        ConfigError: ``target`` is not of that form.
        TypeError: ``policy`` is not callable, or the target cannot be guarded.
        AttributeError: the module has no such name; raised at its import if
            that comes later.
    """
    module, colon, path = target.partition(":") if isinstance(target, str) else ("", "", "")
    steps = [*module.split("."), *path.split(".")]
    if not colon or not all(step.isidentifier() for step in steps):
        raise ConfigError(
            f"target={fields.show(target)}: must be 'package.module:function'"
            " or 'package.module:Class.method'"
        )
    if not callable(policy):
        raise TypeError(f"policy={fields.show(policy)}: must be a breaker or another decorator")
    patch = Patch(module, path, policy)
    patch.start()
    return patch.undo


pickles_by_name(CircuitBreaker)
