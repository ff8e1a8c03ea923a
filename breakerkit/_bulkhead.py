"""The bulkhead as users hold it: so many calls at a time, where they are made or in a pool of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from breakerkit._making import Making, pickles_by_name
from breakerkit._policy import Policy, arguments
from breakerkit._shell._around import check_operation, shape_of_operation
from breakerkit._shell._blocks import GuardBlock
from breakerkit._shell._shapes import Shape
from breakerkit._shell._slots import slotted_function
from breakerkit._shell._wrapped import guarded_by
from breakerkit._worked import share_finder, work_of, worked_function
from breakerkit.errors import BulkheadFullError, ConfigError, WorkerLostError
from breakerkit.isolation import _view as view
from breakerkit.isolation._callers import Awaited, Submitted
from breakerkit.isolation._shares import ShareGate
from breakerkit.isolation._through import run_async, submit
from breakerkit.isolation.config import BulkheadConfig
from breakerkit.isolation.guard import BulkheadGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from concurrent.futures import Future
    from datetime import timedelta
    from typing import Literal, TypedDict, Unpack

    from breakerkit._registry import Registry
    from breakerkit.cancel import CancelSignal
    from breakerkit.clock import Clock
    from breakerkit.isolation._view import BulkheadSnapshot

    class BulkheadSettings(TypedDict, total=False):
        """The fields of `BulkheadConfig`, as keywords of the verb."""

        max_concurrent: int
        max_waiting: int
        max_wait: float | timedelta | None
        isolation: Literal["caller", "thread", "process"]
        shares: Mapping[Any, float] | None
        share_of: Callable[..., Hashable] | None
        order: Literal["fifo", "lifo"]
        stuck_after: float | timedelta | None


__all__ = ["Bulkhead", "bulkhead"]

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F")


class Bulkhead(Policy):
    """A bulkhead (Nygard, *Release It!*): decorate with it, or call through it.

    One object serves threads, tasks and event loops, sync and async, and counts
    them together. Make one with `bulkhead`; the same name gives the same object,
    and so the same slots, the same queue and the same pool.
    """

    __slots__ = ()

    kind = "bulkhead"
    errors = (BulkheadFullError,)
    settings = BulkheadConfig
    keeper = BulkheadGuard

    # -- use ---------------------------------------------------------------

    @property
    def raises(self) -> tuple[type[BaseException], ...]:
        """The types of error that it raises by itself."""
        lost = (WorkerLostError,) if self.config.isolation == "process" else ()
        return (*self.errors, *lost)

    def __call__(self, target: F, /) -> F:
        """Decorate ``target``; what this bulkhead guards already is returned as it is.

        Raises:
            TypeError: it cannot be guarded, or not by workers; never a silent no-op.
        """
        return super().__call__(target)  # type: ignore[no-any-return]  # looks as before

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` through the bulkhead; await the result of an async one.

        Raises:
            BulkheadFullError: it was not run.
            CallTimeoutError: a worker runs it, and the deadline of the calls around has passed.
            WorkerLostError: the process that ran it died.
            TypeError: ``function`` is not callable, or a worker cannot run it.
        """
        return super().call(function, *args, **kwargs)

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
            BulkheadFullError: it was not run.
            CallCancelledError: it was let in and not run; the slot is free again.
            TypeError: ``operation`` is not callable, ``args`` no sequence, ``kwargs`` no
                mapping, or ``cancel`` no `CancelSignal`.
        """
        if self._in_caller or cancel is None or guarded_by(self, operation):
            return super().apply(operation, args, kwargs, cancel=cancel)
        given = arguments(args, kwargs, cancel)
        check_operation(operation)
        self._serve(shape_of_operation(operation))
        return worked_function(self._guard, operation, cancel)(*args, **given)  # type: ignore[no-any-return]  # what the operation returns

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Let a worker call ``function`` and return at once; context variables go along to a thread.

        Returns:
            A future. Cancelling it works until the call begins, and frees its
            place in the queue. A call that has waited too long ends it with a
            `BulkheadFullError`.

        Raises:
            BulkheadFullError: there is no place in the queue; it will not be run.
            TypeError: ``function`` is not callable, or a worker cannot run it.
        """
        return submit(self._work(Submitted, function, args, kwargs))  # type: ignore[no-any-return]  # a future

    async def run(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Let a worker call ``function``, and await it: the event loop goes on meanwhile.

        Cancelling the task takes the call out of the queue; one that has begun
        goes on, abandoned, and keeps its slot until it ends.

        Raises:
            BulkheadFullError: it was not run.
            CallTimeoutError: it runs, and the deadline of the calls around has passed.
            WorkerLostError: the process that ran it died.
            TypeError: ``function`` is not callable, or a worker cannot run it.
        """
        return await run_async(self._work(Awaited, function, args, kwargs))  # type: ignore[no-any-return]  # what the function returns

    def guard(self, share: Hashable = None) -> GuardBlock:
        """Return a block to ``with`` or ``async with``, once.

        Args:
            share: the class of the block, where there are shares.

        Raises:
            TypeError: calls run in workers, and a block cannot be taken there.
        """
        if not self._in_caller:
            raise TypeError(
                f"bulkhead {self.name!r} has isolation={self.config.isolation!r}: a block runs where"
                " it stands; use submit(), run() or a function"
            )
        return GuardBlock(self._guard if share is None else ShareGate(self._guard, share))

    def _serve(self, shape: Shape) -> None:
        if self._in_caller or shape is Shape.PLAIN:
            return
        raise TypeError(
            f"bulkhead {self.name!r} has isolation={self.config.isolation!r}: a worker cannot run a"
            f" {shape.value} function; use isolation='caller' for it, which counts without moving"
            " it, or guard the blocking function inside and await bulkhead.run(function)"
        )

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        guard = self._guard
        if not self._in_caller:
            return worked_function(guard, function)
        find = share_finder(guard, function)

        def gate(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if guard.config.share_of is None:
                return guard
            return ShareGate(guard, find(args, kwargs))

        return slotted_function(guard, gate, function, shape)

    # -- workers -------------------------------------------------------------

    @property
    def _in_caller(self) -> bool:
        return self._guard.config.isolation == "caller"  # type: ignore[no-any-return]  # a BulkheadGuard's

    def _work(self, kind: type[Any], function: Any, args: Any, kwargs: Any) -> Any:
        """Return a call as work for a worker of this bulkhead."""
        check_operation(function)
        if self._in_caller:
            raise TypeError(
                f"bulkhead {self.name!r} has isolation='caller' and no workers: make it with"
                " isolation='thread' or 'process'"
            )
        self._serve(shape_of_operation(function))
        within = self.name if guarded_by(self, function) else None
        share = share_finder(self._guard, function)(args, kwargs)
        return work_of(kind, self._guard, function, args, kwargs, share=share, within=within)

    # -- look ----------------------------------------------------------------

    @property
    def config(self) -> BulkheadConfig:
        """The settings in force."""
        return self._guard.config  # type: ignore[no-any-return]  # a BulkheadConfig

    def snapshot(self) -> BulkheadSnapshot:
        """Return all numbers as they belong together now."""
        return view.snapshot(self._guard)

    # -- change ----------------------------------------------------------------

    def reconfigure(
        self, config: BulkheadConfig | None = None, /, **changes: Any
    ) -> BulkheadConfig:
        """Swap the settings at once; who is inside stays, who waits profits from new slots.

        Args:
            config: a whole config; the present one if not given.
            **changes: fields of `BulkheadConfig` to change in it.

        Returns:
            The config now in force.

        Raises:
            ConfigError: something is wrong with it, or it has another
                ``isolation``; then nothing has changed.
        """
        return self._reconfigured(config, changes)  # type: ignore[no-any-return]  # a BulkheadConfig

    def _swap(self, config: BulkheadConfig) -> None:
        if config.isolation != self.config.isolation:
            raise ConfigError(
                f"isolation={config.isolation!r}: cannot be changed, functions are decorated for"
                f" {self.config.isolation!r} already; make another bulkhead"
            )
        super()._swap(config)


@overload
def bulkhead(
    name: str | None = None,
    /,
    *,
    config: BulkheadConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Unpack[BulkheadSettings],
) -> Bulkhead: ...
@overload
def bulkhead(target: F, /) -> F: ...
def bulkhead(
    name: Any = None,
    /,
    *,
    config: BulkheadConfig | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    **settings: Any,
) -> Any:
    """Make or fetch a bulkhead, or decorate a function with a new one.

    ``@bulkhead`` alone gives the function ten slots of its own. With
    ``bulkhead("db", max_concurrent=5, max_waiting=20, max_wait=0.5)`` five calls
    run at a time, over all functions that name it, twenty more wait for half a
    second at most, and all others are rejected at once. With
    ``isolation="thread"`` or ``"process"`` they run in a pool of its own: a
    dependency that blocks can exhaust no other. With no settings a name fetches
    the bulkhead that exists.

    Args:
        name: its name in the registry; ``None`` for one that is not shared.
        config: the settings as one object.
        clock: where time comes from; monotonic by default. Waiting is real, the
            clock says when it is over: one that is moved by hand is looked at
            every ten milliseconds.
        registry: where names live; the shared `registry` by default.
        **settings: fields of `BulkheadConfig`, instead of or on top of ``config``.

    Raises:
        ConfigError: a setting is wrong.
        NameConflictError: the name is taken by a bulkhead with other settings.
        TypeError: what is decorated cannot be guarded.
    """
    making = Making(Bulkhead, config, clock, registry, settings)
    if name is None or isinstance(name, str):
        return making.any(name)
    return making.unnamed()(name)


pickles_by_name(Bulkhead)
