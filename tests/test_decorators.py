"""The verb ``breaker``: names, configs and conflicts, checked before anything is made."""

from __future__ import annotations

import copy
import pickle

import pytest

from breakerkit import (
    BreakerConfig,
    CircuitBreaker,
    CircuitOpenError,
    ConfigError,
    KeyedBreakers,
    NameConflictError,
    Registry,
    State,
    WallClock,
    breaker,
    registry,
)
from breakerkit.testing import ManualClock
from tests import importable
from tests.shapes import raising


def test_bare():
    """``@breaker`` gives a function a breaker of its own, named ``module.qualname``, with the defaults."""

    @breaker
    def work():
        return 7

    assert work() == 7
    assert isinstance(work.breaker, CircuitBreaker)
    assert work.breaker.name == f"{__name__}.test_bare.<locals>.work"
    assert work.breaker.config == BreakerConfig()
    assert registry.names() == []


def test_called_without_a_name():
    """``@breaker(...)`` with fields only is the same with other settings."""

    @breaker(failure_threshold=1)
    def work():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        work()
    assert work.breaker.state is State.OPEN
    assert work.breaker.name.endswith("work")


def test_named():
    """``@breaker("payments", ...)`` is the breaker of that name in the shared registry."""

    @breaker("payments", failure_threshold=3)
    def work():
        return 7

    assert work() == 7
    assert work.breaker is registry.get("payments")
    assert work.breaker.config.failure_threshold == 3


def test_with_a_config_object():
    """``config=`` gives all settings at once; fields beside it change it."""
    config = BreakerConfig(failure_threshold=3)
    assert breaker("a", config=config).config is config
    changed = breaker("b", config=config, open_duration=5).config
    assert (changed.failure_threshold, changed.open_duration) == (3, 5)


def test_a_function_with_settings():
    """A function given with settings is decorated with them."""

    def work(host):
        return host

    assert breaker(work, failure_threshold=3).breaker.config.failure_threshold == 3
    by_key = breaker(work, key=lambda host: host, failure_threshold=3)
    assert isinstance(by_key.breaker, KeyedBreakers)
    assert by_key("a") == "a"
    assert by_key.breaker.keys() == ["a"]


def test_one_object_guards_many_functions(circuit):
    """A breaker object decorates as often as one likes: one state in front of all."""
    b = circuit()
    first, second = b(lambda: 1), b(raising(ConnectionError()))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            second()
    with pytest.raises(CircuitOpenError):
        first()


def test_the_first_function_names_an_unnamed_breaker(circuit):
    """A breaker without a name takes that of the first function it guards, and keeps it."""
    b = circuit()
    assert b.name == "unnamed"

    def first():
        return 1

    def second():
        return 2

    assert (b(first)(), b(second)()) == (1, 2)
    assert b.name.endswith(".first")


# -- the same name -----------------------------------------------------------


def test_the_same_name_is_the_same_breaker():
    """With no settings, or equal ones, the name fetches the breaker that exists."""
    b = breaker("api", failure_threshold=3)
    assert breaker("api") is b
    assert breaker("api", failure_threshold=3) is b
    assert breaker("api", config=BreakerConfig(failure_threshold=3)) is b
    assert registry.names() == ["api"]


def test_another_config_is_a_conflict_that_shows_both():
    """C029: the same name with another config is refused, and the open breaker stays as it is."""
    b = breaker("api", failure_threshold=3)
    for _ in range(3):
        with pytest.raises(OSError):
            b.call(raising(OSError()))
    with pytest.raises(NameConflictError) as caught:
        breaker("api", failure_threshold=5)
    text = str(caught.value)
    assert "'api' is taken" in text
    assert "it has BreakerConfig(failure_threshold=3)" in text
    assert "asked was BreakerConfig(failure_threshold=5)" in text
    assert isinstance(caught.value, ConfigError)
    assert breaker("api") is b
    assert b.state is State.OPEN


def test_a_conflict_is_judged_by_the_config_in_force():
    """After ``reconfigure`` the new settings fetch the breaker, the old ones are the conflict."""
    b = breaker("api", failure_threshold=3)
    b.reconfigure(failure_threshold=5)
    assert breaker("api", failure_threshold=5) is b
    with pytest.raises(NameConflictError):
        breaker("api", failure_threshold=3)


def test_the_defaults_said_aloud_are_a_config():
    """A default that is written out is a setting: against another one it conflicts."""
    breaker("api", failure_threshold=3)
    with pytest.raises(NameConflictError, match="asked was"):
        breaker("api", failure_threshold=5)
    with pytest.raises(NameConflictError):
        breaker("api", config=BreakerConfig())


def test_another_clock_is_a_conflict():
    """The same name on another clock is refused; on the same, or with none said, it is that breaker."""
    clock = ManualClock()
    b = breaker("api", clock=clock)
    assert breaker("api") is breaker("api", clock=clock) is b
    with pytest.raises(NameConflictError, match="lives on the clock <ManualClock at 0 s>"):
        breaker("api", clock=WallClock())


