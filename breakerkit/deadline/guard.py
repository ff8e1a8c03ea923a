"""What stands behind a timeout: its terms, its counts, and the places of its threads."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _ambient as ambient
from breakerkit._abandoned import ledger
from breakerkit._ambient import Stay, Terms
from breakerkit._counters import drawn
from breakerkit._keeper import Keeper
from breakerkit._outcome import is_neutral
from breakerkit.deadline._jobs import Job
from breakerkit.deadline._view import TimeoutSnapshot
from breakerkit.deadline._workers import pool
from breakerkit.deadline.events import (
    EVENT_KINDS,
    CallEndedLate,
    CallTimedOut,
    TimeoutRejected,
    WorkAbandoned,
    WorkEnded,
)
from breakerkit.errors import (
    CallCancelledError,
    CallTimeoutError,
    DeadlineExceededError,
    LedgerFullError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._abandoned import Work
    from breakerkit._ambient import Limit
    from breakerkit._hub import Hub
    from breakerkit.cancel import CancelSignal
    from breakerkit.clock import Clock
    from breakerkit.deadline.config import TimeoutConfig

#: A caller looks up after so many seconds where there is a signal, which wakes nobody.
SHORT_NAP = 0.01
FULL = "ledger full"
NO_TIME = "no time left"


class _Places:
    """How many threads are at work for a timeout; a forked child has new ones, and none."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


