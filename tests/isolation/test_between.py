"""Rare moments, made by hand: the middle of a change, an interrupt in the wrong place, a fork, a race."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from typing import Any

import pytest

from breakerkit import (
    BulkheadFullError,
    CallCancelledError,
    CancelSignal,
    FullReason,
    WorkerLostError,
    bulkhead,
)
from breakerkit.isolation import _child as child
from breakerkit.isolation import _naming as naming
from breakerkit.isolation import _process as processes
from breakerkit.isolation import _watch as watch
from breakerkit.isolation._callers import Awaited, Call, Submitted
from breakerkit.isolation._inside import inside, passes
from breakerkit.isolation._room import Room
from breakerkit.isolation._waiters import Patience, Waiter
from breakerkit.isolation._waiting import Waiting
from breakerkit.isolation._work import Work
from breakerkit.testing import ManualClock
from tests.isolation import importable
from tests.isolation.rig import PATIENCE, Background, end, full, idle, until, waiting
from tests.isolation.test_waiting import limited


def make(**settings: Any) -> Any:
    """Return a bulkhead of two slots."""
    return bulkhead(**{"max_concurrent": 2, "max_waiting": 3, **settings})


# -- in the middle of a change: a destructor or signal handler finds its own thread under the lock


def test_a_call_in_the_middle_of_a_change() -> None:
    """It takes a free slot if there is one, and waits for none."""
    b = make(stuck_after=None)
    b.call(int)
    with b._guard.lock:
        assert b.call(int) == 0
        with b.guard():
            with pytest.raises(BulkheadFullError) as caught:
                b.call(int)
    assert caught.value.reason is FullReason.QUEUE_FULL
    idle(b)


def test_what_ends_in_the_middle_of_a_change() -> None:
    """Blocks that end, slots that are lost, tasks that are closed: whoever is in the middle sees to it."""
    b = make(max_concurrent=2)

    async def work() -> int:
        return 1

    async def main() -> None:
        with full(b) as blocks:
            gone, stays = b.call(work), asyncio.ensure_future(b.call(work))
            gone.send(None)
            await asyncio.sleep(0)
            assert waiting(b) == 2
            with b._guard.lock:
                gone.close()
                end(blocks)
                assert b._guard.queue.size == 2
                assert b.snapshot().waiting == 2
            b.snapshot()
            assert await stays == 1
            assert waiting(b) == 0

    asyncio.run(main())
    idle(b)


def test_settings_that_change_in_the_middle_of_a_change() -> None:
    """They are in force once the present change is over; so is what a sweep finds."""
    b = make()
    with b._guard.lock:
        b.reconfigure(max_concurrent=5)
        assert b.config.max_concurrent == 2
        assert b._guard.sweep() == 0
    b.snapshot()
    assert b.config.max_concurrent == 5
    idle(b)


def test_loops_that_close_are_not_swept_in_the_middle_of_a_change() -> None:
    """A look for closed loops in the middle of a change leaves the queue alone."""
    b = make(max_concurrent=1)

    async def work() -> None:
        """Never run."""

    loop = asyncio.new_event_loop()
    with full(b):
        task = loop.create_task(b.call(work))
        loop.run_until_complete(asyncio.sleep(0.001))
        loop.close()
        with b._guard.lock:
            assert b.snapshot().waiting == 1
        assert b.snapshot().waiting == 0
    task._log_destroy_pending = False
    del task
    gc.collect()
    idle(b)


def test_a_slot_that_nobody_holds() -> None:
    """A slot that is lost comes back as a fresh one, and one that is given up does not."""
    b = make()
    slot = b._guard.ask(None)
    assert b.snapshot().running == 1
    del slot
    idle(b)
    completed = b.snapshot().completed
    b.reconfigure(max_concurrent=1)
    gc.collect()
    assert b.snapshot().completed == completed
    idle(b)


# -- an interrupt where others depend on what it cuts off ---------------------------------


@pytest.mark.parametrize("how", ["function", "coroutine", "block"])
def test_an_interrupt_when_others_are_to_be_served(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Ctrl-C at the very moment in which the next are served: they are, and it passes on."""
    b, background = make(max_concurrent=1), Background()
    serve, interrupts = Room.serve, [True]

    def once(self: Any) -> None:
        if interrupts and threading.current_thread() is threading.main_thread():
            interrupts.pop()
            raise KeyboardInterrupt
        serve(self)

    def behave() -> None:
        background.call(b.call, int)
        until(lambda: waiting(b) == 1)
        monkeypatch.setattr(Room, "serve", once)

    async def later() -> None:
        behave()

    b.call(int)
    with pytest.raises(KeyboardInterrupt):
        if how == "function":
            b(behave)()
        elif how == "coroutine":
            asyncio.run(b(later)())
        else:
            with b.guard():
                behave()
    assert background.join() == [0]
    idle(b)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_second_interrupt(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Ctrl-C again, while a call leaves the queue after the first: it leaves all the same."""
    b = make(max_concurrent=1)
    forsake, interrupts = Waiting.forsake, [True]

    def once(self: Any, waiter: Any) -> None:
        if interrupts:
            interrupts.pop()
            raise KeyboardInterrupt
        forsake(self, waiter)

    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        """Never run."""

    monkeypatch.setattr(Waiting, "forsake", once)
    with full(b):
        unsubscribe = b.subscribe(interrupt)
        with pytest.raises(KeyboardInterrupt):
            b.call(int) if how == "sync" else asyncio.run(b.call(work))
        unsubscribe()
        assert waiting(b) == 0
    idle(b)


def test_an_interrupt_before_somebody_is_told() -> None:
    """A waiter that could not be told that it has a slot is told by whoever serves next."""
    b = make(max_concurrent=1)

    class Deaf(Waiter):
        heard = 0

        def ring(self) -> bool:
            self.heard += 1
            if self.heard == 1:
                raise KeyboardInterrupt
            b._guard.postponed.append(lambda: None)  # and meanwhile there is more to do
            return True

    waiter = Deaf(None, 0.0)
    block = b.guard()
    block.__enter__()
    assert b._guard.join(waiter, Patience(ManualClock(), None)) is None
    with pytest.raises(KeyboardInterrupt):
        block.__exit__(None, None, None)
    assert waiter.heard == 2
    b._guard.release(waiter.slot)
    idle(b)
    with pytest.raises(NotImplementedError):
        Waiter(None, 0.0).ring()
    b._guard._nobody_there(Waiter(None, 0.0))  # it had no slot
    idle(b)


# -- a fork ---------------------------------------------------------------------------------


def test_after_a_fork() -> None:
    """What the parent's threads hold gives nothing back in the child, whichever way it ends."""
    b = make()
    lost = b._guard.ask(None)
    unused = b._guard.ask(None)
    completed = b.snapshot().completed
    b._guard.after_fork()
    assert b.snapshot().running == b.snapshot().waiting == 0
    assert b.snapshot().completed == completed
    b._guard.unused(unused)
    b._guard.release(unused)
    del lost, unused
    idle(b)


def test_workers_after_a_fork() -> None:
    """The parent's workers are none of the child's, and those of a program that ends are killed."""
    b = make(isolation="thread")
    b.call(int)
    b._guard.after_fork()
    assert b.snapshot().workers == 0
    assert b.call(int) == 0
    before = processes.registered.processes
    processes.registered.after_fork()
    assert processes.registered.processes == {}
    processes.registered.processes = before


# -- races of workers -------------------------------------------------------------------------


def test_a_slot_that_comes_when_max_wait_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was handed its slot in the last instant runs."""
    clock, leave = ManualClock(), threading.Event()
    b = make(isolation="thread", max_concurrent=1, max_wait=5, clock=clock)
    b.submit(leave.wait, PATIENCE)
    nap = Call.nap

    def late(self: Any, seconds: float) -> None:
        if clock.now() == 0:
            clock.advance(5)
            leave.set()
            until(lambda: self.begun)
        else:
            nap(self, seconds)

    monkeypatch.setattr(Call, "nap", late)
    assert b.call(threading.Event().wait, 0.01) is False
    assert b.snapshot().rejected == 0


def test_a_worker_that_is_told_to_look() -> None:
    """A worker that is asked whether it is one too many, and is not, goes on."""
    b = make(isolation="thread", max_concurrent=1)
    ident = b.call(threading.get_ident)
    b._guard.pool._box.put(None)
    assert b.call(threading.get_ident) == ident


def test_work_that_is_told_twice() -> None:
    """Work that is rung, begun, told or left twice is run once, and its caller is told once."""
    b = make(isolation="thread", max_concurrent=1)
    ran: list[int] = []
    future = b.submit(ran.append, 1)
    future.result(PATIENCE)
    work = Submitted(b._guard, None, ran.append, (2,), {})
    b._guard.watch.add(b._guard, work, Patience(b._guard.clock, None))
    work.slot = b._guard.ask(None)
    work.start()
    work.future.result(PATIENCE)
    assert work.ring() is True
    assert not work.leave()
    work.conclude(None, None)
    b._guard.pool.start(work)
    assert b.call(int) == 0
    assert ran == [1, 2]
    assert b.snapshot().running == 0
    with pytest.raises(NotImplementedError):
        Work(b._guard, None, int, (), {}).deliver()


def test_a_future_that_is_cancelled_in_the_last_instant() -> None:
    """A result for a future that has just been cancelled is nobody's."""
    b = make(isolation="thread", max_concurrent=1)
    work = Submitted(b._guard, None, int, (), {})
    assert work.future.cancel()
    work.conclude(7, None)
    assert work.future.cancelled()
    work = Submitted(b._guard, None, int, (), {})
    pause = watch._look(b._guard, work, Patience(ManualClock(), 1e-9))
    assert pause > 0
    clock = ManualClock()
    patience = Patience(clock, 1)
    clock.advance(1)
    assert watch._look(b._guard, work, patience) == 0.0
    assert not work.concluded  # it was in no queue: somebody else has it


def test_a_task_that_is_told_twice() -> None:
    """A look at a task that has been woken already does nothing."""
    b = make(isolation="thread", max_concurrent=1)

    async def main() -> None:
        work = Awaited(b._guard, None, int, (), {})
        work._look()
        work._look()
        await work.nap(1)

    asyncio.run(main())


def test_a_signal_while_a_submitted_call_waits() -> None:
    """A submitted call in the queue ends when the signal of the calls around is set."""
    b, leave, signal_ = (
        make(isolation="thread", max_concurrent=1),
        threading.Event(),
        CancelSignal(),
    )
    b.submit(leave.wait, PATIENCE)
    future = limited(60, lambda: b.submit(int), signal=signal_)
    signal_.cancel("no")
    assert type(future.exception(PATIENCE)) is CallCancelledError
    leave.set()


# -- the other end of the pipe -------------------------------------------------------------------


def answered(function: Any, *args: Any, through: str | None = None) -> Any:
    """Run a call as a worker process does, in this one."""
    import pickle

    call = naming.packed(function, args, {}), through
    return pickle.loads(child._answer(child.request(call, None)))


def test_a_worker_answers() -> None:
    """A value, an exception with a note, or a text that says what cannot be sent."""
    assert answered(len, "abc") == (child.RETURNED, 3)
    assert answered(importable.between.__wrapped__.__wrapped__, 1)[1][0] == 1
    ended, error = answered(importable.raise_it, "error")
    assert (ended, type(error)) == (child.RAISED, ConnectionError)
    assert "importable.py" in error.__notes__[0]
    assert answered(importable.make_unsendable)[0] == child.UNSENDABLE
    assert answered(importable.raise_it, "unsendable")[0] == child.UNSENDABLE
    ended, error = answered(importable.raise_it, "busy")
    assert (ended, type(error)) == (child.RAISED, ConnectionError)
    ended, error = answered(importable.raise_it, "busier")
    assert (ended, type(error)) == (child.RAISED, ConnectionError)
    ended, error = answered(importable.raise_it, "odd")
    assert (ended, type(error)) == (child.RAISED, ConnectionError)
    assert answered(passes, "db", through="db") == (child.RETURNED, True)
    assert inside.get() is None


def test_a_worker_keeps_the_time() -> None:
    """The deadline that goes along is one of the worker's own clock."""
    request = limited(60, lambda: child.request((naming.packed(importable.seconds_left, (), {}), None), _limit()))  # fmt: skip
    import pickle

    ended, (name, seconds, left) = pickle.loads(child._answer(request))
    assert (ended, name, seconds) == (child.RETURNED, "around", 60)
    assert 0 < left <= 60


def _limit() -> Any:
    from breakerkit import _ambient as ambient

    return ambient.limit.get()


def test_a_worker_serves_until_its_pipe_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers call after call; an answer that nobody takes is dropped."""
    calls = [child.request((naming.packed(len, ("abc",), {}), None), None)] * 2
    sent: list[bytes] = []

    class Pipe:
        def recv_bytes(self) -> bytes:
            if not calls:
                raise EOFError
            return calls.pop()

        def send_bytes(self, data: bytes) -> None:
            sent.append(data)
            if len(sent) == 2:
                raise BrokenPipeError

    monkeypatch.setattr(child, "_die_with", lambda parent: None)
    before = signal.getsignal(signal.SIGINT)
    try:
        child.main(Pipe(), os.getpid())  # type: ignore[arg-type]  # like a pipe
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(sent) == 2


@pytest.mark.parametrize("platform", ["linux", "other"])
def test_a_worker_dies_with_its_parent(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """Where the system can kill it, it is asked to; else, and besides, a thread waits for the end."""
    import ctypes
    import multiprocessing
    import multiprocessing.connection as connection

    exits: list[int] = []
    asked: list[Any] = []

    class Library:
        def __init__(self, name: None) -> None:
            self.prctl = lambda *args: asked.append(args)

    monkeypatch.setattr(child.sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(os, "_exit", exits.append)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: type("P", (), {"sentinel": 7}))
    monkeypatch.setattr(connection, "wait", lambda sentinels: sentinels)
    child._die_with(os.getppid())
    until(lambda: exits)
    assert asked == ([(1, signal.SIGKILL)] if platform == "linux" else [])
    assert exits == [1]
    exits.clear()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    child._die_with(os.getppid() + 1)  # it died before it could be asked
    assert exits == ([1] if platform == "linux" else [])
    child._watch()


def test_a_call_that_takes_longer_than_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent looks now and then whether a quiet process still lives."""
    monkeypatch.setattr(processes, "_PATIENCE", 0.001)
    b = importable.work.bulkhead
    assert b.call(time.sleep, 0.05) is None


class Dead:
    """A process that has died without its pipe saying so."""

    exitcode, pid, sentinel = 3, 7, 0

    def __init__(self, pipe: Any) -> None:
        self.sentinel = pipe.fileno()

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None:
        raise ValueError("closed")

    def close(self) -> None: ...


def test_a_process_that_is_gone_without_a_word() -> None:
    """A process that has ended while its pipe is still open elsewhere is lost."""
    b = make(isolation="process")
    ours, theirs = processes._context.Pipe()
    waker, woken = processes._context.Pipe()
    runner = processes.ProcessRunner(b._guard)
    runner._process = dead = Dead(woken)
    waker.send(1)
    assert runner._answer(ours) is None
    runner._bulkhead = lambda: None  # type: ignore[assignment]  # it is gone too
    dead.kill = lambda: None  # type: ignore[method-assign]  # this one can be
    assert isinstance(runner._lost(), WorkerLostError)
    runner.close()
    for pipe in (ours, theirs, waker, woken):
        pipe.close()


def test_the_end_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end every process is killed, and no further one is begun."""
    registered = processes.registered
    ours, theirs = processes._context.Pipe()
    dead = Dead(ours)
    monkeypatch.setattr(registered, "processes", {1: dead})
    monkeypatch.setattr(registered, "closing", False)
    registered.end()
    with pytest.raises(RuntimeError, match="the interpreter is exiting"):
        make(isolation="process").call(int)
    ours.close()
    theirs.close()
