"""Strategy ``"failback"``: the default at once, and another try in the background."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from breakerkit import (
    BreakerConfig,
    ConfigError,
    DeadlineExceededError,
    GiveUpReason,
    RetryGivenUp,
    RetryQueued,
    RetrySucceeded,
    failover,
)
from breakerkit.providers._retries import bare
from breakerkit.testing import ManualClock, reset_all
from tests.providers.rig import DOWN, Providers, async_values, sync_values, value_shapes, within


class Told:
    """What the callbacks of a failover were told."""

    def __init__(self):
        self.all = []
        self.changed = threading.Condition()

    def __call__(self, record):
        with self.changed:
            self.all.append(record)
            self.changed.notify_all()

    def wait(self, count):
        """Wait for so many records."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.all) >= count, 10)

    @property
    def reasons(self):
        """Why retries were given up."""
        return [one.reason for one in self.all]


@pytest.fixture
def told():
    """What the callbacks were told."""
    return Told()


@pytest.fixture
def make(clock, told):
    """Make failovers whose retries are run by hand, ten seconds after the failure."""

    def make(providers=("a", "b"), name=None, **settings):
        usual = {
            "strategy": "failback", "default": "later", "retry_interval": 10, "retries": 2,
            "background": False, "on_success": told, "on_give_up": told, "clock": clock,
            "breaker": None,
        }  # fmt: skip
        return failover(providers, name, **{**usual, **settings})

    return make


# -- the call --------------------------------------------------------------------------


@value_shapes
def test_the_default_at_once(make, shape):
    """A call that fails returns the default; one that does not, its value."""
    line, both = make(), Providers(a=DOWN)
    assert shape.run(line, both) == "later"
    assert both.asked == ["a"]
    assert len(line.snapshot().pending) == 1
    both.does = {}
    assert shape.run(line, both) == "a"
    assert len(line.snapshot().pending) == 1


