"""How a timeout is made, named, fetched, asked and changed."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest

import breakerkit
from breakerkit import (
    CallTimeoutError,
    ConfigChanged,
    ConfigError,
    NameConflictError,
    Registry,
    Timeout,
    TimeoutConfig,
    TimeoutMode,
    registry,
    timeout,
)
from breakerkit.testing import ManualClock, capture_events

shared = timeout("importable", seconds=3)


@shared
def importable() -> str:
    return "value"


@timeout
def bare() -> str:
    return "value"


def test_the_limit_comes_first():
    """Seconds or a timedelta by position are the limit; the name is that of the function."""
    guarded = timeout(2)(importable.__wrapped__)
    assert guarded.timeout.seconds == 2.0
    assert guarded.timeout.name == f"{__name__}.importable"
    assert timeout(timedelta(minutes=1)).seconds == 60.0


def test_a_name_comes_first():
    """A text by position is the name; alone it fetches what exists."""
    one = timeout("db", seconds=2)
    assert one is timeout("db") is timeout(2.0, name="db")
    assert one is registry.get("db") is registry.get("db", "timeout")
    assert one.config == TimeoutConfig(seconds=2)


def test_bare():
    """With nothing said, the function gets a limit of thirty seconds of its own."""
    assert bare() == "value"
    assert bare.timeout.config == TimeoutConfig(seconds=30, mode="auto", max_abandoned=100)
    assert bare.timeout.name == f"{__name__}.bare"
    assert bare.__wrapped__() == "value"
    assert timeout().seconds == 30.0


def test_the_same_twice_is_a_conflict():
    """Another limit under a name that is taken shows both."""
    timeout(2, name="db")
    with pytest.raises(NameConflictError, match=r"seconds=2.0.*seconds=3.0"):
        timeout(3, name="db")


def test_given_twice():
    """A limit or a name that is given twice is told, not guessed about."""
    with pytest.raises(ConfigError, match=r"seconds=3: 2 was given already"):
        timeout(2, seconds=3)
    with pytest.raises(ConfigError, match=r"name='b': the name 'a' was given already"):
        timeout("a", name="b")


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), None, True, [], timedelta(0)])
def test_what_is_no_limit(value):
    """What is no time above 0 is refused with field, value and what is allowed."""
    with pytest.raises(ConfigError, match=r"seconds=.*: must be a finite number of seconds"):
        timeout(value)
    with pytest.raises(ConfigError, match=r"seconds=.*: must be a finite number of seconds"):
        TimeoutConfig(seconds=value)


def test_all_faults_at_once():
    """One error names every wrong field; near names are offered."""
    with pytest.raises(ConfigError) as caught:
        timeout("x", seconds="2", mode="kill", max_abandoned=0, max_abandon=1)
    for text in (
        "seconds='2'",
        "mode='kill': must be 'auto', 'cooperative' or 'abandon'",
        "max_abandoned=0: must be an int of at least 1",
        "max_abandon=1: no such setting, did you mean 'max_abandoned'",
    ):
        assert text in str(caught.value)


def test_config_alone():
    """A config is equal to its like, evolves, and stands for the settings."""
    config = TimeoutConfig(seconds=2, mode="abandon")
    assert config.mode is TimeoutMode.ABANDON
    assert config.evolve(seconds=3) == TimeoutConfig(seconds=3, mode="abandon")
    assert timeout(config=config).config is config
    assert timeout(5, config=config).config == config.evolve(seconds=5)


def test_reconfigure(clock: ManualClock):
    """A change is in force for calls that begin from now on, whole, and is told."""
    one = timeout(2, clock=clock)

    @one
    def work() -> float:
        seen = breakerkit.current_deadline()
        assert seen is not None
        one.reconfigure(seconds=5)
        return seen.remaining

    with capture_events() as log:
        one.subscribe(log.append)
        assert work() == 2.0
        assert work() == 5.0
    assert [(event.old.seconds, event.new.seconds) for event in log.of(ConfigChanged)][0] == (2, 5)
    assert one.snapshot().seconds == 5
    with pytest.raises(ConfigError, match="seconds=0"):
        one.reconfigure(seconds=0)
    assert one.reconfigure(TimeoutConfig(seconds=7)).seconds == 7


def test_threads_are_for_good():
    """Whether sync code runs in threads is decided when it is decorated."""
    with pytest.raises(ConfigError, match="mode='abandon': a timeout with mode='auto' cannot"):
        timeout(2).reconfigure(mode="abandon")
    assert timeout(2).reconfigure(mode="cooperative").mode is TimeoutMode.COOPERATIVE


def test_identity():
    """It pickles and copies as itself, and so does what it guards."""
    again = pickle.loads(pickle.dumps(timeout("named", seconds=2)))
    assert again is timeout("named")
    assert copy.copy(again) is again is copy.deepcopy(again)
    assert pickle.loads(pickle.dumps(importable)) is importable
    assert repr(again) == "<Timeout 'named' of 2 s>"
    assert shared(importable) is importable
    with pytest.raises(TypeError, match="only a timeout named there pickles"):
        pickle.dumps(timeout(2))
    with pytest.raises(TypeError, match=r"make a Timeout with timeout\(name"):
        Timeout(2)


def test_the_error_pickles():
    """It arrives as it was, a TimeoutError with nothing of an operating system's in it."""
    error = CallTimeoutError("db", 2.0, abandoned=True)
    again = pickle.loads(pickle.dumps(error))
    assert (again.name, again.seconds, again.abandoned) == ("db", 2.0, True)
    assert isinstance(again, TimeoutError)
    assert again.errno is again.filename is None
    assert str(again) == "the call through 'db' took longer than 2 s; the work goes on, abandoned"
    assert "abandoned" not in str(CallTimeoutError("db", 2.0))


def test_another_registry(clock: ManualClock):
    """A registry and a clock of one's own are taken, and snapshots listed by kind and name."""
    own = Registry()
    one = timeout(2, name="db", registry=own, clock=clock)
    assert own.snapshot() == {"timeout db": one.snapshot()}
    assert timeout("db", registry=own) is one
    with pytest.raises(NameConflictError, match="it lives on the clock"):
        timeout("db", registry=own, clock=ManualClock())


def test_what_cannot_be_limited():
    """A class, or what is no callable, is a TypeError when it is decorated."""
    with pytest.raises(TypeError, match="is a class"):
        timeout(2)(dict)
    with pytest.raises(TypeError, match="cannot be guarded"):
        timeout(2)("text")
    assert repr(breakerkit._timeout._NOT_GIVEN) == "..."
