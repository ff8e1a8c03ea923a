"""Ctrl-C anywhere in a call, and destructors in the middle of a change: no slot and no place is lost."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from breakerkit import BulkheadFullError, Registry, bulkhead
from breakerkit._shell import _proxies  # noqa: F401  # so that its opcodes are told too
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import TurnLock
from tests.concurrency.tracing import instrumented, interrupted, signalled
from tests.isolation.rig import end, full, idle
from tests.shapes import SHAPES, Shape


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no collection come between of itself."""
    # Python itself swallows one that comes in a destructor.
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def opcodes() -> Iterator[None]:
    """Be told of every opcode."""
    gc.disable()
    with instrumented():
        yield
    gc.enable()


def interrupt_everywhere(make: Callable[[], Any], act: Callable[[Any], None]) -> int:
    """Interrupt ``act`` at each place in turn; return how many there were."""
    for step in itertools.count(1):
        b = make()
        places: list[str] = []
        try:
            with signalled(step) as places:
                act(b)
        except KeyboardInterrupt:
            pass
        # Only now: while the error is handled, its traceback holds what its frames held.
        gc.collect(1)
        idle(b)
        if not places:
            return step
    raise AssertionError


def make(**settings: Any) -> Any:
    """Return a bulkhead on a clock that stands still."""
    usual = {"max_concurrent": 2, "max_waiting": 3, "clock": ManualClock(), "registry": Registry()}
    return bulkhead(**{**usual, **settings})


class Racing(ManualClock):
    """A clock on which each reading is a second later: who waits gives up without waiting."""

    def now(self) -> float:
        return self.advance(1)


SYNC = [one for one in SHAPES if one.name in ("function", "generator", "call", "guard-block")]


@pytest.mark.parametrize("shape", SYNC, ids=[one.name for one in SYNC])
@pytest.mark.parametrize("settings", [{}, {"stuck_after": 5}], ids=["plain", "looked at"])
def test_ctrl_c_in_a_call(signals: None, shape: Shape, settings: Any) -> None:
    """Wherever a signal may come in a sync call, its slot is free afterwards."""

    def act(b: Any) -> None:
        b.call(int)
        shape.run(b, int)

    assert interrupt_everywhere(functools.partial(make, **settings), act) > 3


def test_ctrl_c_in_a_call_that_others_wait_for(signals: None) -> None:
    """A signal when a slot comes free does not leave those waiting who wait for it."""
    for step in itertools.count(1):
        b = make(max_concurrent=1)

        async def work() -> str:
            return "served"

        async def main() -> bool:
            with full(b) as blocks:
                waiters = [asyncio.ensure_future(b.call(work)) for _ in range(2)]
                await asyncio.sleep(0)
                assert b.snapshot().waiting == 2
                places: list[str] = []
                try:
                    with signalled(step) as places:
                        end(blocks)
                except KeyboardInterrupt:
                    pass
                gc.collect(1)
                blocks.clear()
                got = await asyncio.wait_for(asyncio.gather(*waiters), 10)
                assert got == ["served", "served"], places
                return not places

        if asyncio.run(main()):
            break
        idle(b)
    assert step > 2


def test_ctrl_c_in_a_wait(signals: None) -> None:
    """Wherever a signal may come while a call waits and gives up, its place in the queue is free."""

    def act(b: Any) -> None:
        with full(b):
            try:
                b.call(int)
            except BulkheadFullError:
                pass

    assert interrupt_everywhere(lambda: make(max_wait=3, clock=Racing()), act) > 30


def under_the_lock(make: Callable[[], Any], act: Callable[[Any], None]) -> list[int]:
    """Return which opcodes of ``act`` run under the lock."""
    b, steps, found = make(), itertools.count(1), []

    def look() -> int:
        step = next(steps)
        if b._guard.lock._is_owned():
            found.append(step)
        return 1

    with interrupted(1, look):
        act(b)
    return found


DEEDS: dict[str, Callable[[Any, list[Any]], None]] = {
    "call": lambda b, held: _quiet(b.call, int),
    "end": lambda b, held: held.pop().__exit__(None, None, None) if held else None,
    "drop": lambda b, held: held.clear(),
    "read": lambda b, held: b.snapshot(),
    "reconfigure": lambda b, held: b.reconfigure(max_waiting=2),
}


def _quiet(call: Callable[..., Any], *args: Any) -> None:
    try:
        call(*args)
    except BulkheadFullError:
        pass


def _asks(b: Any) -> None:
    with b.guard():
        pass


def _resizes(b: Any) -> None:
    b.reconfigure(max_concurrent=1)
    b.reconfigure(max_concurrent=2)


def _waits(b: Any) -> None:
    with b.guard():
        _quiet(b.call, int)


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("outer", [_asks, _resizes, _waits], ids=lambda one: one.__name__)
def test_a_destructor_in_the_middle_of_a_change(opcodes: None, deed: str, outer: Any) -> None:
    """What a destructor or signal handler does in the middle of a change leaves no trace but its effect."""

    def begin() -> Any:
        made = make(max_wait=1, clock=Racing())
        made.call(int)
        made._guard.lock = TurnLock()
        return made

    for step in under_the_lock(begin, outer)[::13]:
        b = begin()
        held = [b.guard()]
        held[0].__enter__()

        def act(b: Any = b, held: list[Any] = held) -> None:
            DEEDS[deed](b, held)

        with interrupted(step, act):
            _quiet(outer, b)
        held.clear()
        gc.collect(1)
        b.reconfigure(max_waiting=3, max_concurrent=2)
        idle(b)
