"""The static types of what the decorators return: the call is that of the bare function, plus ``breaker``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from typing import TypeAlias, TypedDict

    from breakerkit._breaker import CircuitBreaker
    from breakerkit._callbacks import OpenCallback
    from breakerkit._keyed import KeyedBreakers
    from breakerkit.circuit._backoff import Backoff
    from breakerkit.circuit._rules import TripRule
    from breakerkit.events import OpenContext

__all__ = ["Guarded"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
K = TypeVar("K", bound="type[Any]")
F_co = TypeVar("F_co", covariant=True)


class Wraps(Protocol[F_co]):
    """Something around a function of type ``F_co``.

    The descriptors below take themselves apart by way of this: mypy works out
    the first parameter of a ``Callable``, and of nothing else.
    """

    @property
    def __wrapped__(self) -> F_co:
        """The bare function."""
        ...


# A checker gives a decorator the bare function under @classmethod and @staticmethod,
# so what it was shows only where it is looked up: its first parameter is the class,
# then it is a class method; or the instance, then it is a method; else it is static.


class Guarded(Protocol[P, R_co]):
    """A guarded function: called, awaited, iterated and bound as before."""

    __name__: str
    __qualname__: str
    __module__: str
    __doc__: str | None

    @property
    def breaker(self) -> CircuitBreaker:
        """The breaker in front of it."""
        ...

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The bare function."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it through the breaker."""
        ...

    @overload
    def __get__(
        self: Wraps[Callable[Concatenate[K, Q], R]], instance: object, owner: K, /
    ) -> Guarded[Q, R]: ...
    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None, /) -> Guarded[P, R_co]: ...
    @overload
    def __get__(
        self: Wraps[Callable[Concatenate[S, Q], R]],
        instance: S,
        owner: type[Any] | None = None,
        /,
    ) -> Guarded[Q, R]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Guarded[P, R_co]: ...


class GuardedByKey(Protocol[P, R_co]):
    """A function guarded by one breaker per key; ``breaker`` is the family."""

    __name__: str
    __qualname__: str
    __module__: str
    __doc__: str | None

    @property
    def breaker(self) -> KeyedBreakers:
        """The family of breakers in front of it."""
        ...

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The bare function."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it through the breaker of its key."""
        ...

    @overload
    def __get__(
        self: Wraps[Callable[Concatenate[K, Q], R]], instance: object, owner: K, /
    ) -> GuardedByKey[Q, R]: ...
    @overload
    def __get__(
        self, instance: None, owner: type[Any] | None = None, /
    ) -> GuardedByKey[P, R_co]: ...
    @overload
    def __get__(
        self: Wraps[Callable[Concatenate[S, Q], R]],
        instance: S,
        owner: type[Any] | None = None,
        /,
    ) -> GuardedByKey[Q, R]: ...
    @overload
    def __get__(
        self, instance: object, owner: type[Any] | None = None, /
    ) -> GuardedByKey[P, R_co]: ...


if TYPE_CHECKING:
    Kinds: TypeAlias = type[BaseException] | Iterable[type[BaseException]]
    Callbacks: TypeAlias = Callable[..., Any] | OpenCallback | tuple[Any, ...] | list[Any]

    class Settings(TypedDict, total=False):
        """The fields of `BreakerConfig`, as keywords of the decorators."""

        failure_threshold: int | None
        open_duration: float | timedelta | Backoff | Callable[[OpenContext], float | timedelta]
        window_size: int
        window_duration: float | timedelta | None
        minimum_calls: int
        failure_rate_threshold: float
        slow_call_duration: float | timedelta | None
        slow_call_rate_threshold: float
        probe_limit: int
        probe_success_threshold: int
        probe_timeout: float | timedelta | None
        failure_on: Kinds | Callable[[Any], object]
        success_on: Kinds | Callable[[Any], object]
        ignore_on: Kinds | Callable[[Any], object]
        failure_if: Callable[[Any], object] | None
        on_open: Callbacks
        trip_rules: TripRule | Iterable[TripRule]
