"""When there is nothing to serve: the strategy speaks; and what a fetched value says of itself."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from pathlib import Path

import pytest

from breakerkit import (
    CallRejectedError,
    DisasterCall,
    DisasterStruck,
    LowHitRatio,
    NoCachedValueError,
    OriginRestingError,
    RefreshFailed,
    Source,
    StaleServed,
    StoreLost,
    StoreRestored,
    ValueRefreshed,
    raise_,
    return_value,
)
from breakerkit.testing import capture_events
from tests.stale.rig import Down, FarStore, async_ways, every_way, sync_ways


@every_way
def test_a_callable_gets_one_record(kind, bench):
    """It is told name, key, error and arguments; its answer is the caller's, and is not stored."""
    seen = []
    b = bench(kind, disaster=lambda call: seen.append(call) or "made up")
    b.origin.error = Down()
    assert b() == "made up"
    (call,) = seen
    assert isinstance(call, DisasterCall)
    assert (call.name, call.error) == ("bench", b.origin.error)
    assert "k" in (*call.args, *call.kwargs.values())
    assert b() == "made up"
    assert seen[1].error is None  # it was not asked
    assert b.origin.runs == 1
    b.clock.advance(2)
    b.origin.error = None
    assert b() == 2


@async_ways
def test_an_async_callable(kind, bench):
    """It is awaited."""

    async def strategy(call):
        await asyncio.sleep(0)
        return call.error

    b = bench(kind, disaster=strategy)
    b.origin.error = Down()
    assert b() is b.origin.error


@sync_ways
def test_an_async_callable_of_a_sync_function(kind, bench):
    """Nobody could await it: refused when the function is decorated, or called."""

    async def strategy(call):
        pytest.fail("run")

    with pytest.raises(TypeError, match="nobody could await it"):
        bench(kind, disaster=strategy)()


def test_reconfigured_to_an_async_callable(cached):
    """The same afterwards."""

    async def strategy(call):
        pytest.fail("run")

    c = cached()
    c.reconfigure(disaster=strategy)
    c.reconfigure(disaster=raise_())
    c(lambda key: 1)
    with pytest.raises(TypeError, match="nobody could await it"):
        c.reconfigure(disaster=strategy)
    assert repr(c.config.disaster) == "raise_()"


@every_way
@pytest.mark.parametrize("error", [LookupError, StopIteration, StopAsyncIteration])
def test_a_callable_that_raises(kind, error, bench):
    """C045: the caller catches its very error, with the first one as its cause."""
    if kind[0].is_async and error is StopIteration:
        return  # Python itself makes another error of it
    failure = error("no")

    def strategy(call):
        raise failure

    b = bench(kind, disaster=strategy)
    b.origin.error = Down()
    with pytest.raises((error, RuntimeError)) as caught:
        b()
    caught_error = caught.value
    if kind[0].is_async and error is StopAsyncIteration:
        return
    assert caught_error is failure
    assert caught_error.__cause__ is b.origin.error


def test_a_callable_that_raises_the_first_error(cached, origin):
    """It is passed on as it is; no chain leads in a circle."""

    def strategy(call):
        raise call.error

    origin.error = Down()
    origin.error.__cause__ = KeyError("root")
    with pytest.raises(Down) as caught:
        cached(disaster=strategy).call(origin, 1)
    assert caught.value is origin.error
    assert isinstance(caught.value.__cause__, KeyError)

    def root(call):
        raise call.error.__cause__

    with pytest.raises(KeyError) as caught:
        cached(disaster=root).call(origin, 1)
    assert caught.value.__cause__ is None


@every_way
def test_an_error_of_every_kind_passes(kind, bench):
    """Generators cannot raise a StopIteration; callers get theirs all the same."""
    if kind[0].is_async:
        return
    b = bench(kind)
    b.origin.error = StopIteration(7)
    with pytest.raises(StopIteration) as caught:
        b()
    assert caught.value is b.origin.error


