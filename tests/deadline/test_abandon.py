"""Sync code in threads that its caller leaves behind in time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from breakerkit import (
    CallCancelledError,
    CallEndedLate,
    CallTimedOut,
    CallTimeoutError,
    CancelSignal,
    DeadlineExceededError,
    LedgerFullError,
    TimeoutRejected,
    WorkAbandoned,
    WorkEnded,
    abandoned_work,
    breaker,
    check_deadline,
    current_deadline,
    timeout,
)
from breakerkit._ambient import bearing
from breakerkit.deadline import _jobs
from breakerkit.deadline import _workers as workers
from breakerkit.testing import ManualClock, capture_events
from tests.deadline.test_sync import counts
from tests.shapes import Shape, in_thread, raising, returning, sync_shapes

#: Seconds after which a test gives up.
LONG = 30


class Hanging:
    """Work that hangs until the test lets it go; counts what has begun and what has ended."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = 0
        self.ended = threading.Semaphore(0)

    def __call__(self) -> str:
        self.begun += 1
        try:
            self.go.wait(LONG)
            return "late"
        finally:
            self.ended.release()

    def finish(self) -> None:
        """Let all of it go, and see it end."""
        self.go.set()
        for _ in range(self.begun):
            assert self.ended.acquire(timeout=LONG)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.finish()
    until(lambda: abandoned_work() == [])


def until(condition: Any) -> None:
    """Wait for what another thread is about to do."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@sync_shapes
def test_in_time(shape: Shape):
    """A call that is done in time gives its value; its context is that of its caller."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("the caller's")
    one = timeout(LONG, mode="abandon")

    def work() -> Any:
        seen = variable.get(), current_deadline().seconds
        variable.set("changed in there")
        return seen

    assert shape.run(one, work) == ("the caller's", LONG)
    if shape.name != "guard-block":
        assert variable.get() == "the caller's"
    assert current_deadline() is None
    assert counts(one) == (0, 0, 0)
    until(lambda: one.snapshot().working == 0)


@sync_shapes
@pytest.mark.parametrize("error", [TimeoutError("mine"), LookupError(), SystemExit(3)])
def test_its_own_error(shape: Shape, error: BaseException):
    """C041: what the function raises is the very object, a TimeoutError of its own included."""
    one = timeout(LONG, mode="abandon")
    with pytest.raises(type(error)) as caught:
        shape.run(one, raising(error))
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert counts(one) == (0, 0, 0)


@pytest.mark.parametrize("shape", ["function", "call", "method"])
def test_left_behind(hanging: Hanging, shape: str):
    """C040: the caller goes on in time with our error; the work is listed until it has ended."""
    from tests.shapes import SHAPES

    route = next(one for one in SHAPES if one.name == shape)
    one = timeout(0.05, name="db", mode="abandon")
    with capture_events() as log:
        started = time.monotonic()
        with pytest.raises(CallTimeoutError) as caught:
            route.run(one, hanging)
        assert 0.05 <= time.monotonic() - started < 2
        assert (caught.value.name, caught.value.seconds, caught.value.abandoned) == (
            "db",
            0.05,
            True,
        )
        (work,) = abandoned_work()
        assert one.snapshot().abandoned_now[0].function == work.function
        assert work.name == "db"
        assert work.age > 0
        assert work.thread.startswith("breakerkit worker")
        assert abs((time.time() - work.age) - work.started.timestamp()) < 1
        assert "self.go.wait(LONG)" in work.stack
        assert (one.snapshot().abandoned, one.snapshot().working) == (1, 1)
        hanging.finish()
        until(lambda: log.of(WorkEnded))
    hanging.begun = 0
    until(lambda: one.snapshot().working == 0)
    assert abandoned_work() == []
    assert one.snapshot().abandoned_now == ()
    assert one.snapshot().abandoned == 1
    assert counts(one) == (1, 0, 0)
    assert [type(event) for event in log] == [WorkAbandoned, CallTimedOut, WorkEnded]
    assert log[1].abandoned
    assert log[2].error is None
    assert log[2].age >= log[0].age


