"""Every preemption of one thread by another, and random ones of three, against all orders of whole steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.concurrency.scenes import RATE, SCENES, TRIOS, Scene, hang, settle_block
from tests.concurrency.scheduling import AtRandom, NoLock, TurnLock
from tests.concurrency.tracing import instrumented, whole
from tests.concurrency.worlds import (
    FAILING,
    PASSING,
    Down,
    World,
    act,
    allowed,
    call,
    function_call,
    interleaved,
    preemptions,
)


@pytest.fixture(scope="module", autouse=True)
def _told_of_opcodes() -> Iterator[None]:
    with instrumented():
        yield


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


@whole
@pytest.mark.parametrize("scene", _twins, ids=[scene.name for scene in _twins])
def test_the_unlocked_twin_is_caught(scene: Scene) -> None:
    """The same check finds the faults of a breaker whose lock does nothing."""
    assert any(any(scene.faults(NoLock, every)) for every in (17, 5, 1))


@pytest.mark.parametrize("error", [None, Down()], ids=["success", "failure"])
def test_a_decorated_function_is_no_other(error: BaseException | None) -> None:
    """A function's own path, preempted anywhere, shows what a block's whole steps show."""
    settings = {**RATE, "minimum_calls": 3, "failure_threshold": 3}
    scene = Scene("", [call(error), FAILING], lambda w: w.succeed(), settings)
    good = allowed(scene.make, scene.bodies)
    for where, seen, _ in preemptions(scene.make, [function_call(error), FAILING], TurnLock, 2):
        assert seen in good, where


def test_a_slow_call_is_counted_once() -> None:
    """A call that ends while another thread sweeps for slow ones is in the tally once."""
    settings = {"window_size": 9, "minimum_calls": 9, "slow_call_duration": 2}
    scene = Scene("", [settle_block, PASSING], hang, settings)
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


@pytest.mark.parametrize("scene", TRIOS, ids=[scene.name for scene in TRIOS])
def test_three_threads_at_random(scene: Scene) -> None:
    """Three threads that hand over at random show what some serial order shows; seeds are fixed."""
    good = allowed(scene.make, scene.bodies)
    for seed in range(120):
        plan = AtRandom(seed, every=(5, 20, 60)[seed % 3])
        seen, world = interleaved(scene.make, scene.bodies, plan, TurnLock())
        assert seen in good, seed
        assert world.most_running <= scene.limit


@whole
@pytest.mark.parametrize("scene", TRIOS[:3], ids=[scene.name for scene in TRIOS[:3]])
def test_three_threads_without_a_lock_are_caught(scene: Scene) -> None:
    """The same random check finds the faults of the unlocked twin."""
    good = allowed(scene.make, scene.bodies)
    seen = (
        interleaved(scene.make, scene.bodies, AtRandom(seed, every=10), NoLock())[0]
        for seed in range(300)
    )
    assert any(one not in good for one in seen)