def test_an_error_that_passes_has_a_trace_of_its_own(cached, origin):
    """One error for many calls does not grow with each of them."""
    origin.error = KeyError()
    call = cached(on=(Down,))(lambda key: origin(key))
    lengths = set()
    for _ in range(5):
        try:
            call(1)
        except KeyError as error:
            lengths.add(len(traceback.extract_tb(error.__traceback__)))
            error.__traceback__ = None
    assert len(lengths) == 1


@every_way
def test_what_can_be_read_once_is_refused(kind, bench):
    """A generator, a coroutine, a future: the second caller would get what the first has used up."""
    b = bench(kind, disaster=return_value("hidden"))
    loop, file = asyncio.new_event_loop(), Path("/dev/null").open()
    made = [
        lambda: (item for item in "ab"),
        lambda: iter("ab"),
        lambda: map(str, "ab"),
        lambda: loop.create_future(),
        lambda: file,
    ]
    for make in made:
        b.origin.answer = lambda number, make=make: make()
        with pytest.raises(TypeError, match="once"):
            b()
    info = b.cache.info()
    assert (info.failures, info.disasters, info.running) == (0, 0, 0)
    assert not file.closed
    file.close()
    loop.close()


def test_a_coroutine_from_a_plain_function(cached):
    """It is closed, so nothing is "never awaited"."""

    async def work():
        pytest.fail("run")

    with pytest.raises(TypeError, match="runs|run or read once"):
        cached().call(lambda: work())


def test_generators_are_refused_at_decoration(cached):
    """Never a silent no-op."""

    def items():
        yield 1

    async def items_async():
        yield 1

    for function in (items, items_async):
        for use in (cached(), cached().call, cached().apply):
            with pytest.raises(TypeError, match="gives its items once"):
                use(function)


def test_a_coroutine_made_by_types_coroutine(cached, origin):
    """It is one like any other."""
    import types

    @cached()
    @types.coroutine
    def work(key):
        yield from asyncio.sleep(0).__await__()
        return origin(key)

    assert [asyncio.run(_awaited(work(1))) for _ in range(2)] == [1, 1]


async def _awaited(value):
    return await value


@every_way
def test_fetched(kind, bench):
    """Rule 12: source, age and error come with the value."""
    if "call" in kind[0].name and "able" not in kind[0].name or "apply" in kind[0].name:
        return  # decorated functions only
    if kind[0].name.endswith("pipeline"):
        return
    b = bench(kind, disaster=return_value("x"), max_stale=6)
    before = () if not kind[0].key else (getattr(b.bound, "__self__", None),)

    def fetch():
        found = b.cache.fetch(*before, "k")
        return asyncio.run(found) if kind[0].is_async else found

    found = fetch()
    assert (found.value, found.source, found.age, found.error) == (1, Source.FRESH, 0, None)
    b.clock.advance(1)
    found = fetch()
    assert (found.value, found.source, found.age, found.error) == (1, "cached", 1, None)
    b.origin.error = Down()
    b.clock.advance(2)
    found = fetch()
    assert (found.value, found.source, found.age, found.error) == (1, "stale", 3, b.origin.error)
    b.clock.advance(1)
    found = fetch()
    assert (found.value, found.source, found.age, found.error) == (1, "stale", 4, None)
    b.clock.advance(2)
    found = fetch()
    assert (found.value, found.source, found.age, found.error) == (
        "x", "disaster", None, b.origin.error,
    )  # fmt: skip


@every_way
def test_events(kind, bench):
    """Each tells what happened, in order."""
    b = bench(kind, max_stale=4)
    with capture_events(b.cache) as log:
        b()
        b.clock.advance(2)
        b.origin.error = Down()
        b()
        b.clock.advance(2)
        with pytest.raises(NoCachedValueError):
            b()
    assert [type(event) for event in log] == [
        ValueRefreshed, RefreshFailed, StaleServed, RefreshFailed, DisasterStruck,
    ]  # fmt: skip
    fresh, failed, stale, again, disaster = log
    assert (fresh.stored, fresh.seconds) == (True, 0)
    assert (failed.served, failed.error) == (True, b.origin.error)
    assert (stale.age, stale.error) == (2, b.origin.error)
    assert (again.served, disaster.error) == (False, b.origin.error)


