"""Blocks under a limit, entered and left by whomever."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from breakerkit import CallTimeoutError, _ambient, current_deadline, timeout
from breakerkit.testing import ManualClock
from tests.deadline.test_async import forever
from tests.deadline.test_sync import counts
from tests.shapes import in_thread


def test_once(clock: ManualClock):
    """A block works once, and leaving one that was not entered is an error."""
    block = timeout(2, clock=clock).guard()
    with pytest.raises(RuntimeError, match="the guard block is not running"):
        block.__exit__(None, None, None)
    with block as same:
        assert same is block
    with pytest.raises(RuntimeError, match="a guard block works once"), block:
        pytest.fail("entered twice")


def test_in_another_context(clock: ManualClock):
    """C035: entered in one context and left in another, it says nothing and changes nothing there."""
    one = timeout(2, clock=clock)
    block = one.guard()
    contextvars.copy_context().run(block.__enter__)
    assert current_deadline() is None
    with timeout(5, name="mine", clock=clock).guard():
        block.__exit__(None, None, None)
        assert current_deadline().name == "mine"
    first, second = one.guard(), one.guard()
    in_thread(first.__enter__)
    second.__enter__()
    first.__exit__(None, None, None)
    assert current_deadline() is not None
    in_thread(lambda: second.__exit__(None, None, None))
    assert counts(one) == (0, 0, 0)


async def test_entered_and_left_by_two_tasks():
    """An async block that another task leaves ends without an error, expired or not."""
    for seconds, wait in ((30, 0), (0.01, 0.03)):
        one = timeout(seconds)
        block = one.guard()

        async def enter(block: Any, wait: float) -> None:
            await block.__aenter__()
            await asyncio.sleep(wait)

        task = asyncio.ensure_future(enter(block, wait))
        await asyncio.wait([task])
        await block.__aexit__(None, None, None)
        assert one.snapshot().expired == 0
        assert asyncio.current_task().cancelling() == 0


async def test_the_body_of_a_block():
    """An async block is cancelled in time and its error replaced; its own errors pass."""
    one = timeout(0.01)
    with pytest.raises(CallTimeoutError):
        async with one.guard():
            assert current_deadline().seconds == 0.01
            await forever()
    assert current_deadline() is None
    error = LookupError()
    with pytest.raises(LookupError) as caught:
        async with one.guard():
            raise error
    assert caught.value is error
    assert counts(one) == (1, 0, 0)


async def test_a_block_under_a_shorter_one():
    """The shorter one is in force, and counts."""
    outer, inner = timeout(0.01, name="outer"), timeout(5, name="inner")
    with pytest.raises(CallTimeoutError, match="'outer'"):
        async with outer.guard(), inner.guard():
            await forever()
    assert counts(outer) == (1, 0, 0)
    assert counts(inner) == (0, 0, 0)


async def test_outside_of_a_task(clock: ManualClock):
    """An async block needs a task, and says so before anything is set."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    block = timeout(1).guard()

    def callback() -> None:
        with pytest.raises(RuntimeError, match="no task runs this"):
            block.__aenter__().send(None)
        done.set_result(current_deadline())

    asyncio.get_running_loop().call_soon(callback)
    assert await done is None


def test_a_block_that_is_over_somewhere_else(clock: ManualClock):
    """C035: a limit that was entered here and left elsewhere is in force here no more."""
    outer, one = timeout(9, name="outer", clock=clock), timeout(2, name="one", clock=clock)
    with outer.guard():
        block = one.guard()
        block.__enter__()
        assert current_deadline().name == "one"
        in_thread(lambda: block.__exit__(None, None, None))
        assert current_deadline().name == "outer"
        clock.advance(5)
        assert one.call(lambda: current_deadline().remaining) == 2
        assert current_deadline().name == "outer"
    block = one.guard()
    block.__enter__()
    in_thread(lambda: block.__exit__(None, None, None))
    assert current_deadline() is None
    clock.advance(5)
    assert one.call(lambda: current_deadline().remaining) == 2


async def test_interrupted_as_it_is_entered(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C between setting the limit and entering the block leaves neither a limit nor a timer that cancels."""
    real = _ambient.limit

    class Interrupting:
        get = real.get

        def set(self, limit: Any) -> None:
            monkeypatch.undo()
            real.set(limit)
            raise KeyboardInterrupt

    one = timeout(0.01)
    monkeypatch.setattr(_ambient, "limit", Interrupting())
    with pytest.raises(KeyboardInterrupt), one.guard():
        pytest.fail("entered")
    assert real.get() is None
    monkeypatch.setattr(_ambient, "limit", Interrupting())
    with pytest.raises(KeyboardInterrupt):
        async with one.guard():
            pytest.fail("entered")
    assert real.get() is None
    await asyncio.sleep(0.02)  # is not cancelled
