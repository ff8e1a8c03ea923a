"""Small worlds to interleave: one breaker, and threads of which each makes a few atomic steps.

What may come out is what comes out of any order of the steps, taken one after
another; `orders` finds that by trying them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from breakerkit import CircuitOpenError, ProbeLimitError, Registry, breaker
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import Interleaving, Plan, TurnLock
from tests.concurrency.tracing import tick

#: What a thread does: each part up to a ``yield`` is one step that nothing may come between.
Steps = Callable[["World"], Iterator[Any]]


class Down(Exception):
    """What a failing dependency raises."""


class World:
    """One breaker on a clock that stands still, and what has happened around it."""

    def __init__(self, lock: TurnLock, **settings: Any) -> None:
        self.clock = ManualClock()
        self.opened: list[str] = []
        self.running = self.most_running = self.runs = 0
        self.breaker = breaker(
            "b",
            clock=self.clock,
            registry=Registry(),
            on_open=lambda context: self.opened.append(str(context.reason)),
            **settings,
        )
        self.lock = self.breaker._guard.lock = lock
        self.keep: list[Any] = []

    def begin(self) -> None:
        """The dependency has been reached."""
        self.runs += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)

    def end(self) -> None:
        """The dependency has answered."""
        self.running -= 1

    def fail(self, times: int = 1) -> None:
        """Make calls that fail."""
        for _ in range(times):
            list(call(Down())(self))

    def succeed(self, times: int = 1) -> None:
        """Make calls that succeed."""
        for _ in range(times):
            list(call()(self))

    def seen(self) -> tuple[Any, ...]:
        """Return everything that can be seen, but for the time of day."""
        s = self.breaker.snapshot()
        return (
            str(s.state), str(s.mode), s.consecutive_failures, s.window_calls, s.window_failures,
            s.slow_window_calls, s.slow_calls, s.probes_active, s.probe_successes, str(s.reason),
            s.retry_after, s.successes, s.failures, s.ignored, s.rejected, s.openings,
            self.runs,
        )  # fmt: skip


def call(error: BaseException | None = None) -> Steps:
    """Return a guarded call: it is let in, reaches the dependency, and its end is judged."""

    def steps(world: World) -> Iterator[Any]:
        block = world.breaker.guard()
        try:
            block.__enter__()
        except CircuitOpenError as rejection:
            yield type(rejection).__name__
            return
        world.begin()
        yield None
        world.end()
        block.__exit__(type(error) if error else None, error, None)
        yield type(error).__name__ if error else "value"

    return steps


def call_of_function(error: BaseException | None = None) -> Steps:
    """Return the same through a decorated function, whose steps cannot be told apart from outside."""

    def steps(world: World) -> Iterator[Any]:
        @world.breaker
        def work() -> str:
            world.begin()
            tick()
            world.end()
            if error is not None:
                raise error
            return "value"

        try:
            yield work()
        except (CircuitOpenError, Down, KeyboardInterrupt) as raised:
            yield type(raised).__name__

    return steps


def once(act: Callable[[World], Any]) -> Steps:
    """Return one step that does this and whose result, if it is plain, is compared."""

    def steps(world: World) -> Iterator[Any]:
        result = act(world)
        world.keep.append(result)
        yield result if isinstance(result, str | tuple) else None

    return steps


def orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return every order of so many steps per thread."""
    flat = [who for who, length in enumerate(lengths) for _ in range(length)]
    yield from set(itertools.permutations(flat))


def in_order(make: Callable[[TurnLock], World], threads: Sequence[Steps], order: Sequence[int]) -> Any:
    """Take steps in this order; a thread with no step left is passed over. Return what is seen."""
    world = make(TurnLock())
    running = [thread(world) for thread in threads]
    results: list[Any] = [None] * len(threads)
    for who in order:
        for result in itertools.islice(running[who], 1):
            results[who] = result
    return tuple(results), world.seen(), tuple(world.opened)


def allowed(make: Callable[[TurnLock], World], threads: Sequence[Steps]) -> set[Any]:
    """Return all that may be seen after these threads."""
    lengths = [3 if thread.__qualname__.startswith("call") else 1 for thread in threads]
    return {in_order(make, threads, order) for order in orders(lengths)}


def interleaved(
    make: Callable[[TurnLock], World], threads: Sequence[Steps], plan: Plan, lock: TurnLock
) -> tuple[Any, list[int]]:
    """Run threads as planned; return what is seen after them, and how many opcodes each ran."""
    world = make(lock)

    def body(thread: Steps) -> Callable[[], Any]:
        def run() -> Any:
            result = None
            for result in thread(world):
                tick()
            return result

        return run

    turns = Interleaving([body(thread) for thread in threads], plan)
    results = turns.run(lock)
    return (tuple(results), world.seen(), tuple(world.opened)), turns.steps


__all__ = [
    "Down", "ProbeLimitError", "Steps", "World", "allowed", "call", "call_of_function", "in_order",
    "interleaved", "once", "orders",
]  # fmt: skip
