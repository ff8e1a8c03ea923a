"""Small worlds to interleave: one breaker, and threads of which each takes a few atomic steps.

What may come out of an interleaving is what comes out of some order of whole
steps, taken one after another; `allowed` finds that by trying every order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from breakerkit import CircuitOpenError, Registry, breaker
from breakerkit.events import CallFailed, CallRejected, StateChanged
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import Interleaving, Plan, Preempt, TurnLock
from tests.concurrency.tracing import tick


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
            open_duration=10,
            **settings,
        )
        self.lock = self.breaker._guard.lock = lock
        self.blocks: list[Any] = []
        self.heard: list[tuple[str, ...]] = []

    def listen(self) -> World:
        """Hear of failures, rejections and moves; so no call takes the lock-free path."""

        def hear(event: Any) -> None:
            moved = isinstance(event, StateChanged)
            self.heard.append((event.old, event.new) if moved else (type(event).__name__,))

        self.breaker.subscribe(hear, StateChanged, CallFailed, CallRejected)
        return self

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
            list(FAILING.steps(self))

    def succeed(self, times: int = 1) -> None:
        """Make calls that succeed."""
        for _ in range(times):
            list(PASSING.steps(self))

    def seen(self) -> tuple[Any, ...]:
        """Return everything that can be seen, but for the time of day."""
        s = self.breaker.snapshot()
        return (
            str(s.state), str(s.mode), s.consecutive_failures, s.window_calls, s.window_failures,
            s.slow_window_calls, s.slow_calls, s.probes_active, s.probe_successes, str(s.reason),
            s.retry_after, s.successes, s.failures, s.ignored, s.rejected, s.openings, self.runs,
        )  # fmt: skip


@dataclass(frozen=True)
class Body:
    """What one thread does: parts up to a ``yield`` are steps that nothing may come between.

    Attributes:
        steps: takes the steps; the last one yields what the thread's caller sees.
        length: how many they are at most.
    """

    steps: Callable[[World], Iterator[Any]]
    length: int = 1

    def run(self, world: World) -> Any:
        """Take all steps, handing over between them if that is planned."""
        result = None
        for result in self.steps(world):
            tick()
        return result


def call(error: BaseException | None = None) -> Body:
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

    return Body(steps, 2)


def function_call(error: BaseException | None = None) -> Body:
    """Return the same call through a decorated function."""

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
        except (CircuitOpenError, Down) as raised:
            yield type(raised).__name__

    return Body(steps)


def act(do: Callable[[World], Any]) -> Body:
    """Return one step; what it returns is compared if it is plain."""

    def steps(world: World) -> Iterator[Any]:
        result = do(world)
        yield result if isinstance(result, str | tuple) else None

    return Body(steps)


PASSING, FAILING = call(), call(Down())

Make = Callable[[TurnLock], World]


def many(body: Body, times: int) -> Body:
    """Return a thread that does the same thing several times."""

    def steps(world: World) -> Iterator[Any]:
        for _ in range(times):
            yield from body.steps(world)

    return Body(steps, body.length * times)


def orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return every order of so many steps of each thread."""
    if not any(lengths):
        yield ()
    for who, length in enumerate(lengths):
        if length:
            left = [one - (place == who) for place, one in enumerate(lengths)]
            yield from ((who, *rest) for rest in orders(left))


def in_order(make: Make, bodies: Sequence[Body], order: Sequence[int]) -> tuple[Any, ...]:
    """Take the steps in this order and return what is seen."""
    world = make(TurnLock())
    running = [body.steps(world) for body in bodies]
    results: list[Any] = [None] * len(bodies)
    for who in order:
        for result in itertools.islice(running[who], 1):
            results[who] = result
    return tuple(results), world.seen(), tuple(world.opened), tuple(world.heard)


def allowed(make: Make, bodies: Sequence[Body]) -> set[Any]:
    """Return all that may be seen after these threads have run."""
    lengths = [body.length for body in bodies]
    return {in_order(make, bodies, order) for order in orders(lengths)}


def interleaved(
    make: Make, bodies: Sequence[Body], plan: Plan, lock: TurnLock
) -> tuple[tuple[Any, ...], World]:
    """Run threads as planned; return what is seen, and the world after them."""
    world = make(lock)
    threads = [functools.partial(body.run, world) for body in bodies]
    results = Interleaving(threads, plan).run(lock)
    return (tuple(results), world.seen(), tuple(world.opened), tuple(world.heard)), world


def preemptions(
    make: Make, bodies: Sequence[Body], lock: Callable[[], TurnLock], every: int = 1
) -> Iterator[tuple[tuple[int, int], tuple[Any, ...], World]]:
    """Preempt each thread at each opcode in turn; return where, what is seen, and the world."""
    for who in range(len(bodies)):
        for step in itertools.count(1, every):
            plan = Preempt(who, step)
            seen, world = interleaved(make, bodies, plan, lock())
            yield (who, step), seen, world
            if not plan.happened:
                break
