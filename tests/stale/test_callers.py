"""What one caller of a cache has to do with another: their deadlines, errors, event loops and patience."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import threading
import weakref

import pytest

from breakerkit import (
    CallTimeoutError,
    NoCachedValueError,
    Registry,
    current_deadline,
    pipeline,
    stale_if_error,
    timeout,
)
from breakerkit._outcome import _chain
from breakerkit.clock import system_clock
from breakerkit.stale import _nested, _starting
from breakerkit.stale.events import LowHitRatio, RefreshFailed, Source
from breakerkit.store.commands import Begin, Release
from breakerkit.testing import ManualClock, capture_events
from tests.stale.rig import Crowd, Down, FarStore, until, until_async


class Gate:
    """An async origin that waits inside until it may go on."""

    def __init__(self):
        self.runs, self.leave = 0, asyncio.Event()

    async def __call__(self):
        self.runs += 1
        await self.leave.wait()
        return self.runs


# -- deadlines -------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [False, True])
def test_an_attempt_outlives_the_deadline_of_who_makes_it(inner, cached):
    """With a limit of its own inside, too: it is the attempt's, not the first caller's."""
    c = cached("outlives", attempt_timeout=60)
    seen = []

    async def main():
        gate = Gate()

        async def origin(key):
            seen.append(current_deadline())
            return await gate()

        load = (pipeline(c, timeout(50, name="inner")) if inner else c)(origin)
        first = asyncio.ensure_future(timeout(0.01, name="outer").call(load, "k"))
        await until_async(lambda: gate.runs)
        others = [asyncio.ensure_future(load("k")) for _ in range(3)]
        with pytest.raises(CallTimeoutError, match="outer"):
            await first
        gate.leave.set()
        assert await asyncio.gather(*others) == [1, 1, 1]
        assert (gate.runs, c.info().failures) == (1, 0)

    asyncio.run(main())
    assert (seen[0] is not None) is inner


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin later")
def test_nothing_is_begun_when_the_deadline_has_come(cached):
    """Also where tasks begin at once: the attempt itself has no deadline."""
    c, clock, runs = cached("over"), ManualClock(), []

    @c
    async def load(key):
        runs.append(key)

    async def late():
        clock.advance(2)
        await load("k")

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        with pytest.raises(CallTimeoutError):
            await timeout(1, name="over", clock=clock).call(late)

    asyncio.run(main())
    assert (runs, c.info().running) == ([], 0)


def test_an_attempt_that_nobody_waits_for_any_more_ends(cached):
    """The deadline of its only caller has come."""
    c = cached("alone", attempt_timeout=60)
    ended = []

    async def main():
        @c
        async def load(key):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(key)

        with pytest.raises(CallTimeoutError):
            await timeout(0.01).call(load, "k")
        assert ended == ["k"]

    asyncio.run(main())


def test_what_goes_while_one_waits_softly_is_waited_for():
    """C059: the soft limit is for when there is something better than waiting."""
    c = stale_if_error("soft", soft_timeout=0.02, refresh_after=1e-6, attempt_timeout=60, jitter=0)
    leave, runs = threading.Event(), []

    @c
    def load(key):
        runs.append(key)
        if len(runs) > 1:
            c.evict(key)
            assert leave.wait(10)
        return len(runs)

    assert load("k") == 1
    timer = threading.Timer(0.1, leave.set)
    timer.start()
    found = c.fetch("k")
    timer.join(10)
    assert (found.value, found.source) == (2, Source.FRESH)


def test_so_do_tasks():
    """The same for a value that has grown too old meanwhile."""
    real = stale_if_error("aged", soft_timeout=0.02, refresh_after=0.01, max_stale=0.02, jitter=0, attempt_timeout=60)  # fmt: skip
    runs: list = []

    async def main():
        leave = asyncio.Event()

        @real
        async def load(key):
            runs.append(key)
            if len(runs) > 1:
                await leave.wait()
            return len(runs)

        assert await load("k") == 1
        await asyncio.sleep(0.011)
        waiting = asyncio.ensure_future(real.fetch("k"))
        asyncio.get_running_loop().call_later(0.1, leave.set)
        return await waiting

    found = asyncio.run(main())
    assert (found.value, found.source) == (2, Source.FRESH)


# -- event loops and contexts ------------------------------------------------------------------


@pytest.fixture
def closed_loops():
    """Let go of what the tests leave on event loops that they close."""
    yield
    for task in [one for one in _starting._tasks if one.get_loop().is_closed()]:
        task._log_destroy_pending = False
        _starting._tasks.discard(task)


def left_behind(load):
    """Begin a call on an event loop that is closed under it."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(load("k"))
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    return task


