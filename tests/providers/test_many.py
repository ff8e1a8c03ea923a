"""Strategies that give a call to several providers: ``"broadcast"`` and ``"forking"``."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time

import pytest

from breakerkit import (
    AllProvidersFailedError,
    BreakerConfig,
    CallCancelledError,
    CallTimeoutError,
    CancelSignal,
    DeadlineExceededError,
    NoProviderError,
    NoProviderReason,
    Provider,
    abandoned_work,
    bulkhead,
    check_deadline,
    failover,
    system_clock,
    timeout,
)
from breakerkit._abandoned import ledger
from breakerkit._ambient import bearing
from breakerkit._shell import _crowds as crowds
from breakerkit._shell._tries import Work
from breakerkit.testing import ManualClock
from tests.isolation.rig import until
from tests.providers.rig import DOWN, Providers, async_values, sync_values, value_shapes, within

FRAIL = BreakerConfig(failure_threshold=1, open_duration=10)


def both_kinds(line, behave):
    """Return the same call, sync and async, as functions of no arguments."""

    async def work(provider):
        return behave(provider)

    return [lambda: line.call(behave), lambda: asyncio.run(line.call(work))]


# -- broadcast -----------------------------------------------------------------------


@value_shapes
def test_broadcast(shape):
    """All providers are called; what is returned is the value of the last one in the list."""
    line, all_well = failover(["a", "b", "c"], strategy="broadcast"), Providers()
    assert shape.run(line, all_well) == "c"
    assert all_well.asked == ["a", "b", "c"]
    assert [one.successes for one in line.snapshot().providers] == [1, 1, 1]


@value_shapes
def test_c051_the_share_that_fails(shape):
    """C051: as many as ``fail_percent`` is an error already; fewer are not, and the value is a good one's."""
    line = failover(["p1", "p2", "p3"], "notify", strategy="broadcast", fail_percent=50)
    both = Providers(p2=DOWN, p3=DOWN)
    with pytest.raises(
        AllProvidersFailedError, match="'notify': 2 of 3 providers failed"
    ) as caught:
        shape.run(line, both)
    assert caught.value.providers == ("p2", "p3")
    assert both.asked == ["p1", "p2", "p3"]

    line = failover(["p1", "p2", "p3", "p4"], strategy="broadcast", fail_percent=50)
    both = Providers(p4=DOWN)
    assert shape.run(line, both) == "p3"
    both.does["p1"] = DOWN
    with pytest.raises(AllProvidersFailedError):
        shape.run(line, both)


@pytest.mark.parametrize("count", range(1, 13))
def test_the_share_is_exact(count):
    """Reached counts for every number of providers and failures: no rounding."""
    for percent in (1, 29, 33, 34, 50, 66, 67, 100):
        line = failover(
            [f"p{number}" for number in range(count)],
            strategy="broadcast", fail_percent=percent, breaker=None,
        )  # fmt: skip
        for failing in range(count + 1):
            both = Providers(**{f"p{number}": DOWN for number in range(failing)})
            reached = failing > 0 and failing * 100 >= percent * count
            try:
                assert line.call(both) == f"p{count - 1}"
                assert not reached
            except AllProvidersFailedError as error:
                assert reached
                assert len(error.exceptions) == failing


@value_shapes
def test_broadcast_takes_no_failure_by_default(shape):
    """Without ``fail_percent`` one failure is enough, and the others are called all the same."""
    line, both = failover(["a", "b", "c"], strategy="broadcast"), Providers(a=DOWN)
    with pytest.raises(AllProvidersFailedError, match="1 of 3 providers failed"):
        shape.run(line, both)
    assert both.asked == ["a", "b", "c"]
    both.does = dict.fromkeys("abc", DOWN)
    with pytest.raises(AllProvidersFailedError, match="all providers failed"):
        shape.run(line, both)


