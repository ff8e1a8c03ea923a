"""Every preemption of one thread by another, and random ones of three, against all orders of whole steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.concurrency.scheduling import AtRandom, NoLock, TurnLock
from tests.concurrency.tracing import instrumented
from tests.concurrency.worlds import (
    FAILING,
    PASSING,
    Body,
    Down,
    World,
    act,
    allowed,
    call,
    function_call,
    interleaved,
    many,
    preemptions,
)


@pytest.fixture(scope="module", autouse=True)
def _told_of_opcodes() -> Iterator[None]:
    with instrumented():
        yield


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


_rate = {"failure_threshold": 9, "window_size": 4, "failure_rate_threshold": 50}
_timed = {"failure_threshold": 9, "window_duration": 10, "failure_rate_threshold": 50}
reset = act(lambda world: world.breaker.reset())
force = act(lambda world: world.breaker.force_open())
look = act(lambda world: world.seen()[:-1])
settle_block = act(lambda world: world.blocks.pop().__exit__(None, None, None))


def _reconfigure(world: World) -> None:
    world.breaker.reconfigure(failure_threshold=2, window_size=2, minimum_calls=1)


def _drop_block(world: World) -> None:
    world.blocks.clear()


def _hang(world: World) -> None:
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
        {**_rate, "minimum_calls": 2},
        every=2,
    ),
    Scene(
        "calm-success-success-at-the-minimum",
        [PASSING, PASSING],
        lambda w: (w.fail(), w.succeed(2)),
        {**_rate, "minimum_calls": 4, "failure_rate_threshold": 25},
        every=2,
    ),
    Scene(
        "success-failure-in-the-window",
        [PASSING, FAILING],
        lambda w: w.succeed(3),
        {**_rate, "minimum_calls": 4},
        twin=False,
    ),
    Scene(
        "successes-pass-a-failure",
        [FAILING, many(PASSING, 4)],
        lambda w: w.succeed(3),
        {**_rate, "window_size": 3, "minimum_calls": 3},
        twin=False,
    ),
    Scene(
        "success-success-in-the-time-window",
        [PASSING, PASSING],
        lambda w: (w.fail(), w.clock.advance(1)),
        {**_timed, "minimum_calls": 2},
        every=3,
    ),
    Scene(
        "success-failure-in-the-time-window",
        [PASSING, FAILING],
        lambda w: (w.succeed(), w.clock.advance(1)),
        {**_timed, "minimum_calls": 4},
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
    Scene("reset-success", [reset, PASSING], lambda w: w.succeed(), {**_rate, "minimum_calls": 3}),
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
    Scene("look-success", [look, PASSING], lambda w: w.succeed(), _rate, twin=False),
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


_scenes = pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
_twins = [scene for scene in SCENES if scene.twin]


@_scenes
def test_any_preemption_is_some_order_of_whole_steps(scene: Scene) -> None:
    """Wherever one thread is preempted, what is seen is what some serial order shows."""
    assert list(scene.faults(TurnLock, scene.every)) == []


@_scenes
def test_what_a_listener_hears_is_some_order_too(scene: Scene) -> None:
    """With a listener, events come as some serial order tells them, and nothing else changes."""

    def before(world: World) -> None:
        scene.before(world.listen())

    heard = replace(scene, before=before)
    assert list(heard.faults(TurnLock, 4 * scene.every - 1)) == []


@pytest.mark.parametrize("scene", _twins, ids=[scene.name for scene in _twins])
def test_the_unlocked_twin_is_caught(scene: Scene) -> None:
    """The same check finds the faults of a breaker whose lock does nothing."""
    assert any(any(scene.faults(NoLock, every)) for every in (17, 5, 1))


@pytest.mark.parametrize("error", [None, Down()], ids=["success", "failure"])
def test_a_decorated_function_is_no_other(error: BaseException | None) -> None:
    """A function's own path, preempted anywhere, shows what a block's whole steps show."""
    settings = {**_rate, "minimum_calls": 3, "failure_threshold": 3}
    scene = Scene("", [call(error), FAILING], lambda w: w.succeed(), settings)
    good = allowed(scene.make, scene.bodies)
    for where, seen, _ in preemptions(scene.make, [function_call(error), FAILING], TurnLock, 2):
        assert seen in good, where


def test_a_slow_call_is_counted_once() -> None:
    """A call that ends while another thread sweeps for slow ones is in the tally once."""
    settings = {"window_size": 9, "minimum_calls": 9, "slow_call_duration": 2}
    scene = Scene("", [settle_block, PASSING], _hang, settings)
    for where, _, world in preemptions(scene.make, scene.bodies, TurnLock, 2):
        seen = world.breaker.snapshot()
        assert (seen.slow_window_calls, seen.slow_calls, seen.window_calls) == (3, 1, 3), where


def test_an_overtaken_reading_of_the_clock_moves_no_period() -> None:
    """A call that read the clock before another thread opened the breaker does not cut the period."""
    settings = {"window_size": 9, "minimum_calls": 9, "slow_call_duration": 2}

    def open_later(world: World) -> None:
        world.clock.advance(3)
        world.fail()

    scene = Scene("", [PASSING, act(open_later)], lambda w: w.fail(), settings)
    ends = {
        world.breaker.snapshot().retry_after
        for _, _, world in preemptions(scene.make, scene.bodies, TurnLock)
    }
    assert ends == {10.0, None}


TRIOS = [
    Scene("failures", [FAILING, FAILING, FAILING], settings={"failure_threshold": 3}),
    Scene("reset-between", [FAILING, reset, FAILING], lambda w: w.fail(), {"failure_threshold": 3}),
    Scene("three-probes", [PASSING, FAILING, PASSING], _expire, {"probe_limit": 2}, limit=2),
    Scene("probes-and-reset", [PASSING, reset, FAILING], _expire, limit=1),
    Scene("force-and-calls", [FAILING, force, PASSING], lambda w: w.fail()),
    Scene(
        "successes-at-the-minimum",
        [PASSING, PASSING, PASSING],
        lambda w: w.fail(),
        {**_rate, "minimum_calls": 2},
    ),
]


@pytest.mark.parametrize("scene", TRIOS, ids=[scene.name for scene in TRIOS])
def test_three_threads_at_random(scene: Scene) -> None:
    """Three threads that hand over at random show what some serial order shows; seeds are fixed."""
    good = allowed(scene.make, scene.bodies)
    for seed in range(120):
        plan = AtRandom(seed, every=(5, 20, 60)[seed % 3])
        seen, world = interleaved(scene.make, scene.bodies, plan, TurnLock())
        assert seen in good, seed
        assert world.most_running <= scene.limit


@pytest.mark.parametrize("scene", TRIOS[:3], ids=[scene.name for scene in TRIOS[:3]])
def test_three_threads_without_a_lock_are_caught(scene: Scene) -> None:
    """The same random check finds the faults of the unlocked twin."""
    good = allowed(scene.make, scene.bodies)
    seen = (
        interleaved(scene.make, scene.bodies, AtRandom(seed, every=10), NoLock())[0]
        for seed in range(300)
    )
    assert any(one not in good for one in seen)