@pytest.mark.usefixtures("closed_loops")
def test_an_attempt_of_a_closed_loop_is_nobodys(cached):
    """Who comes then makes one, and does not wait for it."""
    c = cached("closed", attempt_timeout=60)
    runs = []

    @c
    async def load(key):
        runs.append(key)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return len(runs)

    task = left_behind(load)
    assert asyncio.run(load("k")) == 2
    task._log_destroy_pending = False


@pytest.mark.usefixtures("closed_loops")
def test_who_waits_for_one_that_dies_tries_himself(cached):
    """A loop may be closed while threads wait for what it loads."""
    c = cached("dies", attempt_timeout=60, key=lambda key: key)
    runs = []

    @c
    async def load(key):
        runs.append("task")
        await asyncio.Event().wait()

    @c
    def instead(key):
        runs.append("thread")
        return 7

    loop = asyncio.new_event_loop()
    task = loop.create_task(load("k"))
    loop.run_until_complete(asyncio.sleep(0.001))
    crowd = Crowd(2, lambda: instead("k"))
    attempt = c._guard.attempts._running["dies:k"]
    until(lambda: len(attempt._listeners) == 3)
    loop.close()
    assert crowd.join() == [7, 7]
    assert runs == ["task", "thread"]
    task._log_destroy_pending = False


def test_an_origin_that_plans_the_next_drags_nothing_along(cached):
    """Refresh ahead: each attempt is begun by the one before, which has ended."""
    c = cached("ahead", min_hit_ratio=0)
    seen, done = [], []

    @c
    async def load(number):
        seen.append(len(_nested.making.get()))
        if number < 3 * _nested.DEEPEST:
            done.append(asyncio.ensure_future(later(number + 1)))
        return number

    async def later(number):
        await asyncio.sleep(0)
        await load(number)

    async def main():
        await load(0)
        for one in done:
            await one

    asyncio.run(main())
    assert len(seen) == 3 * _nested.DEEPEST + 1
    assert max(seen) <= 2  # the one before may not have ended yet


# -- errors -----------------------------------------------------------------------------------


def test_what_a_caller_handles_is_not_in_an_others_error(cached):
    """C066: neither what the one who makes the attempt is handling, nor those who wait for it."""
    c = cached("shared", on=(ConnectionError,))
    inside, leave = threading.Event(), threading.Event()

    @c
    def load(key):
        inside.set()
        assert leave.wait(10)
        try:
            raise LookupError("the origin's own")
        except LookupError:
            raise ValueError("bad key")  # noqa: B904  # its context is looked at

    got = {}

    def caller(name):
        try:
            raise KeyError(name)
        except KeyError:
            try:
                load("k")
            except ValueError as error:
                got[name] = error

    callers = [threading.Thread(target=caller, args=(name,)) for name in ("one", "two", "three")]
    callers[0].start()
    assert inside.wait(10)
    for one in callers[1:]:
        one.start()
    until(lambda: c._guard.attempts._running["shared:k"].callers == 3)
    leave.set()
    for one in callers:
        one.join(10)
    assert len({id(error) for error in got.values()}) == 1
    error = got["one"]
    assert isinstance(error.__context__, LookupError)
    assert error.__context__.__context__ is None


def test_nor_in_those_of_a_group(cached):
    """Whose members were raised one by one."""
    c = cached("group", on=(ConnectionError,))

    def member(text):
        try:
            raise LookupError(text)
        except LookupError as error:
            return error

    @c
    def load(key):
        try:
            raise TypeError("inside") from member("three")
        except TypeError as error:
            raise ExceptionGroup("both", [member("one"), member("two"), error]) from None

    try:
        raise KeyError("mine")
    except KeyError:
        with pytest.raises(ExceptionGroup) as caught:
            load("k")
    chain = list(_chain(caught.value))
    assert len(chain) == 5
    assert not any(isinstance(one, KeyError) for one in chain)