def test_a_late_error_is_dropped(caplog: pytest.LogCaptureFixture):
    """What abandoned work raises reaches nobody but those who listen."""
    one, go = timeout(0.05, mode="abandon"), threading.Event()

    def work() -> None:
        go.wait(LONG)
        raise LookupError("late")

    with capture_events() as log:
        with pytest.raises(CallTimeoutError):
            one.call(work)
        go.set()
        until(lambda: log.of(WorkEnded))
    assert isinstance(log.of(WorkEnded)[0].error, LookupError)
    assert caplog.records == []
    assert counts(one) == (1, 0, 0)


def test_a_full_ledger(hanging: Hanging):
    """With as many threads at work as may be, calls are rejected before anything starts, then not."""
    one = timeout(0.05, name="db", mode="abandon", max_abandoned=2)
    before = threading.active_count()
    with capture_events() as log:
        for _ in range(2):
            with pytest.raises(CallTimeoutError):
                one.call(hanging)
        for _ in range(200):
            with pytest.raises(LedgerFullError) as caught:
                one.call(hanging)
    assert (caught.value.name, caught.value.reason) == ("db", "ledger full")
    assert hanging.begun == 2
    assert threading.active_count() <= before + 2
    assert counts(one) == (2, 0, 200)
    assert len(log.of(TimeoutRejected)) == 200
    one.reconfigure(max_abandoned=3)
    assert one.call(returning(1)) == 1
    hanging.finish()
    hanging.begun = 0
    until(lambda: one.snapshot().working == 0)
    assert one.reconfigure(max_abandoned=1)
    assert one.call(returning(2)) == 2


def test_a_full_ledger_is_no_evidence(hanging: Hanging):
    """A breaker around counts the expiry, and not the rejection."""
    guarded = breaker(failure_threshold=9)
    work = guarded(timeout(0.05, mode="abandon", max_abandoned=1)(hanging))
    for kind in (CallTimeoutError, LedgerFullError):
        with pytest.raises(kind):
            work()
    seen = guarded.snapshot()
    assert (seen.failures, seen.ignored) == (1, 1)


def test_many_at_once(hanging: Hanging):
    """Calls that expire together stay within the bound: a place is taken before a call begins."""
    one = timeout(0.05, mode="abandon", max_abandoned=5)
    ended: list[str] = []
    barrier = threading.Barrier(20)

    def call() -> None:
        barrier.wait()
        try:
            one.call(hanging)
        except (CallTimeoutError, LedgerFullError) as error:
            ended.append(type(error).__name__)

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["CallTimeoutError"] * 5 + ["LedgerFullError"] * 15
    assert hanging.begun == 5


def test_it_learns_that_it_was_abandoned():
    """Code that asks, by deadline or signal, can stop once nobody waits for it."""
    one = timeout(0.05, name="db", mode="abandon")
    ended: list[Any] = []
    done = threading.Event()

    def work() -> None:
        signal_ = current_deadline().signal
        assert not signal_.cancelled
        try:
            while True:
                check_deadline()
                time.sleep(0.001)
        except CallTimeoutError as error:
            until(lambda: signal_.reason == "abandoned by timeout 'db'" or signal_.cancelled)
            ended.append((error.name, signal_.cancelled))
            done.set()
            raise

    with pytest.raises(CallTimeoutError):
        one.call(work)
    assert done.wait(LONG)
    assert ended == [("db", True)]
    assert one.snapshot().expired == 1


def test_the_signal_under_a_clock_that_stands_still(clock: ManualClock, hanging: Hanging):
    """Time is waited for as it really passes; the signal says so where the clock does not."""
    one = timeout(0.05, name="db", mode="abandon", clock=clock)
    ended: list[Any] = []
    done = threading.Event()

    def work() -> None:
        signal_ = current_deadline().signal
        until(lambda: signal_.cancelled)
        try:
            check_deadline()
        except CallCancelledError as error:
            ended.append(error.reason)
        done.set()

    with pytest.raises(CallTimeoutError):
        one.call(work)
    assert done.wait(LONG)
    assert ended == ["abandoned by timeout 'db'"]


