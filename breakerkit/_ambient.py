"""What is in force where this code runs: the deadline, and the signal, of the calls around it.

The ground floor knows it, for every policy that waits or tries again must ask:
a bulkhead's queue, a failover's next attempt, a nested timeout.
"""

from __future__ import annotations

import contextlib
import time
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from breakerkit.cancel import CancelSignal
from breakerkit.clock import system_clock
from breakerkit.errors import CallTimeoutError, DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit.clock import Clock


@attrs.frozen
class Terms:
    """What all limits that a policy sets have in common, until it is told otherwise.

    Attributes:
        seconds: how long a call may take.
        name: name of the policy.
        clock: where its time comes from.
    """

    seconds: float
    name: str
    clock: Clock


class Stay:
    """The same for one call or block that may go on when the one around it is over.

    Attributes:
        seconds: how long it may take.
        name: name of the policy.
        clock: where its time comes from.
    """

    __slots__ = ("clock", "name", "seconds")

    #: What it lasts as long as, where that is known; in it nothing ends later than this.
    task: Any = None

    def __init__(self, terms: Terms) -> None:
        self.seconds, self.name, self.clock = terms.seconds, terms.name, terms.clock


#: A limit: when it ends by the clock of its terms (``inf``: there is only a signal), those terms
#: (`Terms` or `Stay`), the nearest limit around it that may be the shorter one all the same (it lives
#: on another clock, or may be over before this one; else ``None``), a signal that cancels the work or
#: ``None``, and whether it is over. A bare list, for that costs least to make, and each call under a
#: limit makes one. Others around it need no mention: they end later, or this one would not be in
#: force.
#:
#: It must be told that it is over, for a context that was copied inside keeps it: that of a task
#: that was started there, or of work given to a pool. What counts there then is the limit around it.
Limit: TypeAlias = "list[Any]"
#: Where in a limit the one around it is, and whether it is over.
AROUND, OVER = 2, 4

#: The innermost limit set, which may be over; tasks and copied contexts take it along.
limit: ContextVar[Limit | None] = ContextVar("breakerkit_limit", default=None)

NEVER = float("inf")
_NO_TERMS = Terms(NEVER, "cancel signal", system_clock)
_NO_LIMIT: Limit = [NEVER, _NO_TERMS, None, None, False]


def live(one: Limit | None) -> Limit | None:
    """Return a limit if it is not over, or the one around it that is not."""
    while one is not None and one[OVER]:
        one = one[AROUND]
    return one


def end(one: Limit, outer: Limit | None) -> None:
    """Say that a limit is over, unless it is that of the call around, and what was in force there."""
    if one is outer:
        return
    # Looked up now, so that a chain of calls that outlive each other does not grow.
    one[AROUND] = live(outer)
    one[OVER] = True


def kept(one: Limit | None) -> Limit | None:
    """Return the same limit for one that another thread has: whoever set it may end it, and leave the work behind."""
    one = live(one)
    return None if one is None else [one[0], one[1], kept(one[AROUND]), one[3], False]


def context_of_the_call() -> Context:
    """Return the caller's context variables for a thread that does the call's own work.

    The deadline stays with it when the caller has left; what a call merely
    starts, such as a task, is free of it then.
    """
    context = copy_context()
    one = limit.get()
    if one is not None:
        context.run(limit.set, kept(one))
    return context


def within(outer: Limit | None, terms: Terms | Stay, now: float) -> Limit:
    """Return the limit for a call that begins ``now``; of nested ones the shorter wins.

    A call that may take as long as the limit around it, or longer, is under
    that very one: it is the one that will expire; unless the call may outlive it.
    """
    moment = now + terms.seconds
    if outer is None:
        return [moment, terms, None, None, False]
    if outer[1].clock is terms.clock:
        if outer[0] > moment:
            return [moment, terms, outer[AROUND], outer[3], False]
        if not _may_outlive(terms, outer[1]):
            return outer
    # Two clocks need not go at one pace: nobody knows which of them will be first.
    outer[AROUND] = live(outer[AROUND])  # calls that outlive each other keep no chain
    return [moment, terms, None if outer[0] == NEVER else outer, outer[3], False]


def _may_outlive(terms: Terms | Stay, outer: Terms | Stay) -> bool:
    """Tell whether a call may go on when the one around it is over: another task may, and a thread."""
    task = getattr(terms, "task", None)
    if isinstance(outer, Stay):
        return outer.task is None or outer.task is not task
    return task is not None


def binding(one: Limit) -> tuple[float, Limit]:
    """Return the seconds that are left, which may be negative, and the limit that says so.

    They are never more than the limit was long, whatever its clock does.
    """
    least, found = NEVER, _NO_LIMIT
    further = live(one)
    while further is not None:
        terms = further[1]
        left = min(further[0] - terms.clock.now(), terms.seconds)
        if left <= least:
            least, found = left, further
        further = live(further[AROUND])
    return least, found


def steady(one: Limit) -> bool:
    """Tell whether nothing but real time can end it: no other clock is asked, and there is no signal."""
    further: Limit | None = one
    while further is not None:
        if further[1].clock.now is not time.monotonic:
            return False
        further = further[AROUND]
    return one[3] is None


def expired(one: Limit, *, abandoned: bool = False) -> CallTimeoutError:
    """Return the error that says whose limit has passed; its policy knows it by the moment."""
    error = CallTimeoutError(one[1].name, one[1].seconds, abandoned)
    error._end = one[0]
    return error


def remaining() -> float | None:
    """Return the seconds that are left to the code that asks, 0.0 if none are, ``None`` if unlimited."""
    one = live(limit.get())
    return None if one is None or one[0] == NEVER else max(0.0, binding(one)[0])


def too_late() -> DeadlineExceededError | None:
    """Return the rejection for work that has not begun and has no time left, else ``None``."""
    one = limit.get()
    return None if one is None else too_late_for(one)


def too_late_for(one: Limit) -> DeadlineExceededError | None:
    """Do the same for a limit that is known already."""
    left, one = binding(one)
    return None if left > 0 else unbegun(one)


def unbegun(one: Limit) -> DeadlineExceededError:
    """Return the rejection that says whose limit has left no time."""
    error = DeadlineExceededError(one[1].name, "no time left", None)
    error._end = one[0]
    return error


def current_signal() -> CancelSignal | None:
    """Return what cancels the work around this code, apart from its deadline, if there is such a signal."""
    one = live(limit.get())
    return None if one is None else one[3]


@contextlib.contextmanager
def bearing(signal: CancelSignal) -> Iterator[None]:
    """Let all that asks inside the block see a signal, beside what is in force."""
    outer = live(limit.get())
    one = bearing_too(outer, signal)
    try:
        limit.set(one)
        yield
    finally:
        limit.set(outer)
        end(one, outer)


def bearing_too(one: Limit | None, signal: CancelSignal) -> Limit:
    """Return a limit with one more signal; of two signals each is heard."""
    moment, terms, further, given, over = _NO_LIMIT if one is None else one
    return [moment, terms, further, signal if given is None else Either(signal, given), over]


class Either(CancelSignal):
    """Two signals as one; setting it sets the first."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: CancelSignal, second: CancelSignal) -> None:
        super().__init__()
        self._first = first
        self._second = second

    def cancel(self, reason: Any = None) -> bool:
        """Set the first."""
        return self._first.cancel(reason)

    @property
    def cancelled(self) -> bool:
        return self._first.cancelled or self._second.cancelled

    @property
    def reason(self) -> Any:
        return self._first.reason if self._first.cancelled else self._second.reason
