"""One breaker per key that a function finds in the arguments of a call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from breakerkit._callbacks import cannot_await
from breakerkit._family import Family
from breakerkit._fields import show
from breakerkit._log import write
from breakerkit._methods import SelfFinder
from breakerkit._policy import Unnamed, qualified
from breakerkit._shell._functions import find_function
from breakerkit._shell._objects import check_callable, guard_callable
from breakerkit._shell._shapes import Shape, shape_of
from breakerkit._shell._wrapped import guarded_by, innermost
from breakerkit.circuit import _control as control
from breakerkit.errors import CircuitOpenError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit._breaker import CircuitBreaker
    from breakerkit._typing import GuardedByKey
    from breakerkit.circuit._snapshot import Snapshot
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.circuit.guard import Guard

__all__ = ["KeyedBreakers"]

#: Characters of a key that a breaker's name shows.
LONGEST = 200

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class KeyedBreakers:
    """A family of breakers, one per key; decorate with it, call through it, or get one by key.

    At ``max_keys`` the longest idle key without evidence goes, then the longest
    idle closed one. Open, half-open and forced ones stay; should there be only
    such, the family grows past the bound and that is logged once.

    Attributes:
        name: its name; each breaker is called ``name[key]``.
        config: the settings of every breaker in it.
        max_keys: the bound.
    """

    kind = "breaker"
    raises = (CircuitOpenError,)

    def __init__(
        self,
        name: str,
        key: Callable[..., Hashable],
        config: BreakerConfig,
        max_keys: int,
        make: Callable[[str, BreakerConfig], CircuitBreaker],
    ) -> None:
        self.name = name
        self.config = config
        self.max_keys = max_keys
        self.key = key
        self._make = make
        self._sync_used = False
        self._family = Family(max_keys, self._one, _standing, _now, self._overgrown)

    @overload
    def __call__(
        self, target: classmethod[T, P, R], /
    ) -> GuardedByKey[Concatenate[type[T], P], R]: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> GuardedByKey[P, R]: ...
    def __call__(self, target: Any, /) -> Any:
        """Decorate ``target``; each call goes through the breaker of its key.

        The key function gets the arguments of the call without ``self``; what
        it raises reaches the caller before admission.

        Raises:
            TypeError: it cannot be guarded.
        """
        bare = getattr(target, "__func__", target)
        check_callable(bare)
        if guarded_by(self, bare):
            return target
        if isinstance(self.name, Unnamed):
            self.name = qualified(bare)
        self._serve(shape_of(bare))
        return guard_callable(target, self, self._around)

    def leads_to(self, kind: str) -> Any:
        """Return itself for its own kind, as any policy does."""
        return self if kind == self.kind else None

    def _serve(self, shape: Shape) -> None:
        """Hear that a function of this shape is to be put behind the family."""
        if shape in {Shape.PLAIN, Shape.GENERATOR}:
            self._serve_sync()

    def _around(self, function: Any, shape: Shape) -> Any:
        """Return a bare function of the same shape that finds its breaker by its arguments."""
        # What is bound already brings no self, whatever its first argument may be.
        bare = innermost(function)
        takes_self = SelfFinder(bare) if getattr(bare, "__self__", None) is None else _never

        def find(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Guard:
            own = args[1:] if args and takes_self(args[0]) else args
            guard: Guard = self.get(self._key_of(own, kwargs))._guard
            return guard

        return find_function(find, function, shape)

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` through the breaker of its arguments' key."""
        if guarded_by(self, function):
            return function(*args, **kwargs)
        own: Any = args
        # A method may be given with its instance, which is no part of the key.
        if args and "." in getattr(function, "__qualname__", "") and _takes_self(function, args[0]):
            own = args[1:]
        return self.get(self._key_of(own, kwargs)).call(function, *args, **kwargs)

    def get(self, key: Hashable, /) -> CircuitBreaker:
        """Return the breaker of ``key``, made if there is none.

        Raises:
            TypeError: the key is not hashable.
        """
        try:
            return self._family.get(key)
        except TypeError as error:
            if _hashable(key):
                raise
            raise TypeError(f"breaker {self.name!r}: key={show(key)}: must be hashable") from error

    def _key_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        try:
            return self.key(*args, **kwargs)
        except Exception as error:
            error.add_note(
                f"raised by key= of breaker {self.name!r}; a key function is called with"
                " all arguments of the call, without self"
            )
            raise

    def reset(self) -> KeyedBreakers:
        """Reset the breaker of every key."""
        for one in self._family.values():
            one.reset()
        return self

    def reconfigure(self, config: BreakerConfig | None = None, /, **changes: Any) -> BreakerConfig:
        """Swap the settings of every breaker there is and will be; see `CircuitBreaker.reconfigure`.

        Raises:
            ConfigError: something is wrong with them; then nothing has changed.
        """
        self.config = new = (config or self.config).evolve(**changes)
        for one in self._family.values():
            one.reconfigure(new)
        return new

    def keys(self) -> list[Hashable]:
        """Return the keys there are now."""
        return [key for key, _ in self._family.items()]

    def snapshot(self) -> dict[Hashable, Snapshot]:
        """Return a snapshot per key."""
        return {key: one.snapshot() for key, one in self._family.items()}

    def __len__(self) -> int:
        return len(self._family)

    def __repr__(self) -> str:
        return f"<KeyedBreakers {self.name!r} of {len(self)} keys>"

    def _snapshots(self) -> dict[str, Snapshot]:
        found: dict[str, Snapshot] = {}
        for key, one in self._family.items():
            # A text and a number may look alike in a name.
            name = one.name
            if name in found:
                name = f"{self.name}[{type(key).__name__} {_text(key)}]"
            found[name] = one.snapshot()
        return found

    def _serve_sync(self) -> None:
        """From now on sync functions are guarded: coroutine callbacks are refused."""
        members = self._family.values()
        if any(one.awaits for one in self.config.on_open):
            raise cannot_await(self.name)
        for one in members:
            one._guard.check_sync()
        self._sync_used = True
        for one in members:
            one._guard.sync_used = True

    def _one(self, key: Hashable) -> CircuitBreaker:
        one = self._make(f"{self.name}[{_text(key)}]", self.config)
        one._guard.sync_used = self._sync_used
        return one

    def _overgrown(self, count: int) -> None:
        message = "breaker %r: all of %d keys are open or held; it grows past max_keys"
        write(logging.WARNING, message, self.name, count)


def _takes_self(function: Any, first: object) -> bool:
    bare = innermost(function)
    return getattr(bare, "__self__", None) is None and SelfFinder(bare)(first)


def _never(_first: object) -> bool:
    return False


def _standing(one: CircuitBreaker, now: float) -> control.Standing:
    return control.standing(one._guard, now)


def _now(one: CircuitBreaker) -> float:
    now: float = one._guard.clock.now()
    return now


def _text(key: object) -> str:
    """Return what tells a key from others in a breaker's name; a long one is cut and hashed."""
    try:
        text = key if isinstance(key, str) else repr(key)
    except Exception:
        text = f"{show(key)} at {id(key):#x}"
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}...{hash(text) & 0xFFFFFFFF:08x}"


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
