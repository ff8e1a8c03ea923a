"""Functions that lack their first argument when they are called: the closures on the hot path."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._ambient import AROUND, OVER, limit
from breakerkit._shell._shapes import Shape, runs_later
from breakerkit._shell._streams import async_generator_of, carry_on, run_generator
from breakerkit._shell._tries import Work, run_coroutine, run_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    #: Tells whether the first argument of a call is a method's ``self``.
    TakesSelf = Callable[[object], bool]


class Source(Protocol):
    """What makes plans, and in the usual case needs none."""

    @property
    def ready(self) -> Any:
        """Whom to call with at once if no deadline is in force, or ``None``."""

    def quick(self) -> Any:
        """Return whom to call with at once, or ``None``: has ``value``, ``gate`` and ``successes``."""

    def begin(self, work: Work) -> Any:
        """Return the plan of a call."""

    def adopt_first(self, work: Work, member: Any, entry: Any) -> tuple[Any, Any]:
        """Return the plan of a call whose first try is under way, and that try."""
        ...

    def resume(
        self, work: Work, member: Any, entry: Any, error: BaseException, later: Any = None
    ) -> Any:
        """Return the plan of a call whose first try has failed; ``None``: the error is the caller's."""


def placed(
    function: Callable[..., Any], takes_self: TakesSelf, args: Any, kwargs: Any, *, awaited: bool
) -> Work:
    """Return a call with its arguments before and after the missing one."""
    at = 1 if args and takes_self(args[0]) else 0
    return Work(function, args[:at], args[at:], kwargs, awaited)


def plain(  # noqa: C901  # written out
    source: Source, function: Callable[..., Any], takes_self: TakesSelf
) -> Callable[..., Any]:
    """Return a plain function; the usual case is written out, for every call pays for it."""
    known: type = type(None)  # the last type seen that is not deferred work
    mine: type = type(None)  # the last type seen whose instances are ``self``
    other: type = type(None)  # the last type seen whose instances are not
    quick = source.quick

    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912  # see above
        nonlocal known, mine, other
        own = False
        if args and (first := type(args[0])) is not other:
            own = first is mine or takes_self(args[0])
            if own:
                mine = first
            elif not isinstance(args[0], type):  # of classes each is asked for itself
                other = first
        member = source.ready
        if member is None or (
            (one := limit.get()) is not None and (one[AROUND] is not None or not one[OVER])
        ):
            member = quick()
        if member is None or (entry := member.gate.fast) is None:
            return run_plain(source.begin(Work(function, args[:own], args[own:], kwargs)))
        try:
            if own:
                value = function(args[0], member.value, *args[1:], **kwargs)
            elif kwargs:
                value = function(member.value, *args, **kwargs)
            else:
                value = function(member.value, *args)
        except BaseException as error:
            work = Work(function, args[:own], args[own:], kwargs)
            plan = source.resume(work, member, entry, error)
            if plan is None:
                raise
        else:
            if type(value) is not known:
                if runs_later(type(value)):
                    work = Work(function, args[:own], args[own:], kwargs)
                    return carry_on(*source.adopt_first(work, member, entry), value)
                known = type(value)
            next(member.successes)
            if (ticket := next(entry.ticks)) >= entry.attention:
                member.gate.succeeded(entry, ticket, value)
            return value
        try:
            return run_plain(plan)
        finally:
            del plan  # errors lead to this frame: no cycle

    return called


def coroutine(  # noqa: C901  # see above
    source: Source, function: Callable[..., Any], takes_self: TakesSelf
) -> Callable[..., Any]:
    """Return a coroutine function, written out for the same reason."""
    mine: type = type(None)  # see above, like the next
    other: type = type(None)
    quick = source.quick

    async def called(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912  # see above
        nonlocal mine, other
        own = False
        if args and (first := type(args[0])) is not other:
            own = first is mine or takes_self(args[0])
            if own:
                mine = first
            elif not isinstance(args[0], type):
                other = first
        member = source.ready
        if member is None or (
            (one := limit.get()) is not None and (one[AROUND] is not None or not one[OVER])
        ):
            member = quick()
        if member is None or (entry := member.gate.fast) is None:
            work = Work(function, args[:own], args[own:], kwargs, True)
            return await run_coroutine(source.begin(work))
        try:
            if own:
                value = await function(args[0], member.value, *args[1:], **kwargs)
            else:
                value = await function(member.value, *args, **kwargs)
        except BaseException as error:
            work = Work(function, args[:own], args[own:], kwargs, True)
            later: list[Any] | None = None if isinstance(error, GeneratorExit) else []
            plan = source.resume(work, member, entry, error, later)
            for notice in later or ():
                await notice()
            if plan is None:
                raise
        else:
            next(member.successes)
            if (ticket := next(entry.ticks)) >= entry.attention:
                later = []
                member.gate.succeeded(entry, ticket, value, later)
                for notice in later:
                    await notice()
            return value
        try:
            return await run_coroutine(plan)
        finally:
            del plan  # errors lead to this frame: no cycle

    return called


def iterable_coroutine(
    source: Source, function: Callable[..., Any], takes_self: TakesSelf
) -> Callable[..., Any]:
    """Return a coroutine function of the old kind, as ``types.coroutine`` makes it."""

    @types.coroutine
    def called(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        work = placed(function, takes_self, args, kwargs, awaited=True)
        return (yield from run_coroutine(source.begin(work)).__await__())

    return called


def generator(
    source: Source, function: Callable[..., Any], takes_self: TakesSelf
) -> Callable[..., Any]:
    """Return a generator function."""

    def called(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        work = placed(function, takes_self, args, kwargs, awaited=False)
        return (yield from run_generator(source.begin(work)))

    return called


def async_generator(
    source: Source, function: Callable[..., Any], takes_self: TakesSelf
) -> Callable[..., Any]:
    """Return an async generator function."""

    def start(args: Any, kwargs: Any) -> tuple[Any, None]:
        return source.begin(placed(function, takes_self, args, kwargs, awaited=False)), None

    return async_generator_of(start)


def at_once(
    source: Source,
    function: Callable[..., Any],
    takes_self: TakesSelf,
    run: Callable[[Any], Any],
    *,
    awaited: bool = False,
) -> Callable[..., Any]:
    """Return a function whose plan ``run`` carries out in a way of its own; a coroutine function if that is one."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return run(source.begin(placed(function, takes_self, args, kwargs, awaited=awaited)))

    async def called_async(*args: Any, **kwargs: Any) -> Any:
        return await run(source.begin(placed(function, takes_self, args, kwargs, awaited=awaited)))

    return called_async if awaited else called


#: What makes the guarded function, by the shape of the bare one.
ONE_BY_ONE: dict[Shape, Callable[..., Callable[..., Any]]] = {
    Shape.PLAIN: plain,
    Shape.COROUTINE: coroutine,
    Shape.ITERABLE_COROUTINE: iterable_coroutine,
    Shape.GENERATOR: generator,
    Shape.ASYNC_GENERATOR: async_generator,
}
