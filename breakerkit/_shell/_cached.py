"""Calls through a cache: plain and coroutine functions; what is there and young is returned at once."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._fields import show
from breakerkit._shell._shapes import runs_later

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from breakerkit.clock import Clock


class Held(Protocol):
    """A value in a store of this process."""

    value: Any
    stored_at: float
    fresh_until: float
    used: bool


#: Seconds, below zero, that a value may seem to come from the future: clocks may step.
AHEAD = -1.0


class Cache(Protocol):
    """A cache, seen from the shell.

    Attributes:
        fresh: seconds for which a value needs no second look.
        prefix: what all its keys begin with.
    """

    fresh: float
    prefix: str

    @property
    def at_hand(self) -> tuple[Callable[[str], Held | None], Clock] | None:
        """How to look into the store without asking it, and its clock; ``None`` if it must be asked."""
        ...

    def hit(self) -> None:
        """Count a value that was found so."""

    def through(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is called as the origin is."""
        ...

    def fetch(self, key: str, work: Any) -> Any:
        """Return what a call comes to."""

    async def fetch_async(self, key: str, work: Any) -> Any:
        """Do the same in a task."""


class _Work:
    """One call of the origin.

    Attributes:
        args: its positional arguments.
        kwargs: its keyword arguments.
        refused: the error that says that its value cannot be cached: no failure of the origin.
    """

    __slots__ = ("_call", "args", "kwargs", "refused")

    def __init__(self, call: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> None:
        self._call = call
        self.args = args
        self.kwargs = kwargs
        self.refused: TypeError | None = None

    def _lasting(self, value: Any) -> Any:
        """Return a value that can be given to several callers."""
        kind = type(value)
        if not runs_later(kind) and not hasattr(kind, "__next__"):
            return value
        if kind.__module__ == "unittest.mock":
            return value  # it has every method there is
        if isinstance(value, types.CoroutineType | types.GeneratorType):
            value.close()  # made for this call; anything else may be somebody's
        self.refused = TypeError(
            f"{show(self._call)} returned {kind.__name__}, which can be run or read once: cache"
            " the coroutine function itself, or a list of what the iterator gives"
        )
        raise self.refused


class PlainWork(_Work):
    """One call of a plain function."""

    __slots__ = ()

    def do(self) -> Any:
        """Call it.

        Raises:
            TypeError: what it returned can be used once.
        """
        return self._lasting(self._call(*self.args, **self.kwargs))


class CoroutineWork(_Work):
    """One call of a coroutine function."""

    __slots__ = ()

    async def do_async(self) -> Any:
        """Call and await it.

        Raises:
            TypeError: what it gave can be used once.
        """
        return self._lasting(await self._call(*self.args, **self.kwargs))


def cached_plain(
    cache: Cache, make_key: Callable[[Any, Any], str], call: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a bare function whose values come from the cache, written out because every call pays for it."""
    at_hand, hit = cache.at_hand, cache.hit
    if at_hand is None:

        def asked(*args: Any, **kwargs: Any) -> Any:
            key = cache.prefix + make_key(args, kwargs)
            return cache.fetch(key, PlainWork(cache.through(call), args, kwargs)).value

        return asked
    look, clock = at_hand

    def cached(*args: Any, **kwargs: Any) -> Any:
        key = cache.prefix + make_key(args, kwargs)
        held = look(key)
        if held is not None:
            moment = clock.now()  # looked up each time: a test may put another source there
            if moment < held.fresh_until and AHEAD < moment - held.stored_at < cache.fresh:
                held.used = True
                hit()
                return held.value
        return cache.fetch(key, PlainWork(cache.through(call), args, kwargs)).value

    return cached


def cached_coroutine(
    cache: Cache, make_key: Callable[[Any, Any], str], call: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a bare coroutine function, written out for the same reason."""
    at_hand, hit = cache.at_hand, cache.hit
    if at_hand is None:

        async def asked(*args: Any, **kwargs: Any) -> Any:
            key = cache.prefix + make_key(args, kwargs)
            return (
                await cache.fetch_async(key, CoroutineWork(cache.through(call), args, kwargs))
            ).value

        return asked
    look, clock = at_hand

    async def cached(*args: Any, **kwargs: Any) -> Any:
        key = cache.prefix + make_key(args, kwargs)
        held = look(key)
        if held is not None:
            moment = clock.now()  # looked up each time: a test may put another source there
            if moment < held.fresh_until and AHEAD < moment - held.stored_at < cache.fresh:
                held.used = True
                hit()
                return held.value
        return (
            await cache.fetch_async(key, CoroutineWork(cache.through(call), args, kwargs))
        ).value

    return cached
