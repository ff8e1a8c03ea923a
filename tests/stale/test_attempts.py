"""One attempt per key at a time: crowds, leaders that go, limits, the background; threads, tasks, loops and both."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import time

import pytest

from breakerkit import (
    CallTimeoutError,
    NoCachedValueError,
    breaker,
    bulkhead,
    failover,
    fallback,
    return_value,
    stale_if_error,
    timeout,
)
from breakerkit.store.commands import Begin
from tests.stale.rig import Crowd, Down, FarStore, until, until_async


class Slow:
    """An origin that answers when it is let, in a thread or in a task."""

    def __init__(self):
        self.inside, self.leave = threading.Event(), threading.Event()
        self.runs, self.error = 0, None

    def __call__(self, key="k"):
        self.runs += 1
        number = self.runs
        self.inside.set()
        assert self.leave.wait(20)
        return self._end(number)

    async def later(self, key="k"):
        self.runs += 1
        number = self.runs
        self.inside.set()
        await until_async(self.leave.is_set, 20)
        return self._end(number)

    def _end(self, number):
        if self.error is not None:
            raise self.error
        return number


@pytest.fixture
def slow():
    one = Slow()
    yield one
    one.leave.set()


def crowd_of_tasks(count, call, ready=lambda: None):
    """Run so many tasks in a loop of their own; what came of them."""

    async def main():
        tasks = [asyncio.create_task(call("k")) for _ in range(count)]
        await asyncio.sleep(0)
        ready()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(main())


@pytest.mark.parametrize("expired", [True, False], ids=["expired", "empty"])
@pytest.mark.parametrize("far", [True, False], ids=["far", "memory"])
def test_a_thousand_threads(expired, far, cached, clock, slow):
    """Rule 7: one origin call; the others get the stale value at once, or wait for the attempt."""
    settings = {"store": FarStore(clock)} if far else {}
    c = cached("crowd", **settings)
    call = c(lambda key: slow(key))
    if expired:
        c.put("k", "old")
        clock.advance(2)
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    others = Crowd(500, lambda: call("k"))
    if expired:
        assert others.join() == ["old"] * 500
    else:
        until(lambda: c._guard.attempts._running["crowd:k"].callers == 501, 30)
    slow.leave.set()
    assert leader.join() == [1]
    if not expired:
        assert others.join() == [1] * 500
    assert slow.runs == 1


@pytest.mark.parametrize("expired", [True, False], ids=["expired", "empty"])
@pytest.mark.parametrize("far", [True, False], ids=["far", "memory"])
def test_a_thousand_tasks(expired, far, cached, clock, slow):
    """Rule 7: the same on a loop."""
    settings = {"store": FarStore(clock)} if far else {}
    c = cached("crowd", **settings)

    @c
    async def call(key):
        return await slow.later(key)

    if expired:
        c.put("k", "old")
        clock.advance(2)
    found = crowd_of_tasks(1000, lambda key: call(key), slow.leave.set)
    assert slow.runs == 1
    if expired:
        assert found.count("old") == 999
    assert found.count(1) == (1 if expired else 1000)


def test_threads_and_tasks_and_two_loops(cached, slow):
    """Rule 7: with keys of one kind they share one attempt, whoever leads."""
    c = cached("mixed", key=lambda key: key)
    sync = c(lambda key: slow(key))

    @c
    async def coroutine(key):
        return await slow.later(key)

    loops = Crowd(2, lambda: crowd_of_tasks(150, coroutine))
    threads = Crowd(200, lambda: sync("k"))
    until(lambda: getattr(c._guard.attempts._running.get("mixed:k"), "callers", 0) == 500, 30)
    slow.leave.set()
    assert threads.join() == [1] * 200
    assert loops.join() == [[1] * 150] * 2
    assert slow.runs == 1


async def test_a_cancelled_leader_hands_over(cached):
    """C060: of three the one that started the load goes; the others get the value. Then all go."""
    inside, leave, runs = asyncio.Event(), asyncio.Event(), []
    c = cached()

    @c
    async def load(key):
        runs.append(key)
        inside.set()
        await leave.wait()
        return len(runs)

    def three():
        inside.clear()
        return [asyncio.create_task(load("k")) for _ in range(3)]

    tasks = three()
    await inside.wait()
    tasks[0].cancel()
    leave.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [1, 1]
    c.evict_all()
    leave.clear()
    tasks = three()
    await inside.wait()
    for task in tasks:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in found)
    await until_async(lambda: not c.info().running)
    leave.set()
    assert await load("k") == 3
    assert c.info().failures == 0


async def test_a_cancelled_waiter_harms_nobody(cached):
    """Rule 7: the leader, and the other one, get the value."""
    leave = asyncio.Event()

    @cached()
    async def load(key):
        await leave.wait()
        return "value"

    tasks = [asyncio.create_task(load("k")) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[1].cancel()
    leave.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert (found[0], found[2]) == ("value", "value")


async def test_an_origin_that_is_cancelled_hands_over(cached):
    """What it was is the leader's own; somebody else tries."""
    runs = []

    @cached()
    async def load(key):
        runs.append(key)
        await asyncio.sleep(0)
        if len(runs) == 1:
            raise asyncio.CancelledError
        return "value"

    found = await asyncio.gather(*(load("k") for _ in range(3)), return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == ["value"] * 2
    assert len(runs) == 2


async def test_a_coroutine_that_is_closed(cached):
    """A leader thrown away in the middle leaves nothing behind."""
    c = cached()

    @c
    async def load(key):
        await asyncio.Event().wait()

    one = load("k")
    one.send(None)
    one.close()
    await until_async(lambda: not c.info().running)


@pytest.mark.parametrize("far", [True, False], ids=["far", "memory"])
async def test_an_origin_that_is_closed(far, cached, clock):
    """What is being closed may take no further step; in memory its lease is given back all the same."""
    c = cached(**({"store": FarStore(clock)} if far else {}))

    @c
    async def load(key):
        raise GeneratorExit

    with pytest.raises(GeneratorExit):
        await load("k")
    assert c.info().running == 0
    if far:
        assert c.store.inner._open
    else:
        assert not c.store._open


def test_a_thread_that_is_killed_hands_over(cached):
    """One that ends by SystemExit in the origin: the next in line tries."""
    runs, gate = [], threading.Event()
    c = cached("killed")

    @c
    def load(key):
        runs.append(key)
        if len(runs) == 1:
            gate.wait(10)
            raise SystemExit
        return "value"

    leader = Crowd(1, lambda: load("k"))
    until(lambda: runs)
    others = Crowd(5, lambda: load("k"))
    until(lambda: c._guard.attempts._running["killed:k"].callers == 6)
    gate.set()
    assert isinstance(leader.join()[0], SystemExit)
    assert others.join() == ["value"] * 5
    assert len(runs) == 2


def test_the_last_to_leave_is_of_another_thread(cached):
    """A task that nobody waits for is cancelled from wherever that is."""
    c = cached("last", key=lambda key: key, attempt_timeout=10)
    inside, gone = threading.Event(), threading.Event()

    @c
    async def load(key):
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    sync = c(lambda key: pytest.fail("run"))
    ended = []

    async def main():
        leader = asyncio.create_task(load("k"))
        await until_async(inside.is_set)

        def wait():
            with pytest.raises(CallTimeoutError):
                timeout(0.02, mode="cooperative").call(sync, "k")
            ended.append(1)

        thread = threading.Thread(target=wait)
        thread.start()
        await until_async(lambda: c._guard.attempts._running["last:k"].callers == 2)
        leader.cancel()
        await asyncio.wait([leader])
        await until_async(lambda: ended)
        thread.join()
        await until_async(gone.is_set)

    asyncio.run(main())
    assert c.info().running == 0


def test_a_loop_that_is_gone(cached):
    """Its task runs no more; others wait until it has lost the key, and harm comes to nobody."""
    from breakerkit.stale._waiting import cancel

    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(0))
    loop.run_until_complete(task)
    other = loop.create_task(asyncio.sleep(0))
    loop.run_until_complete(other)
    loop.close()
    cancel(other)
    assert not other.cancelled()


