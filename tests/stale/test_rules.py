"""The rules of the cache, one by one, in every way to call and on two kinds of store."""

from __future__ import annotations

import asyncio

import pytest

from breakerkit import (
    CallRejectedError,
    CircuitOpenError,
    NoCachedValueError,
    OriginRestingError,
    breaker,
    bulkhead,
    raise_,
    return_value,
)
from tests.stale.rig import Down, every_way, garbage


@every_way
def test_before_the_refresh_time_the_origin_is_not_asked(kind, bench):
    """Rule 1: the stored value; a moment before is before."""
    b = bench(kind)
    assert b() == 1
    for step in (0, 1, 0.999):
        b.clock.advance(step)
        assert b() == 1
    assert b.origin.runs == 1
    info = b.cache.info()
    assert (info.hits, info.misses, info.stale, info.disasters) == (3, 1, 0, 0)


@every_way
def test_a_due_refresh_replaces_value_age_and_refresh_time(kind, bench):
    """Rule 2: from the refresh time on the origin is asked; then it rests as long again."""
    b = bench(kind)
    assert b() == 1
    b.clock.advance(2)
    assert b() == 2
    b.clock.advance(1.5)
    assert b() == 2
    assert b.origin.runs == 2
    assert b.cache.info().refreshes == 2


@every_way
def test_a_failed_refresh_serves_the_stale_value_and_rests(kind, bench):
    """Rule 3: younger than ``max_stale`` it is served; the origin can catch its breath."""
    b = bench(kind)
    assert b() == 1
    b.origin.error = Down()
    b.clock.advance(2)
    assert b() == 1
    b.clock.advance(1.9)
    assert b() == 1
    assert b.origin.runs == 2
    b.clock.advance(0.1)
    assert b() == 1
    assert b.origin.runs == 3
    info = b.cache.info()
    assert (info.stale, info.failures, info.age) == (3, 2, 4)


@every_way
def test_serving_a_stale_value_never_extends_its_life(kind, bench):
    """C057, rule 3: the value until it is ten seconds old, then the error from the origin's."""
    b = bench(kind)
    assert b() == 1
    b.origin.error = Down("the same")
    for moment in range(1, 60):
        b.clock.advance(1)
        if moment < 10:
            assert b() == 1
        else:
            with pytest.raises(NoCachedValueError) as caught:
                b()
            assert caught.value.__cause__ is b.origin.error
            assert not isinstance(caught.value, CallRejectedError)
    assert b.cache.info().disasters == 50


@every_way
def test_with_nothing_to_serve_the_next_call_asks_again(kind, bench):
    """Rule 4: ``raise_()`` raises from the origin's error, and the refresh time does not move."""
    b = bench(kind, disaster=raise_())
    b.origin.error = Down()
    for turn in range(1, 4):
        with pytest.raises(NoCachedValueError, match="'bench' has nothing to serve") as caught:
            b()
        assert (caught.value.__cause__, caught.value.name) == (b.origin.error, "bench")
        assert b.origin.runs == turn
    b.origin.error = None
    assert b() == 4


@every_way
def test_a_value_in_a_disaster_is_not_stored_and_the_origin_rests(kind, bench):
    """Rule 4: ``return_value`` answers with the very object; the refresh time moves."""
    answer = object()
    b = bench(kind, disaster=return_value(answer))
    b.origin.error = Down()
    assert b() is answer
    b.origin.error = None
    b.clock.advance(1.9)
    assert b() is answer
    assert b.origin.runs == 1
    b.clock.advance(0.1)
    assert b() == 2
    assert b.cache.info().disasters == 2


@every_way
def test_a_refresh_time_outlives_its_value(kind, bench):
    """Rules 1 and 4: a value that has grown too old is no reason to ask an origin that rests."""
    b = bench(kind, refresh_after=3, disaster=return_value("x"))
    assert b() == 1
    b.origin.error = Down()
    for _ in range(3):
        b.clock.advance(3)
        assert b() == 1
    runs = b.origin.runs
    b.clock.advance(1)
    assert b() == "x"
    assert b.origin.runs == runs
    b.clock.advance(2)
    assert b() == "x"
    assert b.origin.runs == runs + 1