@value_shapes
def test_broadcast_ends_with_the_business_own(shape):
    """An exception outside ``on`` passes at once."""
    error = LookupError("no")
    line = failover(["a", "b"], strategy="broadcast", on=(ConnectionError,))
    with pytest.raises(LookupError) as caught:
        shape.run(line, Providers(a=error))
    assert caught.value is error


@value_shapes
def test_broadcast_counts_whom_it_passes_over(shape):
    """A provider whose breaker is open has not got the call: that is a failure."""
    clock = ManualClock()
    frail = Provider("a", breaker=FRAIL)
    line = failover([frail, "b"], strategy="broadcast", fail_percent=100, clock=clock)
    both = Providers(a=DOWN)
    assert [shape.run(line, both) for _ in range(2)] == ["b"] * 2
    assert both.asked == ["a", "b", "b"]
    both.does["b"] = DOWN
    with pytest.raises(AllProvidersFailedError) as caught:
        shape.run(line, both)
    assert caught.value.providers == ("b", "a")


@value_shapes
def test_broadcast_to_nobody(shape):
    """With nobody to ask the call is rejected."""
    with pytest.raises(NoProviderError):
        shape.run(failover([], strategy="broadcast"), Providers())
    line = failover(["a"], strategy="broadcast", breaker=FRAIL, max_ejected=100)
    with pytest.raises(AllProvidersFailedError):
        shape.run(line, Providers(a=DOWN))
    with pytest.raises(NoProviderError):
        shape.run(line, Providers())


def test_broadcast_runs_out_of_time():
    """Those for whom there was no time left have failed; with no time at all nothing is run."""
    clock = ManualClock()

    def slow():
        clock.advance(2)
        return "a"

    line = failover(["a", "b", "c"], strategy="broadcast")
    with within(1, clock):
        with pytest.raises(AllProvidersFailedError) as caught:
            line.call(Providers(a=slow))
        assert caught.value.providers == ("b", "c")
        assert {type(one) for one in caught.value.exceptions} == {DeadlineExceededError}
        with pytest.raises(DeadlineExceededError):
            line.call(Providers())


def test_async_broadcast_is_parallel():
    """An async broadcast calls all at the same time."""
    line = failover(["a", "b", "c"], strategy="broadcast")

    async def main():
        meeting = asyncio.Barrier(3)

        @line
        async def work(provider):
            await meeting.wait()
            return provider

        return await work()

    assert asyncio.run(main()) == "c"


# -- forking -------------------------------------------------------------------------


@async_values
def test_c050_the_first_good_one(shape):
    """C050: an error that comes first does not end the call, a value does; two errors are both listed."""
    line, both = failover(["a", "b", "c"], strategy="forking"), Providers(a=DOWN)
    assert shape.run(line, both) == "b"
    assert "c" not in both.asked
    late = TimeoutError("b")
    both.does["b"] = late
    with pytest.raises(AllProvidersFailedError, match="2 of 3 providers failed") as caught:
        shape.run(line, both)
    assert caught.value.exceptions == (DOWN, late)


def test_c050_in_time():
    """C050: the value comes when the provider has answered, and what lost was cancelled by then."""
    line, ended = failover(["a", "b", "c"], strategy="forking", forks=3), []

    @line
    async def work(provider):
        try:
            await asyncio.sleep({"a": 0.01, "b": 0.05, "c": 30}[provider])
        except asyncio.CancelledError:
            ended.append(provider)
            raise
        if provider == "a":
            raise DOWN
        return provider

    async def main():
        started = time.monotonic()
        value = await work()
        return value, time.monotonic() - started, len(asyncio.all_tasks())

    value, took, tasks = asyncio.run(main())
    assert (value, ended, tasks) == ("b", ["c"], 1)
    assert 0.04 < took < 1
    assert line.breaker("c").snapshot().ignored == 1


@sync_values
def test_forking_in_threads(shape):
    """C050 in sync code: the first good one wins; two errors are both listed."""
    line, both = failover(["a", "b", "c"], strategy="forking"), Providers(a=DOWN)
    assert shape.run(line, both) == "b"
    assert "c" not in both.asked
    both.does["b"] = TimeoutError("b")
    with pytest.raises(AllProvidersFailedError, match="2 of 3 providers failed") as caught:
        shape.run(line, both)
    assert set(caught.value.providers) == {"a", "b"}