def test_late_by_its_clock(clock: ManualClock):
    """A value that came in real time, late by the clock of the policy, is counted as late."""
    one = timeout(5, mode="abandon", clock=clock)
    with capture_events() as log:
        assert one.call(clock.advance, 5) == 5
    assert len(log.of(CallEndedLate)) == 1
    assert counts(one) == (0, 1, 0)


def test_it_checks(clock: ManualClock):
    """Code that checks the deadline before its caller leaves is an expiry, not abandoned."""
    one = timeout(5, mode="abandon", clock=clock)

    def work() -> None:
        clock.advance(5)
        check_deadline()

    with pytest.raises(CallTimeoutError) as caught:
        one.call(work)
    assert not caught.value.abandoned
    assert counts(one) == (1, 0, 0)
    assert one.snapshot().abandoned == 0


def test_under_a_shorter_limit(clock: ManualClock, hanging: Hanging):
    """A shorter limit around bounds it and is named; with no time left nothing is begun."""
    outer = timeout(0.05, name="outer")
    inner = timeout(LONG, name="inner", mode="abandon")
    with pytest.raises(CallTimeoutError) as caught:
        outer.call(lambda: inner.call(hanging))
    assert (caught.value.name, caught.value.abandoned) == ("outer", True)
    assert counts(outer) == (1, 0, 0)
    assert counts(inner) == (0, 0, 0)
    assert inner.snapshot().abandoned == 1
    with timeout(1, clock=clock).guard():
        clock.advance(1)
        with pytest.raises(DeadlineExceededError):
            inner.call(pytest.fail)
    assert counts(inner) == (0, 0, 1)


def test_a_longer_limit_around(hanging: Hanging):
    """A longer limit around changes nothing; the shorter one is named."""
    outer = timeout(LONG, name="outer", mode="abandon")
    inner = timeout(0.05, name="inner", mode="abandon")
    with pytest.raises(CallTimeoutError, match="'inner'"):
        outer.call(lambda: inner.call(hanging))
    assert counts(outer) == (0, 0, 0)
    assert counts(inner) == (1, 0, 0)
    (work,) = abandoned_work()
    assert work.name == "inner"


def test_threads_are_reused():
    """Calls one after the other need one thread, and it holds nothing of them."""
    one = timeout(LONG, mode="abandon")

    class Big:
        pass

    def work(big: Big) -> Any:
        return threading.current_thread().name, weakref.ref(big)

    first = one.call(work, Big())
    gc.collect()
    until(lambda: first[1]() is None)
    assert {one.call(work, Big())[0] for _ in range(50)} == {first[0]}


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch):
    """A thread with nothing to do for a while ends."""
    pool = workers.Pool(patience=0.01)
    done = threading.Event()

    class Task:
        def run(self, rest: Any) -> None:
            threads.append(threading.current_thread())
            rest()
            done.set()

    threads: list[threading.Thread] = []
    pool.start(Task())
    assert done.wait(LONG)
    threads[0].join(LONG)
    assert not threads[0].is_alive()
    assert pool.idle == []


def test_a_thread_that_was_taken_and_got_nothing():
    """An interrupt between taking an idle thread and giving it a task does not lose the thread."""
    pool = workers.Pool(patience=0.01)

    class Task:
        def run(self, rest: Any) -> None:
            threads.append(threading.current_thread())
            rest()

    threads: list[threading.Thread] = []
    pool.start(Task())
    until(lambda: pool.idle)
    pool.idle.pop()  # and nothing is put into its inbox
    threads[0].join(LONG)
    assert not threads[0].is_alive()
    assert pool.idle == []


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch):
    """If the system gives no thread, the call is not run, says so, and takes no place."""
    one = timeout(LONG, mode="abandon", max_abandoned=1)

    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(workers.Pool, "start", lambda *_: refuse(None))
        with pytest.raises(RuntimeError, match="can't start new thread") as kept:
            one.call(pytest.fail)
    assert kept.tb  # which leads to the call, and still holds no place
    assert one.snapshot().working == 0
    assert one.snapshot().abandoned == 0
    assert one.call(returning(1)) == 1


