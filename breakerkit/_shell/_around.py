"""Calls through a policy that puts a function of its own around each shape of function."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from breakerkit._fields import show
from breakerkit._shell._runs import MAKERS, named_after
from breakerkit._shell._shapes import Shape, shape_of
from breakerkit._shell._wrapped import guarded_by
from breakerkit.cancel import CancelSignal
from breakerkit.errors import CallCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable


def check_operation(function: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: as said.
    """
    if not callable(function):
        raise TypeError(
            f"operation={show(function)}: must be callable (the function itself, not its result:"
            " call(fetch, url), not call(fetch(url))); a text is never evaluated"
        )


def shape_of_operation(function: Any) -> Shape:
    """Return how an operation is called; a class is called at once, like any factory."""
    return Shape.PLAIN if isinstance(function, type) else shape_of(function)


def run_around(owner: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run one call of any callable; what ``owner`` guards already is just called.

    Raises:
        TypeError: it is not callable, or cannot be judged by its call; raised
            before anything has run.
    """
    check_operation(function)
    if guarded_by(owner, function):
        return function(*args, **kwargs)
    shape = shape_of_operation(function)
    owner._serve(shape)
    made = owner._around(function, shape)(*args, **kwargs)
    return made if shape is Shape.PLAIN else named_after(function, made)


class Checkpoint:
    """A gate that looks at a signal before a call begins, and does not care how it ends."""

    __slots__ = ("_name", "_signal")

    fast = None
    waits = False
    #: As an entry: nobody hears about its end.
    ticks = itertools.repeat(0)
    attention = 1

    def __init__(self, signal: CancelSignal, name: str) -> None:
        self._signal = signal
        self._name = name

    def admit(self, _later: object = None) -> Checkpoint:
        """Let the call begin.

        Raises:
            CallCancelledError: the signal is set; its ``begun`` says that nothing has run.
        """
        if self._signal.cancelled:
            raise unbegun(self._name, self._signal)
        return self

    def failed(self, *_: object) -> None:
        """Hear nothing."""

    drop = failed


def under(cancel: Any, run: Callable[[], Any], operation: Any) -> Any:
    """Run with a signal in force for all that asks inside; a stream's reader is not inside."""
    if not isinstance(cancel, CancelSignal):
        return run()  # which says what is wrong
    from breakerkit._ambient import bearing  # noqa: PLC0415  # few calls have a signal

    shape = shape_of_operation(operation) if callable(operation) else Shape.PLAIN
    if shape is Shape.PLAIN:
        with bearing(cancel):
            return run()
    if shape is not Shape.COROUTINE:
        return run()

    async def later() -> Any:
        with bearing(cancel):
            return await run()

    return named_after(operation, later())


def unbegun(name: str, signal: CancelSignal) -> CallCancelledError:
    """Return the error for a call that a signal stopped before it began."""
    error = CallCancelledError(name, signal.reason)
    error.begun = False
    return error


def unless_cancelled(
    function: Callable[..., Any], signal: CancelSignal, name: str
) -> Callable[..., Any]:
    """Return a function of the same shape that looks at a signal before it begins.

    It is the innermost layer: whoever stands around it has let the call in by
    then, and learns from the error's ``begun`` that nothing has run.
    """
    check_operation(function)
    point: Any = Checkpoint(signal, name)
    shape = shape_of_operation(function)

    def checked(*args: Any, **kwargs: Any) -> Any:
        point.admit()
        return function(*args, **kwargs)

    made: Any = checked
    if shape is not Shape.PLAIN:
        made = MAKERS[shape](lambda _args, _kwargs: point, function)
    # No ``__wrapped__``: a policy that guards the function has not let this call in.
    made._breakerkit_operation = function
    return made  # type: ignore[no-any-return]  # a function
