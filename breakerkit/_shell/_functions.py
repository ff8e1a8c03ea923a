"""Plain and coroutine functions: the two closures on the hot path, and the same for one call."""

from __future__ import annotations

from sys import exception as handled
from typing import TYPE_CHECKING, Any

from breakerkit._shell._deferred import carry
from breakerkit._shell._gate import Gate, enter, enter_async, fail, refuse, succeed
from breakerkit._shell._runs import MAKERS, named_after
from breakerkit._shell._shapes import Shape, runs_later
from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._shell._runs import Find


def guard_plain(gate: Gate, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare function that runs ``function`` behind ``gate``.

    The body is written out, and in this order, because every call pays for it:
    one attribute, one comparison, the call, a type check, a ticket.
    """
    plain: type = type(None)  # the last type seen that is not deferred work
    clock = gate.clock

    def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal plain
        entry = gate.fast
        if entry is None:
            entry = gate.admit()
            if isinstance(entry, CallRejectedError):
                try:
                    if handled() is not None:
                        refuse(entry)
                    raise entry
                finally:
                    del entry  # its traceback leads here, and a cycle would keep the arguments
        try:
            # Passing on no keywords as no keywords saves CPython a copy of nothing.
            value = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            gate.failed(entry, error)
            raise
        if type(value) is not plain:
            if runs_later(type(value)):
                return carry(gate, entry, value)
            plain = type(value)
        if (ticket := next(entry.ticks)) >= entry.attention:
            now = None
            if ticket >= entry.judge_at or (now := clock.now()) >= entry.edge:
                gate.succeeded(entry, ticket, value, None, now)
        return value

    return guarded


def guard_coroutine(gate: Gate, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare coroutine function, written out for the same reason."""

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        entry = gate.fast
        if entry is None:
            entry = await enter_async(gate)
        try:
            value = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            await fail(gate, entry, error)
            raise
        if (ticket := next(entry.ticks)) >= entry.attention:
            await succeed(gate, entry, ticket, value)
        return value

    return guarded


def guard_function(gate: Gate, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
    """Return a bare function of the same kind behind one gate."""
    if shape is Shape.PLAIN:
        return guard_plain(gate, function)
    if shape is Shape.COROUTINE:
        return guard_coroutine(gate, function)
    return find_function(lambda _args, _kwargs: gate, function, shape)


def find_function(find: Find, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
    """Return a bare function of the same kind whose gate depends on its arguments."""
    if shape is not Shape.PLAIN:
        return MAKERS[shape](find, function)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return run_plain(find(args, kwargs), function, args, kwargs)

    return guarded


def run_plain(gate: Gate, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run one plain call."""
    entry = enter(gate)
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        gate.failed(entry, error)
        raise
    if runs_later(type(value)):
        return carry(gate, entry, value)
    if (ticket := next(entry.ticks)) >= entry.attention:
        gate.succeeded(entry, ticket, value)
    return value


def run(gate: Gate, function: Callable[..., Any], shape: Shape, args: Any, kwargs: Any) -> Any:
    """Run, or make what will run, one call."""
    if shape is Shape.PLAIN:
        return run_plain(gate, function, args, kwargs)
    made = MAKERS[shape](lambda _args, _kwargs: gate, function)(*args, **kwargs)
    return named_after(function, made)
