"""What a reviewer found in bulkheads with workers: results, futures, abandoned work, queues, signals."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import warnings
from typing import Any

import pytest

from breakerkit import (
    BulkheadFullError,
    CallCancelledError,
    CallDequeued,
    CallTimeoutError,
    CancelSignal,
    bulkhead,
    check_deadline,
    current_deadline,
    fallback,
    timeout,
)
from breakerkit import _ambient as ambient
from breakerkit.isolation import _child as child
from breakerkit.isolation import _watch
from breakerkit.isolation._watch import Watch, _look
from tests.isolation.rig import PATIENCE, Background, until, waiting
from tests.isolation.test_threads import Latch, gone, latch, make

__all__ = ["latch"]


@pytest.mark.parametrize("way", ["call", "run"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_caller_who_looks_up_early_gets_the_result(latch: Latch, way: str, fails: bool) -> None:
    """Between the end of a call and its result a listener may be slow: whoever waits waits on."""
    b, signal = make(max_concurrent=1, max_waiting=1), CancelSignal()
    told, may_go_on = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        told.set()
        may_go_on.wait(PATIENCE)

    b.subscribe(slow, CallDequeued)

    def work() -> int:
        latch()
        if fails:
            raise ValueError
        return 7

    def call() -> Any:
        with ambient.bearing(signal):  # so the caller looks up every ten milliseconds
            return b.call(work) if way == "call" else asyncio.run(b.run(work))

    background = Background()
    background.call(call)
    latch.wait()
    second = b.submit(int)
    latch.may_end.set()
    assert told.wait(PATIENCE)
    pause = threading.Event()
    pause.wait(0.03)
    assert background.results == []
    may_go_on.set()
    (result,) = background.join()
    assert isinstance(result, ValueError) if fails else result == 7
    assert second.result(PATIENCE) == 0
    gone(b)


def test_whoever_waits_for_a_cancelled_future_hears_of_it(latch: Latch) -> None:
    """A future that is cancelled in the queue ends ``concurrent.futures.wait``."""
    b = make(max_concurrent=1, max_waiting=2)
    b.submit(latch)
    latch.wait()
    future = b.submit(int)
    assert future.cancel()
    done, _ = concurrent.futures.wait([future], timeout=PATIENCE)
    assert done == {future}
    latch.may_end.set()
    gone(b)


@pytest.mark.parametrize("way", ["call", "run"])
def test_abandoned_work_keeps_the_slot_of_a_bulkhead_around_a_pool(latch: Latch, way: str) -> None:
    """C042 with workers in between: what their call abandoned is the caller's to answer for."""
    outer, pool = bulkhead(max_concurrent=1), make()
    hangs = timeout(0.01, mode="abandon")(latch)

    @outer
    def call() -> None:
        if way == "call":
            pool.call(hangs)
        else:
            asyncio.run(pool.run(hangs))

    with pytest.raises(CallTimeoutError):
        call()
    if way == "call":
        assert outer.snapshot().running == 1
        with pytest.raises(BulkheadFullError):
            call()
    latch.may_end.set()
    until(lambda: outer.snapshot().running == 0)
    gone(pool)


@pytest.mark.parametrize("decide", ["ignore", "fail", None])
def test_a_block_that_abandoned_work_keeps_its_slot(latch: Latch, decide: str | None) -> None:
    """However its outcome was decided."""
    b = bulkhead(max_concurrent=1)
    with b.guard() as block, pytest.raises(CallTimeoutError):
        if decide is not None:
            getattr(block, decide)()
        timeout(0.01, mode="abandon").call(latch)
    assert b.snapshot().running == 1
    latch.may_end.set()
    until(lambda: b.snapshot().running == 0)


async def test_a_slot_knows_when_it_was_taken(latch: Latch) -> None:
    """What the task abandoned before is no matter of a call that returns a coroutine."""
    b, pool = bulkhead(max_concurrent=1), make()

    async def work() -> int:
        return 7

    @b
    def returns() -> Any:
        return work()

    assert await returns() == 7
    with pytest.raises(CallTimeoutError):
        await timeout(0.01).call(lambda: pool.run(latch))
    for _ in range(2):
        assert await returns() == 7
    latch.may_end.set()
    until(lambda: pool.snapshot().running == 0)


