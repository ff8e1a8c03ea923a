"""What comes between two opcodes of one thread: a signal handler, a destructor, Ctrl-C."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from breakerkit import CircuitOpenError, Mode, State
from tests.concurrency.scheduling import TurnLock
from tests.concurrency.tracing import instrumented, interrupted, signalled
from tests.concurrency.worlds import FAILING, PASSING, Down, World
from tests.shapes import in_thread, raising, returning


@pytest.fixture
def opcodes() -> Iterator[None]:
    """Be told of every opcode, and let no collection come between of itself."""
    gc.disable()
    with instrumented():
        yield
    gc.enable()


def _end_block(world: World) -> None:
    if world.blocks:
        world.blocks.pop().__exit__(None, None, None)


def _drop_block(world: World) -> None:
    block = world.breaker.guard()
    try:
        block.__enter__()
    except CircuitOpenError:
        pass


def _reset(world: World) -> None:
    world.breaker.reset()


def _reset_and_read(world: World) -> None:
    world.breaker.reset()
    world.breaker.why()


def _force(world: World) -> None:
    world.breaker.force_open().release()


def _reconfigure(world: World) -> None:
    world.breaker.reconfigure(failure_threshold=4, window_size=3, minimum_calls=1)


def _listen(world: World) -> None:
    world.breaker.subscribe(lambda event: None)()


def _read(world: World) -> None:
    world.breaker.snapshot()
    world.breaker.why()


def _succeed(world: World) -> None:
    PASSING.run(world)


def _fail(world: World) -> None:
    FAILING.run(world)


DEEDS = [
    _succeed, _fail, _end_block, _drop_block, _reset_and_read, _force, _reconfigure, _listen, _read,
]  # fmt: skip


def _closed(world: World) -> None:
    world.fail()


def _expired(world: World) -> None:
    world.fail(2)
    world.clock.advance(10)


def _half_open(world: World) -> None:
    _expired(world)
    world.blocks.append(world.breaker.guard())
    world.blocks[-1].__enter__()


WORLDS: dict[str, tuple[Callable[[World], None], dict[str, Any]]] = {
    "closed": (_closed, {"window_size": 4, "minimum_calls": 3, "slow_call_duration": 5}),
    "expired": (_expired, {}),
    "half-open": (_half_open, {"probe_limit": 2, "probe_success_threshold": 2}),
}


def _make(name: str) -> World:
    before, settings = WORLDS[name]
    world = World(TurnLock(), failure_threshold=2, **settings)
    before(world)
    return world


def _still_works(world: World) -> None:
    """Assert that a breaker opens, probes and closes as if nothing had happened."""
    guarded = world.breaker.reset()
    assert (guarded.state, guarded.mode, guarded.handles) == (State.CLOSED, Mode.AUTO, ())
    for _ in range(guarded.config.failure_threshold or 0):
        with pytest.raises((Down, CircuitOpenError)):
            guarded.call(raising(Down()))
    assert guarded.state is State.OPEN
    world.clock.advance(10)
    for _ in range(guarded.config.probe_success_threshold):
        assert guarded.state is State.HALF_OPEN
        assert guarded.call(returning(7)) == 7
    assert (guarded.state, guarded.snapshot().consecutive_failures) == (State.CLOSED, 0)


def _under_the_lock(make: Callable[[], World], outer: Callable[[World], Any]) -> list[int]:
    """Return which opcodes of ``outer`` run under the lock."""
    world, steps, found = make(), itertools.count(1), []

    def look() -> int:
        step = next(steps)
        if world.lock._is_owned():
            found.append(step)
        return 1

    with interrupted(1, look):
        outer(world)
    assert found, "it was never under the lock"
    return found


def _interruptions(
    make: Callable[[], World], outer: Callable[[World], Any], by: Callable[[World], Any], every: int
) -> Iterator[World]:
    """Do ``outer`` in a new world, and ``by`` before one opcode that runs under the lock; each in turn."""
    for step in _under_the_lock(make, outer)[::every]:
        world = make()
        with interrupted(step, functools.partial(_do, by, world)):
            outer(world)
        yield world


def _do(by: Callable[[World], Any], world: World) -> None:
    by(world)


@pytest.mark.usefixtures("opcodes")
@pytest.mark.parametrize("place", WORLDS)
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__.strip("_"))
def test_a_handler_may_come_at_any_opcode(place: str, deed: Callable[[World], Any]) -> None:
    """Whatever a signal handler or destructor does under the very lock, nothing hangs or breaks."""
    for outer in (_succeed, _fail, _reset, _force):
        for world in _interruptions(lambda: _make(place), outer, deed, 11):
            seen = world.breaker.snapshot()
            assert seen.probes_active <= world.breaker.config.probe_limit
            assert world.lock.owner is None
            _still_works(world)


@pytest.mark.usefixtures("opcodes")
def test_a_handlers_change_is_made_when_the_present_one_is_over() -> None:
    """A ``reset()`` in the middle of an opening comes after it; so does a switch."""
    for world in _interruptions(lambda: _make("closed"), _fail, _reset, 1):
        assert world.breaker.state is State.CLOSED
        assert world.opened in ([], ["consecutive failures"])
    for world in _interruptions(
        lambda: _make("closed"), _fail, lambda world: world.breaker.force_open(by="handler"), 1
    ):
        assert [handle.by for handle in world.breaker.handles] == ["handler"]
        assert world.breaker.mode is Mode.FORCED_OPEN


@pytest.mark.usefixtures("opcodes")
def test_a_handlers_call_under_a_switch() -> None:
    """A call in the middle of a change is refused while forced open, and passes while disabled."""

    def forced() -> World:
        world = _make("closed")
        world.breaker.force_open()
        return world

    def disabled() -> World:
        world = _make("closed")
        world.breaker.disable()
        return world

    for world in _interruptions(forced, _reset, _succeed, 3):
        assert world.runs == 1
    for world in _interruptions(disabled, _reset, _succeed, 3):
        assert world.runs == 2
        assert world.breaker.snapshot().successes == 0


@pytest.mark.usefixtures("opcodes")
def test_a_real_signal_handler_calls_through_the_breaker() -> None:
    """A signal that arrives under the lock runs its handler there and then, without deadlock."""
    worlds: list[World] = []

    def handler(number: int, frame: Any) -> None:
        _fail(worlds[-1])

    def arrive(world: World) -> None:
        worlds.append(world)
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for world in _interruptions(lambda: _make("closed"), _fail, arrive, 5):
            assert worlds[-1] is world
            assert world.breaker.snapshot().calls == 3
            _still_works(world)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("opcodes")
def test_a_generator_collected_under_the_lock_gives_its_slot_back() -> None:
    """A guarded generator in a garbage cycle is closed by the collector, wherever that runs."""

    def make() -> World:
        world = _make("expired")

        @world.breaker
        def items() -> Iterator[int]:
            yield 1
            yield 2

        stream = items()
        next(stream)
        cycle: list[Any] = [stream]
        cycle.append(cycle)
        world.clock.advance(1)
        return world

    for world in _interruptions(make, _succeed, lambda _: gc.collect(0), 9):
        assert world.breaker.snapshot().probes_active == 0
        assert world.breaker.call(returning(7)) == 7
        assert world.breaker.state is State.CLOSED


@pytest.mark.parametrize("place", WORLDS)
@pytest.mark.parametrize("outer", [_succeed, _fail, _reset, _force], ids=lambda deed: deed.__name__)
def test_ctrl_c_costs_no_slot_for_long(
    monkeypatch: pytest.MonkeyPatch, place: str, outer: Callable[[World], Any]
) -> None:
    """After Ctrl-C wherever a signal comes in the lock is free, and no slot is held longer than a probe may."""
    # Python itself swallows one that comes in a destructor.
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    for step in itertools.count(1):
        world = _make(place)
        gc.disable()
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(KeyboardInterrupt))
            places = stack.enter_context(signalled(step))
            outer(world)
        gc.enable()
        if not places:
            break
        _recovers(world)
    assert step > 5


def _recovers(world: World) -> None:
    assert world.lock.owner is None
    world.blocks.clear()
    for handle in world.breaker.handles:
        handle.release()
    assert in_thread(world.breaker.snapshot).probes_active <= world.breaker.config.probe_limit
    world.clock.advance(10)
    assert in_thread(lambda: world.breaker.call(returning(7))) == 7
    _still_works(world)
