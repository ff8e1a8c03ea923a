"""Thread isolation: a pool of its own, its queue, and callers that wait, submit, await and leave."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

from breakerkit import (
    BulkheadFullError,
    CallCancelledError,
    CallTimeoutError,
    CancelSignal,
    ConfigError,
    DeadlineExceededError,
    FullReason,
    State,
    abandoned_work,
    breaker,
    bulkhead,
    timeout,
)
from breakerkit import _ambient as ambient
from breakerkit.testing import ManualClock
from tests.isolation.rig import PATIENCE, Background, until, until_async, waiting
from tests.isolation.test_waiting import Monotonic, limited


def make(name=None, /, **settings):
    """Return a bulkhead of threads."""
    return bulkhead(name, **{"isolation": "thread", "max_concurrent": 2, **settings})


class Latch:
    """Work that begins and does not end until it may."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def __call__(self, value=None):
        self.begun.release()
        assert self.may_end.wait(PATIENCE)
        return value

    def wait(self):
        assert self.begun.acquire(timeout=PATIENCE)


@pytest.fixture
def latch():
    """Work that ends at the end of the test, at the latest."""
    one = Latch()
    yield one
    one.may_end.set()


def gone(b):
    """Wait until nothing runs, and see that every slot can be had."""
    until(lambda: b.snapshot().running == 0)
    assert waiting(b) == 0
    latch, futures = Latch(), []
    for _ in range(b.config.max_concurrent):
        futures.append(b.submit(latch, 7))
        latch.wait()
    latch.may_end.set()
    assert [future.result(PATIENCE) for future in futures] == [7] * len(futures)


def test_a_call_runs_in_a_thread_of_its_own():
    """A decorated function runs elsewhere, with its arguments, and its caller gets the value."""
    b = make("db")

    @b
    def work(one, *, two):
        return one, two, threading.current_thread().name

    assert work(1, two=2) == (1, 2, "breakerkit bulkhead db")
    assert b.call(work, 1, two=2)[:2] == (1, 2)
    assert b.apply(work, (1,), {"two": 2})[:2] == (1, 2)
    assert b.call(threading.get_ident) != threading.get_ident()
    assert b.snapshot().completed == 4
    gone(b)


def test_methods():
    """Methods, class methods and static methods run in workers too."""
    b = make()

    class Service:
        @b
        def method(self, one):
            return type(self).__name__, one

        @classmethod
        @b
        def class_method(cls, one):
            return cls.__name__, one

        @b
        @staticmethod
        def static_method(one):
            return one

    assert Service().method(1) == ("Service", 1)
    assert Service.class_method(2) == ("Service", 2)
    assert Service.static_method(3) == 3


