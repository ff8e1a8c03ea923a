"""The timeout as users hold it, and the verb that makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from breakerkit import _fields as fields
from breakerkit._making import Making, pickles_by_name
from breakerkit._policy import Policy
from breakerkit._shell._timed import limit_function
from breakerkit._shell._timed_block import TimeoutBlock
from breakerkit.deadline.config import TimeoutConfig, TimeoutMode
from breakerkit.deadline.guard import TimeoutGuard
from breakerkit.errors import (
    CallTimeoutError,
    ConfigError,
    DeadlineExceededError,
    LedgerFullError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from breakerkit._registry import Registry
    from breakerkit._shell._shapes import Shape
    from breakerkit.clock import Clock
    from breakerkit.deadline._view import TimeoutSnapshot

__all__ = ["Timeout", "timeout"]

F = TypeVar("F")


class Timeout(Policy):
    """A limit in time: decorate with it, or call through it.

    One object serves threads, tasks and event loops, sync and async. Make one
    with `timeout`; the same name gives the same object.
    """

    __slots__ = ()

    kind = "timeout"
    errors = (CallTimeoutError, DeadlineExceededError)
    settings = TimeoutConfig
    keeper = TimeoutGuard

    @property
    def raises(self) -> tuple[type[BaseException], ...]:
        """The types of error that it raises by itself."""
        full = (LedgerFullError,) if self.config.mode is TimeoutMode.ABANDON else ()
        return (*self.errors, *full)

    def __call__(self, target: F, /) -> F:
        """Decorate ``target``; what this timeout limits already is returned as it is.

        Raises:
            TypeError: it cannot be limited; never a silent no-op.
        """
        return super().__call__(target)  # type: ignore[no-any-return]  # looks as before

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        in_thread = self.config.mode is TimeoutMode.ABANDON
        return limit_function(self._guard, function, shape, in_thread=in_thread)

    def guard(self) -> TimeoutBlock:
        """Return a block to ``with`` or ``async with``, once."""
        return TimeoutBlock(self._guard)

    @property
    def config(self) -> TimeoutConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a TimeoutConfig

    @property
    def seconds(self) -> float:
        """How long a call may take."""
        return self.config.seconds

    def snapshot(self) -> TimeoutSnapshot:
        """Return all numbers as they belong together now."""
        return self._guard.snapshot()  # type: ignore[no-any-return]  # a TimeoutSnapshot

    def reconfigure(self, config: TimeoutConfig | None = None, /, **changes: Any) -> TimeoutConfig:
        """Swap the settings for calls that begin from now on.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `TimeoutConfig` to change in it. Whether sync
                code runs in threads cannot be changed: functions are decorated
                for one or the other.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it; then nothing has changed.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a TimeoutConfig

    def _swap(self, config: TimeoutConfig) -> None:
        abandons = TimeoutMode.ABANDON
        if (config.mode is abandons) is not (self.config.mode is abandons):
            raise ConfigError(
                f"mode={config.mode.value!r}: a timeout with mode={self.config.mode.value!r} cannot"
                " change that: make another one"
            )
        super()._swap(config)

    def __repr__(self) -> str:
        return f"<Timeout {self.name!r} of {self.seconds:g} s>"


class _NotGiven:
    """In place of the first argument where there is none; ``None`` is no limit anybody may mean."""

    def __repr__(self) -> str:
        return "..."


_NOT_GIVEN: Any = _NotGiven()


@overload
def timeout(
    seconds: float | timedelta,
    /,
    *,
    name: str | None = None,
    mode: Literal["auto", "cooperative", "abandon"] | TimeoutMode = ...,
    max_abandoned: int = ...,
    config: TimeoutConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
) -> Timeout: ...
@overload
def timeout(
    name: str = ...,
    /,
    *,
    seconds: float | timedelta = ...,
    mode: Literal["auto", "cooperative", "abandon"] | TimeoutMode = ...,
    max_abandoned: int = ...,
    config: TimeoutConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
) -> Timeout: ...
@overload
def timeout(target: F, /) -> F: ...
def timeout(
    first: Any = _NOT_GIVEN,
    /,
    *,
    name: str | None = None,
    config: TimeoutConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Any,
) -> Any:
    """Make or fetch a timeout, or decorate a function with a new one of 30 seconds.

    ``timeout(2.0)`` limits calls to two seconds, ``timeout(2.0, name="db")`` or
    ``timeout("db", seconds=2.0)`` is the timeout of that name; ``timeout("db")``
    fetches the one that exists.

    Async code is cancelled when its time is over. Sync code sees the deadline
    (`current_deadline`, `check_deadline`); with ``mode="abandon"`` it runs in a
    thread that its caller leaves behind in time. Of nested limits the shorter
    wins, and what has no time left is not begun.

    Args:
        first: the limit in seconds or as ``timedelta``, or the name, or the
            function to decorate.
        name: its name in the registry, where the limit comes first; ``None`` for
            one that is not shared.
        config: the settings as one object.
        clock: where the deadline's time comes from; monotonic by default. Async
            code and threads are waited for in real time, whatever it says.
        registry: where names live; the shared `registry` by default.
        **settings: fields of `TimeoutConfig`, instead of or on top of ``config``.

    Raises:
        ConfigError: a setting is wrong, or given twice.
        NameConflictError: the name is taken by a timeout with other settings.
        TypeError: what is decorated cannot be limited.
    """
    target: Any = None
    if isinstance(first, str):
        if name is not None:
            raise ConfigError(f"name={fields.show(name)}: the name {first!r} was given already")
        name = first
    elif callable(first):
        target = first
    elif first is not _NOT_GIVEN:
        if "seconds" in settings:
            raise ConfigError(
                f"seconds={fields.show(settings['seconds'])}: {fields.show(first)} was given already"
            )
        settings["seconds"] = first
    made = Making(Timeout, config, clock, registry, settings).any(name)
    return made if target is None else made(target)


pickles_by_name(Timeout)