def test_a_family_and_a_breaker_are_no_namesakes():
    """One name is either a breaker or a family of them."""
    breaker("api")
    breaker("host", key=len)
    with pytest.raises(NameConflictError, match="CircuitBreaker without a key"):
        breaker("api", key=len)
    with pytest.raises(NameConflictError, match="KeyedBreakers"):
        breaker("host")


def test_a_registry_of_ones_own():
    """Names live in the registry that is given: the same name elsewhere is another breaker."""
    own = Registry()
    b = breaker("api", failure_threshold=3, registry=own)
    assert own.get("api") is b
    assert "api" not in registry
    assert breaker("api", failure_threshold=5) is not b


def test_unnamed_uses_never_collide():
    """C029: two functions of the same qualified name, both unnamed, have a breaker each."""

    def make():
        @breaker(failure_threshold=1)
        def work():
            raise ConnectionError

        return work

    one, other = make(), make()
    with pytest.raises(ConnectionError):
        one()
    assert one.breaker.name == other.breaker.name
    assert (one.breaker.state, other.breaker.state) == (State.OPEN, State.CLOSED)
    assert registry.names() == []


# -- wrong arguments ---------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"failure_treshold": 3}, "failure_treshold=3: no such setting, did you mean 'failure_threshold'"),
        ({"failure_threshold": 0}, "failure_threshold=0"),
        ({"config": {"failure_threshold": 3}}, "config=.*must be a BreakerConfig"),
        ({"clock": 42}, "clock=42: must be an object with now"),
        ({"registry": {}}, "registry=.*must be a Registry"),
        ({"config": BreakerConfig(), "open_duration": -1}, "open_duration=-1"),
        ({"config": BreakerConfig(), "nonsense": 1}, "nonsense"),
        ({"key": "host"}, "key='host': must be a plain callable"),
        ({"key": len, "max_keys": 0}, "max_keys=0: must be an int of at least 1"),
        ({"key": len, "max_keys": True}, "max_keys=True"),
        ({"max_keys": 7}, "max_keys"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [None, "api"])
def test_wrong_settings_make_nothing(name, arguments, message):
    """Each wrong argument is one clear error that names it, before anything is made or listed."""
    with pytest.raises(ConfigError, match=message):
        breaker(name, **arguments)
    assert registry.names() == []


def test_all_faults_in_one_error():
    """Wrong values and names that do not exist are told together."""
    with pytest.raises(ConfigError) as caught:
        breaker("api", failure_threshold=0, open_duration="30", nonsense=1)
    for name in ("failure_threshold=0", "open_duration='30'", "nonsense=1"):
        assert name in str(caught.value)


def test_an_empty_name_is_refused():
    """A name is a text that is not empty."""
    with pytest.raises(ConfigError, match="name='': must be a text that is not empty"):
        breaker("")


async def coroutine_key(host):
    """Return a coroutine, which is no key."""


def test_a_coroutine_function_is_no_key():
    """A key function is called at once: a coroutine function is refused."""
    with pytest.raises(ConfigError, match="must be a plain callable"):
        breaker(key=coroutine_key)


@pytest.mark.parametrize(
    ("arguments", "settings"), [(("api",), {}), (("api",), {"failure_threshold": 3}), ((None,), {})]
)
def test_the_class_makes_no_breaker(arguments, settings):
    """A breaker is made by the verb; its class says so, instead of making half of one."""
    with pytest.raises(TypeError, match=r"make a CircuitBreaker with breaker\(name, \.\.\.\)"):
        CircuitBreaker(*arguments, **settings)


# -- the breaker object ------------------------------------------------------


def test_reconfigure_takes_a_config_or_changes(circuit):
    """A whole config, or fields, or both; it returns what is in force; nonsense changes nothing."""
    b = circuit()
    whole = BreakerConfig(failure_threshold=7)
    assert b.reconfigure(whole) == whole
    assert b.reconfigure(whole, open_duration=5).open_duration == 5
    assert b.config.failure_threshold == 7
    with pytest.raises(TypeError, match="config=42: must be a BreakerConfig"):
        b.reconfigure(42)
    with pytest.raises(ConfigError, match="open_duration=0"):
        b.reconfigure(open_duration=0)
    assert b.config.open_duration == 5


def test_reset_returns_the_breaker(circuit):
    """``reset()`` can be chained."""
    b = circuit()
    assert b.reset() is b


def test_switches_are_readable(circuit):
    """Who holds a breaker, and why, is readable on it."""
    b = circuit("api")
    with b.force_open(reason="maintenance", by="alice") as handle:
        assert b.handles == (handle,)
        assert (handle.reason, handle.by, b.mode.value) == ("maintenance", "alice", "forced-open")
        assert "alice: maintenance" in b.why()
    assert b.handles == ()
    assert b.why().startswith("api is closed; 0 failures in a row")


def test_a_copied_function_is_the_same():
    """A guarded function that is copied or pickled is the same object."""
    assert copy.deepcopy(importable.work) is importable.work
    assert pickle.loads(pickle.dumps(importable.work)) is importable.work