def test_interrupted_twice(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C before a thread has the call, and again while that is seen to, takes no place for ever."""
    one = timeout(LONG, mode="abandon", max_abandoned=1)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workers.Pool, "start", interrupt)
        patch.setattr(_jobs.Job, "leave", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.call(pytest.fail)
    gc.collect()
    assert one.snapshot().working == 0


def test_a_worker_that_comes_too_late(monkeypatch: pytest.MonkeyPatch):
    """A call that no thread has come to in time is rejected, and is never begun."""
    one = timeout(0.05, name="db", mode="abandon", max_abandoned=1)
    tasks: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(workers.Pool, "start", lambda _, task: tasks.append(task))
        with pytest.raises(DeadlineExceededError, match="'db'"):
            one.call(pytest.fail)
    assert counts(one) == (0, 0, 1)
    assert one.snapshot().abandoned == 0
    assert one.snapshot().working == 1
    tasks.pop().run(lambda: None)
    assert one.snapshot().working == 0


def test_it_ends_just_as_its_caller_leaves(monkeypatch: pytest.MonkeyPatch):
    """A result that comes between the end of the time and the caller's leaving is delivered."""
    from breakerkit.deadline._jobs import Job

    one = timeout(0.05, mode="abandon")
    go = threading.Event()
    leave = Job.leave

    def late(job: Job) -> bool:
        go.set()
        until(lambda: job._ended)
        return leave(job)

    monkeypatch.setattr(Job, "leave", late)
    assert one.call(lambda: go.wait(LONG)) is True
    assert one.snapshot().abandoned == 0


def test_ctrl_c(hanging: Hanging):
    """Ctrl-C in a caller who waits passes at once, and the work is abandoned."""
    one = timeout(LONG, name="db", mode="abandon")

    def strike() -> None:
        until(lambda: hanging.begun)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        one.call(hanging)
    thread.join()
    assert one.snapshot().abandoned == 1
    assert [work.name for work in abandoned_work()] == ["db"]
    assert counts(one) == (0, 0, 0)


def test_in_event_loops(hanging: Hanging):
    """A coroutine function is cancelled in this mode too, a generator's reader is any thread."""
    one = timeout(0.05, mode="abandon")

    @one
    async def work() -> None:
        await asyncio.sleep(LONG)

    with pytest.raises(CallTimeoutError) as caught:
        asyncio.run(work())
    assert not caught.value.abandoned


def test_what_it_abandons_in_its_turn(hanging: Hanging):
    """Whoever gets a call's result is answerable for what it has left behind."""
    from breakerkit._abandoned import ledger

    inner = timeout(0.05, name="inner", mode="abandon")
    outer = timeout(LONG, name="outer", mode="abandon")

    def work() -> str:
        with pytest.raises(CallTimeoutError):
            inner.call(hanging)
        return "value"

    mark = ledger.mark
    assert outer.call(work) == "value"
    assert [one.name for one in ledger.since(mark)] == ["inner"]
    assert in_thread(lambda: ledger.since(mark)) == []
    mark = ledger.mark
    assert ledger.since(mark) == []


def test_left_behind_with_what_it_left_behind(hanging: Hanging):
    """Abandoned work counts as ended only when what it abandoned has ended, too."""
    from breakerkit._abandoned import ledger

    inner = timeout(0.05, name="inner", mode="abandon")
    outer = timeout(0.2, name="outer", mode="abandon")
    go, ended = threading.Event(), threading.Event()

    def work() -> None:
        with pytest.raises(CallTimeoutError):
            inner.call(hanging)
        go.wait(LONG)

    mark = ledger.mark
    with pytest.raises(CallTimeoutError):
        outer.call(work)
    (left,) = ledger.since(mark)
    left.on_end(ended.set)
    go.set()
    until(lambda: left.ended)
    assert not ended.is_set()
    assert [one.name for one in abandoned_work()] == ["inner"]
    hanging.finish()
    hanging.begun = 0
    assert ended.wait(LONG)


SCRIPT = """
import sys, time
from breakerkit import timeout, CallTimeoutError, LedgerFullError
work = timeout(0.05, mode="abandon", max_abandoned=20)(time.sleep)
ended = []
for _ in range(200):
    try:
        work(30)
    except (CallTimeoutError, LedgerFullError) as error:
        ended.append(type(error).__name__)
print(ended.count("CallTimeoutError"), ended.count("LedgerFullError"))
"""


def test_the_interpreter_ends():
    """C040: two hundred calls of work that hangs stay within the ledger; the process ends at once."""
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{SCRIPT}"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG)
    assert done.stdout.split() == ["20", "180"]
    assert done.stderr == ""
    assert time.monotonic() - started < 10


def test_a_long_wait_in_naps(monkeypatch: pytest.MonkeyPatch):
    """A long wait looks up now and then: it ends with the work, or when its time is over."""
    from breakerkit.deadline import _jobs as jobs

    monkeypatch.setattr(jobs, "NAP", 0.005)
    one = timeout(0.05, mode="abandon")
    one.call(int)
    one.reconfigure(seconds=LONG)
    assert one.call(lambda: time.sleep(0.02)) is None
    one.reconfigure(seconds=0.05)
    go = threading.Event()
    with pytest.raises(CallTimeoutError):
        one.call(go.wait, LONG)
    go.set()


def test_who_tells_of_an_end_is_not_free_yet(monkeypatch: pytest.MonkeyPatch):
    """A listener that hangs, or ends the thread, when abandoned work has ended, delays no other call."""
    died = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: died.set())
    one = timeout(0.05, mode="abandon")
    go, told, release = threading.Event(), threading.Event(), threading.Event()

    def listener(event: WorkEnded) -> None:
        told.set()
        release.wait(LONG)
        raise SystemExit

    one.subscribe(listener, WorkEnded)
    with pytest.raises(CallTimeoutError):
        one.call(go.wait, LONG)
    go.set()
    assert told.wait(LONG)
    assert one.call(returning(1)) == 1
    release.set()
    assert died.wait(LONG)
    assert [one.call(returning(number)) for number in (2, 3)] == [2, 3]


