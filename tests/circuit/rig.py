"""One breaker on a clock that is moved by hand, and short words for what happens to it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from breakerkit import CircuitOpenError, OpenContext, Registry, Snapshot, State, breaker
from breakerkit.testing import EventLog, ManualClock, capture_events


class Rig:
    """A breaker, its clock, and the contexts its opening callback was given."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.breaker = breaker("rig", clock=self.clock, registry=Registry(), **settings)
        self.contexts: list[OpenContext] = []
        self.breaker.on_open(self.contexts.append)
        self.hanging: list[Any] = []

    def ok(self, times: int = 1) -> None:
        """Make calls that succeed."""
        for _ in range(times):
            assert self.breaker.call(lambda: "value") == "value"

    def fail(self, times: int = 1, error: BaseException | None = None) -> None:
        """Make calls that fail; each caller gets its own exception."""
        for _ in range(times):
            self.raises(error or ConnectionError("down"))

    def raises(self, error: BaseException) -> None:
        """Make a call that raises ``error``, which passes as the very object."""

        def work() -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            self.breaker.call(work)
        assert caught.value is error

    def rejected(self) -> CircuitOpenError:
        """Make a call that is rejected and return the rejection."""
        runs: list[int] = []
        with pytest.raises(CircuitOpenError) as caught:
            self.breaker.call(runs.append, 1)
        assert not runs, "a rejected call ran"
        return caught.value

    def start(self) -> Any:
        """Let a call in that runs on, and return it."""
        return self.breaker.guard().__enter__()

    def hang(self, times: int = 1) -> None:
        """Let calls in of which nobody will hear again, and which nobody collects."""
        self.hanging += [self.start() for _ in range(times)]

    def end(self, call: Any, error: BaseException | None = None) -> None:
        """Let a running call end."""
        call.__exit__(type(error) if error else None, error, None)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    def open(self) -> None:
        """Fail until it is open."""
        while self.state is not State.OPEN:
            self.fail()

    def half_open(self) -> None:
        """Open it and wait until its period is over."""
        self.open()
        self.wait(self.seen.retry_after or 0)
        assert self.state is State.HALF_OPEN

    def events(self) -> AbstractContextManager[EventLog]:
        """Collect its events inside a block."""
        return capture_events(self.breaker)

    @property
    def state(self) -> State:
        """Its state."""
        return self.breaker.state

    @property
    def seen(self) -> Snapshot:
        """Its snapshot."""
        return self.breaker.snapshot()

    @property
    def window(self) -> tuple[int, int]:
        """Calls in the window, and failures among them."""
        return self.seen.window_calls, self.seen.window_failures

    @property
    def slow(self) -> tuple[int, int]:
        """Calls in the slow tally, and slow ones among them."""
        return self.seen.slow_window_calls, self.seen.slow_calls


class Steps:
    """A clock that may step back, as a wall clock does."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        """Return whatever it is set to."""
        return self.at


def probing(**settings: Any) -> Rig:
    """Return a rig that has just become half-open, after one second open."""
    rig = Rig(**{"failure_threshold": 1, "open_duration": 1, **settings})
    rig.half_open()
    return rig