def test_a_queue_that_nobody_can_watch(latch: Latch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the thread that looks at the time cannot be begun, the call leaves the queue; the next one is watched."""
    b = make(max_concurrent=1, max_waiting=9, max_wait=0.01)
    b.submit(latch)
    latch.wait()
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name.endswith("queue"):
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        b.submit(int)
    assert waiting(b) == 0
    monkeypatch.undo()
    with pytest.raises(BulkheadFullError):
        b.submit(int).result(PATIENCE)
    latch.may_end.set()
    gone(b)


def test_the_watch_hears_of_each_that_comes(latch: Latch) -> None:
    """A short wait is seen in time, though a long one is watched already; a signal alone is watched too."""
    b, signal = make(max_concurrent=1, max_waiting=9), CancelSignal()
    b.submit(latch)
    latch.wait()
    with timeout(60).guard():
        long = b.submit(int)
    until(lambda: b._guard.watch._running)
    with timeout(0.01).guard(), pytest.raises(Exception, match="no time left"):
        b.submit(int).result(0.5)
    with ambient.bearing(signal):
        ended = b.submit(int)
        signal.cancel("no")
    with pytest.raises(CallCancelledError):
        ended.result(PATIENCE)
    latch.may_end.set()
    assert long.result(PATIENCE) == 0
    gone(b)


def test_a_call_that_has_begun_is_not_given_up(latch: Latch) -> None:
    """What goes wrong with a look at the time comes too late for a call that runs by then."""
    b = make(max_concurrent=1)
    future = b.submit(latch)
    latch.wait()

    class Broken:
        def pause(self) -> float:
            raise ZeroDivisionError

    class Begun:
        since, queued, share = 0.0, False, None

    assert _look(b._guard, Begun(), Broken()) == 0.0  # type: ignore[arg-type]  # they look alike
    latch.may_end.set()
    assert future.result(PATIENCE) is None
    gone(b)


def test_a_task_whose_loop_is_gone_leaves_the_queue(latch: Latch) -> None:
    """Of a pool, too: its place is free for the next."""
    b = make(max_concurrent=1, max_waiting=1)
    b.submit(latch)
    latch.wait()
    loop = asyncio.new_event_loop()
    task = loop.create_task(b.run(int))
    until(lambda: loop.run_until_complete(asyncio.sleep(0)) or waiting(b) == 1)
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # that is what this is about
    assert b._guard.sweep() == 1
    assert waiting(b) == 0
    latch.may_end.set()
    gone(b)


def test_a_process_that_is_just_being_closed() -> None:
    """Whoever looks at that moment sees that it does not live."""
    from breakerkit.isolation._process import ProcessRunner

    class Closed:
        @property
        def exitcode(self) -> int:
            raise ValueError("process object is closed")

    runner = ProcessRunner(make()._guard)
    runner._process = Closed()
    assert not runner.alive()
    runner._process = None


def test_what_a_call_sets_in_a_worker_process_is_not_for_the_next() -> None:
    """Context variables over there are those of each call alone."""
    from tests.isolation.importable import tenant

    assert child._run(None, None, tenant, ("a",), {}) is None
    assert child._run(None, None, tenant, ("b",), {}) is None


@pytest.mark.parametrize(
    "make_policy", [lambda: bulkhead(), lambda: timeout(60), lambda: fallback(0)]
)
def test_a_signal_that_is_set_before_the_work_begins(make_policy: Any) -> None:
    """``apply`` of a function that the policy guards: cancelled before it is awaited, it does not run."""
    ran: list[int] = []
    policy, signal = make_policy(), CancelSignal()

    @policy
    async def work() -> None:
        ran.append(1)

    async def main() -> None:
        pending = policy.apply(work, cancel=signal)
        signal.cancel("no")
        await pending

    with pytest.raises(CallCancelledError):
        asyncio.run(main())
    assert ran == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(policy.apply(work, cancel=CancelSignal())) is None
    assert ran == [1]


def test_a_signal_that_is_set_while_a_guarded_call_waits() -> None:
    """The queue of its bulkhead sees it."""
    b, signal, ran = bulkhead(max_concurrent=1, max_waiting=1), CancelSignal(), []

    @b
    def work() -> None:
        ran.append(1)

    background = Background()
    with b.guard():
        background.call(lambda: b.apply(work, cancel=signal))
        until(lambda: waiting(b) == 1)
        signal.cancel("no")
        (error,) = background.join()
    assert type(error) is CallCancelledError
    assert ran == []


def test_a_cancelled_future_is_told_once(latch: Latch) -> None:
    """Whether the worker or the one who cancels is first, nobody settles it twice."""
    b = make(max_concurrent=1, max_waiting=1)
    b.submit(latch)
    latch.wait()
    future = b.submit(int)
    (work,) = [waiter for line in b._guard.queue._lines.values() for waiter in line]
    assert future.cancel()
    assert not work.wanted()
    latch.may_end.set()
    gone(b)


def test_a_call_that_comes_while_the_watch_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at before the watch sleeps."""
    guard, watch, looked = make()._guard, Watch(), []

    class One:
        over = begun = False
        decided = False
        future: Any = concurrent.futures.Future()

    first, second = One(), One()

    def look(_guard: object, work: Any, _patience: object) -> float:
        looked.append(work)
        if work is first and len(looked) == 1:
            watch.add(guard, second, None)  # type: ignore[arg-type]  # it looks like one
            return PATIENCE
        work.decided = True
        return 0.0

    monkeypatch.setattr(_watch, "_look", look)
    watch.add(guard, first, None)  # type: ignore[arg-type]  # likewise
    until(lambda: not watch._running)
    assert second in looked


@pytest.mark.parametrize("way", ["call", "run", "block"])
def test_work_in_a_pool_stays_under_the_deadline_of_a_caller_who_has_left(way: str) -> None:
    """Whoever looks at the deadline stops by itself, and gives its worker back, though nobody waits."""
    b, limit = make(max_concurrent=1), timeout(0.01)
    left, said = threading.Event(), []

    def work() -> None:
        left.wait(PATIENCE)
        said.append(current_deadline())
        check_deadline()

    def call() -> Any:
        if way == "call":
            return limit(b(work))()
        with limit.guard():
            return b.call(work)

    async def run() -> Any:
        async with limit.guard():
            return await b.run(work)

    with pytest.raises(CallTimeoutError):
        asyncio.run(run()) if way == "run" else call()
    assert b.snapshot().running == 1
    left.set()
    until(lambda: b.snapshot().running == 0)
    (deadline,) = said
    assert deadline is not None
    assert (deadline.expired, deadline.seconds) == (True, 0.01)
    gone(b)


def test_what_is_submitted_is_free_when_the_submitter_has_ended(latch: Latch) -> None:
    """A future's work is started, not waited for: the deadline of whoever started it ends with them."""
    b, said = make(max_concurrent=1), []

    def work() -> None:
        latch()
        said.append(current_deadline())

    with timeout(30).guard():
        future = b.submit(work)
    latch.may_end.set()
    future.result(PATIENCE)
    assert said == [None]
