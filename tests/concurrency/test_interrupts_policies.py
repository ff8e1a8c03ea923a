"""Ctrl-C wherever a signal comes in: no slot, place, fork or limit is left behind."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from breakerkit import Registry, _ambient, breaker, bulkhead, failover, pipeline, timeout
from breakerkit._abandoned import ledger
from breakerkit.testing import ManualClock
from tests.concurrency.tracing import signalled
from tests.isolation.rig import until


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Python itself swallows one that comes in a destructor.
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    yield
    gc.enable()


def interrupt_everywhere(
    make: Callable[[], Any], act: Callable[[Any], object], well: Callable[[Any], None]
) -> int:
    """Interrupt ``act`` at each place in turn; return how many there were."""
    for step in itertools.count(1):
        world = make()
        gc.disable()
        places: list[str] = []
        try:
            with signalled(step) as places:
                act(world)
        except KeyboardInterrupt:
            pass
        gc.enable()
        # Only now: while the error is handled, its traceback holds what its frames held.
        gc.collect(1)
        assert _ambient.live(_ambient.limit.get()) is None, places
        well(world)
        if not places:
            return step
    raise AssertionError


class World:
    """Policies, and a function behind them that fails where it is told to."""

    def __init__(self, **kinds: Any) -> None:
        self.clock, self.registry = ManualClock(), Registry()
        self.heard: list[Any] = []
        usual = {"clock": self.clock, "registry": self.registry}
        self.bulkhead = bulkhead(max_concurrent=1, max_waiting=0, **usual)
        self.breaker = breaker(failure_threshold=9, **usual)
        self.timeout = timeout(30, mode=kinds.get("mode", "cooperative"), **usual)
        more = {"background": False} if kinds.get("strategy") == "failback" else {}
        self.failover: Any = failover(
            ["a", "b"], strategy=kinds.get("strategy", "failover"), **more, **usual
        )
        self.down: tuple[str, ...] = ()
        if kinds.get("told"):
            self.registry.subscribe(self.heard.append)

    def serve(self, provider: str = "a") -> str:
        """Answer, or fail."""
        if provider in self.down:
            raise ConnectionError(provider)
        return provider

    def idle(self) -> None:
        """Assert that all counts are back at none, once the threads have ended."""
        until(self._nothing_runs)
        assert not any(keeper.lock._is_owned() for keeper in self.keepers())
        # Nobody delivers for good; what an interrupted listener left waiting the next call tells.
        assert not any(keeper.hub._delivering.turn for keeper in self.keepers())
        self.down = ()
        assert self.bulkhead.call(self.serve) == "a"
        assert self.timeout.call(self.serve) == "a"
        assert self.failover.call(World.serve, self) in {"a", "b"}

    def keepers(self) -> list[Any]:
        """Return what stands behind the policies."""
        return [one._guard for one in (self.bulkhead, self.breaker, self.timeout, self.failover)]

    def _nothing_runs(self) -> bool:
        seen = self.bulkhead.snapshot()
        return not (
            seen.running
            or seen.waiting
            or self.timeout.snapshot().working
            or ledger.works()
            or self.failover._guard.losers
            or self.failover._guard.retries._queue._running
        )


def by_bulkhead(world: World) -> None:
    """A call through a bulkhead, and a block."""
    world.bulkhead.call(world.serve)
    with world.bulkhead.guard():
        pass


def by_timeout(world: World) -> None:
    """A call under a limit, and a function."""
    world.timeout.call(world.serve)
    world.timeout(lambda: world.serve())()


def by_failover(world: World) -> None:
    """A call to one of several."""
    world.failover.call(World.serve, world)


def by_second(world: World) -> None:
    """A call whose first provider fails."""
    world.down = ("a",)
    by_failover(world)


def by_pipeline(world: World) -> None:
    """A call through all of them."""
    pipeline(world.bulkhead, world.breaker, world.timeout).call(world.serve)


CALLS = [
    (by_bulkhead, {}),
    (by_timeout, {}),
    (by_timeout, {"mode": "abandon"}),
    (by_second, {}),
    (by_second, {"strategy": "forking"}),
    (by_second, {"strategy": "failback"}),
    (by_failover, {"strategy": "broadcast"}),
    (by_pipeline, {}),
    (by_pipeline, {"mode": "abandon"}),
    (by_pipeline, {"told": "listeners"}),
    (by_second, {"told": "listeners"}),
]


@pytest.mark.parametrize(
    ("act", "kinds"),
    CALLS,
    ids=["-".join((act.__name__, *kinds.values())) for act, kinds in CALLS],
)
def test_ctrl_c_in_a_call(act: Callable[[World], None], kinds: Any) -> None:
    """Wherever a signal may come in a call, nothing is taken once its threads have ended, and the next works."""
    assert interrupt_everywhere(lambda: World(**kinds), act, World.idle) > 5
