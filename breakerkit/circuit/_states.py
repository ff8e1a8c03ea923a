"""What each state of a breaker holds; every period has an object of its own, and that is its generation."""

from __future__ import annotations

import itertools
import math
import sys
from typing import TYPE_CHECKING, TypeAlias

from breakerkit.circuit._slow import SlowCalls
from breakerkit.circuit._window import EMPTY, CountWindow, TimeWindow, Window
from breakerkit.events import Evidence, OpenReason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from breakerkit.circuit.config import BreakerConfig

NEVER = sys.maxsize


def drawn(counter: itertools.count[int]) -> int:
    """Return the last number a ``count(1)`` gave out, without drawing one.

    ``repr`` is the only way to look at a count that is neither deprecated nor
    moves it on; a look that moved it would put a call into the window.
    """
    return int(repr(counter)[6:-1]) - 1


class Lease:
    """What one admission outside the lock-free path hands out; settled exactly once.

    It looks enough like a `Closed` period for the shell to treat both alike:
    every success through it asks for attention.
    """

    __slots__ = ("decided", "held", "period", "settled", "slow", "started")

    edge = -math.inf
    judge_at: float = 0
    ticks: Iterator[int] = itertools.repeat(0)
    attention = 0

    def __init__(self, period: State | None, started: float, *, held: bool = True) -> None:
        self.period = period  # None: settles into the counters only
        self.started = started
        self.held = held  # False: nothing at all is recorded
        self.slow = False  # in the slow tally already
        self.decided = False  # its outcome is known, its slot perhaps not yet free
        self.settled = False  # its slot is free


class Closed:
    """One closed period.

    ``ticks`` gives every completed call its ticket. A success whose ticket is
    below ``attention`` is done with that; all else goes through the guard.
    """

    __slots__ = (
        "attention", "edge", "failed", "final", "first", "judge_at", "pending",
        "since", "slow", "streak", "ticks", "window",
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
        self.attention = 0
        self.edge = -math.inf
        self.judge_at: float = NEVER

    def retire(self) -> int:
        """End this period and return how many successes it counted itself.

        The order matters: attention is asked for first, so that a success that
        draws its ticket after ``final`` was drawn is sure to come to the guard.
        """
        self.edge = -math.inf
        self.attention = -1
        self.final = next(self.ticks)
        return self.final - self.first - self.failed

    def successes(self) -> int:
        """Return how many successes this object has counted so far."""
        return drawn(self.ticks) - self.first + 1 - self.failed

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
            new.slow.forget_running()
        return new

    def spotless(self) -> bool:
        """Tell whether nothing at all is held against the dependency."""
        return not (
            self.streak
            or (self.window is not None and self.window.marked)
            or (self.slow is not None and self.slow.marked)
        )

    def evidence(self, now: float, error: BaseException | None = None) -> Evidence:
        """Return what there is to judge at ``now``, changing nothing."""
        window = self.window.tally(self.last(), now) if self.window else EMPTY
        slow = self.slow.tally(now) if self.slow else EMPTY
        return Evidence(self.streak, *window, *slow, error)

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
        self.active: dict[Lease, None] = {}  # oldest first
        self.successes = 0

    def successor(self) -> HalfOpen:
        """Return a fresh generation with the same successes, its slots free."""
        new = HalfOpen(self.after)
        new.successes = self.successes
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
