"""Nothing leaks: random calls over threads and tasks leave every count at zero, and all still works."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from breakerkit import (
    BreakerkitError,
    abandoned_work,
    breaker,
    bulkhead,
    check_deadline,
    failover,
    fallback,
    pipeline,
    timeout,
)
from tests.isolation.importable import kill_me

#: Calls in all; half of them from threads, half from tasks.
CALLS = int(os.environ.get("BREAKERKIT_LEAK_CALLS", "100000"))
THREADS = 16
TASKS = 200


class Flood:
    """Random calls through a pipeline of every policy; hooks that raise, cancellations, expiries."""

    def __init__(self) -> None:
        self.bulkhead = bulkhead("flood", max_concurrent=8, max_waiting=8, max_wait=0.005)
        self.breaker = breaker(
            "flood", failure_threshold=50, open_duration=0.001, failure_on=_picky_filter
        )
        self.failover = failover(("one", "two"), name="flood", breaker=None)
        self.limit = timeout(0.01, name="flood")
        self.pipeline = pipeline(
            fallback(_cure, name="flood", on=(LookupError,)),
            self.breaker,
            self.bulkhead,
            self.limit,
            self.failover,
        )
        for policy in (self.bulkhead, self.breaker, self.failover, self.limit):
            policy.subscribe(_raising_listener)

    def plain(self, provider: str, dice: random.Random) -> str:
        """Do one of the things a function may do."""
        _end(dice)
        check_deadline()
        return provider

    async def later(self, provider: str, dice: random.Random) -> str:
        """Do the same, and now and then hang until a limit or a cancellation ends it."""
        _end(dice)
        await asyncio.sleep(0)
        if dice.random() < 0.02:
            await asyncio.Event().wait()
        return provider


def _end(dice: random.Random) -> None:
    number = dice.random()
    if number < 0.1:
        raise OSError("down")
    if number < 0.15:
        raise LookupError("degraded")
    if number < 0.17:
        raise ValueError("the caller's own")


def _cure(_: Any) -> str:
    return "cured"


def _picky_filter(error: Exception) -> bool:
    if isinstance(error, ValueError):
        raise TypeError("a filter that raises")
    return isinstance(error, OSError)


def _raising_listener(_: Any) -> None:
    raise RuntimeError("a listener that raises")


def _threads(flood: Flood) -> None:
    call: Any = flood.pipeline(flood.plain)

    def run(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(CALLS // 2 // THREADS):
            try:
                call(dice)
            except (BreakerkitError, OSError, ValueError):
                pass

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _tasks(flood: Flood) -> None:
    call: Any = flood.pipeline(flood.later)

    async def run(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(CALLS // 2 // TASKS):
            task = asyncio.ensure_future(call(dice))
            if dice.random() < 0.05:
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                await task
            except (BreakerkitError, OSError, ValueError, asyncio.CancelledError):
                pass

    await asyncio.gather(*(run(seed) for seed in range(TASKS)))


@pytest.mark.filterwarnings("ignore::breakerkit.PipelineWarning")
def test_a_flood_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Threads and tasks at once: capacity, queue, probes and ledger end at 0, and all still works."""
    flood = Flood()
    loop = threading.Thread(target=lambda: asyncio.run(_tasks(flood)))
    loop.start()
    _threads(flood)
    loop.join()
    seen = flood.bulkhead.snapshot()
    assert (seen.running, seen.waiting) == (0, 0)
    assert flood.breaker.snapshot().probes_active == 0
    assert list(abandoned_work()) == []
    flood.breaker.reset()
    with_slots = [flood.bulkhead.guard() for _ in range(8)]
    for block in with_slots:
        block.__enter__()
    assert flood.bulkhead.snapshot().running == 8
    for block in with_slots:
        block.__exit__(None, None, None)
    assert flood.pipeline.call(lambda _provider: "still runs") == "still runs"
    assert caplog.records


class Depths:
    """What runs, or waits, elsewhere: worker threads and processes, abandoned work, pending retries."""

    def __init__(self) -> None:
        self.pool = bulkhead("depths", isolation="thread", max_concurrent=4, max_waiting=16)
        self.processes = bulkhead(
            "processes", isolation="process", max_concurrent=2, max_waiting=99
        )
        self.abandoning = timeout(0.002, name="depths", mode="abandon", max_abandoned=32)
        self.retrying = failover(
            ("one", "two"), name="depths", strategy="failback", retry_interval=60, max_pending=20
        )
        self.ended = threading.Event()
        for policy in (self.pool, self.processes, self.abandoning, self.retrying):
            policy.subscribe(_raising_listener)

    def one(self, dice: random.Random) -> None:
        """Make one random call."""
        number = dice.random()
        if number < 0.4:
            self.pool.call(_end, dice)
        elif number < 0.7:
            pipeline(self.pool, self.abandoning).call(self.linger, dice)
        elif number < 0.98:
            self.retrying.call(lambda _provider: _end(dice))
        else:
            self.processes.call(kill_me if dice.random() < 0.2 else os.getpid)

    def linger(self, dice: random.Random) -> None:
        """Now and then be longer than the limit allows: until somebody says that it is over."""
        if dice.random() < 0.02:
            self.ended.wait(0.01)
        _end(dice)


def _crowd(depths: Depths) -> None:
    def run(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(CALLS // 10 // THREADS):
            try:
                depths.one(dice)
            except (BreakerkitError, OSError, LookupError, ValueError):
                pass

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads are about to do."""
    patience, wait = 4000, threading.Event()
    while not condition() and patience:
        wait.wait(0.005)
        patience -= 1
    assert condition()


@pytest.mark.filterwarnings("ignore::breakerkit.PipelineWarning")
def test_a_flood_of_what_runs_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    """Dying workers, abandoned work and retries that wait: counts end at 0, and the pools still run."""
    depths = Depths()
    _crowd(depths)
    depths.ended.set()
    _until(lambda: not abandoned_work())
    for pool in (depths.pool, depths.processes):
        seen = pool.snapshot()
        assert (seen.running, seen.waiting) == (0, 0)
    assert depths.abandoning.snapshot().abandoned_now == ()
    assert depths.retrying.snapshot().pending
    depths.retrying.close()
    assert not depths.retrying.snapshot().pending
    assert depths.pool.call(int, "7") == depths.processes.call(int, "7") == 7
    assert depths.abandoning.call(int, "7") == 7
    assert caplog.records