def test_a_waiter_whose_loop_is_gone(cached, slow):
    """An attempt that ends tells all who wait; nobody waits on a closed loop."""
    c = cached("gone", key=lambda key: key)
    sync = c(lambda key: slow(key))

    @c
    async def coroutine(key):
        return await slow.later(key)

    leader = Crowd(1, lambda: sync("k"))
    assert slow.inside.wait(10)
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine("k"))
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    slow.leave.set()
    assert leader.join() == [1]
    task._log_destroy_pending = False
    task.get_coro().close()


# -- limits --------------------------------------------------------------------


def test_an_attempt_that_takes_too_long_loses_the_key(cached, clock, slow):
    """Rule 7: another caller may try; who has nothing to serve waits no longer; late is stored if not older."""
    c = cached("late", attempt_timeout=1, refresh_after=5)
    call = c(lambda key: slow(key))
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    waiter = Crowd(1, lambda: call("k"))
    until(lambda: c._guard.attempts._running["late:k"].callers == 2)
    clock.advance(1)
    (error,) = waiter.join()
    assert isinstance(error, NoCachedValueError)
    assert isinstance(error.__cause__, CallTimeoutError)
    slow.leave.set()
    assert leader.join() == [1]
    assert c.fetch("k").source == "cached"


def test_a_late_value_never_replaces_a_newer_one(cached, clock, slow):
    """Rule 7: the second attempt ends first; the first comes too late."""
    c = cached("late", attempt_timeout=1, refresh_after=5)
    answers = iter([slow, lambda key: "newer"])
    call = c(lambda key: next(answers)(key))
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    clock.advance(1)
    assert call("k") == "newer"
    slow.leave.set()
    assert leader.join() == [1]  # its own
    assert call("k") == "newer"


