"""Where threads meet: what has gone before, what each of them does, and what would be a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.concurrency.scheduling import TurnLock
from tests.concurrency.worlds import FAILING, PASSING, Body, World, act, allowed, many, preemptions


def _expire(world: World) -> None:
    world.fail(2)
    world.clock.advance(10)


def _hold_a_probe(world: World) -> None:
    _expire(world)
    _begin(world)


def _begin(world: World) -> None:
    world.blocks.append(world.breaker.guard())
    world.blocks[-1].__enter__()


@dataclass(frozen=True)
class Scene:
    """Where it begins, and which threads meet.

    Attributes:
        name: for the test's id.
        bodies: what each thread does.
        before: how the world has come there.
        settings: fields of the breaker's config.
        limit: how many calls may run at the same time, where that is limited.
        every: how many opcodes lie between the preemptions that are tried.
        twin: whether the breaker without a lock shows a fault here.
    """

    name: str
    bodies: Sequence[Body]
    before: Callable[[World], object] = lambda world: None
    settings: dict[str, Any] = field(default_factory=dict)
    limit: int = 99
    every: int = 1
    twin: bool = True

    def make(self, lock: TurnLock) -> World:
        """Return the world at its beginning."""
        world = World(lock, **{"failure_threshold": 2, **self.settings})
        self.before(world)
        world.most_running = world.running = 0
        return world

    def faults(self, lock: Callable[[], TurnLock], every: int) -> Iterator[Any]:
        """Preempt each thread at each opcode in turn; return where something wrong is seen."""
        good = allowed(self.make, self.bodies)
        for where, seen, world in preemptions(self.make, self.bodies, lock, every):
            if seen not in good or world.most_running > self.limit:
                yield where, seen


RATE = {"failure_threshold": 9, "window_size": 4, "failure_rate_threshold": 50}
TIMED = {"failure_threshold": 9, "window_duration": 10, "failure_rate_threshold": 50}
reset = act(lambda world: world.breaker.reset())
force = act(lambda world: world.breaker.force_open())
look = act(lambda world: world.seen()[:-1])
settle_block = act(lambda world: world.blocks.pop().__exit__(None, None, None))


def _reconfigure(world: World) -> None:
    world.breaker.reconfigure(failure_threshold=2, window_size=2, minimum_calls=1)


def _drop_block(world: World) -> None:
    world.blocks.clear()


def hang(world: World) -> None:
    """A call hangs that began before two seconds."""
    world.succeed()
    _begin(world)
    world.clock.advance(2)


SCENES = [
    Scene("success-failure", [PASSING, FAILING], lambda w: w.fail(), {"failure_threshold": 3}),
    Scene("failure-failure-opens", [FAILING, FAILING]),
    Scene("failure-failure", [FAILING, FAILING], settings={"failure_threshold": 3}),
    Scene(
        "success-success-at-the-minimum",
        [PASSING, PASSING],
        lambda w: w.fail(),
        {**RATE, "minimum_calls": 2},
        every=2,
    ),
    Scene(
        "calm-success-success-at-the-minimum",
        [PASSING, PASSING],
        lambda w: (w.fail(), w.succeed(2)),
        {**RATE, "minimum_calls": 4, "failure_rate_threshold": 25},
        every=2,
    ),
    Scene(
        "success-failure-in-the-window",
        [PASSING, FAILING],
        lambda w: w.succeed(3),
        {**RATE, "minimum_calls": 4},
        twin=False,
    ),
    Scene(
        "successes-pass-a-failure",
        [FAILING, many(PASSING, 4)],
        lambda w: w.succeed(3),
        {**RATE, "window_size": 3, "minimum_calls": 3},
        twin=False,
    ),
    Scene(
        "success-success-in-the-time-window",
        [PASSING, PASSING],
        lambda w: (w.fail(), w.clock.advance(1)),
        {**TIMED, "minimum_calls": 2},
        every=3,
    ),
    Scene(
        "success-failure-in-the-time-window",
        [PASSING, FAILING],
        lambda w: (w.succeed(), w.clock.advance(1)),
        {**TIMED, "minimum_calls": 4},
        every=3,
    ),
    Scene("probe-probe", [PASSING, PASSING], _expire, limit=1, every=2),
    Scene("probe-failing-probe", [PASSING, FAILING], _expire, limit=1, every=3),
    Scene("two-probes", [PASSING, FAILING], _expire, {"probe_limit": 2}, limit=2, every=3),
    Scene(
        "two-probes-close",
        [PASSING, PASSING],
        _expire,
        {"probe_limit": 2, "probe_success_threshold": 2},
        limit=2,
        every=3,
    ),
    Scene("probe-ends-probe-begins", [settle_block, FAILING], _hold_a_probe, every=2),
    Scene("reset-failure", [reset, FAILING], lambda w: w.fail()),
    Scene("reset-success", [reset, PASSING], lambda w: w.succeed(), {**RATE, "minimum_calls": 3}),
    Scene("reset-probe", [reset, FAILING], _expire, every=2),
    Scene("reset-force", [reset, force], lambda w: w.fail(2), twin=False),
    Scene("force-failure", [force, FAILING], lambda w: w.fail(), every=2),
    Scene("force-success", [force, PASSING], lambda w: w.succeed(), every=2),
    Scene(
        "look-failure",
        [look, FAILING],
        lambda w: w.fail(),
        {"window_size": 4, "minimum_calls": 4},
    ),
    Scene("look-success", [look, PASSING], lambda w: w.succeed(), RATE, twin=False),
    Scene("look-probe", [look, PASSING], _expire, every=2, twin=False),
    Scene(
        "reconfigure-failure",
        [act(_reconfigure), FAILING],
        lambda w: w.fail(),
        {"failure_threshold": 9, "window_size": 3, "minimum_calls": 3},
        every=2,
    ),
    Scene(
        "reconfigure-success",
        [act(_reconfigure), PASSING],
        lambda w: w.fail(),
        {"failure_threshold": 9, "window_size": 3, "minimum_calls": 3},
        every=2,
        twin=False,
    ),
    Scene("dropped-probe", [act(_drop_block), PASSING], _hold_a_probe, every=2, twin=False),
]

TRIOS = [
    Scene("failures", [FAILING, FAILING, FAILING], settings={"failure_threshold": 3}),
    Scene("reset-between", [FAILING, reset, FAILING], lambda w: w.fail(), {"failure_threshold": 3}),
    Scene("three-probes", [PASSING, FAILING, PASSING], _expire, {"probe_limit": 2}, limit=2),
    # A reset in the middle of a probe lets the other call through: the circuit is closed.
    Scene("probes-and-reset", [PASSING, reset, FAILING], _expire, limit=2),
    Scene("force-and-calls", [FAILING, force, PASSING], lambda w: w.fail()),
    Scene(
        "successes-at-the-minimum",
        [PASSING, PASSING, PASSING],
        lambda w: w.fail(),
        {**RATE, "minimum_calls": 2},
    ),
]
