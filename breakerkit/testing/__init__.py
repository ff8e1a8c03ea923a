"""Tools for testing code that uses breakerkit, with pytest or without it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from breakerkit import _fork as fork
from breakerkit._breaker import CircuitBreaker
from breakerkit._fields import is_number, show, to_seconds
from breakerkit._registry import Registry, registry
from breakerkit.circuit import _changes as changes
from breakerkit.circuit import _control as control
from breakerkit.circuit.guard import Guard
from breakerkit.clock import system_clock
from breakerkit.events import Event, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit._policy import Policy


__all__ = [
    "EventLog",
    "ManualClock",
    "capture_events",
    "fresh_registry",
    "put_into_state",
    "reset_all",
    "wall_clock",
]

E = TypeVar("E")


class ManualClock:
    """A clock that stands still until it is moved, and never goes back; safe across threads.

    Args:
        start: the first reading, in seconds.

    Example:
        >>> clock = ManualClock()
        >>> clock.advance(30)
        30.0
        >>> clock.now()
        30.0
    """

    def __init__(self, start: float = 0.0) -> None:
        if not is_number(start):
            raise ValueError(f"start={show(start)}: must be a finite number of seconds")
        self._now = float(start)
        self._lock = threading.Lock()
        fork.remember(self)

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child."""
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the present reading in seconds."""
        return self._now

    def advance(self, seconds: float | timedelta) -> float:
        """Move on by ``seconds`` (or a ``timedelta``) and return the new reading.

        Raises:
            ValueError: it is negative, or no finite number.
        """
        step = 0.0 if seconds in (0, timedelta(0)) else to_seconds(seconds)
        if not isinstance(step, float):
            raise ValueError(
                f"advance({show(seconds)}): must be seconds or a timedelta of at least 0;"
                " this clock never goes back"
            )
        with self._lock:
            self._now += step
            return self._now

    def __repr__(self) -> str:
        return f"<ManualClock at {self._now:g} s>"


class EventLog(list[Event]):
    """The events captured so far, in order."""

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self if isinstance(event, kind)]


@contextlib.contextmanager
def capture_events(source: Registry | Policy = registry) -> Iterator[EventLog]:
    """Collect the events of a policy, or of all policies of a registry, inside the block."""
    log = EventLog()
    unsubscribe = source.subscribe(log.append)
    try:
        yield log
    finally:
        unsubscribe()


@contextlib.contextmanager
def fresh_registry() -> Iterator[Registry]:
    """Empty the shared registry inside the block and bring back what was there after it.

    Its listeners are put aside too. Functions decorated before keep the
    breakers they have.
    """
    old = registry.exchange({}, ())
    try:
        yield registry
    finally:
        registry.exchange(*old)


@contextlib.contextmanager
def wall_clock() -> Iterator[None]:
    """Let the default clock follow ``time.time`` inside the block, as ``time_machine`` moves it.

    Every breaker that was given no clock of its own follows, those made before
    included. The production default is monotonic.
    """
    before = system_clock.now
    # Looked up at each call: freezegun and monkeypatch replace the name, time-machine its inside.
    system_clock.now = lambda: time.time()  # noqa: PLW0108  # see above
    try:
        yield
    finally:
        system_clock.now = before


def put_into_state(breaker: CircuitBreaker, state: State, *, retry_after: float = 30.0) -> None:
    """Put a breaker into a state as if it had got there by itself, with no evidence.

    Args:
        breaker: the breaker.
        state: open: it stays so for ``retry_after`` seconds; half-open: the next
            call is a probe; closed: the same as ``reset()``.
        retry_after: seconds the open period lasts.

    No opening callback is called and no event is told: it is the test's doing.
    """
    if not isinstance(breaker, CircuitBreaker):
        raise ValueError(
            f"breaker={show(breaker)}: must be a breaker; of a guarded function that is f.breaker"
        )
    seconds = to_seconds(retry_after)
    if not isinstance(state, State) or not isinstance(seconds, float):
        raise ValueError(
            f"state={show(state)}, retry_after={show(retry_after)}:"
            " must be a State, and seconds above 0"
        )
    guard: Guard = breaker._guard
    with guard.lock:
        changes.place(guard.machine, state, guard.clock.now(), seconds)
        guard.retune()


def reset_all() -> None:
    """Close every breaker there is, named or not, and give up every switch held on one.

    Degradation rules are taken away, and the files they come from are no longer watched. What a
    failover would try again is dropped. Caches forget what they hold and have counted; what is in a
    store of another server stays there.
    """
    if (stale := sys.modules.get("breakerkit.stale.guard")) is not None:
        for cache in fork.alive(stale.StaleKeeper):
            cache.reset()
    if (rules := sys.modules.get("breakerkit.degrade.rules")) is not None:
        for one in fork.alive(rules.Degradation):
            one._reset()
    if (providers := sys.modules.get("breakerkit.providers.keeper")) is not None:
        for keeper in fork.alive(providers.FailoverKeeper):
            keeper.reset()
    for guard in fork.alive(Guard):
        if guard.handles:
            control.let_go(guard)
        control.reset(guard)
