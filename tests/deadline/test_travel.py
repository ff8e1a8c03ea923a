"""A test that travels in time: deadlines follow, what ends a wait does not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine

from breakerkit import CallTimeoutError, DeadlineExceededError, current_deadline, timeout
from tests.deadline.test_async import forever


@pytest.fixture(params=[True, False], ids=["ticking", "frozen"])
def travel(request: Any) -> Iterator[Any]:
    with time_machine.travel("2026-03-01 12:00 +0000", tick=request.param) as traveller:
        yield traveller


def test_a_deadline_follows(travel: Any):
    """The default clock follows the wall clock in tests, so a shift passes a deadline."""
    with timeout(10, name="db").guard():
        travel.shift(4)
        assert 5 < current_deadline().remaining <= 6
        travel.shift(6)
        assert current_deadline().expired
        with pytest.raises(DeadlineExceededError):
            timeout(5).call(pytest.fail)


async def test_async_code_does_not(travel: Any):
    """Travelling an hour cuts no call short, and a clock that stands still lets none hang."""
    one, long = timeout(0.05), timeout(30)

    @long
    async def shifted() -> str:
        travel.shift(3600)
        await asyncio.sleep(0.01)
        return "value"

    assert await shifted() == "value"
    started = time.monotonic()
    with pytest.raises(CallTimeoutError):
        await one.call(forever)
    assert time.monotonic() - started < 5


def test_threads_do_not(travel: Any):
    """The same for work that is left behind."""
    go = threading.Event()
    with pytest.raises(CallTimeoutError):
        timeout(0.05, mode="abandon").call(go.wait, 30)
    go.set()

    def shifted() -> str:
        travel.shift(3600)
        return "value"

    assert timeout(30, mode="abandon").call(shifted) == "value"