def test_a_limit_in_a_thread_that_began_under_a_shorter_one(hanging: Hanging):
    """A call in a thread that outlives the limited block around it is under its own limit from then on."""
    outer, inner = timeout(0.03, name="outer"), timeout(0.1, name="inner", mode="abandon")
    caught: list[CallTimeoutError] = []

    def late() -> None:
        try:
            inner.call(hanging)
        except CallTimeoutError as error:
            caught.append(error)

    with outer.guard():
        thread = threading.Thread(target=contextvars.copy_context().run, args=(late,))
        thread.start()
        while not hanging.begun:
            time.sleep(0.001)
    thread.join(LONG)
    assert [one.name for one in caught] == ["inner"]
    assert (outer.snapshot().expired, inner.snapshot().expired) == (0, 1)


def test_a_signal_lets_the_caller_go():
    """The signal of the calls around is set while the work goes on: the caller leaves it behind."""
    one, signal, go_on, began = (
        timeout(60, mode="abandon"),
        CancelSignal(),
        threading.Event(),
        threading.Event(),
    )
    seen: list[BaseException] = []

    def work() -> None:
        began.set()
        go_on.wait(20)

    def call() -> None:
        try:
            with bearing(signal):
                one.call(work)
        except CallCancelledError as error:
            seen.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert began.wait(20)
    signal.cancel("no")
    thread.join(20)
    (error,) = seen
    assert (error.begun, error.abandoned, error.reason) == (False, True, "no")
    assert [work.name for work in abandoned_work()] == [one.name]
    go_on.set()
    until(lambda: not abandoned_work())
    with bearing(CancelSignal()), pytest.raises(CallTimeoutError):
        timeout(0.02, mode="abandon").call(threading.Event().wait, 0.2)
    until(lambda: not abandoned_work())
    with bearing(CancelSignal()):
        assert one.call(int) == 0


def test_an_interrupt_just_as_the_work_ends(monkeypatch: pytest.MonkeyPatch):
    """The caller is gone, and the work is not abandoned: it has ended."""
    one, wait = timeout(60, mode="abandon"), _jobs.Job.wait

    def interrupted(job: Any, seconds: float | None = None) -> bool:
        assert wait(job, seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(_jobs.Job, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.call(int)
    assert abandoned_work() == []
    assert one.snapshot().working == 0
