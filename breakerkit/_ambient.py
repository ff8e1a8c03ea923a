"""What is in force where this code runs: the deadline, and the signal, of the calls around it.

The ground floor knows it, for every policy that waits or tries again must ask:
a bulkhead's queue, a failover's next attempt, a nested timeout.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from breakerkit.cancel import CancelSignal
from breakerkit.clock import system_clock
from breakerkit.errors import CallTimeoutError, DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit.clock import Clock

__all__ = ["Deadline", "check_deadline", "current_deadline"]


class Limit(NamedTuple):
    """A limit in force, as it is set and unset on the hot path: a tuple, for that is cheapest.

    Attributes:
        end: when it ends, by ``clock``; ``inf`` where there is only a signal.
        clock: whose time that is.
        name: name of the policy that set it.
        seconds: how long it was when it began.
        outer: the limit around it; its end is never earlier than this one's.
        signal: what cancels the work, if there is such a signal.
    """

    end: float
    clock: Clock
    name: str
    seconds: float
    outer: Limit | None
    signal: CancelSignal | None


#: The innermost limit in force; tasks and copied contexts take it along.
limit: ContextVar[Limit | None] = ContextVar("breakerkit_limit", default=None)


def begin(name: str, seconds: float, clock: Clock, signal: CancelSignal | None = None) -> Limit:
    """Return the limit for a call that may take ``seconds``; of nested ones the shorter wins.

    A call that may take as long as the limit around it, or longer, is under
    that one: its name and length are kept, for it is the one that will expire.
    """
    now, outer = clock.now(), limit.get()
    if outer is None:
        return Limit(now + seconds, clock, name, seconds, None, signal)
    left = outer.end - (now if outer.clock is clock else outer.clock.now())
    signal = signal or outer.signal
    if left <= seconds:
        return Limit(now + left, clock, outer.name, outer.seconds, outer, signal)
    return Limit(now + seconds, clock, name, seconds, outer, signal)


@contextlib.contextmanager
def bearing(signal: CancelSignal) -> Iterator[None]:
    """Let all that asks inside the block see a signal, beside the limit in force."""
    outer = limit.get()
    if outer is None:
        outer_end, clock, name, seconds = float("inf"), system_clock, "cancel signal", float("inf")
        one = Limit(outer_end, clock, name, seconds, None, signal)
    else:
        one = outer._replace(outer=outer, signal=signal)
    token = limit.set(one)
    try:
        yield
    finally:
        limit.reset(token)


def remaining() -> float | None:
    """Return the seconds that are left to the code that asks, 0.0 if none are, ``None`` if unlimited."""
    one = limit.get()
    if one is None or one.end == float("inf"):
        return None
    return max(0.0, one.end - one.clock.now())


def too_late() -> DeadlineExceededError | None:
    """Return the rejection for work that has not begun and has no time left, else ``None``."""
    one = limit.get()
    if one is None or one.clock.now() < one.end:
        return None
    return DeadlineExceededError(one.name, "no time left", None)


class Deadline:
    """The moment by which the code that asks should be done; a view, cheap to make.

    Attributes:
        name: name of the timeout that set it.
        seconds: how long that allowed in all.
    """

    __slots__ = ("_limit", "name", "seconds")

    def __init__(self, of: Limit) -> None:
        self._limit = of
        self.name = of.name
        self.seconds = of.seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._limit.end - self._limit.clock.now())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self._limit.clock.now() >= self._limit.end

    @property
    def signal(self) -> CancelSignal:
        """A signal that reads as cancelled once the deadline has passed, or that of the calls around."""
        return _Passing(self)

    def __repr__(self) -> str:
        return f"<Deadline of {self.name!r}: {self.remaining:.3g} of {self.seconds:g} s left>"


class _Passing(CancelSignal):
    """The signal of a deadline: nobody has to set it."""

    __slots__ = ("_deadline",)

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    @property
    def cancelled(self) -> bool:
        given = self._deadline._limit.signal
        if super().cancelled or self._deadline.expired:
            return True
        return given is not None and given.cancelled

    @property
    def reason(self) -> Any:
        given = self._deadline._limit.signal
        if super().cancelled:
            return super().reason
        if given is not None and given.cancelled:
            return given.reason
        return f"deadline of {self._deadline.name!r}" if self._deadline.expired else None


def current_deadline() -> Deadline | None:
    """Return the deadline of the calls around this code, ``None`` if there is none.

    Example:
        >>> current_deadline() is None
        True
    """
    one = limit.get()
    return None if one is None or one.end == float("inf") else Deadline(one)


def check_deadline() -> None:
    """Raise if the time of the calls around this code is over, or their signal is set.

    Call it between the steps of long work: under ``timeout(..., mode="cooperative")``
    nothing else ends a sync function early. With no deadline it does nothing.

    Raises:
        CallTimeoutError: the deadline has passed.
        CallCancelledError: the signal is set.
    """
    one = limit.get()
    if one is None:
        return
    if one.signal is not None:
        one.signal.raise_if_cancelled(one.name)
    if one.clock.now() >= one.end:
        raise CallTimeoutError(one.name, one.seconds)
