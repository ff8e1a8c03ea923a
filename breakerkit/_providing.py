"""Failover as users hold it: what it decorates, and what can be asked of it and changed."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from breakerkit import _fields as fields
from breakerkit._methods import SelfFinder
from breakerkit._policy import Policy, arguments
from breakerkit._shell._around import run_around, unless_cancelled
from breakerkit._shell._crowds import run_tasks, run_threads
from breakerkit._shell._objects import check_callable, guard_callable
from breakerkit._shell._shapes import Shape, shape_of
from breakerkit._shell._signatures import check_takes_one, hide_first
from breakerkit._shell._tries import run_plain
from breakerkit._shell._turns import ONE_BY_ONE, at_once
from breakerkit._shell._wrapped import guarded_by, unbound
from breakerkit._watching import awaits
from breakerkit.errors import AllProvidersFailedError, ConfigError
from breakerkit.providers.config import FailoverConfig, Strategy
from breakerkit.providers.keeper import FailoverKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from breakerkit._breaker import CircuitBreaker
    from breakerkit.cancel import CancelSignal
    from breakerkit.providers._view import FailoverSnapshot

__all__ = ["Failover"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

#: Seconds that ``close()`` gives to what is pending.
PATIENCE = 5.0

#: Strategies that must know at once, and once, how a call ends.
_AT_ONCE = {Strategy.FAILBACK, Strategy.BROADCAST, Strategy.FORKING}
_STREAMS = {Shape.GENERATOR, Shape.ASYNC_GENERATOR}


class Failover(Policy, Generic[T]):
    """Several providers of one service: what it decorates is given one of them as its first argument.

    One object serves threads, tasks and event loops, sync and async. Make one
    with `failover`; the same name gives the same object.
    """

    __slots__ = ()

    kind = "failover"
    errors = (AllProvidersFailedError,)
    settings = FailoverConfig
    keeper = FailoverKeeper
    gives_first = True

    # -- use ---------------------------------------------------------------

    @overload
    def __call__(self, target: classmethod[S, Concatenate[T, P], R], /) -> classmethod[S, P, R]: ...
    @overload
    def __call__(self, target: staticmethod[Concatenate[T, P], R], /) -> staticmethod[P, R]: ...
    @overload
    def __call__(self, target: Callable[Concatenate[T, P], R], /) -> Callable[P, R]: ...
    @overload
    def __call__(
        self, target: Callable[Concatenate[S, T, P], R], /
    ) -> Callable[Concatenate[S, P], R]: ...
    def __call__(self, target: Any, /) -> Any:
        """Decorate ``target``: its callers leave out the provider, which is its first argument.

        For a method it is the first one after ``self`` or ``cls``.

        Raises:
            TypeError: it cannot be served by this strategy, or takes no
                argument; never a silent no-op.
        """
        bare: Any = getattr(target, "__func__", target)
        check_callable(bare)
        if guarded_by(self, bare):
            return target
        self._serve(shape_of(bare))
        check_takes_one(bare)
        self._name_after(bare)
        made = guard_callable(target, self, self._decorating)
        self._shown(getattr(made, "__func__", made), bare)
        return made

    def _shown(self, guarded: Any, bare: Any) -> None:
        hide_first(guarded, bare)

    def call(  # type: ignore[override]  # what is called takes one argument more than the caller gives
        self, function: Callable[Concatenate[T, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call ``function(provider, *args, **kwargs)``; await the result of an async one.

        Raises:
            AllProvidersFailedError: every provider that could be tried failed.
            NoProviderError: there was none to try.
            TypeError: ``function`` is not callable, or cannot be served.
        """
        return run_around(self, function, args, kwargs)  # type: ignore[no-any-return]  # what the function returns

    def apply(
        self,
        operation: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        cancel: CancelSignal | None = None,
    ) -> R:
        """Call ``operation(provider, *args, **kwargs)`` unless ``cancel`` is set when a try would begin.

        A set signal ends the call before its next try. The operation does not get it.

        Raises:
            AllProvidersFailedError: every provider that could be tried failed.
            NoProviderError: there was none to try.
            CallCancelledError: it was let in and not run.
            TypeError: ``operation`` is not callable, ``args`` no sequence, ``kwargs`` no
                mapping, or ``cancel`` no `CancelSignal`.
        """
        given = arguments(args, kwargs, cancel)
        if cancel is None:
            return run_around(self, operation, args, given)  # type: ignore[no-any-return]  # what the operation returns
        checked = unless_cancelled(operation, cancel, self.name)
        return run_around(self, checked, args, given)  # type: ignore[no-any-return]  # likewise

    def _serve(self, shape: Shape) -> None:
        config = self._guard.config
        if shape in _STREAMS and config.strategy in _AT_ONCE:
            raise TypeError(
                f"failover {self.name!r}: strategy {str(config.strategy)!r} cannot serve"
                f" {shape.value} functions, whose items come one by one: use 'failover', 'failfast' or"
                " 'failsafe', which try another provider only before the first item"
            )
        if shape in {Shape.PLAIN, Shape.GENERATOR} and awaits(config):
            raise TypeError(
                f"failover {self.name!r}: its breakers have a coroutine opening callback, which a"
                " sync call cannot await: give a plain callable, or OpenCallback(..., loop=loop)"
            )

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        """Serve a call of a function that is not decorated, or a pipeline: its name tells where it stands."""
        bare = unbound(function)
        place = getattr(bare, "__qualname__", "").rpartition(".")[0]
        method = type(bare) is types.FunctionType and place and not place.endswith("<locals>")
        return self._made(function, shape, SelfFinder(bare) if method else _never)

    def _decorating(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        bare = unbound(function)
        return self._made(function, shape, _never if bare is None else SelfFinder(bare))

    def _made(
        self, function: Callable[..., Any], shape: Shape, takes_self: Callable[[object], bool]
    ) -> Callable[..., Any]:
        keeper, strategy = self._guard, self._guard.config.strategy
        if shape is Shape.PLAIN and strategy is Strategy.FORKING:
            return at_once(keeper, function, takes_self, run_threads)
        if shape is not Shape.PLAIN and strategy in {Strategy.FORKING, Strategy.BROADCAST}:
            return at_once(keeper, function, takes_self, run_tasks, awaited=True)
        if strategy is Strategy.BROADCAST:
            return at_once(keeper, function, takes_self, run_plain)
        return ONE_BY_ONE[shape](keeper, function, takes_self)

    # -- look --------------------------------------------------------------

    @property
    def config(self) -> FailoverConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a FailoverConfig

    @property
    def providers(self) -> tuple[str, ...]:
        """Names of the providers listed now, in the order of the list."""
        return tuple(member.name for member in self._guard.roster.read(self.name))

    def breaker(self, provider: str) -> CircuitBreaker | None:
        """Return the breaker of a provider listed now, ``None`` if it has none.

        Raises:
            KeyError: there is no such provider.
        """
        for member in self._guard.roster.read(self.name):
            if member.name == provider:
                return member.slot.watch.breaker  # type: ignore[no-any-return]  # what `Equipment` made
        raise KeyError(
            f"failover {self.name!r} has no provider {fields.show(provider)}"
            f"{fields.near(provider, self.providers)}"
        )

    def snapshot(self) -> FailoverSnapshot:
        """Return all numbers as they belong together now."""
        return self._guard.snapshot()  # type: ignore[no-any-return]  # a FailoverSnapshot

    # -- change ------------------------------------------------------------

    def reconfigure(
        self, config: FailoverConfig | None = None, /, **changes: Any
    ) -> FailoverConfig:
        """Swap the settings at once; breakers keep their state and follow.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `FailoverConfig` to change in it.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it, or it has another strategy;
                then nothing has changed.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a FailoverConfig

    def _swap(self, config: FailoverConfig) -> None:
        old = self._guard.config.strategy
        if config.strategy is not old:
            raise ConfigError(
                f"strategy={str(config.strategy)!r}: functions are decorated for {str(old)!r};"
                " it cannot change while the failover lives"
            )
        self._guard.reconfigure(config)

    # -- what failback leaves for later ------------------------------------------

    def run_pending(self) -> int:
        """Try again, in this thread, what is due by the clock; return how many calls that were.

        Async ones are sent to their loops. With ``background=False`` nothing
        else tries them again.
        """
        return self._guard.retries.run_due()  # type: ignore[no-any-return]  # an int

    def close(self, timeout: float | timedelta = PATIENCE) -> bool:
        """Try once more all that waits for a retry, then give up what is left.

        From here on a call that fails is given up at once. In a running event
        loop use `aclose`: what only that loop could run is given up here.

        Args:
            timeout: how long this may take, in seconds or as ``timedelta``.

        Returns:
            Whether nothing was left.

        Raises:
            ConfigError: ``timeout`` is no duration above 0.
        """
        seconds = fields.to_seconds(timeout)
        if not fields.sound(seconds):
            raise ConfigError(
                f"timeout={fields.show(timeout)}: must be seconds or a timedelta above 0"
            )
        return self._guard.retries.close(seconds)  # type: ignore[no-any-return]  # a bool

    async def aclose(self, timeout: float | timedelta = PATIENCE) -> bool:  # noqa: ASYNC109  # it is what close() takes
        """Do what `close` does, without blocking the running event loop."""
        import asyncio  # noqa: PLC0415  # only where a loop runs already

        return await asyncio.to_thread(self.close, timeout)


def _never(_first: object) -> bool:
    return False
