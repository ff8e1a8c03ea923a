"""What each state of a breaker holds; every period has an object of its own, and that is its generation."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, TypeAlias

from breakerkit._counters import drawn
from breakerkit.circuit._slow import SlowCalls
from breakerkit.circuit._window import EMPTY, CountWindow, Tally, TimeWindow, Window
from breakerkit.events import Evidence, OpenReason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from breakerkit.circuit.config import BreakerConfig


class Lease:
    """What one admission outside the lock-free path hands out; settled exactly once.

    It looks enough like a `Closed` period for the shell to treat both alike:
    every success through it asks for attention.
    """

    # No slots: what few leases ever set stays on the class, so that making one is cheap.
    ticks: Iterator[int] = itertools.repeat(0)
    attention = 0
    edge = -math.inf
    judge_at = 0
    held = True  # False: nothing at all is recorded
    slow = False  # in the slow tally as a slow one
    finished = False  # no longer watched for being slow
    decided = False  # its outcome is known, its slot perhaps not yet free
    settled = False  # its slot is free

    def __init__(self, period: State | None, started: float) -> None:
        self.period = period  # None: settles into the counters only
        self.started = started

    @classmethod
    def unrecorded(cls, now: float) -> Lease:
        """Return a lease whose end changes nothing at all."""
        lease = cls(None, now)
        lease.held = False
        return lease


class Closed:
    """One closed period.

    ``ticks`` gives every completed call its ticket. A success whose ticket is
    below ``attention`` is done with that; all else goes through the guard.
    """

    __slots__ = (
        "attention", "edge", "failed", "final", "first", "judge_at", "pending",
        "seen", "since", "slow", "streak", "ticks", "window",
    )  # fmt: skip

    def __init__(self, config: BreakerConfig, now: float) -> None:
        self.ticks = itertools.count(1)
        self.first = 1  # the first ticket that is this object's own
        self.failed = 0  # how many of its own tickets were failures
        self.final: int | None = None  # first ticket after retirement
        self.since = now
        self.streak = 0
        self.window = make_window(config, now)
        self.slow = make_slow(config, now)
        self.pending = False  # the config changed: judge at the next completed call
        self.seen = 0  # the last ticket drawn when the rules last looked
        self.attention = 0
        self.edge = -math.inf
        self.judge_at = 0

    def retire(self) -> int:
        """End this period and return how many successes it counted itself.

        Attention is asked for first, so that a success that draws its ticket
        after ``final`` was drawn is sure to come to the guard.
        """
        self.ask()
        self.final = next(self.ticks)
        return self.final - self.first - self.failed

    def ask(self) -> None:
        """Let every success that draws its ticket from here on come to the guard."""
        self.edge = -math.inf
        self.attention = -1

    def successes(self, last: int) -> int:
        """Return how many successes this object had counted at ticket ``last``."""
        return last - self.first + 1 - self.failed

    def successor(self) -> Closed:
        """Return a fresh generation with the same evidence; retire this one first."""
        new = object.__new__(Closed)
        for name in Closed.__slots__:
            setattr(new, name, getattr(self, name))
        assert self.final is not None
        new.first = self.final
        new.ticks = itertools.count(self.final)
        new.final, new.failed = None, 0
        if new.slow is not None:
            new.slow = new.slow.successor()
        return new

    def spotless(self) -> bool:
        """Tell whether nothing at all is held against the dependency."""
        return not (
            self.streak
            or (self.window is not None and self.window.marks)
            or (self.slow is not None and self.slow.window.marks)
        )

    def evidence(
        self, now: float, error: BaseException | None = None, last: int | None = None
    ) -> Evidence:
        """Return what there is to judge at ``now``, as of ticket ``last``, changing nothing."""
        last = self.last() if last is None else last
        window = self.window.tally(last, now) if self.window else EMPTY
        slow = self.slow.tally(now) if self.slow else EMPTY
        return Evidence(self.streak, *window, *slow, error)

    def looks(
        self, minimum: int, now: float, error: BaseException | None, *, completed: bool
    ) -> list[Evidence]:
        """Return what the rules must look at, one after another; usually the one present moment.

        Calls that have drawn a ticket past the one that makes ``minimum``, and
        wait for the lock, come after it: were only they counted in, a rate could
        slip by that is reached at just so many calls. ``completed``: a call has,
        and not only turned slow.
        """
        last = self.last()
        at: float = last
        if self.window is not None and completed:
            at, self.seen = min(last, self.window.reaches(minimum, self.seen)), last
        slow_at, slow_last = (EMPTY, EMPTY) if self.slow is None else self.slow.look(minimum, now)
        looks = [Evidence(self.streak, *self._tally(last, now), *slow_last, error)]
        if at != last or slow_at != slow_last:
            looks.append(Evidence(self.streak, *self._tally(int(at), now), *slow_at))
        return looks

    def saw(self) -> None:
        """Remember that the rules have looked at all there is, and found nothing."""
        self.seen = self.last()
        if self.slow is not None:
            self.slow.saw()

    def roll(self, now: float) -> None:
        """Let go of what has left the windows, once the rules have looked."""
        if self.window is not None:
            self.window.roll(self.seen, now)
        if self.slow is not None:
            self.slow.window.roll(self.slow.seen, now)

    def _tally(self, last: int, now: float) -> Tally:
        return EMPTY if self.window is None else self.window.tally(last, now)

    def last(self) -> int:
        """Return the last ticket drawn."""
        return drawn(self.ticks)


class Open:
    """One open period. Evidence is frozen: nothing that ends later can change what is shown."""

    __slots__ = ("duration", "evidence", "opened_at", "reason", "since", "until")

    def __init__(
        self,
        reason: OpenReason | str,
        since: float,
        duration: float,
        evidence: Evidence,
        opened_at: datetime,
    ) -> None:
        self.reason = reason
        self.since = since
        self.duration = duration
        self.until = since + duration
        self.evidence = evidence
        self.opened_at = opened_at

    def remaining(self, now: float) -> float:
        """Return the seconds left at ``now``: never negative, never more than the whole period."""
        return min(max(self.until - now, 0.0), self.duration)

    def over(self, now: float) -> bool:
        """Tell whether the period has ended; at its very end it has."""
        return now >= self.until


class HalfOpen:
    """One half-open period: which probes hold a slot since when, and how many have succeeded."""

    __slots__ = ("active", "after", "successes")

    def __init__(self, after: Open) -> None:
        self.after = after
        self.active: dict[Lease, bool] = {}  # oldest first
        self.successes = 0

    def successor(self, *, slots_free: bool) -> HalfOpen:
        """Return a fresh generation with the same successes."""
        new = HalfOpen(self.after)
        new.successes = self.successes
        if not slots_free:
            new.active.update(self.active)
        return new

    def timeout(self, config: BreakerConfig) -> float:
        """Return how long a probe may hold its slot, in seconds."""
        return self.after.duration if config.probe_timeout is None else config.probe_timeout


State: TypeAlias = Closed | Open | HalfOpen


def make_window(config: BreakerConfig, now: float, last: int = 0) -> Window | None:
    """Return the window that ``config`` asks for, empty."""
    if config.window_size:
        return CountWindow(config.window_size, last)
    if config.window_duration is not None:
        return TimeWindow(config.window_duration, now, last)
    return None


def make_slow(config: BreakerConfig, now: float) -> SlowCalls | None:
    """Return the watch over slow calls that ``config`` asks for, empty."""
    window = make_window(config, now)
    if config.slow_call_duration is None or window is None:
        return None
    return SlowCalls(config.slow_call_duration, window)