def test_nor_in_the_cause_of_having_nothing(cached):
    """Nor there."""
    c = cached("cause")

    @c
    def load(key):
        raise Down

    def fail():
        with pytest.raises(NoCachedValueError) as caught:
            load("k")
        return caught.value

    try:
        raise KeyError("mine")
    except KeyError:
        error = fail()
    assert isinstance(error.__cause__, Down)
    assert error.__cause__.__context__ is None


def test_a_cancelled_caller_keeps_nothing_alive(cached):
    """Without a collector: its error leads to no frame that leads to it."""
    c = cached("free")
    refs = []

    class Big:
        pass

    @c
    async def load(key):
        big = Big()
        refs.append(weakref.ref(big))
        await asyncio.Event().wait()

    async def main():
        task = asyncio.ensure_future(load("k"))
        await until_async(lambda: refs)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    gc.disable()
    try:
        asyncio.run(main())
        assert refs[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["background", "soft"])
def test_an_error_that_nobody_waits_for_is_logged(how, cached, clock, caplog):
    """What is no failure of the origin changes nothing, and is not lost either."""
    settings = {"background": True} if how == "background" else {"soft_timeout": 1e-6}
    c = cached("unheard", on=(ConnectionError,), **settings)
    leave, runs = threading.Event(), []

    @c
    def load(key):
        runs.append(key)
        if len(runs) == 1:
            return 1
        assert leave.wait(10)
        raise LookupError("a bug")

    load("k")
    clock.advance(2)
    with caplog.at_level(logging.WARNING, "breakerkit"), capture_events(c) as log:
        if how == "background":
            assert load("k") == 1
        else:
            crowd = Crowd(1, lambda: load("k"))
            until(
                lambda: clock.advance(0.001) and crowd.ended
            )  # however late it looks at the clock
            assert crowd.join() == [1]
        leave.set()
        until(lambda: not c.info().running)
    assert (
        "a refresh in the background of 'unheard' raised what is no failure (1 so far)"
        in caplog.text
    )
    assert "LookupError: a bug" in caplog.text
    assert not [one for one in log if isinstance(one, RefreshFailed)]
    assert c.info().failures == 0


def test_who_shares_an_attempt_is_not_unprotected(cached):
    """A thousand callers of one cold key cost the origin one call: that is no low hit ratio."""
    c = cached("sharing", warn_after=100, min_hit_ratio=0.5)

    @c
    async def load(key):
        await asyncio.sleep(0)
        return key

    async def main():
        assert await asyncio.gather(*(load("k") for _ in range(300))) == ["k"] * 300

    with capture_events(c) as log:
        asyncio.run(main())
        assert not [one for one in log if isinstance(one, LowHitRatio)]
        for number in range(300):
            asyncio.run(load(str(number)))
    assert len([one for one in log if isinstance(one, LowHitRatio)]) == 1
    assert c.info().misses == 600


# -- leases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_a_lease_whose_reply_was_lost_is_given_back(fails, cached, clock, origin):
    """Other processes need not wait for it to run out: nobody here knows of it."""
    store = FarStore(clock)
    c = cached("lost", store=store)
    call = c(lambda key: origin(key))
    origin.error = Down() if fails else None

    def trouble(command):
        answer = store.inner.do(command)
        if type(command) is Begin:
            store.trouble = None
            raise ConnectionError("the reply was lost")
        return answer

    store.trouble = trouble
    with contextlib.suppress(NoCachedValueError):
        call("k")
    (released,) = [one for one in store.asked if type(one) is Release]
    assert (released.ticket, released.owner) == (None, c._guard.owner)
    assert store.inner.do(Begin("lost:k", 60)) is not None


def test_who_waits_for_a_lease_that_nobody_ends_has_time_for_an_attempt():
    """The reply to `Begin` was lost, and the store with it: another process asks before its patience is over."""
    mine, other = FarStore(system_clock), FarStore(system_clock)
    other.inner = mine.inner

    def lost(command):
        if type(command) is Begin:
            mine.inner.do(command)
        raise ConnectionError("the reply was lost")

    mine.trouble = lost
    one, two = (
        stale_if_error("lease", store=store, refresh_after=0.5, max_stale=9, registry=Registry())
        for store in (mine, other)
    )
    assert one.call(lambda key: 7, "k") == 7
    assert two.call(lambda key: 8, "k") == 8
    assert two.info().refreshes == 1