def test_a_thread_that_lost_is_dropped():
    """What comes of a thread that lost is dropped, but its breaker hears of it."""
    hang, line = threading.Event(), failover(["a", "b"], strategy="forking")
    ended = threading.Event()

    @line
    def work(provider):
        if provider == "a":
            hang.wait(10)
            threading.current_thread().ended = ended
            raise DOWN
        return provider

    line.subscribe(lambda event: ended.set())
    assert work() == "b"
    assert line._guard.losers == 1
    hang.set()
    assert ended.wait(10)
    for thread in threading.enumerate():
        if thread.name == "breakerkit fork a":
            thread.join()
    assert line._guard.losers == 0
    assert line.breaker("a").snapshot().failures == 1
    assert line.snapshot().exhausted == 0


def test_threads_that_hang_are_bounded():
    """Threads that lost and hang are bounded by ``max_pending``: further calls are rejected until they end."""
    hang, line = threading.Event(), failover(["a", "b"], strategy="forking", max_pending=3)
    begun = []

    @line
    def work(provider):
        if provider == "a":
            begun.append(threading.current_thread())
            hang.wait(10)
        return provider

    for _ in range(3):
        assert work() == "b"
    with pytest.raises(NoProviderError, match="too many forks") as caught:
        work()
    assert caught.value.reason is NoProviderReason.FORKS_RUNNING
    hang.set()
    for thread in begun:
        thread.join()
    assert work() in {"a", "b"}


def test_forks_carry_context_variables():
    """A fork sees the caller's context variables."""
    user = contextvars.ContextVar("user")
    user.set("me")
    line = failover(["a", "b"], strategy="forking")
    assert line.call(lambda provider: user.get()) == "me"


def test_forks_wait_no_longer_than_they_may():
    """The wait ends when the time of the calls around is over."""
    hang = threading.Event()
    line = failover(["a", "b"], strategy="forking")
    with within(0.02, type("Real", (), {"now": staticmethod(time.monotonic)})()):
        with pytest.raises(CallTimeoutError):
            line.call(lambda provider: hang.wait(10))
    hang.set()


def test_a_clock_that_is_ahead_of_the_wait():
    """Should the wait end before the time of the calls around, it goes on."""
    clock, hang = ManualClock(), threading.Event()
    line = failover(["a", "b"], strategy="forking")
    timer = threading.Timer(0.05, hang.set)
    with within(0.01, clock):
        timer.start()
        assert line.call(lambda provider: hang.wait(10))
    timer.join()


def test_forks_are_left_when_a_clock_is_moved_or_a_signal_set():
    """A clock that is moved by hand ends the wait, and so does the signal of the calls around."""
    clock, hang, stop = ManualClock(), threading.Event(), CancelSignal()
    line = failover(["a", "b"], strategy="forking")

    def move(provider):
        clock.advance(4)
        hang.wait(10)

    def leave(provider):
        stop.cancel("no")
        hang.wait(10)

    with within(3, clock), pytest.raises(CallTimeoutError):
        line.call(move)
    with bearing(stop), pytest.raises(CallCancelledError):
        line.call(leave)
    with bearing(CancelSignal()), within(3, clock):
        assert line.call(lambda provider: provider) in {"a", "b"}
    hang.set()


def test_probes_of_threads_that_cannot_start_come_back(monkeypatch):
    """A probe that was let in and could not begin holds no slot, whoever keeps the error."""
    clock = ManualClock()
    line = failover(["a", "b"], strategy="forking", breaker=FRAIL, clock=clock)
    with pytest.raises(AllProvidersFailedError):
        line.call(Providers(a=DOWN, b=DOWN))
    clock.advance(10)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread") as kept:
            line.call(lambda provider: provider)
    assert [line.breaker(name).snapshot().probes_active for name in "ab"] == [0, 0]
    assert kept.value.__traceback__ is not None


