"""One guarded call of a function that is not decorated, with or without a cancellation signal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from breakerkit._shell._around import check_operation, shape_of_operation, unbegun
from breakerkit._shell._functions import run, run_plain
from breakerkit._shell._shapes import Shape, surely_plain
from breakerkit._shell._wrapped import guarded_by
from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._callbacks import Later
    from breakerkit.cancel import CancelSignal


def run_call(gate: Any, owner: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run one call of any callable; what ``owner`` guards already is just called.

    Raises:
        TypeError: it is not callable, or cannot be judged by its call; raised
            before admission.
    """
    check_operation(function)
    if guarded_by(owner, function):
        if not isinstance(gate, Cancelling):
            return function(*args, **kwargs)
        gate = gate.looking()
    if surely_plain(function):
        gate.check_sync()
        return run_plain(gate, function, args, kwargs)
    shape = shape_of_operation(function)
    if shape in {Shape.PLAIN, Shape.GENERATOR}:
        gate.check_sync()
    return run(gate, function, shape, args, kwargs)


class Cancelling:
    """A gate that looks at a signal after it has let a call in and before the call begins."""

    __slots__ = ("_gate", "_name", "_signal", "check_sync", "clock", "drop", "failed", "succeeded")

    fast = None
    #: Only around gates whose admission never waits: see `unless_cancelled` for all others.
    waits = False

    def __init__(self, gate: Any, signal: CancelSignal, name: str) -> None:
        self._gate = gate
        self._signal = signal
        self._name = name
        self.check_sync = gate.check_sync
        self.succeeded = gate.succeeded
        self.failed = gate.failed
        self.drop = gate.drop
        self.clock = gate.clock

    def admit(self, later: Later | None = None) -> Any:
        """Let a call in, then see whether it is still wanted.

        Returns:
            An entry, or the gate's rejection, whatever the signal says.

        Raises:
            CallCancelledError: let in, and cancelled before it began.
        """
        entry = self._gate.fast or self._gate.admit(later)
        if isinstance(entry, CallRejectedError):
            return entry
        if self._signal.cancelled:
            self._gate.ignored(entry)
            raise unbegun(self._name, self._signal)
        return entry

    def looking(self) -> Looking:
        """Return the same for a call that passes the gate by itself further inside."""
        return Looking(self._gate, self._signal, self._name)


class Looking(Cancelling):
    """A gate that only looks at the signal: what ends well or badly is told by the call itself."""

    __slots__ = ()

    #: An entry whose end nobody hears about.
    ticks = itertools.repeat(0)
    attention = 1

    def __init__(self, gate: Any, signal: CancelSignal, name: str) -> None:
        super().__init__(gate, signal, name)
        self.failed = self.drop = lambda *_: None

    def admit(self, later: Later | None = None) -> Any:
        """Ask the gate only for a call that will not run: any other asks it by itself."""
        return super().admit(later) if self._signal.cancelled else self