def test_a_late_value_is_newer_than_a_failure(cached, clock, slow):
    """Rule 7: an attempt that failed meanwhile has stored nothing newer."""
    c = cached("late", attempt_timeout=1, refresh_after=5, disaster=return_value("x"))

    def fail(key):
        raise Down

    answers = iter([slow, fail])
    call = c(lambda key: next(answers)(key))
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    clock.advance(1)
    assert call("k") == "x"
    slow.leave.set()
    assert leader.join() == [1]
    assert call("k") == 1


@pytest.mark.parametrize("stale", [True, False])
async def test_a_late_attempt_of_a_task_goes_on(stale, cached, clock):
    """Rule 7: its leader has its answer in time; the late value is stored all the same."""
    leave = asyncio.Event()
    c = cached("late", attempt_timeout=1, refresh_after=5, disaster=return_value("x"))
    if stale:
        c.put("k", "x")
        clock.advance(5)

    @c
    async def load(key):
        await leave.wait()
        return "late"

    task = asyncio.create_task(load("k"))
    await until_async(lambda: c.info().running)
    await asyncio.sleep(0.001)
    clock.advance(1)
    assert await task == "x"
    leave.set()
    await until_async(lambda: c.info().refreshes)
    assert await load("k") == "late"


def test_an_attempt_that_outlives_an_eviction(cached, slow):
    """Rule 9: it does not bring the old value back; a put beats it; after an invalidation it is due."""
    c = cached("old")
    call = c(lambda key: slow(key))
    for act, after in [
        (lambda: c.evict("k"), None),
        (lambda: c.evict_all(), None),
        (lambda: c.put("k", "put"), "put"),
    ]:
        slow.inside.clear()
        slow.leave.clear()
        leader = Crowd(1, lambda: call("k"))
        assert slow.inside.wait(10)
        act()
        slow.leave.set()
        # Who makes it gets what the origin gave, or what was put since: that is newer.
        assert leader.join() == [after or slow.runs]
        runs = slow.runs
        assert call("k") == (after or runs + 1)
        c.evict("k")
    slow.inside.clear()
    slow.leave.clear()
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    c.invalidate_all()
    slow.leave.set()
    leader.join()
    runs = slow.runs
    assert call("k") == runs + 1