def test_a_thread_that_cannot_start(monkeypatch):
    """Where no thread can be started the caller is told, and nothing is left counted."""
    line = failover(["a", "b"], strategy="forking")

    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            line.call(lambda provider: provider)
    assert line._guard.losers == 0
    assert line.call(lambda provider: provider) in {"a", "b"}


def test_the_interpreter_exits_although_a_loser_hangs():
    """A fork that hangs does not hold up the end of the program."""
    code = """
import threading
from breakerkit import failover
@failover(["a", "b"], strategy="forking")
def work(provider):
    if provider == "a":
        threading.Event().wait()
    return provider
print(work())
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert done.stdout == "b\n"


def test_the_business_own_ends_a_race():
    """An exception outside ``on`` ends the call, sync and async."""
    error = LookupError("no")
    line = failover(["a"], strategy="forking", on=(ConnectionError,))
    for call in both_kinds(line, Providers(a=error)):
        with pytest.raises(LookupError) as caught:
            call()
        assert caught.value is error


def test_what_interrupts_a_fork_reaches_the_caller():
    """An exit inside a thread is the caller's."""
    line = failover(["a"], strategy="forking")
    with pytest.raises(SystemExit):
        line.call(Providers(a=SystemExit(3)))


def test_a_race_with_nobody():
    """With nobody to ask the call is rejected, and with no time nothing is run."""
    for call in both_kinds(failover([], strategy="forking"), Providers()):
        with pytest.raises(NoProviderError):
            call()
    clock = ManualClock()
    with within(1, clock):
        clock.advance(1)
        for call in both_kinds(failover(["a"], strategy="forking"), Providers()):
            with pytest.raises(DeadlineExceededError):
                call()


def test_a_winner_and_an_error_at_once():
    """Of several that end in the same turn of the loop a good one wins."""
    line = failover(["a", "b"], strategy="forking", on=(ConnectionError,))

    @line
    async def work(provider):
        if provider == "a":
            raise LookupError("no")
        return provider

    assert asyncio.run(work()) == "b"


def test_a_loser_that_will_not_stop():
    """A task that does not heed its cancellation does not hold up the winner, and what comes of it is dropped."""
    line, faults = failover(["a", "b"], strategy="forking"), []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        free = asyncio.Event()

        @line
        async def work(provider):
            if provider == "b":
                return provider
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await free.wait()
                raise RuntimeError("too late") from None

        assert await work() == "b"
        assert len(crowds._stragglers) >= 1
        free.set()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not crowds._stragglers

    asyncio.run(main())
    gc.collect()
    assert not faults


