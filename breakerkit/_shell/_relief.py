"""Calls whose end may be answered by something else: plain and coroutine functions, hot and for one call."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._shell._shapes import runs_later

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping


class Answer(Protocol):
    """What a caller gets instead: made, then told how that went."""

    def make(self) -> Any:
        """Return it, or raise."""

    async def make_async(self) -> Any:
        """Return it to an async call, or raise."""

    def gave(self) -> None:
        """Hear that the caller gets it."""

    def failed(self, failure: Exception) -> None:
        """Hear that it raised; that is what the caller gets."""


class Relief(Protocol):
    """Who has answers, seen from the shell."""

    @property
    def forces(self) -> bool:
        """Whether the call is not to be run: then `begin` gives the answer."""
        ...

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Answer:
        """Return the answer in place of the call."""
        ...

    def answer(
        self, error: Exception, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Answer | None:
        """Return an answer to an error, ``None`` where it is the caller's."""


class Sign(Protocol):
    """Whether there may be answers at all: one attribute, read by every call."""

    up: bool


class Switch(Protocol):
    """Who has answers, where there may be none most of the time."""

    @property
    def sign(self) -> Sign:
        """What every call looks at."""
        ...

    def relief(self) -> Relief | None:
        """Return who has them now, ``None`` if nobody has."""


def give(answer: Answer) -> Any:
    """Return an answer to a sync call."""
    try:
        value = answer.make()
    except Exception as failure:
        answer.failed(failure)
        raise
    answer.gave()
    return value


async def give_async(answer: Answer) -> Any:
    """Return an answer to an async call."""
    try:
        value = await answer.make_async()
    except Exception as failure:
        answer.failed(failure)
        raise
    answer.gave()
    return value


def relieve_plain(relief: Relief, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare function whose errors ``relief`` may answer.

    The body is written out because every call pays for it: a ``try`` that costs
    nothing, the call, a type check.
    """
    plain: type = type(None)  # the last type seen that is not deferred work

    def relieved(*args: Any, **kwargs: Any) -> Any:
        nonlocal plain
        try:
            # Passing on no keywords as no keywords saves CPython a copy of nothing.
            value = function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            answer = relief.answer(error, args, kwargs)
            if answer is None:
                raise
            try:
                return give(answer)
            finally:
                del answer  # it leads to the error, whose traceback leads here
        if type(value) is not plain:
            if runs_later(type(value)):
                return relieve_later(relief, value, args, kwargs)
            plain = type(value)
        return value

    return relieved


def relieve_coroutine(relief: Relief, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare coroutine function, written out for the same reason."""

    async def relieved(*args: Any, **kwargs: Any) -> Any:
        try:
            return await (function(*args, **kwargs) if kwargs else function(*args))
        except Exception as error:
            answer = relief.answer(error, args, kwargs)
            if answer is None:
                raise
            try:
                return await give_async(answer)
            finally:
                del answer  # for the same reason

    return relieved


def switched_plain(switch: Switch, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare function that looks once, before it runs, whether there may be answers."""
    sign = switch.sign

    def switched(*args: Any, **kwargs: Any) -> Any:
        if sign.up:
            return run_plain(switch, function, args, kwargs)
        return function(*args, **kwargs) if kwargs else function(*args)

    return switched


def switched_coroutine(switch: Switch, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bare coroutine function that does the same."""
    sign = switch.sign

    async def switched(*args: Any, **kwargs: Any) -> Any:
        if sign.up:
            return await run_coroutine(switch, function, args, kwargs)
        return await (function(*args, **kwargs) if kwargs else function(*args))

    return switched


def run_plain(switch: Switch, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run one plain call that may have an answer."""
    relief = switch.relief()
    if relief is None:
        return function(*args, **kwargs)
    if relief.forces:
        return give(relief.begin(args, kwargs))
    return relieve_plain(relief, function)(*args, **kwargs)


async def run_coroutine(
    switch: Switch, function: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    """Run one coroutine call that may have an answer."""
    relief = switch.relief()
    if relief is None:
        return await function(*args, **kwargs)
    if relief.forces:
        return await give_async(relief.begin(args, kwargs))
    return await relieve_coroutine(relief, function)(*args, **kwargs)


def iterable_coroutine(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function of the old kind, as ``types.coroutine`` makes it."""

    @types.coroutine
    def relieved(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from run(*args, **kwargs).__await__())

    return relieved


def relieve_later(relief: Relief, value: Any, args: Any, kwargs: Any) -> Any:
    """Return what stands for work that is yet to run, so that its end may be answered too."""
    from breakerkit._shell import _relief_later as later  # noqa: PLC0415  # few functions need it

    return later.stand_in(relief, value, args, kwargs)