@pytest.mark.parametrize("kind", [ConnectionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_call_raises_is_the_callers(kind):
    """The very object reaches the caller, its context untouched; the worker lives on."""
    b, error = make(max_concurrent=1), kind("down")

    def work():
        raise error

    for _ in range(2):
        try:
            raise LookupError
        except LookupError:
            with pytest.raises(kind) as caught:
                b.call(work)
        assert caught.value is error
        assert error.__context__ is None
    assert b.submit(work).exception(PATIENCE) is error
    ident = b.call(threading.get_ident)
    assert b.call(threading.get_ident) == ident
    assert b.snapshot().workers == 1
    gone(b)


def test_workers_are_kept_and_no_more_than_needed():
    """A worker is begun when all others are busy, up to the limit, and kept for the next call."""
    b, latch = make(max_concurrent=3), Latch()
    for _ in range(20):
        b.call(int)
    assert b.snapshot().workers == 1
    futures = [b.submit(latch) for _ in range(3)]
    assert b.snapshot().workers == 3
    latch.may_end.set()
    [future.result(PATIENCE) for future in futures]
    seen = {b.call(threading.get_ident) for _ in range(50)}
    assert len(seen) <= 3
    assert b.snapshot().workers == 3


def test_a_caller_finds_its_slot_free_again():
    """Whoever has its result may call again at once, though only one may run and none may wait."""
    b = make(max_concurrent=1)

    async def main():
        return [await b.run(int) for _ in range(100)]

    assert [b.call(int) for _ in range(100)] == [0] * 100
    assert [b.submit(int).result(PATIENCE) for _ in range(100)] == [0] * 100
    assert asyncio.run(main()) == [0] * 100
    assert b.snapshot().workers == 1


def test_a_blocked_dependency_exhausts_only_its_own_pool(latch):
    """Functions of one name share a pool; another name is another pool."""
    slow, other = make("slow", max_waiting=1), make("other")
    futures = [slow.submit(latch) for _ in range(3)]
    with pytest.raises(BulkheadFullError) as caught:
        make("slow", max_waiting=1).call(int)
    assert (caught.value.name, caught.value.reason) == ("slow", FullReason.QUEUE_FULL)
    assert other.call(int) == 0
    latch.may_end.set()
    assert [future.result(PATIENCE) for future in futures] == [None] * 3
    assert slow.snapshot().waits == 1


def test_context_variables_go_along():
    """A worker sees the caller's context variables; what it sets is its own."""
    b, variable = make(), contextvars.ContextVar("variable", default="nothing")

    def work():
        seen = variable.get()
        variable.set("the worker's")
        return seen

    async def main():
        variable.set("a task's")
        return await b.run(work), variable.get()

    variable.set("mine")
    assert b.call(work) == "mine"
    assert b.submit(work).result(PATIENCE) == "mine"
    assert asyncio.run(main()) == ("a task's", "a task's")
    assert variable.get() == "mine"


def test_the_event_loop_goes_on():
    """While a worker blocks, the loop that awaits it runs other tasks."""
    b, latch = make(), Latch()

    async def main():
        task = asyncio.create_task(b.run(latch, 7))
        await until_async(lambda: b.snapshot().running == 1)
        latch.may_end.set()
        return await task

    assert asyncio.run(main()) == 7


def test_what_workers_cannot_run():
    """What does not end when its call ends is refused, with advice."""
    b = make("t")

    async def later():
        return 1

    def items():
        yield 1

    for what in (later, items):
        for use in (b, b.call, b.submit, lambda f: asyncio.run(b.run(f))):
            with pytest.raises(TypeError, match="isolation='caller'"):
                use(what)
    with pytest.raises(TypeError, match="which is yet to run"):
        b.call(lambda: later())
    with pytest.raises(TypeError, match="which is yet to run"):
        b.submit(concurrent.futures.Future).result(PATIENCE)
    with pytest.raises(TypeError, match="a block runs where it stands"):
        b.guard()
    for use in (b.submit, b.call):
        with pytest.raises(TypeError, match="must be callable"):
            use(7)
    gone(b)


def test_a_bulkhead_without_workers():
    """submit and run need workers."""
    b = bulkhead("c")
    with pytest.raises(TypeError, match="has isolation='caller' and no workers"):
        b.submit(int)
    with pytest.raises(TypeError, match="no workers"):
        asyncio.run(b.run(int))


def test_isolation_cannot_be_changed():
    """Functions are decorated for one isolation: another is another bulkhead."""
    b = make()
    with pytest.raises(ConfigError, match="isolation='caller': cannot be changed"):
        b.reconfigure(isolation="caller")
    assert b.config.isolation == "thread"


def test_what_is_guarded_already_asks_once(latch):
    """A function that this bulkhead guards is let in once when it is submitted or awaited."""
    b = make(max_concurrent=1)

    @b
    def work(value):
        return b.snapshot().running, value

    async def main():
        return await b.run(work, 2)

    assert b.submit(work, 1).result(PATIENCE) == (1, 1)
    assert asyncio.run(main()) == (1, 2)
    assert b.snapshot().admitted == 2


def test_a_call_waits_in_the_queue_for_max_wait(latch):
    """A call that finds no worker within max_wait is not run, whoever waits for it."""
    b = make(max_concurrent=1, max_waiting=3, max_wait=0.02)
    ran = []

    async def main():
        await b.run(ran.append, 1)

    b.submit(latch)
    latch.wait()
    for use in (lambda: b.call(ran.append, 1), lambda: asyncio.run(main())):
        with pytest.raises(BulkheadFullError) as caught:
            use()
        assert caught.value.reason is FullReason.MAX_WAIT
    futures = [b.submit(ran.append, 1) for _ in range(3)]
    for future in futures:
        assert future.exception(PATIENCE).reason is FullReason.MAX_WAIT
    assert waiting(b) == 0
    assert b.snapshot().timed_out == 5
    latch.may_end.set()
    gone(b)
    assert not ran


def test_submitted_calls_wait_by_the_clock(latch):
    """On a manual clock a submitted call waits until the clock says that it has waited enough."""
    clock = ManualClock()
    b = make(max_concurrent=1, max_waiting=2, max_wait=30, clock=clock)
    b.submit(latch)
    latch.wait()
    future = b.submit(int)
    clock.advance(30)
    assert future.exception(PATIENCE).reason is FullReason.MAX_WAIT
    later = b.submit(int)
    latch.may_end.set()
    assert later.result(PATIENCE) == 0
    gone(b)


def test_a_future_that_is_cancelled_leaves_the_queue(latch):
    """Cancelling a future frees its place at once; one that has begun cannot be cancelled."""
    b = make(max_concurrent=1, max_waiting=1, max_wait=60)
    begun = b.submit(latch)
    latch.wait()
    ran = []
    for _ in range(3):
        future = b.submit(ran.append, 1)
        assert future.cancel()
        assert waiting(b) == 0
    assert not begun.cancel()
    latch.may_end.set()
    assert begun.result(PATIENCE) is None
    gone(b)
    assert not ran


def test_a_task_that_is_cancelled_leaves_the_queue(latch):
    """A cancelled task's call is not run if it waits, and goes on, abandoned, if it has begun."""
    b = make(max_concurrent=1, max_waiting=1)
    ran = []

    async def main():
        begun = asyncio.create_task(b.run(latch))
        await until_async(lambda: b.snapshot().running == 1)
        await asyncio.to_thread(latch.wait)
        queued = asyncio.create_task(b.run(ran.append, 1))
        await until_async(lambda: waiting(b) == 1)
        for task in (queued, begun):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (waiting(b), b.snapshot().running) == (0, 1)
        assert [work.name for work in abandoned_work()] == [b.name]

    asyncio.run(main())
    latch.may_end.set()
    gone(b)
    assert abandoned_work() == []
    assert not ran


def test_a_result_for_a_loop_that_is_closed(latch):
    """A worker whose caller's loop is gone ends its work, and nothing else happens."""
    b = make(max_concurrent=1, max_waiting=1)
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(b.run(latch)), loop.create_task(b.run(int))]
    loop.run_until_complete(until_async(lambda: waiting(b) == 1))
    loop.close()
    latch.may_end.set()
    until(lambda: b.snapshot().running == 0)
    for task in tasks:
        task._log_destroy_pending = False
    tasks.clear()
    gc.collect()
    gone(b)


def test_the_deadline_of_the_calls_around(latch):
    """At the deadline the caller gets its error; the work keeps its slot until it ends."""
    b = make("t", max_concurrent=1, max_waiting=1)
    with pytest.raises(CallTimeoutError) as caught:
        limited(0.02, lambda: b.call(latch))
    assert (caught.value.name, caught.value.seconds, caught.value.abandoned) == (
        "around",
        0.02,
        True,
    )
    assert b.snapshot().running == 1
    (work,) = abandoned_work()
    assert (work.name, work.function) == ("t", "Latch")
    with pytest.raises(DeadlineExceededError):
        limited(0.02, lambda: b.call(int))
    with pytest.raises(DeadlineExceededError):
        limited(0.02, lambda: asyncio.run(b.run(int)))
    assert waiting(b) == 0
    latch.may_end.set()
    gone(b)
    assert abandoned_work() == []


def test_a_timeout_around_a_call_of_a_worker(latch):
    """A timeout around a thread bulkhead ends the wait in time, sync and async; both slots stay taken."""
    inner, outer = make(max_concurrent=1), bulkhead(max_concurrent=1)

    @outer
    @timeout(0.02, clock=Monotonic())
    @inner
    def work():
        return latch()

    with pytest.raises(CallTimeoutError):
        work()
    assert (inner.snapshot().running, outer.snapshot().running) == (1, 1)
    latch.may_end.set()
    until(lambda: outer.snapshot().running == 0)
    gone(inner)


def test_the_deadline_passes_before_the_worker_begins():
    """A call that has its slot and whose worker has not begun when time is up is not run."""
    b, clock, ran = make(max_concurrent=1), ManualClock(), []
    begin = b._guard.pool.start

    def start(work):
        clock.advance(2)
        held.append(work)

    held = []
    pool = b._guard._pool
    b._guard._pool = type("Slow", (), {"start": staticmethod(start), "resize": pool.resize})()
    with pytest.raises(DeadlineExceededError):
        limited(1, lambda: b.call(ran.append, 1), clock)
    b._guard._pool = pool
    begin(held.pop())
    gone(b)
    assert not ran


def test_apply_with_a_signal(latch):
    """The signal is looked at when the call would begin, after any wait."""
    b, signal = make(max_concurrent=1, max_waiting=1), CancelSignal()
    assert b.apply(pow, (2,), {"exp": 3}, cancel=signal) == 8
    background = Background()
    b.submit(latch)
    latch.wait()
    background.call(lambda: b.apply(pow, (2, 3), cancel=signal))
    until(lambda: waiting(b) == 1)
    signal.cancel("no")
    latch.may_end.set()
    (error,) = background.join()
    assert (type(error), error.begun) == (CallCancelledError, False)
    with pytest.raises(TypeError, match="must be callable"):
        b.apply(7, cancel=CancelSignal())
    gone(b)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_signal_while_a_worker_runs_the_call(latch, way):
    """The caller is let go and told that the work goes on; a breaker around takes it for no evidence."""
    b, around, signal = make(max_concurrent=1), breaker(failure_threshold=1), CancelSignal()
    inner = b.call if way == "sync" else lambda work: asyncio.run(b.run(work))

    def call():
        with ambient.bearing(signal):
            return around.call(inner, latch)

    background = Background()
    background.call(call)
    latch.wait()
    signal.cancel("no")
    (error,) = background.join()
    assert str(error).endswith(" was cancelled: no; the work goes on, abandoned")
    assert (error.begun, error.abandoned) == (False, True)
    assert around.snapshot().state is State.CLOSED
    assert b.snapshot().running == 1
    latch.may_end.set()
    gone(b)


def test_a_caller_that_is_interrupted(latch):
    """Ctrl-C while a caller waits for its worker: the work goes on, and keeps its slot."""
    b = make(max_concurrent=1, max_waiting=1)

    class Interrupting:
        def now(self):
            if b.snapshot().running and threading.current_thread() is caller:
                raise KeyboardInterrupt
            return 0.0

    b.subscribe(lambda event: None)
    token = ambient.limit.set(
        [60.0, ambient.Terms(60.0, "around", Interrupting()), None, None, False]
    )
    caller = threading.current_thread()
    with pytest.raises(KeyboardInterrupt):
        b.call(latch)
    ambient.limit.reset(token)
    latch.may_end.set()
    gone(b)


def test_shares_of_a_pool(latch):
    """Classes have their share of a pool too."""
    b = make(max_concurrent=2, max_waiting=2, shares={"gold": 0.5}, share_of=lambda f, share: share)
    ran = []

    @b
    def work(function, share):
        return function(share)

    background = Background()
    for _ in range(2):
        background.call(work, latch, "small")
        latch.wait()
    for number, share in enumerate(("small", "gold")):
        background.call(work, ran.append, share)
        until(lambda: waiting(b) == number + 1)
    b.reconfigure(order="fifo")
    latch.may_end.set()
    background.join()
    assert ran[0] == "gold"
    gone_queue = waiting(b)
    assert gone_queue == 0


def test_who_makes_room_is_told():
    """A call in the queue that makes room for one that is owed a slot is rejected, whoever waits for it."""
    b = make(max_concurrent=2, max_waiting=1, shares={"gold": 0.5}, share_of=lambda f, s, *_: s)
    latch, ran = Latch(), []

    @b
    def work(function, share, *args):
        return function(*args)

    futures = []
    for _ in range(2):
        futures.append(b.submit(work, latch, "small"))
        latch.wait()
    victim = b.submit(work, ran.append, "small", 1)
    futures.append(b.submit(work, int, "gold"))
    assert victim.exception(PATIENCE).reason is FullReason.DISPLACED
    latch.may_end.set()
    assert [future.result(PATIENCE) for future in futures] == [None, None, 0]
    assert not ran


def test_resizing_a_pool(latch):
    """A pool shrinks when its work is done, and grows at once."""
    b = make(max_concurrent=3, max_waiting=9)
    for _ in range(3):
        b.submit(latch)
        latch.wait()
    b.reconfigure(max_concurrent=1)
    assert b.snapshot().workers == 3
    latch.may_end.set()
    until(lambda: b.snapshot().workers == 1)
    b.reconfigure(max_concurrent=2)
    gone(b)
    assert b.snapshot().workers == 2
    b.reconfigure(max_concurrent=1)
    until(lambda: b.snapshot().workers == 1)
    gone(b)


def test_the_workers_of_a_dropped_bulkhead_end():
    """A bulkhead that nobody holds is gone, and its workers end."""
    before = set(threading.enumerate())
    b = make()
    b.call(int)
    ref = weakref.ref(b._guard)
    workers = set(threading.enumerate()) - before
    assert [one.name for one in workers] == ["breakerkit bulkhead unnamed"]
    del b
    gc.collect()
    assert ref() is None
    for worker in workers:
        worker.join(PATIENCE)
        assert not worker.is_alive()


def test_there_can_be_no_further_thread(monkeypatch):
    """Where no thread can be begun the caller hears it, and the slot is free again."""
    b = make(max_concurrent=1)

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            b.call(int)
        with pytest.raises(RuntimeError):
            b.submit(int).result(PATIENCE)
    gone(b)


def test_stuck_calls(latch):
    """A call that has run for stuck_after seconds counts as stuck until it ends."""
    clock = ManualClock()
    b = make(max_concurrent=2, max_waiting=1, stuck_after=5, clock=clock)
    b.submit(latch)
    latch.wait()
    clock.advance(4)
    future = b.submit(latch)
    latch.wait()
    later = b.submit(latch)
    assert b.snapshot().stuck == 0
    clock.advance(1)
    assert b.snapshot().stuck == 1
    clock.advance(4)
    assert b.snapshot().stuck == 2
    latch.may_end.set()
    assert [future.result(PATIENCE), later.result(PATIENCE)] == [None, None]
    until(lambda: b.snapshot().running == 0)
    assert b.snapshot().stuck == 0


def test_a_callback_of_a_future_that_ends_the_program(caplog):
    """What a future's callback raises is logged, and harms neither worker nor slot."""
    b = make(max_concurrent=1)

    def leave(future):
        raise SystemExit

    latch = Latch()
    future = b.submit(latch)
    future.add_done_callback(leave)
    latch.may_end.set()
    future.result(PATIENCE)
    until(lambda: "callback of a future" in caplog.text)
    gone(b)
    assert b.snapshot().workers == 1


def test_a_listener_that_raises_in_a_worker(caplog):
    """A listener that ends the program cannot end a worker: the caller has its value, the rest is logged."""
    b, latch = make(max_concurrent=1, max_waiting=1), Latch()
    first = b.submit(latch)
    latch.wait()
    second = b.submit(int)

    def leave(event):
        raise SystemExit

    unsubscribe = b.subscribe(leave)
    latch.may_end.set()
    assert (first.result(PATIENCE), second.result(PATIENCE)) == (None, 0)
    until(lambda: "listener in a worker" in caplog.text)
    unsubscribe()
    gone(b)


HANGING = """
import asyncio, sys, threading, time
from breakerkit import bulkhead
b = bulkhead("t", isolation="thread", max_concurrent=2, max_waiting=5)
began = threading.Semaphore(0)
def hang():
    began.release()
    time.sleep(600)
futures = [b.submit(hang) for _ in range(2)]
[began.acquire(timeout=10) for _ in range(2)]
b.submit(print, "never")
print("ending", flush=True)
"""


def test_the_interpreter_exits_although_work_hangs():
    """Work that never ends in a thread, and more in the queue, keep nobody from leaving."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {HANGING}"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ending\n"
    began = time.monotonic()
    assert process.wait(10) == 0
    assert time.monotonic() - began < 2
    assert process.stdout.read() == ""
    process.stdout.close()