def test_a_new_caller_after_an_eviction_does_not_wait_for_the_old_attempt(cached, slow):
    """Rule 9: what that loads is no longer wanted."""
    c = cached()
    answers = iter([slow, lambda key: "new"])
    call = c(lambda key: next(answers)(key))
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    c.evict("k")
    assert call("k") == "new"
    slow.leave.set()
    leader.join()
    assert call("k") == "new"


# -- soft limits and the background --------------------------------------------


def wait_for_nap():
    """Real time for a wait that looks at a clock that is moved."""
    time.sleep(0.002)


@pytest.mark.parametrize("error", [None, Down("late")])
def test_a_soft_limit(error, cached, clock, slow):
    """C058: the stale value each time, at most so late; one attempt, which goes on."""
    c = cached("soft", refresh_after=5, max_stale=60, soft_timeout=0.1)
    c.put("k", "old")
    clock.advance(5)
    call = c(lambda key: slow(key))
    first = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    until(lambda: clock.advance(0.01) and first.ended)
    assert first.join() == ["old"]
    clock.advance(5.5 - clock.now())
    assert call("k") == "old"
    assert c.info().background == 1
    clock.advance(0.5)
    slow.error = error
    slow.leave.set()
    until(lambda: not c.info().background)
    clock.advance(0.2)
    found = c.fetch("k")
    assert (found.value, slow.runs) == (("old", 1) if error else (1, 1))
    assert c.info().failures == (1 if error else 0)
    clock.advance(4.75)
    assert c.fetch("k").source == ("stale" if error else "cached")
    assert slow.runs == 1
    clock.advance(0.1)
    c.fetch("k")
    until(lambda: slow.runs == 2)


@pytest.mark.parametrize("error", [None, Down("late")])
async def test_a_soft_limit_of_a_task(error, cached, clock):
    """C058: the same on a loop; nothing is "never retrieved"."""
    leave, runs = asyncio.Event(), []
    c = cached("soft", refresh_after=5, max_stale=60, soft_timeout=0.1)
    c.put("k", "old")
    clock.advance(5)

    @c
    async def load(key):
        runs.append(key)
        await leave.wait()
        if error:
            raise error
        return "new"

    first = asyncio.create_task(load("k"))
    await until_async(lambda: runs)
    await until_async(lambda: clock.advance(0.01) and first.done())
    assert await first == "old"
    assert await load("k") == "old"
    leave.set()
    await until_async(lambda: not c.info().running)
    assert await load("k") == ("old" if error else "new")
    assert (len(runs), c.info().failures) == (1, int(bool(error)))
    gc.collect()


def test_a_soft_limit_that_is_not_reached(cached, clock, origin):
    """An origin in time gives the new value, and an error in time the stale one with it."""
    c = cached("soft", soft_timeout=1)
    call = c(lambda key: origin(key))
    assert call("k") == 1
    clock.advance(2)
    assert call("k") == 2
    origin.error = Down()
    clock.advance(2)
    found = c.fetch("k")
    assert (found.value, found.error) == (2, origin.error)


@pytest.mark.parametrize("way", ["soft_timeout", "background"])
def test_a_first_load_is_not_cut_short(way, cached, clock, slow):
    """C059: the soft limit is for when there is something better than waiting."""
    settings = {"soft_timeout": 0.1} if way == "soft_timeout" else {"background": True}
    call = cached(**settings, disaster=return_value("x"))(lambda key: slow(key))
    first = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    clock.advance(0.3)
    slow.leave.set()
    assert first.join() == [1]


def test_the_background(cached, clock, slow):
    """Rule 8: a due refresh runs there while stale is served."""
    c = cached("back", background=True)
    c.put("k", "old")
    clock.advance(2)
    call = c(lambda key: slow(key))
    assert call("k") == call("k") == "old"
    assert slow.inside.wait(10)
    assert c.info().background == 1
    slow.leave.set()
    until(lambda: c.info().refreshes and not c.info().background)
    assert call("k") == slow.runs == 1


async def test_the_background_of_a_task(cached, clock):
    """Rule 8: the same on a loop, under a limit that is over long before."""
    leave = asyncio.Event()
    c = cached("back", background=True)
    c.put("k", "old")
    clock.advance(2)

    @timeout(0.5)
    @c
    async def load(key):
        await leave.wait()
        return "new"

    assert await load("k") == "old"
    assert await load("k") == "old"
    leave.set()
    await until_async(lambda: c.info().refreshes)
    assert await load("k") == "new"


