"""A limit and a bulkhead: work that nobody waits for keeps its slot until it has really ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from breakerkit import BulkheadFullError, CallTimeoutError, bulkhead, timeout
from tests.deadline.test_abandon import Hanging, until


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.finish()


class Bodies:
    """Counts how many bodies are at work, and the most there ever were."""

    def __init__(self, hanging: Hanging) -> None:
        self._hanging = hanging
        self._lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            self._hanging()
        finally:
            with self._lock:
                self.now -= 1


@pytest.mark.parametrize("outside", ["timeout", "bulkhead"])
def test_abandoned_work_keeps_its_slot(hanging: Hanging, outside: str):
    """C042: never more than two bodies at work, the others are refused, both slots free in the end."""
    limit = timeout(0.05, mode="abandon")
    room = bulkhead(max_concurrent=2)
    bodies = Bodies(hanging)
    work = limit(room(bodies)) if outside == "timeout" else room(limit(bodies))
    ended: list[str] = []
    for _ in range(20):
        try:
            work()
        except (CallTimeoutError, BulkheadFullError) as error:
            ended.append(type(error).__name__)
    assert ended == ["CallTimeoutError"] * 2 + ["BulkheadFullError"] * 18
    assert (bodies.now, bodies.most) == (2, 2)
    assert room.snapshot().running == 2
    hanging.finish()
    hanging.begun = 0
    until(lambda: room.snapshot().running == 0)
    time.sleep(0)
    assert work() is None
    until(lambda: room.snapshot().running == 0)
    assert bodies.most == 2


def test_nested_limits_around_a_bulkhead(hanging: Hanging):
    """The slot is kept as well where the work was abandoned by a limit further inside another."""
    inner = timeout(0.05, name="inner", mode="abandon")
    outer = timeout(30, name="outer", mode="abandon")
    room = bulkhead(max_concurrent=1)
    work = room(outer(inner(hanging)))
    with pytest.raises(CallTimeoutError, match="'inner'"):
        work()
    with pytest.raises(BulkheadFullError):
        work()
    hanging.finish()
    hanging.begun = 0
    until(lambda: room.snapshot().running == 0)
    assert work() == "late"
    hanging.begun = 0
