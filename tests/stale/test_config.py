"""Settings: refused when they are made; names, registry, pickle, changes while it runs."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from breakerkit import (
    ConfigError,
    MemoryStore,
    NameConflictError,
    StaleCache,
    StaleConfig,
    breaker,
    raise_,
    registry,
    return_value,
    stale_if_error,
)
from breakerkit.testing import capture_events, wall_clock
from tests.stale.rig import Down, FarStore

WRONG = [
    ("refresh_after", 0), ("refresh_after", "30"), ("refresh_after", float("nan")), ("refresh_after", -1),
    ("refresh_after", None), ("refresh_after", True), ("max_stale", float("inf")), ("max_stale", 0),
    ("max_stale_in_disaster", 0), ("key", "user"), ("key", int), ("disaster", 7), ("disaster", raise_),
    ("disaster", return_value), ("disaster", ValueError), ("disaster", lambda: 1), ("store", MemoryStore),
    ("store", "redis://"), ("store", object()), ("on", "ConnectionError"), ("on", (int,)), ("jitter", -0.1),
    ("jitter", 1.1), ("jitter", True), ("jitter", "0"), ("jitter", float("nan")), ("soft_timeout", 0),
    ("attempt_timeout", 0), ("background", 1), ("background", None), ("max_background", 0),
    ("max_background", 1.5), ("breaker", 7), ("breaker", type("B", (), {"call": print})), ("min_hit_ratio", 50),
    ("warn_after", 0), ("warn_after", None),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_what_makes_no_sense_is_refused(field, value):
    """With field, value and what is allowed."""
    with pytest.raises(ConfigError, match=f"{field}="):
        StaleConfig(**{field: value})


def test_an_async_key_is_refused():
    """Nobody could await it."""

    async def key(user):
        return user

    with pytest.raises(ConfigError, match="key="):
        stale_if_error(key=key)


def test_all_faults_come_at_once():
    """And nothing is cut down in silence."""
    with pytest.raises(ConfigError) as caught:
        StaleConfig(refresh_after=0, jitter=2, max_stale=-1)
    assert all(name in str(caught.value) for name in ("refresh_after", "jitter", "max_stale"))
    with pytest.raises(
        ConfigError, match="max_stale=5: must be at least refresh_after, which is 6"
    ):
        StaleConfig(refresh_after=6, max_stale=5)
    with pytest.raises(ConfigError, match="max_stale_in_disaster=5: must be at least max_stale"):
        StaleConfig(max_stale=60, refresh_after=1, max_stale_in_disaster=5)
    with pytest.raises(ConfigError, match="no such setting"):
        stale_if_error(refresh=1)


def test_a_config_is_a_value():
    """Units once, at the door; equal ones are equal; it tells what differs from the defaults."""
    one = StaleConfig(refresh_after=timedelta(minutes=1), max_stale=timedelta(hours=1))
    assert (one.refresh_after, one.max_stale, one.patience, one.keep) == (60, 3600, 60, 3600)
    assert one == StaleConfig(refresh_after=60)
    assert "refresh_after=60" in one.changed()
    more = one.evolve(attempt_timeout=5, max_stale_in_disaster=7200)
    assert (more.patience, more.keep) == (5, 7200)
    store = MemoryStore()
    assert StaleConfig(store=store) == StaleConfig(store=store) != StaleConfig(store=MemoryStore())
    assert repr(return_value([1])) == "return_value([1])"


def test_names():
    """The same name is the same object; other settings are a conflict; the class is not for users."""
    c = stale_if_error("prices", refresh_after=5)
    assert stale_if_error("prices") is c
    assert registry.get("prices", "stale_if_error") is c
    with pytest.raises(NameConflictError, match="refresh_after"):
        stale_if_error("prices", refresh_after=6)
    with pytest.raises(TypeError, match="stale_if_error"):
        StaleCache(c.config)
    assert isinstance(c, StaleCache)


def test_it_pickles_by_name():
    """It becomes the one of that name over there."""
    c = stale_if_error("pickled", refresh_after=5)
    assert pickle.loads(pickle.dumps(c)) is c
    with pytest.raises(TypeError, match="not in the shared registry"):
        pickle.dumps(stale_if_error())
    with pytest.raises(TypeError, match="of this process"):
        pickle.dumps(MemoryStore())


def test_the_three_spellings(origin):
    """Bare, called, and with a name; an unnamed one takes the function's name."""

    @stale_if_error
    def bare(key):
        return origin(key)

    @stale_if_error()
    def called(key):
        return origin(key)

    assert bare(1) == bare(1) == 1
    assert called(1) == called(1) == 2
    assert bare.stale_if_error.name.endswith("bare")
    assert bare.stale_if_error(bare) is bare