@pytest.mark.parametrize("way", ["soft_timeout", "background"])
def test_no_more_threads_than_allowed(way, cached, clock, slow):
    """While so many run, stale values are served at once and no further refresh begins."""
    settings = {"soft_timeout": 0.1} if way == "soft_timeout" else {"background": True}
    c = cached("many", max_background=2, **settings)
    call = c(lambda key: slow(key))
    for key in "abcd":
        c.put(key, key)
    clock.advance(2)
    first = Crowd(2, functools.partial(lambda keys: call(next(keys)), iter("ab")))
    until(lambda: slow.runs == 2)
    before = time.monotonic()
    assert [call(key) for key in "cdcd"] == ["c", "d", "c", "d"]
    assert time.monotonic() - before < 1
    assert (c.info().background, slow.runs, c.info().running) == (2, 2, 2)
    if way == "soft_timeout":
        until(lambda: clock.advance(0.01) and len(first.ended) == 2)
    slow.leave.set()
    assert sorted(first.join()) == ["a", "b"]
    until(lambda: not c.info().background)
    call("c")
    until(lambda: slow.runs == 3)


def test_no_thread_to_be_had(cached, clock, origin, monkeypatch):
    """The stale value is there all the same."""
    c = cached(background=True)
    call = c(lambda key: origin(key))
    call("k")
    clock.advance(2)

    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert call("k") == call("k") == 1
    assert (c.info().background, c.info().running) == (0, 0)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call("k")
    assert (c.info().background, c.info().running) == (0, 0)


def test_a_background_of_many_cores_in_a_breaker(cached, clock, origin):
    """The attempts there are the breaker's probes, too."""
    b = breaker(failure_threshold=1, open_duration=3, clock=clock)
    c = cached(background=True, breaker=b)
    call = c(lambda key: origin(key))
    call("k")
    origin.error = Down()
    clock.advance(2)
    assert call("k") == 1
    until(lambda: b.state == "open" and not c.info().background)
    origin.error = None
    clock.advance(3)
    assert call("k") == 1
    until(lambda: b.state == "closed")


# -- time around ------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("between", ["nothing", "all"])
async def test_the_time_around_an_async_call(stored, between, cached, clock):
    """C032: the limit's error; one run; no stale value, no disaster's, no failure."""
    runs = []
    c = cached("around", disaster=return_value("x"))
    if stored:
        c.put("k", "old")
        clock.advance(2)
    layers = [timeout(0.03), c] if between == "nothing" else [
        timeout(0.03), breaker("b"), bulkhead(), fallback("y"), c,
    ]  # fmt: skip

    async def load(key):
        runs.append(key)
        await asyncio.Event().wait()

    for layer in reversed(layers):
        load = layer(load)
    with pytest.raises(CallTimeoutError):
        await load("k")
    assert len(runs) == 1
    info = c.info()
    assert (info.failures, info.stale, info.disasters) == (0, 0, 0)
    await until_async(lambda: not c.info().running)


@pytest.mark.parametrize("stored", [True, False])
def test_the_time_around_a_sync_call(stored, cached, clock):
    """C032: sync code that looks at its deadline ends in its error, which is no failure of the origin."""
    from breakerkit import check_deadline

    c = cached("around", disaster=return_value("x"))
    if stored:
        c.put("k", "old")
        clock.advance(2)

    @timeout(1, clock=clock)
    @c
    def load(key):
        clock.advance(1)
        check_deadline()

    with pytest.raises(CallTimeoutError):
        load("k")
    info = c.info()
    assert (info.failures, info.stale, info.disasters, info.running) == (0, 0, 0, 0)


