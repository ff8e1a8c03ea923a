"""Field converters: each turns one setting into its inner form, or into a `Fault` that says why not."""

from __future__ import annotations

import functools
import inspect
import math
import reprlib
import types
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import attrs

from breakerkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
HUNDRED = 100


class Fault:
    """A setting that was refused: what it was and what is allowed.

    A converter returns a fault instead of raising, so that one error can name
    every fault of a config and not only the first.
    """

    __slots__ = ("allowed", "value")

    def __init__(self, value: object, allowed: str) -> None:
        self.value = value
        self.allowed = allowed


def show(value: object) -> str:
    """Return a short ``repr`` of ``value`` that cannot fail or flood a message."""
    try:
        return reprlib.repr(value)
    except Exception:
        return f"<{type(value).__name__} whose repr fails>"


def fault(value: object, allowed: str) -> Any:
    """Return a `Fault` typed so that a converter may return it for any type."""
    return Fault(value, allowed)


def check(config: Any, *further: str | None) -> None:
    """Raise one `ConfigError` for all faults in an attrs object, and for ``further`` texts."""
    faults = [
        f"{field.name}={show(value.value)}: {value.allowed}"
        for field in attrs.fields(type(config))
        if isinstance(value := getattr(config, field.name), Fault)
    ]
    faults += [text for text in further if text]
    if faults:
        raise ConfigError(f"{type(config).__name__}: " + "; ".join(faults))


def sound(*values: object) -> bool:
    """Tell whether no value is a `Fault`, so that they can be compared with each other."""
    return not any(isinstance(value, Fault) for value in values)


def build(kind: type[T], settings: Mapping[str, Any]) -> T:
    """Return ``kind(**settings)``; a setting that does not exist is a `ConfigError` that names near ones.

    The message names the wrong values among the known settings as well.
    """
    shape: Any = kind  # an attrs class, which the type of ``kind`` cannot say
    known = [field.name for field in attrs.fields(shape)]
    unknown = [name for name in settings if name not in known]
    if not unknown:
        return kind(**settings)
    texts = [
        f"{name}={show(settings[name])}: no such setting{near_setting(name, known)}"
        for name in unknown
    ]
    try:
        kind(**{name: value for name, value in settings.items() if name in known})
    except ConfigError as error:
        texts.append(str(error).partition(": ")[2])
    raise ConfigError(f"{kind.__name__}: " + "; ".join(texts))


def evolve(config: T, changes: Mapping[str, Any]) -> T:
    """Return a new, checked config with ``changes`` to the fields of this one.

    Raises:
        ConfigError: a change is unknown or wrong, alone or with the rest.
    """
    return build(type(config), attrs.asdict(config, recurse=False) | dict(changes))  # type: ignore[arg-type]  # an attrs object


def changed(config: Any, other: Any = None) -> str:
    """Return the fields that differ from the defaults, or from ``other``, as one would write them."""
    kind = type(config)
    default = kind()
    pairs = [
        f"{field.name}={show(value)}"
        for field in attrs.fields(kind)
        if _differ(value := getattr(config, field.name), getattr(default, field.name))
        or _differ(value, getattr(other or default, field.name))
    ]
    return f"{kind.__name__}({', '.join(pairs)})"


def _differ(one: object, other: object) -> bool:
    """Tell whether two settings differ; those that cannot be compared do, unless they are one."""
    try:
        return bool(one != other)
    except Exception:  # a value of the user's may compare as it likes
        return one is not other


#: What other libraries call it.
_ELSEWHERE = {
    "fail_max": "failure_threshold",
    "reset_timeout": "open_duration",
    "timeout_duration": "open_duration",
    "recovery_timeout": "open_duration",
    "expected_exception": "failure_on",
    "exclude": "success_on or ignore_on",
    "success_threshold": "probe_success_threshold",
    "listeners": "breaker.subscribe(...)",
    "fallback_function": "except CircuitOpenError",
}


def near_setting(name: str, known: Iterable[str]) -> str:
    """Return a hint for a setting that does not exist: other libraries' words, then near names."""
    ours = _ELSEWHERE.get(name)
    return f", here that is {ours}" if ours else near(name, known)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Tell whether ``function`` can be called with so many arguments; if nobody knows, it can."""
    try:
        signature = inspect.signature(function)
    except Exception:  # a proxy may raise whatever it likes when it is asked for an attribute
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def near(name: str, known: Iterable[str]) -> str:
    """Return ``", did you mean ...?"`` for the names that look like ``name``, or all of a few."""
    from difflib import get_close_matches  # noqa: PLC0415  # slow to import, only for messages

    close = get_close_matches(str(name), list(known), n=3, cutoff=0.5)
    return f", did you mean {' or '.join(map(repr, close))}?" if close else ""


def is_number(value: object) -> bool:
    """Tell whether ``value`` is an ``int`` or ``float`` that is neither a ``bool`` nor nan or infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False


def is_coroutine_function(function: Any) -> bool:
    """Tell whether calling ``function`` makes a coroutine, through partials, methods and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type | types.FunctionType | types.MethodType):
        return inspect.iscoroutinefunction(function)
    try:
        if inspect.iscoroutinefunction(function):
            return True
    except Exception:
        return False  # a proxy may raise whatever it likes when it is asked for an attribute
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004  # the method itself is wanted


def answers_at_once(value: object) -> TypeGuard[Callable[..., Any]]:
    """Tell whether ``value`` is a callable of one argument, no class and no coroutine function."""
    plain = not isinstance(value, type) and not is_coroutine_function(value)
    return callable(value) and plain and takes(value, 1)


def to_seconds(value: float | timedelta) -> float:
    """Return a duration in seconds; allowed: a finite number or ``timedelta`` above 0."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if is_number(seconds) and seconds > 0:
        return float(seconds)
    return fault(value, "must be a finite number of seconds or a timedelta above 0")  # type: ignore[no-any-return]  # a Fault


def to_optional_seconds(value: float | timedelta | None) -> float | None:
    """Return seconds, or ``None`` for off."""
    return None if value is None else to_seconds(value)


def to_count(value: int) -> int:
    """Return an ``int`` (no ``bool``) of at least 0."""
    return _at_least(0, value)


def to_positive(value: int) -> int:
    """Return an ``int`` (no ``bool``) of at least 1."""
    return _at_least(1, value)


def _at_least(least: int, value: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return int(value)
    return fault(value, f"must be an int of at least {least}")  # type: ignore[no-any-return]  # a Fault


def to_optional_count(value: int | None) -> int | None:
    """Return an ``int`` of at least 1, or ``None`` for off."""
    if value is None:
        return None
    result = to_positive(value)
    return (
        result if sound(result) else fault(value, "must be an int of at least 1, or None for off")
    )


def to_percent(value: float) -> float:
    """Return a percentage from 1 to 100 inclusive; a half is 50, not 0.5."""
    if is_number(value) and 1 <= value <= HUNDRED:
        return float(value)
    return fault(value, "must be a percentage from 1 to 100 (a half is 50)")  # type: ignore[no-any-return]  # a Fault
