"""The circuit breaker as users hold it: a guard and the shell in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from breakerkit import _fields as fields
from breakerkit._callbacks import OpenCallback
from breakerkit._policy import Policy, arguments
from breakerkit._shell._blocks import GuardBlock
from breakerkit._shell._calls import Cancelling, run_call
from breakerkit._shell._functions import guard_function
from breakerkit._shell._shapes import Shape
from breakerkit.circuit import _control as control
from breakerkit.circuit.config import BreakerConfig
from breakerkit.circuit.guard import Guard
from breakerkit.errors import CircuitOpenError
from breakerkit.events import Mode, State

if TYPE_CHECKING:
    import asyncio
    from datetime import datetime, timedelta

    from breakerkit._typing import Guarded
    from breakerkit.cancel import CancelSignal
    from breakerkit.circuit._snapshot import Snapshot
    from breakerkit.circuit._switches import ModeHandle

__all__ = ["CircuitBreaker"]


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


class CircuitBreaker(Policy):
    """A circuit breaker (Nygard, *Release It!*): decorate with it, or call through it.

    One object serves threads, tasks and event loops, sync and async. Make one
    with `breaker`; the same name gives the same object.
    """

    __slots__ = ()

    kind = "breaker"
    errors = (CircuitOpenError,)
    settings = BreakerConfig
    keeper = Guard

    # -- use ---------------------------------------------------------------

    @overload
    def __call__(self, target: classmethod[T, P, R], /) -> Guarded[Concatenate[type[T], P], R]: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> Guarded[P, R]: ...
    def __call__(self, target: Any, /) -> Any:
        """Decorate ``target``; what this breaker guards already is returned as it is.

        Raises:
            TypeError: it cannot be guarded; never a silent no-op.
        """
        return super().__call__(target)

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` through the breaker; await the result of an async one.

        Raises:
            CircuitOpenError: it was not run.
            TypeError: ``function`` is not callable.
        """
        return run_call(self._guard, self, function, args, kwargs)  # type: ignore[no-any-return]  # what the function returns

    def apply(
        self,
        operation: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        cancel: CancelSignal | None = None,
    ) -> R:
        """Call ``operation(*args, **kwargs)`` unless ``cancel`` is set when it would begin.

        Admission comes first, then the signal. The operation does not get it.

        Raises:
            CircuitOpenError: it was not run.
            CallCancelledError: it was let in and not run; the slot is free again.
            TypeError: ``operation`` is not callable, ``args`` no sequence, ``kwargs`` no
                mapping, or ``cancel`` no `CancelSignal`.
        """
        given = arguments(args, kwargs, cancel)
        gate = self._guard if cancel is None else Cancelling(self._guard, cancel, self.name)
        return run_call(gate, self, operation, args, given)  # type: ignore[no-any-return]  # what the operation returns

    def _serve(self, shape: Shape) -> None:
        if shape in {Shape.PLAIN, Shape.GENERATOR}:
            self._guard.check_sync()
            self._guard.sync_used = True

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        return guard_function(self._guard, function, shape)

    def guard(self) -> GuardBlock:
        """Return a block to ``with`` or ``async with``, once."""
        return GuardBlock(self._guard)

    # -- look --------------------------------------------------------------

    @property
    def config(self) -> BreakerConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a BreakerConfig

    @property
    def state(self) -> State:
        """The state as of now; reading it changes nothing."""
        return control.state(self._guard)

    @property
    def mode(self) -> Mode:
        """The mode in force; force wins over disable, disable over observe."""
        return control.mode(self._guard)

    @property
    def handles(self) -> tuple[ModeHandle, ...]:
        """The switches that are held now, each with who, why and until when."""
        return control.held(self._guard)

    def snapshot(self) -> Snapshot:
        """Return all numbers as they belong together now."""
        return control.snapshot(self._guard)

    def why(self) -> str:
        """Return the snapshot as one readable sentence."""
        return control.why(self._guard)

    # -- change ------------------------------------------------------------

    def reset(self) -> CircuitBreaker:
        """Close it, clear its evidence, drop what is in flight; switches stay in force."""
        control.reset(self._guard)
        return self

    def reconfigure(self, config: BreakerConfig | None = None, /, **changes: Any) -> BreakerConfig:
        """Swap the settings at once; state and evidence stay, nothing is judged yet.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `BreakerConfig` to change in it.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it; then nothing has changed.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a BreakerConfig

    def _swap(self, config: BreakerConfig) -> None:
        control.reconfigure(self._guard, config)

    def on_open(
        self, callback: C, /, *extras: Any, loop: asyncio.AbstractEventLoop | None = None
    ) -> C:
        """Add an opening callback ``callback(context, *extras)``; usable as a decorator.

        Args:
            callback: a callable, or a coroutine function for async calls.
            *extras: further arguments for it.
            loop: where a coroutine callback runs when a sync call opened it.

        Raises:
            TypeError: not callable; or a coroutine function without ``loop``
                while sync functions are guarded.
        """
        if not callable(callback) or not fields.takes(callback, 1 + len(extras)):
            raise TypeError(
                f"on_open={fields.show(callback)}: must be callable with (context, *extras)"
            )
        control.add_callback(self._guard, OpenCallback(callback, extras, loop=loop))
        return callback

    def force_open(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: timedelta | datetime | None = None,
    ) -> ModeHandle:
        """Reject every call while the handle is held, with reason ``FORCED``.

        Args:
            reason: why, for those who ask.
            by: who.
            until: when it ends by itself: a ``timedelta`` from now or an aware ``datetime``.
        """
        return control.hold(self._guard, Mode.FORCED_OPEN, reason, by, until)

    def disable(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: timedelta | datetime | None = None,
    ) -> ModeHandle:
        """Let every call pass and record nothing while the handle is held."""
        return control.hold(self._guard, Mode.DISABLED, reason, by, until)

    def observe(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: timedelta | datetime | None = None,
    ) -> ModeHandle:
        """Let every call pass, record it, and tell what would have been done, while held."""
        return control.hold(self._guard, Mode.OBSERVE, reason, by, until)

    # -- identity ----------------------------------------------------------

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self.name!r} {self.state.value}>"