@every_way
def test_an_outage_of_the_store_is_told_once(kind, bench, caplog):
    """C061: lost and restored, one warning, however many calls."""
    b = bench((kind[0], True))
    with capture_events(b.cache) as log:
        for _ in range(2):
            b.store.trouble = OSError("refused")
            for _ in range(20):
                b()
            b.store.trouble = None
            for _ in range(3):
                b()
    told = [type(event) for event in log if isinstance(event, StoreLost | StoreRestored)]
    assert told == [StoreLost, StoreRestored] * 2
    warnings = [one for one in caplog.records if one.levelname == "WARNING"]
    assert len([one for one in warnings if "store failed" in one.getMessage()]) == 2


def test_a_low_hit_ratio_is_a_warning(cached, origin, caplog):
    """Rule 12: looked at each ``warn_after`` calls; 0 is never."""
    c = cached("poor", warn_after=10, min_hit_ratio=0.5)
    call = c(lambda key: origin(key))
    with capture_events(c) as log:
        for key in range(25):
            call(key)
    assert [(one.ratio, one.calls) for one in log.of(LowHitRatio)] == [(0, 10)]
    assert sum("protects nobody" in one.getMessage() for one in caplog.records) == 1
    with capture_events(c) as log:
        for _ in range(100):
            call(1)
        call("new")
    assert log.of(LowHitRatio) == []
    never = cached(warn_after=1, min_hit_ratio=0)
    with capture_events(never) as log:
        never.call(origin, 1)
    assert log.of(LowHitRatio) == []


def test_the_ratio_says_of_how_many_calls(cached, origin):
    """Of all since it was looked at last, hits between included."""
    c = cached(warn_after=10, min_hit_ratio=1)
    call = c(lambda key: origin(key))
    with capture_events(c) as log:
        for _ in range(20):
            call("same")
        call("other")
    assert [(one.ratio, one.calls) for one in log.of(LowHitRatio)] == [(19 / 21, 21)]


def test_info_before_and_after(cached, origin):
    """Rule 12: a ratio of nothing is none."""
    c = cached("seen")
    assert c.info().hit_ratio is None
    call = c(lambda key: origin(key))
    call(1)
    call(1)
    info = c.snapshot()
    assert (info.name, info.calls, info.hit_ratio) == ("seen", 2, 0.5)
    assert c.store is c._guard.shelf.store


def test_errors_pickle_and_say_what_they_know():
    """They arrive as they were sent."""
    plain = NoCachedValueError("prices", "k")
    resting = OriginRestingError("prices", "open", 3.0, "k")
    for error in (plain, resting):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.key, again.name) == (
            type(error), str(error), "k", "prices",
        )  # fmt: skip
    assert isinstance(resting, CallRejectedError)
    assert isinstance(resting, NoCachedValueError)
    assert not isinstance(plain, CallRejectedError)
    assert resting.retry_after == 3.0


def test_a_strategy_that_is_put_back_to_raise(cached, origin):
    """Rule 4: the next call asks again."""
    origin.error = Down()
    c = cached(disaster=return_value("x"))
    call = c(lambda key: origin(key))
    assert call(1) == "x"
    c.reconfigure(disaster=raise_())
    with pytest.raises(NoCachedValueError) as caught:
        call(1)
    assert isinstance(caught.value.__cause__, Down)
    assert origin.runs == 2


def test_a_store_told_by_two_threads_at_once(cached, clock, caplog):
    """Of forty that find it out together one tells it."""
    import threading

    from tests.stale.rig import Crowd

    store, gate = FarStore(clock), threading.Barrier(40)

    def trouble(command):
        gate.wait(10)
        raise OSError

    store.trouble = trouble
    c = cached("told", store=store)
    with capture_events(c) as log:
        Crowd(40, lambda: c.invalidate("k")).join()
    assert len(log.of(StoreLost)) == 1
