"""What the tests of the bulkhead share: filling it, waiting for a moment, calls in the background."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from breakerkit import Bulkhead

#: Seconds after which a test that waits for something has failed.
PATIENCE = 20


def until(happened: Callable[[], object]) -> None:
    """Wait until something is so, looking every now and then."""
    pause, end = threading.Event(), time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it never happened"
        pause.wait(0.0005)


async def until_async(happened: Callable[[], object]) -> None:
    """Do the same while the event loop goes on."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0)


@contextlib.contextmanager
def full(bulkhead: Bulkhead, slots: int | None = None, share: Any = None) -> Iterator[list[Any]]:
    """Hold slots inside the block, all of them if no number is given; popped blocks end early."""
    blocks = []
    for _ in range(slots or bulkhead.config.max_concurrent):
        blocks.append(bulkhead.guard(share))
        blocks[-1].__enter__()
    try:
        yield blocks
    finally:
        while blocks:
            end(blocks)


def end(blocks: list[Any]) -> None:
    """End the oldest block."""
    blocks.pop(0).__exit__(None, None, None)


class Background:
    """Calls in threads of their own; what each returned or raised."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.threads: list[threading.Thread] = []

    def call(self, function: Callable[..., Any], *args: Any) -> threading.Thread:
        """Make a call."""

        def run() -> None:
            try:
                self.results.append(function(*args))
            except BaseException as error:
                self.results.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self) -> list[Any]:
        """Wait for all of them and return what came of them, in the order in which they ended."""
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a call never ended"
        return self.results


def waiting(bulkhead: Bulkhead) -> int:
    """Return how many wait."""
    return bulkhead.snapshot().waiting


def idle(bulkhead: Bulkhead) -> None:
    """Assert that nobody is inside or waits, and that every slot can be had."""
    seen = bulkhead.snapshot()
    assert (seen.running, seen.waiting) == (0, 0), seen
    assert seen.admitted == seen.completed
    with full(bulkhead):
        assert bulkhead.snapshot().running == bulkhead.config.max_concurrent