def test_apply_with_a_signal(cached, origin):
    """What is stored is served; what would run is not run once the signal is set."""
    from breakerkit import CallCancelledError, CancelSignal

    signal = CancelSignal()
    c = cached()
    call = c(lambda key: origin(key))
    assert c.apply(call, [1], cancel=signal) == 1
    other = cached()
    assert other.apply(origin, [1], cancel=signal) == 2
    signal.cancel("enough")
    assert other.apply(origin, [1], cancel=signal) == 2
    assert c.apply(call, [1], cancel=signal) == 1
    for one, function in ((other, origin), (c, call)):
        with pytest.raises(CallCancelledError) as caught:
            one.apply(function, [2], cancel=signal)
        assert not caught.value.begun
    assert (origin.runs, c.info().failures, other.info().failures) == (2, 0, 0)
    with pytest.raises(TypeError):
        c.apply(call, 7, cancel=signal)


@pytest.mark.parametrize("far", [False, True])
def test_reconfigure(far, cached, origin, clock):
    """It holds at once, for decorated functions too; store and key cannot be changed."""
    c = cached("live", **({"store": FarStore(clock)} if far else {}))
    call = c(lambda key: origin(key))
    assert call(1) == 1
    with capture_events(c) as log:
        new = c.reconfigure(refresh_after=1)
    assert (log[0].new, c.config) == (new, new)
    clock.advance(1)
    assert c.fetch(1).source == "fresh"  # a value is due by the period of today
    clock.advance(0.5)
    assert call(1) == 2
    clock.advance(1)
    assert call(1) == 3
    with pytest.raises(ConfigError, match="store="):
        c.reconfigure(store=MemoryStore())
    with pytest.raises(ConfigError, match="key="):
        c.reconfigure(key=lambda key: 1)
    b = breaker(failure_threshold=1, clock=clock)
    c.reconfigure(breaker=b, max_stale=9)
    origin.error = Down()
    clock.advance(2)
    assert call(1) == 3
    assert b.state == "open"


def test_the_default_clock_may_be_replaced_by_tests(origin, time_machine_like):
    """A function that was decorated before follows all the same."""
    call = stale_if_error(refresh_after=5, max_stale=9, jitter=0)(lambda key: origin(key))
    assert call(1) == 1
    time_machine_like(6)
    assert call(1) == 2


@pytest.fixture
def time_machine_like(monkeypatch):
    """Move the default clock."""
    from breakerkit.clock import system_clock

    now = system_clock.now

    def move(seconds):
        monkeypatch.setattr(system_clock, "now", lambda: now() + seconds)

    with wall_clock():
        pass
    return move


def test_jitter_spreads_refresh_times(cached, origin, clock):
    """Keys that were loaded together are not due together, and none is early or later than the part."""
    c = cached(refresh_after=10, max_stale=100, jitter=0.5)
    call = c(lambda key: origin(key))
    for key in range(200):
        call(key)
    clock.advance(10 - 1e-6)
    for key in range(200):
        call(key)
    assert origin.runs == 200
    clock.advance(2.5)
    for key in range(200):
        assert c.fetch(key).source in {"cached", "fresh"}
    assert 200 < origin.runs < 400
    clock.advance(2.5)
    for key in range(200):
        call(key)
    assert origin.runs == 400