@value_shapes
def test_what_passes(make, shape):
    """What is neutral or the business's own passes, and nothing waits."""
    line = make(on=(ConnectionError,))
    for error in (LookupError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            shape.run(line, Providers(a=error))
    clock = ManualClock()
    with within(1, clock):
        clock.advance(1)
        with pytest.raises(DeadlineExceededError):
            shape.run(line, Providers())
    assert line.snapshot().pending == ()


@sync_values
def test_a_retry_that_succeeds(make, clock, told, shape):
    """When it is due the call is made again, with another provider if there is one."""
    line, both = make(name="back"), Providers(a=DOWN)
    shape.run(line, both)
    assert line.run_pending() == 0
    clock.advance(10)
    assert line.run_pending() == 1
    assert both.asked == ["a", "b"]
    assert [type(one) for one in told.all] == [RetrySucceeded]
    record = told.all[0]
    assert (record.name, record.provider, record.value, record.retries) == ("back", "b", "b", 1)
    seen = line.snapshot()
    assert (seen.pending, seen.retried, seen.given_up) == ((), 1, 0)


def test_the_record_holds_the_arguments(make, clock, told):
    """A record holds the arguments without provider and ``self``."""

    class Service:
        @make(retries=1)
        def work(self, provider, one, *, two):
            raise DOWN

    assert Service().work(1, two=2) == "later"
    clock.advance(10)
    assert Service.work.failover.run_pending() == 1
    assert (told.all[0].args, told.all[0].kwargs, told.all[0].error) == ((1,), {"two": 2}, DOWN)


def test_retries_used_up(make, clock, told):
    """After so many retries the call is given up, and that is told once."""
    line, both = make(), Providers(a=DOWN, b=DOWN)
    line.call(both)
    for _ in range(4):
        clock.advance(10)
        line.run_pending()
    assert both.asked == ["a", "b", "a"]
    assert told.reasons == [GiveUpReason.RETRIES_USED_UP]
    assert (told.all[0].retries, line.snapshot().given_up) == (2, 1)


def test_pending_is_listed(make, clock):
    """A snapshot lists what waits: what, with whom it failed, when it is due."""
    line = make(["a"])

    def fetch(provider):
        raise DOWN

    line.call(fetch)
    clock.advance(4)
    line.call(fetch)
    first, second = line.snapshot().pending
    assert (first.provider, first.retries, first.due, first.error) == ("a", 0, 6.0, DOWN)
    assert first.function.endswith("fetch")
    assert second.due == 10.0
    clock.advance(60)
    assert line.snapshot().pending[0].due == 0.0


def test_what_runs_is_listed_too(make, clock):
    """While a retry runs it is listed, without a due time."""
    line = make()
    seen = []

    def work(provider):
        seen.append(line.snapshot().pending)
        raise DOWN

    line.call(work)
    clock.advance(10)
    line.run_pending()
    assert [one.due for one in seen[1]] == [None]


def test_nobody_to_ask(make, clock, told):
    """With every breaker open a call is left for later too, and a retry that finds nobody counts as one."""
    line = make(breaker=BreakerConfig(failure_threshold=1, open_duration=100), max_ejected=100)
    both = Providers(a=DOWN, b=DOWN)
    assert [line.call(both) for _ in range(3)] == ["later"] * 3
    assert both.asked == ["a", "b"]
    assert [one.provider for one in line.snapshot().pending] == ["a", "b", None]
    for _ in range(2):
        clock.advance(10)
        line.run_pending()
    assert told.reasons == [GiveUpReason.RETRIES_USED_UP] * 3


def test_a_retry_that_is_no_failure(make, clock, told):
    """A retry that ends in the business's own exception is given up."""
    line, both = make(on=(ConnectionError,)), Providers(a=DOWN, b=LookupError("no"))
    line.call(both)
    clock.advance(10)
    line.run_pending()
    assert told.reasons == [GiveUpReason.NOT_A_FAILURE]


def test_an_interrupt_in_a_retry(make, clock, told):
    """An interrupt reaches who runs the retries by hand; the call is given up."""
    line, both = make(), Providers(a=DOWN, b=KeyboardInterrupt())
    line.call(both)
    clock.advance(10)
    with pytest.raises(KeyboardInterrupt):
        line.run_pending()
    assert told.reasons == [GiveUpReason.NOT_A_FAILURE]


def test_the_context_goes_along_without_the_deadline(make, clock, told):
    """A retry sees the context variables of its call, and not the deadline that was the caller's."""
    user = contextvars.ContextVar("user")
    line, seen = make(), []

    def work(provider):
        seen.append(user.get())
        raise DOWN

    def call():
        user.set("me")
        with within(1, clock):
            line.call(work)

    contextvars.copy_context().run(call)
    clock.advance(10)
    assert line.run_pending() == 1
    assert seen == ["me", "me"]


def test_events(make, clock):
    """Listeners are told of the queueing and of the end."""
    line, heard = make(on_give_up=None, on_success=None), []
    line.subscribe(heard.append, RetryQueued, RetrySucceeded, RetryGivenUp)
    both = Providers(a=DOWN)
    line.call(both)
    clock.advance(10)
    line.run_pending()
    assert [type(one) for one in heard] == [RetryQueued, RetrySucceeded]
    assert (heard[0].error, heard[0].delay) == (DOWN, 10)


def test_giving_up_is_logged_without_a_callback(make, clock, caplog):
    """Without ``on_give_up`` it is logged that a call is lost."""
    line, both = make(["a"], "lost", retries=1, on_give_up=None), Providers(a=DOWN)
    line.call(both)
    clock.advance(10)
    line.run_pending()
    assert "failover 'lost': a call is not tried again (1 so far)" in caplog.text


def test_a_callback_that_raises(make, clock, caplog):
    """What a callback raises is logged and harms nobody; an interrupt passes."""

    def broken(record):
        raise ValueError("mine")

    def interrupted(record):
        raise KeyboardInterrupt

    line, both = make(on_success=broken), Providers(a=DOWN)
    assert [line.call(both) for _ in range(2)] == ["later"] * 2
    clock.advance(10)
    assert line.run_pending() == 2
    assert "broken" in caplog.text
    assert line.snapshot().pending == ()
    line.reconfigure(on_success=interrupted)
    line.call(both)
    clock.advance(10)
    with pytest.raises(KeyboardInterrupt):
        line.run_pending()


# -- bounds ---------------------------------------------------------------------------


def test_c049_ten_thousand_failing_calls(make, told):
    """C049: at most 100 wait; of every other one the giving-up callback is told; ``close`` drains."""
    line, both = make(["a"], max_pending=100), lambda provider: _fail()
    line.call(both)
    for _ in range(5000):
        line.call(both)
    told.all.clear()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(4999):
        line.call(both)
    given_up = len(told.all)
    assert set(told.reasons) == {GiveUpReason.QUEUE_FULL}
    told.all.clear()
    gc.collect()
    grown = len(gc.get_objects()) - before
    assert given_up == 4999
    assert grown < 200
    assert len(line.snapshot().pending) == 100
    assert line.close(10)
    assert told.reasons == [GiveUpReason.CLOSED] * 100
    seen = line.snapshot()
    assert (seen.pending, seen.closed, seen.given_up) == ((), True, 10_000)


def _fail():
    raise ConnectionError("down")


def test_what_waits_keeps_no_frame_alive(make):
    """What waits leads to no frame of the call that failed."""

    class Big:
        pass

    line = make(["a"])
    gone = []

    def work(provider):
        big = Big()
        gone.append(weakref.ref(big))
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ConnectionError("down") from error

    line.call(work)
    gc.collect()
    assert gone[0]() is None
    assert isinstance(line.snapshot().pending[0].error.__cause__, KeyError)


def test_bare_follows_groups_and_circles():
    """Frames are taken from every error that is reached, once."""
    errors = []
    for kind in (KeyError, ValueError):
        try:
            raise kind
        except Exception as error:
            errors.append(error)
    group = ExceptionGroup("both", errors)
    errors[0].__context__, errors[1].__cause__ = errors[1], errors[0]
    assert bare(group) is group
    assert [one.__traceback__ for one in errors] == [None, None]


# -- the thread -------------------------------------------------------------------------


def test_the_thread(told):
    """By default one daemon thread tries again, whatever comes, and ends when nothing is left."""
    line = failover(
        ["a", "b"], "by itself", strategy="failback", retry_interval=0.001, retries=3,
        on_success=told, on_give_up=told, breaker=None, order="round_robin",
    )  # fmt: skip
    ends = iter([DOWN, SystemExit(), DOWN, DOWN, "well"])
    work = Providers(a=lambda: next(ends), b=lambda: next(ends))
    assert line.call(work) is None
    told.wait(1)
    assert line.call(work) is None
    told.wait(2)
    assert [type(one) for one in told.all] == [RetryGivenUp, RetrySucceeded]
    for thread in threading.enumerate():
        if thread.name == "breakerkit failover by itself":
            assert thread.daemon
            thread.join(10)
    assert line.snapshot().pending == ()


def test_the_program_ends(tmp_path):
    """What is pending does not hold up the end of the program."""
    code = """
from breakerkit import failover
@failover(["a"], strategy="failback", retry_interval=3600, default="later")
def work(provider):
    raise ConnectionError
print(work())
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert done.stdout == "later\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_nothing_pending(make, clock, told):
    """What the parent has promised the parent keeps: the child starts empty, and can promise by itself."""
    line, both = make(["a"]), Providers(a=DOWN)
    line.call(both)
    with line._guard.retries._queue._changed:
        child = os.fork()
        if not child:
            try:
                empty = line.snapshot().pending == ()
                line.call(both)
                os._exit(0 if empty and len(line.snapshot().pending) == 1 else 1)
            finally:
                os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(line.snapshot().pending) == 1


def test_a_thread_that_cannot_start(told, monkeypatch, caplog):
    """Where no thread can be started the call has its default all the same, and the next one tries again."""
    line = failover(
        ["a"], "no thread", strategy="failback", retry_interval=0.001, retries=1, on_give_up=told,
    )  # fmt: skip

    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert line.call(Providers(a=DOWN)) is None
    assert "thread of retries of 'no thread' raised" in caplog.text
    line.call(Providers(a=DOWN))
    told.wait(2)


def test_an_interrupt_in_the_thread(told, caplog):
    """What a callback raises to end the program does not end the thread."""

    def broken(record):
        told(record)
        raise SystemExit

    line = failover(
        ["a"], strategy="failback", retry_interval=0.001, retries=1, on_give_up=broken
    )  # fmt: skip
    for _ in range(2):
        line.call(Providers(a=DOWN))
    told.wait(2)
    assert line.close()
    assert "callback of retries" in caplog.text


def test_a_clock_that_fails(told, caplog):
    """A clock that raises ends the thread and no more: the next call begins another."""

    class Clock:
        broken = False

        def now(self):
            if self.broken and threading.current_thread() is not threading.main_thread():
                failed.set()
                raise ValueError("no time")
            return 0.0

    clock, failed = Clock(), threading.Event()
    line = failover(
        ["a"], strategy="failback", retry_interval=0.001, retries=1, on_give_up=told, clock=clock
    )
    clock.broken = True
    line.call(Providers(a=DOWN))
    assert failed.wait(10)
    for thread in threading.enumerate():
        if thread.name.startswith("breakerkit failover"):
            thread.join(10)
    assert "clock of retries" in caplog.text
    clock.broken = False
    assert line.close()
    assert told.reasons == [GiveUpReason.RETRIES_USED_UP]


# -- close ------------------------------------------------------------------------------


def test_close_tries_once_more(make, told):
    """What waits when it is closed is tried once more, due or not; later failures are given up at once."""
    line, both = make(), Providers(a=DOWN)
    assert [line.call(both) for _ in range(2)] == ["later"] * 2
    assert line.close()
    assert [type(one) for one in told.all] == [RetrySucceeded] * 2
    assert line.call(both) == "later"
    assert told.all[2].reason is GiveUpReason.CLOSED
    assert line.close()


def test_close_does_not_wait_for_ever(make, told):
    """What hangs is given up when the time is over, once, whatever comes of it later."""
    line, hang, first = make(), threading.Event(), []

    def work(provider):
        if first:
            hang.wait(10)
            return "at last"
        first.append(provider)
        raise DOWN

    line.call(work)
    assert not line.close(0.02)
    assert told.reasons == [GiveUpReason.CLOSED]
    hang.set()
    for thread in threading.enumerate():
        if thread.name.startswith("breakerkit failover"):
            thread.join(10)
    assert len(told.all) == 1
    assert line.snapshot().retried == 0


def test_a_late_failure_after_close(make, told):
    """A retry that fails after it was given up is heard of no more."""
    line, hang, first = make(retries=1), threading.Event(), []

    def work(provider):
        if first:
            hang.wait(10)
        first.append(provider)
        raise DOWN

    line.call(work)
    assert not line.close(0.02)
    hang.set()
    for thread in threading.enumerate():
        if thread.name.startswith("breakerkit failover"):
            thread.join(10)
    assert told.reasons == [GiveUpReason.CLOSED]


@pytest.mark.parametrize("timeout", [0, -1, "1", None, float("nan")])
def test_close_takes_a_duration(make, timeout):
    """A timeout that is no duration is refused."""
    with pytest.raises(ConfigError, match="timeout"):
        make().close(timeout)


def test_a_new_test_starts_afresh(make, told, clock):
    """``reset_all`` drops what waits without a word, also while it is being tried, and opens a closed one again."""
    line, both = make(["a"]), Providers(a=DOWN)
    both.does["a"] = lambda: reset_all() or DOWN
    line.call(both)
    both.does["a"] = DOWN
    line.call(both)
    line.close()
    assert told.reasons == [GiveUpReason.CLOSED] * 2
    reset_all()
    assert not line.snapshot().closed
    line.call(both)
    both.does["a"] = lambda: reset_all() or DOWN
    clock.advance(10)
    assert line.run_pending() == 1
    assert len(told.all) == 2
    assert line.snapshot().pending == ()


# -- async ------------------------------------------------------------------------------


async def settle():
    """Let all other tasks run until nothing is ready."""
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)


@async_values
def test_a_retry_on_its_loop(make, clock, told, shape):
    """An async call is tried again on the loop it came from."""
    line, both = make(), Providers(a=DOWN)
    call = shape.bind(line, both)

    async def main():
        assert await call() == "later"
        clock.advance(10)
        assert line.run_pending() == 1
        await asyncio.sleep(0)
        await settle()

    asyncio.run(main())
    assert [type(one) for one in told.all] == [RetrySucceeded]
    assert both.asked == ["a", "b"]


def test_an_async_retry_that_fails(make, clock, told):
    """It waits again, and is given up in the end."""
    line = make()

    async def work(provider):
        raise DOWN

    async def main():
        await line.call(work)
        for _ in range(2):
            clock.advance(10)
            assert line.run_pending() == 1
            await asyncio.sleep(0)
            await settle()

    asyncio.run(main())
    assert told.reasons == [GiveUpReason.RETRIES_USED_UP]


def test_the_thread_sends_to_the_loop(told):
    """By default the thread sends an async call to its loop when it is due."""
    line = failover(
        ["a", "b"], strategy="failback", retry_interval=0.001, breaker=None, on_success=told
    )
    threads = []

    async def work(provider):
        threads.append(threading.current_thread())
        if provider == "a":
            raise DOWN
        return provider

    async def main():
        assert await line.call(work) is None
        while not told.all:
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert set(threads) == {threading.main_thread()}


def test_a_loop_that_is_gone(make, clock, told):
    """A call whose loop is closed is given up, whoever looks first."""
    line = make()

    async def work(provider):
        raise DOWN

    for look in (line.run_pending, lambda: line.call(Providers(a="a")), line.close):
        asyncio.run(line.call(work))
        told.all.clear()
        clock.advance(10)
        if look is not line.close:
            look()
            line.run_pending()
        else:
            assert look()
        assert told.reasons == [GiveUpReason.LOOP_GONE]


def test_a_loop_that_goes_in_between(make, clock, told, monkeypatch):
    """Should the loop be closed between the look and the sending, that is the same."""
    line = make()

    async def work(provider):
        raise DOWN

    asyncio.run(line.call(work))
    clock.advance(10)
    monkeypatch.setattr("breakerkit.providers._waiting.Waiting.stranded", False)
    assert line.run_pending() == 1
    assert told.reasons == [GiveUpReason.LOOP_GONE]


def test_a_retry_that_its_loop_cancels(make, clock, told):
    """A retry that is cancelled when its loop ends is given up."""
    line, first = make(), []

    async def work(provider):
        if not first:
            first.append(provider)
            raise DOWN
        await asyncio.Event().wait()

    async def main():
        await line.call(work)
        clock.advance(10)
        line.run_pending()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [one.due for one in line.snapshot().pending] == [None]

    asyncio.run(main())
    assert told.reasons == [GiveUpReason.LOOP_GONE]
    assert line._guard.retries._queue.loops == 0


def test_aclose(make, told):
    """``aclose`` lets the loop run what waits; ``close`` in a running loop gives it up."""
    line, both = make(), Providers(a=DOWN)

    async def work(provider):
        return both(provider)

    async def main():
        await line.call(work)
        assert await line.aclose(10)

    asyncio.run(main())
    assert [type(one) for one in told.all] == [RetrySucceeded]

    other = make()

    async def blocking():
        await other.call(work)
        assert not other.close(10)

    both.asked.clear()
    asyncio.run(blocking())
    assert told.all[1].reason is GiveUpReason.CLOSED
    assert both.asked == ["a"]


# -- interrupted -----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_interrupted_retry_is_not_lost(told, monkeypatch, where):
    """Ctrl-C while what is due is tried again: it stays due, or its end is told."""
    clock = ManualClock()
    line = failover(
        ["a"], strategy="failback", background=False, clock=clock, on_success=told, breaker=None,
    )  # fmt: skip
    provided = Providers(a=DOWN)
    line.call(provided)
    clock.advance(60)
    provided.does["a"] = None
    retries = line._guard.retries
    name = "_again" if where == "before" else "_succeeded"

    def interrupt(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(type(retries), name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        line.run_pending()
    assert len(line.snapshot().pending) == 1
    assert line.run_pending() == 1
    told.wait(1)
    assert line.snapshot().pending == ()


def test_an_interrupt_while_the_thread_is_started(told, monkeypatch):
    """Ctrl-C there: the next call begins another thread."""
    line = failover(["a"], strategy="failback", retry_interval=0.001, retries=1, on_give_up=told)

    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            line.call(Providers(a=DOWN))
    line.call(Providers(a=DOWN))
    told.wait(2)