class TimeoutGuard(Keeper):
    """The one mutable thing of a timeout.

    Attributes:
        terms: what its limits have in common; a whole, so that a change of the
            settings never shows half.
        ticks: gives each call its number; counted without the lock.
    """

    __slots__ = (
        "_abandoned",
        "_expired",
        "_late",
        "_places",
        "_rejected",
        "config",
        "terms",
        "ticks",
    )

    kinds = EVENT_KINDS

    def __init__(self, name: str, config: TimeoutConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.config = config
        self.terms = Terms(config.seconds, name, clock)
        self.ticks = itertools.count(1)
        self._places = _Places()
        self._expired = self._late = self._rejected = self._abandoned = 0

    def adopt(self, config: TimeoutConfig) -> None:
        """Take new settings, for calls that begin from now on. Under the lock."""
        super().adopt(config)
        self.terms = attrs.evolve(self.terms, seconds=config.seconds)

    def rename(self, name: str) -> None:
        """Take a name, once it is known."""
        super().rename(name)
        self.terms = attrs.evolve(self.terms, name=name)

    def after_fork(self) -> None:
        """Start with no thread at work, in a forked child."""
        super().after_fork()
        self._places = _Places()

    # -- a call begins -------------------------------------------------------

    def within(self, outer: Limit | None, now: float, terms: Terms | Stay | None = None) -> Limit:
        """Return the limit for a call that begins ``now`` under ``outer``, which is not over.

        Raises:
            DeadlineExceededError: no time is left; nothing is to be run.
        """
        late = None if outer is None else ambient.too_late_for(outer)
        if late is None:
            return ambient.within(outer, terms or self.terms, now)
        self._refused(NO_TIME)
        try:
            raise late
        finally:
            del late  # its traceback leads here

    # -- a call ends -----------------------------------------------------------

    def failed(self, error: BaseException, end: float, *, own: bool = True) -> None:
        """Hear an exception of a call whose limit ended, or ends, at ``end``.

        Args:
            error: what it raised.
            end: that moment, by the clock.
            own: whether that was the limit in force, and not a shorter one around it.

        Raises:
            CallTimeoutError: from ``error``, which says that something further
                inside was not begun for this very limit had passed. The call
                itself was, so it is no rejection.
        """
        if isinstance(error, CallTimeoutError | DeadlineExceededError) and error._end is not None:
            # A limit has ended it: this one, or another that counts it.
            if own and error.name == self.name and self._passed(error._end, end):
                self._told(error, end)
        elif not is_neutral(error) and self.clock.now() >= end:
            self.late(error)

    def _passed(self, moment: float, end: float) -> bool:
        """Tell whether that is the end of a limit; from another process it comes by another clock."""
        return moment == end or self.clock.now() >= end

    def _told(self, error: CallTimeoutError | DeadlineExceededError, end: float) -> None:
        if isinstance(error, DeadlineExceededError):
            raise self.expired([end, self.terms, None, None, False]) from error
        self.timed_out(error)

    def expired(
        self, limit: Limit, *, own: bool = True, abandoned: bool = False
    ) -> CallTimeoutError:
        """Return the error for a limit that has passed; if it is not ours, its policy counts it."""
        error = ambient.expired(limit, abandoned=abandoned)
        if own:
            self.timed_out(error)
        return error

    def timed_out(self, error: CallTimeoutError) -> None:
        """Count a call that is ended by this limit."""
        with self.lock:
            self._expired += 1
            self.post(CallTimedOut, seconds=error.seconds, abandoned=error.abandoned)
        self.hub.drain()

    def late(self, error: BaseException | None = None) -> None:
        """Count a call that ended by itself, after its time."""
        with self.lock:
            self._late += 1
            self.post(CallEndedLate, seconds=self.terms.seconds, error=error)
        self.hub.drain()

    def _refused(self, reason: str) -> None:
        with self.lock:
            self._rejected += 1
            self.post(TimeoutRejected, reason=reason)
        self.hub.drain()

    # -- calls in threads ------------------------------------------------------

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a call in a thread, and leave it behind when its time is over.

        Raises:
            CallTimeoutError: its time is over.
            DeadlineExceededError: there was none left, or no thread has come to it.
            LedgerFullError: too many threads are at work already.
        """
        outer, now = ambient.live(ambient.limit.get()), self.clock.now()
        next(self.ticks)
        terms = self.terms
        limit = self.within(outer, now, terms)
        job = Job(self, function, args, kwargs, limit)
        self._take(job)
        try:
            pool.start(job)
            done, bound = self._wait(job, limit)
        except BaseException as error:
            # The caller is interrupted, or there is no thread: nobody waits any more.
            if job.leave():
                if not job.begun:
                    self.give_back(job)  # it will never begin, however long the error is kept
                elif isinstance(error, CallCancelledError):
                    error.abandoned = True
            raise
        own = bound is limit and limit is not outer
        if not done:
            if job.leave():
                raise self._give_up(job, bound, own=own)
            job.wait()
        try:
            value = job.result()
        except BaseException as error:
            self.failed(error, now + terms.seconds, own=own)
            raise
        if self.clock.now() >= now + terms.seconds:
            self.late()
        return value

    def _wait(self, job: Job, limit: Limit) -> tuple[bool, Limit]:
        """Wait for the end of a job, or of the time; tell which, and whose limit that was.

        Raises:
            CallCancelledError: the signal of the calls around is set.
        """
        signal: CancelSignal | None = limit[3]
        left, bound = ambient.binding(limit)
        while not job.wait(left if signal is None else min(left, SHORT_NAP)):
            if signal is not None:
                if signal.cancelled:
                    error = CallCancelledError(self.name, signal.reason)
                    error.begun = False
                    raise error
                left -= SHORT_NAP  # counted so, for a test may have stopped the clock
                if left > 0:
                    continue
            if ambient.live(bound) is bound:
                return False, bound
            left, bound = ambient.binding(limit)  # the call around is over before its time
        return True, bound

    def _give_up(self, job: Job, bound: Limit, *, own: bool) -> Exception:
        if job.begun:
            return self.expired(bound, own=own, abandoned=True)
        self._refused(NO_TIME)
        return ambient.unbegun(bound)

    def _take(self, job: Job) -> None:
        with self.lock:
            places = self._places
            if places.taken < self.config.max_abandoned:
                job.places = places
                places.taken += 1
                return
        self._refused(FULL)
        raise LedgerFullError(self.name, FULL, None)

    def give_back(self, job: Job) -> None:
        """Take back the place of a job that has ended, or will never begin; the second time does nothing."""
        with self.lock:
            places, job.places = job.places, None
            if places is not None:
                places.taken -= 1

    def work_abandoned(self, work: Work) -> None:
        """Count work that nobody waits for; its caller drains the hub."""
        with self.lock:
            self._abandoned += 1
            self.post(WorkAbandoned, function=work.function, age=work.age)

    def work_ended(self, work: Work, error: BaseException | None) -> None:
        """Hear that it has ended."""
        with self.lock:
            self.post(WorkEnded, function=work.function, age=work.age, error=error)
        self.hub.drain()

    # -- look ------------------------------------------------------------------

    def snapshot(self) -> TimeoutSnapshot:
        """Return all numbers as they belong together now."""
        works = tuple(one.look() for one in ledger.works() if one.owner is self)
        with self.lock:
            return TimeoutSnapshot(
                name=self.name,
                seconds=self.config.seconds,
                mode=self.config.mode,
                calls=drawn(self.ticks),
                expired=self._expired,
                late=self._late,
                rejected=self._rejected,
                abandoned=self._abandoned,
                working=self._places.taken,
                max_abandoned=self.config.max_abandoned,
                abandoned_now=works,
            )