@every_way
@pytest.mark.parametrize("stored", [True, False])
def test_an_error_outside_of_on_passes_and_changes_nothing(kind, stored, bench):
    """Rule 5: the very object, the refresh time stays where it is, no failure is counted."""
    b = bench(kind, on=(Down,))
    if stored:
        assert b() == 1
        b.clock.advance(2)
    b.origin.error = KeyError("no such user")
    for turn in range(3):
        with pytest.raises(KeyError) as caught:
            b()
        assert caught.value is b.origin.error
        assert b.origin.runs == turn + 1 + stored
    b.origin.error = Down()
    if stored:
        assert b() == 1
    info = b.cache.info()
    assert (info.failures, info.disasters) == (int(stored), 0)


@every_way
@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_what_is_no_exception_is_neutral(kind, error, bench):
    """Rule 5: a cancellation and Ctrl-C pass; the next call asks; no attempt is left behind."""
    if error is GeneratorExit and kind[1]:
        kind = (kind[0], False)  # what is being closed takes no further step: the lease runs out
    b = bench(kind)
    assert b() == 1
    b.clock.advance(2)
    b.origin.error = error
    with pytest.raises((error, asyncio.CancelledError)):
        b()
    b.origin.error = None
    assert b.cache.info().running == 0
    assert b() == b.origin.runs == 3
    assert b.cache.info().failures == 0


@every_way
def test_an_open_breaker_costs_nothing(kind, bench, clock):
    """Rule 6: stale is served at once, the refresh attempts are the breaker's probes."""
    b_er = breaker(failure_threshold=1, open_duration=3, clock=clock)
    b = bench(kind, breaker=b_er)
    assert b() == 1
    b.origin.error = Down()
    clock.advance(2)
    assert b() == 1  # opens it
    clock.advance(2)
    assert b() == 1  # refused, due when the breaker is: at 5
    assert b.origin.runs == 2
    b.origin.error = None
    clock.advance(1)
    assert b() == 3
    assert b_er.state == "closed"


@every_way
def test_a_forced_open_breaker_too(kind, bench, clock):
    """Rule 6: while an operator holds it open there is a longer life for values, and no run."""
    b_er = breaker(clock=clock)
    b = bench(kind, breaker=b_er, max_stale_in_disaster=20)
    assert b() == 1
    handle = b_er.force_open()
    clock.advance(15)
    assert b() == 1
    assert b.origin.runs == 1
    handle.release()
    b.origin.error = Down()
    clock.advance(2)
    with pytest.raises(NoCachedValueError):
        b()
    b_er.force_open()
    assert b() == 1
    clock.advance(5)
    with pytest.raises(OriginRestingError):
        b()


@every_way
@pytest.mark.parametrize("inside", [True, False])
def test_a_refusal_with_nothing_to_serve_is_a_rejection(kind, inside, bench, clock):
    """Rule 6: no breaker around counts it, and it says when to come again."""
    inner = breaker("inner", open_duration=30, clock=clock)
    b = bench(kind, breaker=None if inside else inner)
    inner.force_open()
    if inside:
        b.origin.error = CircuitOpenError("inner", "open", 7.0, None)
    with pytest.raises(OriginRestingError) as caught:
        b()
    assert isinstance(caught.value, CallRejectedError)
    assert isinstance(caught.value.__cause__, CircuitOpenError)
    assert caught.value.retry_after == (7.0 if inside else None)
    outer = breaker(failure_threshold=1, clock=clock)
    with pytest.raises(OriginRestingError):
        outer.call(b)
    assert (outer.state, outer.snapshot().ignored) == ("closed", 1)


@every_way
def test_a_full_bulkhead_is_asked_again_at_once(kind, bench, clock):
    """Rule 6: nothing was asked, so nothing needs rest."""
    hold = bulkhead(max_concurrent=1, max_waiting=0)
    b = bench(kind, breaker=hold)
    assert b() == 1
    clock.advance(2)
    with hold.guard():
        assert b() == 1
        assert b() == 1
    assert b() == 2
    assert b.cache.info().failures == 2


@every_way
@pytest.mark.parametrize("value", [None, 0, "", [], False], ids=repr)
def test_what_is_falsy_is_a_value(kind, value, bench):
    """Rule 10: nothing is taken for "not there"."""
    b = bench(kind)
    b.origin.answer = lambda number: value
    assert b() == b() == value
    assert b.origin.runs == 1
    b.origin.error = Down()
    b.clock.advance(2)
    assert b() == value