def test_the_time_around_a_waiter(cached, clock, slow):
    """Who waits for another's attempt looks at the deadline, too; the attempt goes on."""
    c = cached("around", disaster=return_value("x"))
    call = c(lambda key: slow(key))
    leader = Crowd(1, lambda: call("k"))
    assert slow.inside.wait(10)
    for limit in (timeout(0.02, mode="cooperative"), timeout(1, clock=clock, mode="cooperative")):
        waiter = Crowd(1, lambda limit=limit: limit.call(call, "k"))
        until(lambda: c._guard.attempts._running["around:k"].callers == 2)
        if limit.config.seconds == 1:
            clock.advance(1)
        (error,) = waiter.join()
        assert isinstance(error, CallTimeoutError)
        assert error.name == limit.name
    slow.leave.set()
    assert leader.join() == [1]


def test_a_first_provider_that_fails_is_no_matter(cached):
    """C032: failover inside is one origin."""
    line = failover(["a", "b"])

    @cached()
    @line
    def load(provider, key):
        if provider == "a":
            raise Down
        return provider, key

    assert load("k") == load("k") == ("b", "k")


# -- a fleet ------------------------------------------------------------------------


def test_a_lease_that_another_process_holds(cached, clock, origin):
    """Rule 7: with a value at hand that is served; with none one looks until it is there."""
    store = FarStore(clock)
    c = cached("fleet", store=store, attempt_timeout=1)
    call = c(lambda key: origin(key))
    ticket = store.inner.do(Begin("fleet:k", 1))
    waiting = Crowd(1, lambda: call("k"))
    until(lambda: len([one for one in store.asked if isinstance(one, Begin)]) >= 1)
    from breakerkit.store.commands import Write

    store.inner.do(Write("fleet:k", ticket, "theirs", 2, 10))
    clock.advance(0.05)
    assert waiting.join() == ["theirs"]
    clock.advance(2)
    store.inner.do(Begin("fleet:k", 1))
    assert call("k") == "theirs"
    assert origin.runs == 0
    c.evict("k")
    store.inner.do(Begin("fleet:k", 5))
    waiting = Crowd(1, lambda: call("k"))
    until(lambda: isinstance(store.asked[-1], Begin))
    for _ in range(30):
        clock.advance(0.05)
        wait_for_nap()
    (error,) = waiting.join()
    assert isinstance(error.__cause__, CallTimeoutError)
    clock.advance(5)
    assert call("k") == 1


async def test_a_lease_on_a_loop(cached, clock, origin):
    """The same in a task: it looks again, and tries when the lease is over."""
    store = FarStore(clock)
    c = cached("fleet", store=store, attempt_timeout=1)

    @c
    async def call(key):
        return await origin.later(key)

    store.inner.do(Begin("fleet:k", 0.5))
    task = asyncio.create_task(call("k"))
    while not task.done():
        clock.advance(0.05)
        await asyncio.sleep(0.002)
    assert await task == 1


@pytest.mark.parametrize("far", [True, False], ids=["far", "memory"])
async def test_a_cancelled_attempt_gives_its_lease_back(far, cached, clock):
    """A store that hangs holds nobody who is cancelled."""
    c = cached("lease", **({"store": FarStore(clock)} if far else {}))

    @c
    async def load(key):
        await asyncio.Event().wait()

    task = asyncio.create_task(load("k"))
    inner = c.store.inner if far else c.store
    await until_async(lambda: inner._open)
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_async(lambda: not inner._open)


async def test_a_store_that_hangs_and_a_cancelled_caller(cached, clock):
    """C061: the caller goes, and nothing is left."""
    store = FarStore(clock)

    async def never(command):
        await asyncio.Event().wait()

    store.trouble = never
    c = cached(store=store)
    task = asyncio.create_task(c(lambda key: asyncio.sleep(0))(1)) if False else None
    call = c(_answer)
    task = asyncio.create_task(call("k"))
    await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert c.info().running == 0


async def _answer(key):
    return key


def test_loops_one_after_the_other():
    """C034: nothing is bound to the loop it was first used on."""
    call = stale_if_error(refresh_after=0.001, max_stale=60, attempt_timeout=9)(_answer)

    async def contend():
        return await asyncio.gather(*(call("k") for _ in range(20)))

    for _ in range(3):
        assert asyncio.run(contend()) == ["k"] * 20
    assert Crowd(2, lambda: asyncio.run(contend())).join() == [["k"] * 20] * 2
