"""Thousands of calls in threads and tasks, with expiries, cancellations and broken hooks: nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from typing import Any

from breakerkit import (
    CallTimeoutError,
    DeadlineExceededError,
    LedgerFullError,
    abandoned_work,
    check_deadline,
    current_deadline,
    timeout,
)
from breakerkit._abandoned import ledger
from breakerkit.deadline._workers import pool
from tests.deadline.test_abandon import until

THREADS, ROUNDS = 6, 250


class Broken(Exception):
    """What work and listeners raise."""


def broken(event: object) -> None:
    raise Broken


def test_nothing_is_left(caplog: Any):
    """The ledger and the places end at 0, the counts agree with what callers saw, all still works."""
    before = len(pool.idle)
    one = timeout(0.003, name="abandon", mode="abandon", max_abandoned=8)
    two = timeout(0.003, name="cooperative")
    one.subscribe(broken)
    seen: dict[str, int] = {"expired": 0, "rejected": 0, "calls": 0}
    lock = threading.Lock()

    def tell(name: str) -> None:
        with lock:
            seen[name] += 1

    def work(dice: random.Random) -> None:
        fate = dice.random()
        if fate < 0.15:
            time.sleep(0.006)
        elif fate < 0.3:
            raise Broken
        elif fate < 0.4:
            until(lambda: current_deadline().signal.cancelled)
            check_deadline()

    def call(dice: random.Random) -> None:
        tell("calls")
        try:
            one.call(work, dice)
        except CallTimeoutError:
            tell("expired")
        except (LedgerFullError, DeadlineExceededError):
            tell("rejected")  # or no thread has come to it in time
        except Broken:
            pass
        assert current_deadline() is None

    async def nap(dice: random.Random) -> None:
        await asyncio.sleep(dice.random() * 0.006)
        if dice.random() < 0.2:
            raise Broken

    async def task(dice: random.Random) -> None:
        guarded = asyncio.ensure_future(two.call(nap, dice))
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.004)
            guarded.cancel()
        await asyncio.wait([guarded])
        if not guarded.cancelled() and guarded.exception() is not None:
            assert isinstance(guarded.exception(), Broken | CallTimeoutError)
            if isinstance(guarded.exception(), CallTimeoutError):
                tell("cut off")

    async def tasks(dice: random.Random) -> None:
        await asyncio.gather(*(task(dice) for _ in range(ROUNDS)))
        loop: Any = asyncio.get_running_loop()
        assert all(handle.cancelled() for handle in loop._scheduled)

    def run(seed: int) -> None:
        dice = random.Random(seed)
        try:
            for _ in range(ROUNDS):
                call(dice)
            asyncio.run(tasks(dice))
        except BaseException as error:
            faults.append(error)
            raise

    seen["cut off"] = 0
    faults: list[BaseException] = []
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    until(lambda: one.snapshot().working == 0)
    until(lambda: abandoned_work() == [])
    assert ledger.works() == []
    counted = one.snapshot()
    assert (counted.calls, counted.rejected) == (seen["calls"], seen["rejected"])
    assert counted.expired == seen["expired"] > 0
    assert counted.abandoned_now == ()
    assert two.snapshot().expired == seen["cut off"] > 0
    assert two.snapshot().calls == THREADS * ROUNDS
    one.reconfigure(seconds=30)
    assert one.call(lambda: "works") == "works"
    # Eight at work; a place is free a moment before its thread is, once for each caller.
    assert len(pool.idle) <= max(8 + THREADS, before)
    with contextlib.suppress(LookupError):
        assert [record for record in caplog.records if "never retrieved" in record.message] == []