@every_way
def test_invalidate_asks_and_keeps_a_reserve(kind, bench):
    """Rule 9: the next call asks the origin; if that fails the value is still there."""
    b = bench(kind)
    key = b.key()
    assert b() == 1
    b.origin.error = Down()
    assert b.cache.invalidate(key)
    assert b() == 1
    assert b.origin.runs == 2
    b.origin.error = None
    assert asyncio.run(b.cache.invalidate_async(key))
    assert b() == 3


@every_way
def test_evict_forgets_both(kind, bench):
    """Rule 9: the value and its refresh time."""
    b = bench(kind)
    key = b.key()
    assert b() == 1
    assert b.cache.evict(key)
    b.origin.error = Down()
    with pytest.raises(NoCachedValueError):
        b()
    b.origin.error = None
    assert b() == 3
    assert asyncio.run(b.cache.evict_async(key))
    assert b() == 4


@every_way
def test_all_by_prefix(kind, bench):
    """Rule 9: keys that begin so, and no other."""
    b = bench(kind, key=lambda *args, **more: more.get("key") or args[-1])
    for key in ("user:1", "user:2", "order:1"):
        b(key)
    assert b.cache.invalidate_all("user:")
    assert [b(key) for key in ("user:1", "user:2", "order:1")] == [4, 5, 3]
    assert b.cache.evict_all("order:")
    b.origin.error = Down()
    with pytest.raises(NoCachedValueError):
        b("order:1")
    assert asyncio.run(b.cache.invalidate_all_async())
    assert b("user:1") == 4
    assert asyncio.run(b.cache.evict_all_async())
    with pytest.raises(NoCachedValueError):
        b("user:1")


@every_way
def test_put_is_as_if_the_origin_had_given_it(kind, bench):
    """Rule 9: it is young, and the origin rests."""
    b = bench(kind)
    key = b.key()
    assert b.cache.put(key, "put") is True
    assert b() == "put"
    b.clock.advance(2)
    assert b() == 1
    assert asyncio.run(b.cache.put_async(key, "again"))
    assert b() == "again"
    assert b.origin.runs == 1


@every_way
@pytest.mark.parametrize("trouble", [OSError("refused"), garbage], ids=["refuses", "garbage"])
def test_a_store_in_trouble_is_nobodys_error(kind, trouble, bench):
    """C061: the functions run, as if nothing were stored; afterwards the store is used again."""
    b = bench((kind[0], True))
    assert b() == 1
    b.store.trouble = trouble
    assert [b() for _ in range(3)] == [2, 3, 4]
    assert b.cache.info().store_lost
    b.origin.error = Down()
    with pytest.raises(NoCachedValueError) as caught:
        b()
    assert caught.value.__cause__ is b.origin.error
    b.store.trouble = None
    assert b() == 1
    assert not b.cache.info().store_lost


@every_way
def test_a_store_that_fails_halfway(kind, bench):
    """A store that reads and does not write, or the other way round, changes no answer."""
    b = bench((kind[0], True))
    names = ["Read", "Begin", "Write", "Release", "Postpone"]
    for failing in names:

        def trouble(command):
            if type(command).__name__ == failing:
                raise OSError(failing)
            return b.store.inner.do(command)

        b.store.trouble = trouble
        b.cache.evict_all()
        b.origin.error = None
        assert b() == b.origin.runs
        b.clock.advance(2)
        b.origin.error = Down()
        if failing in {"Read", "Begin", "Write"}:
            with pytest.raises(NoCachedValueError):
                b()
        else:
            assert isinstance(b(), int)
        b.origin.error = KeyError
        b.store.trouble = None
        b.origin.error = None
        b.clock.advance(100)


def test_the_values_of_a_store_are_clamped(cached, origin):
    """A value that says it comes from the future is as young as one of now, and no younger."""
    from breakerkit.store.commands import Entry
    from tests.stale.rig import FarStore

    class Odd(FarStore):
        def do(self, command):
            answer = super().do(command)
            return Entry("odd", -1e9, -1) if type(command).__name__ == "Read" else answer

    c = cached(store=Odd(None), breaker=None)
    call = c(lambda key: origin(key))
    origin.error = Down()
    assert call(1) == "odd"
    assert c.info().age == 0


def test_a_store_whose_value_has_no_age(cached, origin):
    """One that is not a number is served by nobody."""
    from breakerkit.store.commands import Entry
    from tests.stale.rig import FarStore

    store = FarStore(None)
    store.trouble = lambda command: (
        Entry("odd", float("nan"), float("nan")) if type(command).__name__ == "Read" else 1
    )
    call = cached(store=store)(lambda key: origin(key))
    assert call(1) == 1
