"""One run of a plan: client threads that issue the recorded calls when they are due, and what came of each."""

from __future__ import annotations

import enum
import errno
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from breakerkit import CircuitOpenError, State, StateChanged
from breakerkit.cli._client import CONNECTION_ERRORS, CallerError, Client, ServerError
from breakerkit.cli._settings import make_breaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from breakerkit import CircuitBreaker
    from breakerkit.cli._child import ServiceLike
    from breakerkit.cli._plan import Plan

__all__ = ["Kind", "Move", "Outcome", "Run", "Tally", "TraceClock", "drive"]

_TICK = 0.1  # seconds between two looks at a run in progress
_GRACE = 15.0  # seconds beyond the longest recorded answer before a client gives up


class Kind(enum.StrEnum):
    """What a caller got."""

    ANSWERED = "answered"  #: a good answer, or a 4xx, which is the caller's own fault
    FAILED = "failed"
    REJECTED = "rejected"


class Outcome(NamedTuple):
    """One call as it was played; times in seconds of the recording."""

    number: int
    began: float
    ended: float
    kind: Kind


class Move(NamedTuple):
    """The breaker entered ``state`` at second ``at`` of the recording."""

    at: float
    state: State
    reason: str


@dataclass(slots=True)
class Tally:
    """Running totals of the outcomes so far; times in seconds of the recording."""

    answered: int = 0
    failed: int = 0
    rejected: int = 0
    waited: float = 0.0
    lost: float = 0.0

    @property
    def let_through(self) -> int:
        """Calls that went to the service."""
        return self.answered + self.failed

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Take more outcomes into account."""
        for outcome in outcomes:
            took = outcome.ended - outcome.began
            self.waited += took
            if outcome.kind is Kind.ANSWERED:
                self.answered += 1
            elif outcome.kind is Kind.FAILED:
                self.failed += 1
                self.lost += took
            else:
                self.rejected += 1


class TraceClock:
    """The time of the recording: real time since it was made, times the speed.

    A breaker on this clock keeps its settings' meaning at any speed: 5 seconds
    open are 5 seconds of what was recorded.
    """

    def __init__(self, speed: float, source: Callable[[], float] = time.monotonic) -> None:
        self._speed = speed
        self._source = source
        self._zero = source()

    def now(self) -> float:
        """Return seconds since the recording began."""
        return (self._source() - self._zero) * self._speed


@dataclass(eq=False)
class Run:
    """A plan being played, bare or behind a breaker.

    ``outcomes`` is only ever appended to, so it can be read while it grows.
    """

    plan: Plan
    guarded: bool
    outcomes: list[Outcome] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    clock: TraceClock | None = None
    breaker: CircuitBreaker | None = None

    @property
    def label(self) -> str:
        """What to call it."""
        return "guarded" if self.guarded else "bare"

    def start(self) -> TraceClock:
        """Start its clock, and make its breaker if it has one."""
        clock = self.clock = TraceClock(self.plan.speed)
        if self.guarded:
            self.breaker = make_breaker(clock)
            self.breaker.subscribe(self._moved, StateChanged)
        return clock

    def _moved(self, event: StateChanged) -> None:
        if self.clock is not None:
            self.moves.append(Move(self.clock.now(), event.new, str(event.reason or "")))

    def state_at(self, moment: float) -> State:
        """Return the breaker's state at that second of the recording."""
        before = [move.state for move in self.moves if move.at <= moment]
        return before[-1] if before else State.CLOSED

    def lateness(self) -> float:
        """Return how late, in real seconds, all but the latest hundredth of the calls began."""
        calls, speed = self.plan.calls, self.plan.speed
        late = sorted((one.began - calls[one.number].start) / speed for one in self.outcomes)
        return late[len(late) * 99 // 100] if late else 0.0


def drive(run: Run, service: ServiceLike, watch: Callable[[Run], None]) -> None:
    """Play the run to its end, calling ``watch(run)`` a few times a second.

    Raises:
        ServiceDiedError: if the service ends before the run does.
    """
    service.go()
    crew = _Crew(run, service.port, run.start())
    try:
        while crew.working():
            watch(run)
            service.check()
    finally:
        crew.stop()


class _Crew:
    """The client threads of a run."""

    def __init__(self, run: Run, port: int, clock: TraceClock) -> None:
        self._run = run
        self._clock = clock
        self._port = port
        self._timeout = max(call.elapsed for call in run.plan.calls) / run.plan.speed + _GRACE
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._due: SimpleQueue[int] = SimpleQueue()
        for number in range(len(run.plan.calls)):
            self._due.put(number)
        # Daemons: Ctrl-C must not wait for answers that are still to come.
        self._threads = [
            threading.Thread(target=self._work, daemon=True) for _ in range(run.plan.threads)
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:  # all that the machine lets a process have
            self.stop()
            raise OSError(
                errno.EAGAIN,
                f"cannot run {len(self._threads)} threads; choose fewer with --threads",
            ) from None

    def working(self) -> bool:
        """Wait a moment; return whether any thread still works.

        Raises:
            BaseException: what a thread did not expect.
        """
        self._threads[-1].join(_TICK)
        if self._errors:
            raise self._errors[0]
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return bool(self._threads)

    def stop(self) -> None:
        """Have every thread end after the call it is in."""
        self._stopped.set()

    def _work(self) -> None:
        try:
            with closing(Client(self._port, self._timeout)) as client:
                self._issue_all(client)
        except BaseException as error:
            self._errors.append(error)

    def _issue_all(self, client: Client) -> None:
        calls, clock, speed = self._run.plan.calls, self._clock, self._run.plan.speed
        while True:
            try:
                number = self._due.get_nowait()
            except Empty:
                return
            wait = (calls[number].start - clock.now()) / speed
            if self._stopped.wait(max(0.0, wait)):
                return
            began = clock.now()
            kind = self._issue(client, number)
            self._run.outcomes.append(Outcome(number, began, clock.now(), kind))

    def _issue(self, client: Client, number: int) -> Kind:
        breaker = self._run.breaker
        try:
            right = breaker.call(client.fetch, number) if breaker else client.fetch(number)
        except CircuitOpenError:
            return Kind.REJECTED
        except CallerError:
            return Kind.ANSWERED
        except (ServerError, *CONNECTION_ERRORS):
            return Kind.FAILED
        return Kind.ANSWERED if right else Kind.FAILED