@pytest.mark.parametrize("strategy", ["forking", "broadcast"])
def test_cancelling_the_call_cancels_all(strategy):
    """A call that is cancelled cancels its tasks and waits for their end."""
    line, ended = failover(["a", "b"], strategy=strategy), []

    async def main():
        begun = asyncio.Barrier(3)

        @line
        async def work(provider):
            try:
                await begun.wait()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(provider)

        task = asyncio.create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(ended) == ["a", "b"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert [one.failures for one in line.snapshot().providers] == [0, 0]


def test_async_callbacks_in_a_race():
    """A coroutine opening callback is awaited in a race too."""
    opened = []

    async def tell(context):
        await asyncio.sleep(0)
        opened.append(context.name)

    settings = BreakerConfig(
        failure_threshold=None, slow_call_duration=1, window_size=1, on_open=tell
    )
    clock = ManualClock()
    line = failover(["a"], "race", strategy="forking", breaker=settings, clock=clock)

    async def slow(provider):
        clock.advance(2)
        return provider

    async def hang(provider):
        await asyncio.Event().wait()

    async def main():
        assert await line.call(slow) == "a"
        assert opened == ["race[a]"]
        clock.advance(40)
        task = asyncio.create_task(line.call(hang))
        await asyncio.sleep(0)
        clock.advance(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_an_admission_that_opens_a_breaker():
    """An admission that finds a hanging call slow opens the breaker: its coroutine callback is awaited."""
    opened = []

    async def tell(context):
        opened.append(context.name)

    settings = BreakerConfig(
        failure_threshold=None, slow_call_duration=1, window_size=1, on_open=tell
    )
    for strategy in ("failover", "broadcast"):
        clock = ManualClock()
        line = failover(["a", "b"], strategy, strategy=strategy, breaker=settings, clock=clock)
        opened.clear()

        async def main(line=line, clock=clock):
            hanging = asyncio.create_task(line.call(hang))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            clock.advance(2)
            found = await asyncio.gather(line.call(quick), return_exceptions=True)
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
            return found

        async def hang(provider):
            await asyncio.Event().wait()

        async def quick(provider):
            return provider

        asyncio.run(main())
        assert f"{strategy}[a]" in opened


def test_real_time_is_the_default():
    """Without ``clock=`` breakers live on the shared clock."""
    assert failover(["a"], strategy="broadcast")._guard.clock is system_clock


def test_a_fork_that_is_heard_of_twice():
    """Whatever an interrupt repeats: forks that have lost are counted once, and none stays counted."""
    line = failover(["a", "b"], strategy="forking", breaker=None)
    plan = line._guard.begin(Work(str, (), (), {}))
    first, second = plan.all()
    for attempt in (first, second, first):
        plan.started(attempt, threading.current_thread())
    plan.ended(second, ledger.mark)
    plan.over()
    plan.over()
    assert line._guard.losers == 1
    assert [work.name for work in ledger.works()] == [line.name]
    for _ in range(2):
        plan.ended(first, ledger.mark)
    assert line._guard.losers == 0
    assert ledger.works() == []


@pytest.mark.parametrize("inner", [False, True], ids=["the forks", "what they abandon"])
def test_a_slot_around_forks_is_held_until_they_end(inner):
    """C042: what a caller who leaves, or a limit inside, leaves behind keeps the slot of a bulkhead around."""
    may_end, at_work = threading.Event(), threading.Semaphore(0)
    around = bulkhead(max_concurrent=1, max_waiting=0)
    line = failover(["a", "b"], strategy="forking", breaker=None)

    def work(provider):
        at_work.release()
        may_end.wait(10)

    if inner:
        guarded = around(line(timeout(0.01, mode="abandon")(work)))
    else:
        guarded = around(timeout(0.01)(line(work)))
    with pytest.raises(AllProvidersFailedError if inner else CallTimeoutError) as caught:
        guarded()
    assert inner or caught.value.abandoned
    for _ in "ab":
        assert at_work.acquire(timeout=10)
    assert around.snapshot().running == 1
    assert len(abandoned_work()) == 2
    may_end.set()
    until(lambda: around.snapshot().running == 0)
    assert abandoned_work() == []
    assert line._guard.losers == 0


def test_a_winner_leaves_its_rivals_to_the_ledger():
    """C042: the slot is free once the loser has ended, too."""
    may_end, around = threading.Event(), bulkhead(max_concurrent=1, max_waiting=0)
    line = failover(["a", "b"], strategy="forking", breaker=None)

    def work(provider):
        return provider if provider == "b" else may_end.wait(10)

    assert around(line(work))() == "b"
    (left,) = abandoned_work()
    assert (left.name, around.snapshot().running) == (line.name, 1)
    may_end.set()
    until(lambda: around.snapshot().running == 0)


def test_forks_are_under_the_deadline_when_their_caller_has_left():
    """A fork that looks at its deadline stops by itself, though nobody waits for it."""
    stopped = threading.Semaphore(0)
    left = threading.Event()

    def work(provider):
        left.wait(10)
        try:
            check_deadline()
        except CallTimeoutError:
            stopped.release()

    line = timeout(0.01)(failover(["a", "b"], strategy="forking", breaker=None)(work))
    with pytest.raises(CallTimeoutError):
        line()
    left.set()
    assert stopped.acquire(timeout=10)
    assert stopped.acquire(timeout=10)
