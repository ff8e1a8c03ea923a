"""What the policies of this wing are told: frozen, checked sets of settings."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields
from breakerkit._outcome import to_failure_filter
from breakerkit.degrade._json import Exact

if TYPE_CHECKING:
    from breakerkit._outcome import ErrorFilter

__all__ = ["DegradableConfig", "FallbackConfig"]

#: Objects that can be used up once, and so are no value for every call.
_ONCE = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)


def _to_cure(value: Any) -> Any:
    if isinstance(value, type):
        return fields.fault(
            value, "is a class: give a callable, such as lambda call: [], or a value"
        )
    if isinstance(value, _ONCE):
        return fields.fault(value, "can be used once: give the function that makes it")
    if callable(value) and not fields.takes(value, 1):
        return fields.fault(
            value, "must be a value, or a callable of one FallbackCall (error, args, kwargs, name)"
        )
    return value


def _to_bulkhead(value: Any) -> Any:
    if value is None or (not isinstance(value, type) and callable(getattr(value, "call", None))):
        return value
    return fields.fault(value, "must be a policy with call(function, *args), or None")


def is_async(function: Any) -> bool:
    """Tell whether only an async call can wait for what ``function`` makes."""
    return fields.is_coroutine_function(function) or inspect.isasyncgenfunction(function)


def has_workers(bulkhead: Any) -> bool:
    """Tell whether calls through ``bulkhead`` run in workers; by how it looks, for it is another wing's."""
    config = getattr(bulkhead, "config", None)
    return getattr(config, "isolation", "caller") != "caller"


def hides_workers(bulkhead: Any) -> bool:
    """Tell whether a pipeline has such a bulkhead in it, which an async call cannot get at."""
    inside = getattr(bulkhead, "policies", ())
    return any(has_workers(one) or hides_workers(one) for one in inside)


@attrs.frozen(kw_only=True)
class FallbackConfig:
    """Settings of a fallback, checked together when the object is made.

    Equal configs are equal: cures are compared to the type (``1`` is not ``True``).

    Args:
        cure: what the caller gets instead: a value, the very object each time;
            or a callable of one `FallbackCall`, which may be a coroutine
            function where the calls are async.
        on: exception types, or a predicate, that are failures to be answered.
            Rejections are no failures; see below.
        for_rejections: the cure for a `CallRejectedError`, where it is another
            one; ``None``: the same. Rejections are answered whatever ``on``
            says, unless it lists kinds of rejection: then just those.
        bulkhead: a policy through which a callable cure is called, so that it
            cannot starve the caller; ``None``: it runs where the caller runs.

    Raises:
        ConfigError: one error that names every wrong field, its value and what
            is allowed.
    """

    # Values may be lists: they are compared, but have no part in the hash.
    cure: Any = attrs.field(default=None, converter=_to_cure, eq=Exact, hash=False)
    on: ErrorFilter = attrs.field(default=(Exception,), converter=to_failure_filter)
    for_rejections: Any = attrs.field(default=None, converter=_to_cure, eq=Exact, hash=False)
    bulkhead: Any = attrs.field(default=None, converter=_to_bulkhead, eq=id)

    def __attrs_post_init__(self) -> None:
        fields.check(self, self._unfit_bulkhead())

    def _unfit_bulkhead(self) -> str | None:
        if not has_workers(self.bulkhead) or not any(map(is_async, self.cures)):
            return None
        return (
            f"bulkhead={fields.show(self.bulkhead)}: its workers cannot run an async cure:"
            " give a plain one, or a bulkhead with isolation='caller'"
        )

    def evolve(self, **changes: Any) -> FallbackConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong.
        """
        return fields.evolve(self, changes)

    def changed(self) -> str:
        """Return the fields that differ from the defaults, as one would write them."""
        return fields.changed(self)

    @property
    def cures(self) -> tuple[Any, ...]:
        """The cures there are: one, or one and another for rejections."""
        return (self.cure,) if self.for_rejections is None else (self.cure, self.for_rejections)


@attrs.frozen(kw_only=True)
class DegradableConfig:
    """Settings of a degradable function's name, checked when the object is made.

    Args:
        on: exception types, or a predicate, that are failures a ``fail:`` rule
            answers; any other error is the business's own and the caller's.

    Raises:
        ConfigError: names the wrong field, its value and what is allowed.
    """

    on: ErrorFilter = attrs.field(default=(Exception,), converter=to_failure_filter)

    def __attrs_post_init__(self) -> None:
        fields.check(self)

    def evolve(self, **changes: Any) -> DegradableConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong.
        """
        return fields.evolve(self, changes)

    def changed(self) -> str:
        """Return the fields that differ from the defaults, as one would write them."""
        return fields.changed(self)
