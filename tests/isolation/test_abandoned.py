"""Work that is abandoned inside a bulkhead keeps its slot until it really ends (C042)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from breakerkit import BulkheadFullError, CallTimeoutError, abandoned_work, bulkhead, timeout
from tests.isolation.rig import PATIENCE, Background, full, idle, until
from tests.isolation.test_waiting import Monotonic


class Body:
    """Work that may end when it is told so; it counts how many do it."""

    def __init__(self):
        self.lock, self.may_end = threading.Lock(), threading.Event()
        self.at_work = self.most = 0

    def __call__(self):
        with self.lock:
            self.at_work += 1
            self.most = max(self.most, self.at_work)
        assert self.may_end.wait(PATIENCE)
        with self.lock:
            self.at_work -= 1


@pytest.fixture
def body():
    """Work that ends with the test, at the latest."""
    one = Body()
    yield one
    one.may_end.set()
    until(lambda: not abandoned_work())


def limit():
    """Return a timeout that leaves its work behind."""
    return timeout(0.02, mode="abandon", clock=Monotonic())


def answers(call, times=20):
    """Call several times and return what was raised."""
    background = Background()
    for _ in range(times):
        background.call(call)
    return background.join()


@pytest.mark.parametrize("inside", ["the bulkhead", "the timeout"])
def test_never_more_bodies_at_work_than_slots(body, inside):
    """Twenty calls with a short limit: two bodies, the others refused; both slots come back in the end."""
    b = bulkhead(max_concurrent=2)
    call = limit()(b(body)) if inside == "the bulkhead" else b(limit()(body))
    raised = [type(error) for error in answers(call)]
    assert raised.count(CallTimeoutError) == 2
    assert raised.count(BulkheadFullError) == 18
    assert (body.most, b.snapshot().running) == (2, 2)
    with pytest.raises(BulkheadFullError):
        call()
    body.may_end.set()
    until(lambda: b.snapshot().running == 0)
    idle(b)


@pytest.mark.parametrize("shape", ["call", "apply", "block", "generator", "coroutine", "shares"])
def test_in_every_way_to_call(body, shape):
    """Whatever way the call came in by, its slot stays taken."""
    settings = {"shares": {"a": 0.5}, "share_of": lambda *_: "a"} if shape == "shares" else {}
    b, limited = bulkhead(max_concurrent=1, **settings), limit()(body)
    b.call(int)  # from now on there is a slot to be taken without asking

    def call():
        if shape in ("call", "shares"):
            b.call(limited)
        elif shape == "apply":
            b.apply(limited)
        elif shape == "block":
            with b.guard():
                limited()
        elif shape == "generator":
            list(b.call(items))
        else:
            asyncio.run(b.call(work))

    def items():
        yield 1
        limited()

    async def work():
        limited()

    with pytest.raises(CallTimeoutError):
        call()
    assert b.snapshot().running == 1
    body.may_end.set()
    until(lambda: b.snapshot().running == 0)
    idle(b)


def test_a_call_that_goes_on_to_a_good_end(body):
    """A call that caught its timeout and returned a value has left work behind all the same."""
    b, limited = bulkhead(max_concurrent=3), limit()(body)

    @b
    def work():
        for _ in range(2):
            try:
                limited()
            except CallTimeoutError:
                pass
        return "a cure"

    async def later():
        return work()

    with full(b):
        pass
    assert work() == "a cure"
    assert asyncio.run(b(later)()) == "a cure"
    assert b.snapshot().running == 3
    body.may_end.set()
    until(lambda: b.snapshot().running == 0)
    idle(b)


def test_what_others_abandon_is_theirs(body):
    """Work that another thread abandons meanwhile holds no slot of this call."""
    b, limited = bulkhead(max_concurrent=1), limit()(body)

    @b
    def work():
        return answers(limited, 1)

    (error,) = work()
    assert type(error) is CallTimeoutError
    idle(b)


def test_workers_that_leave_work_behind(body):
    """A call in a worker thread that abandons work keeps its slot, and the worker is free."""
    b = bulkhead(isolation="thread", max_concurrent=1)
    with pytest.raises(CallTimeoutError):
        b.call(limit()(body))
    assert b.snapshot().running == 1
    with pytest.raises(BulkheadFullError):
        b.call(int)
    body.may_end.set()
    until(lambda: b.snapshot().running == 0)
    assert b.call(int) == 0
