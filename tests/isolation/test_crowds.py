"""Crowds: threads, tasks, cancellations, raising hooks and forks at once; in the end all is as it was."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import breakerkit
from breakerkit import BulkheadFullError, bulkhead
from tests.isolation.rig import Background, full, idle, until, waiting

#: Calls of each thread and task; a longer run says so.
CALLS = int(os.environ.get("BREAKERKIT_CROWD", "25"))


class Hook(Exception):
    """What a hook of the test raises."""


@pytest.mark.parametrize("settings", [{}, {"order": "lifo"}, {"stuck_after": 1}, {"shares": {"a": 0.5}}], ids=str)  # fmt: skip
def test_a_crowd_leaves_nothing_behind(settings: Any) -> None:
    """16 threads and 200 tasks call, wait, give up, raise and are cancelled: capacity and queue end at 0."""

    def share_of(*args: Any) -> str:
        if random.random() < 0.05:
            raise Hook
        return random.choice("ab")

    if "shares" in settings:
        settings = {**settings, "share_of": share_of}
    b = bulkhead(max_concurrent=5, max_waiting=30, max_wait=0.05, **settings)
    lock, inside, most = threading.Lock(), 0, 0

    def listen(event: Any) -> None:
        if random.random() < 0.1:
            raise Hook

    b.subscribe(listen)

    def enter(step: int) -> None:
        nonlocal inside, most
        with lock:
            inside += step
            most = max(most, inside)

    @b
    def work() -> None:
        enter(1)
        try:
            threading.Event().wait(random.random() * 0.0005)
            if random.random() < 0.2:
                raise Hook
        finally:
            enter(-1)

    @b
    async def later() -> None:
        enter(1)
        try:
            await asyncio.sleep(random.random() * 0.0005)
            if random.random() < 0.2:
                raise Hook
        finally:
            enter(-1)

    def thread() -> None:
        for _ in range(CALLS):
            try:
                work()
            except (Hook, BulkheadFullError):
                pass

    async def task() -> None:
        for _ in range(max(1, CALLS // 8)):
            try:
                await asyncio.wait_for(later(), random.choice([None, 0.0002, 0.01]))
            except (Hook, BulkheadFullError, TimeoutError):
                pass

    async def main() -> None:
        tasks = [asyncio.create_task(task()) for _ in range(100)]
        await asyncio.sleep(0.005)
        for one in random.sample(tasks, 20):
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    background = Background()
    for _ in range(16):
        background.call(thread)
    for _ in range(2):
        background.call(lambda: asyncio.run(main()))
    for limit in (3, 7, 2, 5):
        threading.Event().wait(0.005)
        b.reconfigure(max_concurrent=limit)
    assert background.join() == [None] * 18
    assert most <= 7
    b.reconfigure(shares=None, share_of=None)
    seen = b.snapshot()
    assert (seen.running, seen.waiting, inside) == (0, 0, 0)
    idle(b)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("scene", ["busy", "held", "inside", "pool"])
def test_a_forked_child(scene: str) -> None:
    """A forked child has fresh locks and all slots, nobody waits there, and no worker (C033)."""
    # From 3.12 on Python warns of any fork beside threads: that is what is tested here.
    mode = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    root = str(Path(breakerkit.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *mode, __file__, scene],
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def in_child(act: Callable[[], Any]) -> None:
    """Fork, let the child do this within two seconds, and see that it ended well."""
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}"


def busy() -> None:
    """A hundred forks while threads call and wait."""
    b, done = bulkhead(max_concurrent=2, max_waiting=8), threading.Event()

    def work() -> None:
        while not done.is_set():
            try:
                b.call(int)
                with b.guard():
                    pass
            except BulkheadFullError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            in_child(lambda: idle(b))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    idle(b)


def held() -> None:
    """Slots that are held, calls that wait, and the very lock: all is free in the child."""
    b, background = bulkhead(max_concurrent=2, max_waiting=8), Background()
    with full(b):
        background.call(b.call, int)
        until(lambda: waiting(b) == 1)
        taken, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with b._guard.lock:
                taken.set()
                assert leave.wait(10)

        background.call(hold)
        assert taken.wait(10)
        in_child(lambda: idle(b))
        leave.set()
    background.join()
    idle(b)


def inside() -> None:
    """A fork inside a call: in the child that call ends and gives back no slot that it has not."""
    b, children = bulkhead(max_concurrent=2), []

    @b
    def work() -> int:
        children.append(os.fork())
        return children[-1]

    def check() -> None:
        idle(b)
        with full(b):
            try:
                b.call(int)
            except BulkheadFullError:
                return
        raise AssertionError("a slot too many")

    def fork(run: Callable[[], int]) -> None:
        child = run()
        check()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    def block() -> int:
        with b.guard():
            return os.fork()

    try:
        fork(work)
        fork(block)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def pool() -> None:
    """A pool of threads is the parent's: the child begins one of its own."""
    b = bulkhead(isolation="thread", max_concurrent=2, max_waiting=3)
    leave = threading.Event()
    futures = [b.submit(leave.wait, 10) for _ in range(4)]

    def act() -> None:
        seen = b.snapshot()
        assert (seen.workers, seen.running, seen.waiting) == (0, 0, 0)
        assert b.call(os.getpid) == os.getpid()

    in_child(act)
    leave.set()
    assert [future.result(10) for future in futures] == [True] * 4


if __name__ == "__main__":
    {one.__name__: one for one in (busy, held, inside, pool)}[sys.argv[1]]()
