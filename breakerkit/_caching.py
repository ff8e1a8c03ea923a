"""The stale-if-error cache as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from breakerkit import _fields as fields
from breakerkit._making import pickles_by_name
from breakerkit._policy import Policy, arguments
from breakerkit._shell._around import shape_of_operation, unless_cancelled
from breakerkit._shell._cached import CoroutineWork, PlainWork, cached_coroutine, cached_plain
from breakerkit._shell._relief import iterable_coroutine
from breakerkit._shell._shapes import Shape
from breakerkit._shell._signatures import show_given
from breakerkit._shell._wrapped import guarded_by, known
from breakerkit.errors import ConfigError, NoCachedValueError
from breakerkit.stale._attempts import Ended
from breakerkit.stale._origin import Origin
from breakerkit.stale.config import StaleConfig
from breakerkit.stale.guard import StaleKeeper
from breakerkit.stale.keys import Key, text
from breakerkit.store.commands import (
    Evict,
    EvictAll,
    Invalidate,
    InvalidateAll,
    Put,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from breakerkit.cancel import CancelSignal
    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._counts import CacheInfo
    from breakerkit.store.commands import Command, Store

F = TypeVar("F", bound="Callable[..., Any]")


class StaleCache(Policy):
    """A cache that lets its origin rest, and serves the last good value when that fails.

    One object serves threads, tasks and event loops, sync and async. Make one
    with `stale_if_error`; the same name gives the same object.
    """

    __slots__ = ("_origin",)

    kind = "stale_if_error"
    errors = (NoCachedValueError,)
    settings = StaleConfig
    keeper = StaleKeeper

    def __init__(self, guard: Any, *, named: bool = False, **settings: Any) -> None:
        super().__init__(guard, named=named, **settings)
        self._origin = Origin(guard)

    def __call__(self, target: F, /) -> F:
        """Decorate ``target``, the origin; what this cache is around already is returned as it is.

        Raises:
            TypeError: its values cannot be cached; never a silent no-op.
        """
        return super().__call__(target)  # type: ignore[no-any-return]  # looks just as ``target`` did

    def apply(
        self,
        operation: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        cancel: CancelSignal | None = None,
    ) -> Any:
        """Call ``operation(*args, **kwargs)`` through the cache; if it is to be run, unless ``cancel`` is set.

        Raises:
            NoCachedValueError: it failed, and there is nothing to serve.
            CallCancelledError: it was to be run, and was not.
            TypeError: an argument is not of its kind, or its values cannot be cached.
        """
        if cancel is None:
            return super().apply(operation, args, kwargs)
        given = arguments(args, kwargs, cancel)
        if guarded_by(self, operation) and not cancel.cancelled:
            return operation(*args, **given)  # it asks the cache by itself, once
        checked = unless_cancelled(operation, cancel, self.name)
        shape = shape_of_operation(operation)
        self._serve(shape)
        return self._through(checked, operation, shape)(*args, **given)

    def _serve(self, shape: Shape) -> None:
        self._origin.serve(shape is Shape.PLAIN, self.config)
        if shape in {Shape.GENERATOR, Shape.ASYNC_GENERATOR}:
            raise TypeError(
                f"cache {self.name!r}: a {shape.value} gives its items once, so they cannot be"
                " served again: cache a function that returns a list or tuple of them"
            )

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        return self._through(function, function, shape)

    def _through(
        self, function: Callable[..., Any], named: Callable[..., Any], shape: Shape
    ) -> Callable[..., Any]:
        asked = known(named)
        show_given(asked)
        key = self._origin.key_maker(asked)
        if shape is Shape.PLAIN:
            return cached_plain(self._guard, key, function)
        made = cached_coroutine(self._guard, key, function)
        return made if shape is Shape.COROUTINE else iterable_coroutine(made)

    def _decorated(self, bare: Any) -> None:
        self._origin.decorated(bare)

    # -- one value ---------------------------------------------------------------

    def fetch(self, *args: Any, **kwargs: Any) -> Any:
        """Call the decorated function through the cache and return a `Fetched`: value, source, age, error.

        Of a coroutine function await the result. The arguments are the
        function's own; of a method, the instance is the first.

        Raises:
            NoCachedValueError: the origin failed, and there is nothing to serve.
            TypeError: this cache is around no function, or around several.
        """
        function = self._origin.only("fetch")
        key = self._guard.prefix + self._origin.key_maker(known(function))(args, kwargs)
        call = self._guard.through(function)
        if shape_of_operation(function) is Shape.PLAIN:
            return self._guard.fetch(key, PlainWork(call, args, kwargs))
        return self._guard.fetch_async(key, CoroutineWork(call, args, kwargs))

    def key_of(self, *args: Any, **kwargs: Any) -> str:
        """Return the key of a call of the decorated function with these arguments, for `put` and the like.

        Raises:
            TypeError: no key can be made of them, or this cache is around no function, or several.
        """
        function = self._origin.only("key_of")
        return Key(self._origin.key_maker(known(function))(args, kwargs))

    def put(self, key: Any, value: Any) -> bool:
        """Store a value as if the origin had just given it; attempts that run come too late.

        Returns:
            Whether the store took it; it is never an error.
        """
        return self._tell(self._put(key, value))

    def invalidate(self, key: Any) -> bool:
        """Let the next call ask the origin; the value stays as a stale reserve.

        Returns:
            Whether the store heard of it.
        """
        return self._tell(Invalidate(self._full(key)))

    def evict(self, key: Any) -> bool:
        """Forget a value; attempts that run do not bring it back.

        Returns:
            Whether the store heard of it.
        """
        return self._tell(Evict(self._full(key)))

    def invalidate_all(self, prefix: str = "") -> bool:
        """Let the next call ask the origin, for every key that begins with ``prefix``; the values stay."""
        return self._tell(InvalidateAll(self._start(prefix)))

    def evict_all(self, prefix: str = "") -> bool:
        """Forget every value whose key begins with ``prefix``."""
        return self._tell(EvictAll(self._start(prefix)))

    # The same without blocking an event loop, where the store is another server.

    def put_async(self, key: Any, value: Any) -> Awaitable[bool]:
        """Do as `put` does, awaited."""
        return self._tell_async(self._put(key, value))

    def invalidate_async(self, key: Any) -> Awaitable[bool]:
        """Do as `invalidate` does, awaited."""
        return self._tell_async(Invalidate(self._full(key)))

    def evict_async(self, key: Any) -> Awaitable[bool]:
        """Do as `evict` does, awaited."""
        return self._tell_async(Evict(self._full(key)))

    def invalidate_all_async(self, prefix: str = "") -> Awaitable[bool]:
        """Do as `invalidate_all` does, awaited."""
        return self._tell_async(InvalidateAll(self._start(prefix)))

    def evict_all_async(self, prefix: str = "") -> Awaitable[bool]:
        """Do as `evict_all` does, awaited."""
        return self._tell_async(EvictAll(self._start(prefix)))

    def _full(self, key: Any) -> str:
        return self._guard.prefix + text(key)  # type: ignore[no-any-return]  # two texts

    def _start(self, prefix: str) -> str:
        if not isinstance(prefix, str):
            raise TypeError(f"prefix={fields.show(prefix)}: must be a text")
        return self._guard.prefix + prefix  # type: ignore[no-any-return]  # two texts

    def _put(self, key: Any, value: Any) -> Put:
        config = self.config
        return Put(self._full(key), value, self._guard.next_due(config), config.keep)

    def _tell(self, command: Command) -> bool:
        late = self._guard.drop(command)
        done: bool = self._guard.shelf.told(command)
        return self._told(command, late, done)

    async def _tell_async(self, command: Command) -> bool:
        late = self._guard.drop(command)
        done: bool = await self._guard.shelf.told_async(command)
        return self._told(command, late, done)

    def _told(self, command: Command, late: list[Attempt], done: bool) -> bool:
        # An attempt may have begun meanwhile, with what was there before.
        late += self._guard.drop(command)
        if done and isinstance(command, Put):
            for one in late:
                one.settle(Ended.HANDED_OVER)  # whoever waits for it finds what was put
        return done

    # -- look and change -------------------------------------------------------------

    @property
    def config(self) -> StaleConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a StaleConfig

    @property
    def store(self) -> Store:
        """Where its values are."""
        return self._guard.shelf.store  # type: ignore[no-any-return]  # a Store

    def info(self) -> CacheInfo:
        """Return all numbers as they belong together now: hits, stale, misses, hit ratio and more."""
        return self._guard.info()  # type: ignore[no-any-return]  # a CacheInfo

    def snapshot(self) -> CacheInfo:
        """Return the same, as every policy does."""
        return self.info()

    def reconfigure(self, config: StaleConfig | None = None, /, **changes: Any) -> StaleConfig:
        """Swap the settings at once; values are due by the refresh period of now, an origin that rests keeps its rest.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `StaleConfig` to change in it, but ``store`` and ``key``.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it; then nothing has changed.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a StaleConfig

    def _swap(self, config: StaleConfig) -> None:
        for name in ("store", "key"):
            if getattr(config, name) is not getattr(self.config, name):
                raise ConfigError(
                    f"{name}={fields.show(getattr(config, name))}: cannot be changed, functions are"
                    " decorated with what it was; make another cache"
                )
        self._origin.check(config)
        super()._swap(config)


pickles_by_name(StaleCache)
