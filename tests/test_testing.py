"""The test tools: a clock by hand, captured events, forced states, and the pytest plugin."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from unittest import mock

import pytest
import time_machine

from breakerkit import (
    CallSucceeded,
    CircuitOpenError,
    Clock,
    OpenReason,
    ProbeLimitError,
    State,
    StateChanged,
    breaker,
    registry,
    system_clock,
    testing,
)
from breakerkit.testing import ManualClock
from tests.shapes import raising, returning

pytest_plugins = ["pytester"]

INSTALLED = any(
    one.value == "breakerkit.testing.plugin"
    for one in importlib.metadata.entry_points(group="pytest11")
)
PLUGIN = [] if INSTALLED else ["-p", "breakerkit.testing.plugin"]


# -- the clock ---------------------------------------------------------------


def test_the_clock_stands_until_it_is_moved():
    """``now()`` changes by ``advance`` alone, which returns the new reading."""
    clock = ManualClock(100)
    assert isinstance(clock, Clock)
    assert clock.now() == clock.now() == 100.0
    assert clock.advance(1.5) == clock.now() == 101.5
    assert clock.advance(timedelta(minutes=1)) == 161.5
    assert clock.advance(0) == clock.advance(timedelta(0)) == 161.5
    assert repr(clock) == "<ManualClock at 161.5 s>"


@pytest.mark.parametrize(
    "seconds", [-1, -0.1, float("nan"), float("inf"), "1", None, True, timedelta(seconds=-1)]
)
def test_the_clock_never_goes_back(seconds):
    """A step back, or no number of seconds, is refused and moves nothing."""
    clock = ManualClock()
    with pytest.raises(ValueError, match="this clock never goes back"):
        clock.advance(seconds)
    assert clock.now() == 0


@pytest.mark.parametrize("start", ["0", None, float("inf"), True])
def test_the_clock_starts_at_a_number(start):
    """The first reading is a finite number."""
    with pytest.raises(ValueError, match="start="):
        ManualClock(start)


def test_threads_may_move_the_clock():
    """Steps from many threads all count."""
    clock = ManualClock()

    def walk():
        for _ in range(1000):
            clock.advance(1)

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() == 4000


def test_the_clock_after_a_fork():
    """In a forked child the clock can be moved, whoever held its lock."""
    clock = ManualClock()
    with clock._lock:
        clock.after_fork()
        assert clock.advance(1) == 1


# -- events and registries ---------------------------------------------------


def test_events_are_captured():
    """Inside the block events are collected, of a breaker or of all; after it no more."""
    b = breaker("api", failure_threshold=1)
    with testing.capture_events() as all_of_them, testing.capture_events(b) as own:
        b.call(returning())
        breaker("other").call(returning())
        with pytest.raises(OSError):
            b.call(raising(OSError()))
    b.reset()
    assert [event.name for event in all_of_them.of(CallSucceeded)] == ["api", "other"]
    assert len(own.of(CallSucceeded)) == 1
    assert [event.new for event in own.of(StateChanged)] == [State.OPEN]


def test_a_fresh_registry_and_back():
    """Inside the block no name is taken and nobody listens; then what was there is back."""
    heard = []
    b = breaker("api", failure_threshold=3)
    registry.subscribe(heard.append)
    with testing.fresh_registry() as fresh:
        assert fresh is registry
        assert registry.names() == []
        assert breaker("api", failure_threshold=5) is not b
        b.call(returning())
        registry.subscribe(lambda event: pytest.fail("still listening"))
    assert heard == []
    assert registry.get("api") is b
    b.call(returning())
    assert len(heard) == 1


def test_a_fresh_registry_after_a_failure():
    """What was there comes back after an error too."""
    breaker("api")
    with pytest.raises(LookupError), testing.fresh_registry():
        raise LookupError
    assert registry.names() == ["api"]


# -- states ------------------------------------------------------------------


def test_put_into_state(circuit, clock):
    """A breaker is put into a state as if it had got there, silently and without evidence."""
    b = circuit(failure_threshold=3, on_open=lambda context: pytest.fail("called"))
    b.subscribe(lambda event: pytest.fail("told"), StateChanged)
    testing.put_into_state(b, State.OPEN, retry_after=5)
    with pytest.raises(CircuitOpenError) as caught:
        b.call(returning())
    assert (caught.value.retry_after, caught.value.reason) == (5, OpenReason.FORCED)
    testing.put_into_state(b, State.HALF_OPEN)
    assert b.state is State.HALF_OPEN
    with b.guard() as lease, pytest.raises(ProbeLimitError):
        lease.ignore()
        b.guard().__enter__()
    testing.put_into_state(b, State.CLOSED)
    assert b.state is State.CLOSED
    assert b.snapshot().consecutive_failures == 0


def test_a_state_that_was_put_goes_on_by_itself(circuit, clock):
    """From there it moves as ever: open until its time, half-open until its probe."""
    b = circuit()
    testing.put_into_state(b, State.OPEN, retry_after=timedelta(seconds=5))
    clock.advance(5)
    assert b.state is State.HALF_OPEN
    b.call(returning())
    assert b.state is State.CLOSED


@pytest.mark.parametrize(
    ("state", "wait"),
    [("open", 1), (None, 1), (State.OPEN, 0), (State.OPEN, -1), (State.OPEN, "1")],
)
def test_put_into_what_is_no_state(state, wait, circuit):
    """A wrong state or time is refused and changes nothing."""
    b = circuit()
    with pytest.raises(ValueError, match="must be a State, and seconds above 0"):
        testing.put_into_state(b, state, retry_after=wait)
    assert b.state is State.CLOSED


@pytest.mark.parametrize("what", ["api", None, len])
def test_put_what_is_no_breaker(what):
    """Something else in place of the breaker is refused, with the way to the breaker of a function."""
    with pytest.raises(
        ValueError, match=r"must be a breaker; of a guarded function that is f\.breaker"
    ):
        testing.put_into_state(what, State.OPEN)


def test_reset_all(circuit):
    """Every breaker there is, named, keyed or nameless, is closed and held by nobody."""
    named, nameless = circuit("api"), circuit()
    keyed = circuit("hosts", key=len).get(1)
    forced = circuit()
    forced.force_open()
    for b in (named, nameless, keyed):
        testing.put_into_state(b, State.OPEN)
    testing.reset_all()
    for b in (named, nameless, keyed, forced):
        assert b.state is State.CLOSED
        assert b.handles == ()


def test_a_lease_from_before_a_reset_changes_nothing(circuit):
    """C090: what was in flight when everything was reset is dropped."""
    b = circuit(failure_threshold=1)
    block = b.guard()
    block.__enter__()
    testing.reset_all()
    error = OSError()
    block.__exit__(OSError, error, None)
    assert b.state is State.CLOSED
    assert b.snapshot().consecutive_failures == 0


# -- the wall clock ----------------------------------------------------------


def test_time_travel_moves_the_default_clock():
    """Inside ``wall_clock()`` a travel moves every breaker on the default clock, made before or after."""
    before = breaker(failure_threshold=1, open_duration=30)
    with testing.wall_clock(), time_machine.travel("2026-01-01", tick=False) as traveller:
        after = breaker(failure_threshold=1, open_duration=30)
        for b in (before, after):
            b.reset()
            with pytest.raises(OSError):
                b.call(raising(OSError()))
        traveller.shift(29)
        assert [before.state, after.state] == [State.OPEN, State.OPEN]
        traveller.shift(1)
        assert [before.state, after.state] == [State.HALF_OPEN, State.HALF_OPEN]


def test_the_wall_clock_is_given_back():
    """After the block the default clock is what it was, after an error too."""
    source = system_clock.now
    with pytest.raises(LookupError), testing.wall_clock():
        assert abs(system_clock.now() - time.time()) < 60
        raise LookupError
    assert system_clock.now is source


def test_production_is_monotonic():
    """Without the test tools the default clock is monotonic, and they work without pytest."""
    code = """
import sys, time
from breakerkit import State, breaker, system_clock
from breakerkit import testing
assert system_clock.now is time.monotonic
clock = testing.ManualClock()
b = breaker(failure_threshold=1, clock=clock)
testing.put_into_state(b, State.OPEN)
clock.advance(30)
assert b.state is State.HALF_OPEN
with testing.fresh_registry(), testing.capture_events() as events:
    breaker("api").call(int)
assert len(events) == 1
testing.reset_all()
assert b.state is State.CLOSED
assert "pytest" not in sys.modules
"""
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"]
    subprocess.run(command, check=True, timeout=60)


# -- the plugin --------------------------------------------------------------

MODULE = """
    from breakerkit import breaker, registry

    @breaker(failure_threshold=1, open_duration=60)
    def by_decorator(fail=False):
        if fail:
            raise ConnectionError

    at_module_level = breaker("api", failure_threshold=1, open_duration=60)
    by_key = breaker("hosts", key=lambda host: host, failure_threshold=1, open_duration=60)
"""

TESTS = """
    import time
    import pytest, time_machine
    from breakerkit import CircuitOpenError, State, breaker, registry, system_clock
    from breakerkit.testing import ManualClock
    import app

    def fail():
        raise ConnectionError

    def everything_open():
        for b in (app.by_decorator.breaker, app.at_module_level, app.by_key.get("a")):
            with pytest.raises(ConnectionError):
                b.call(fail)
        app.by_key.get("b").force_open()

    @pytest.fixture(scope="module")
    def module_wide():
        b = breaker(failure_threshold=1)
        with pytest.raises(ConnectionError):
            b.call(fail)
        return b, []

    @pytest.mark.parametrize("time", range(3))
    def test_each_test_starts_closed(time, module_wide):
        for b in (app.by_decorator.breaker, app.at_module_level, *map(app.by_key.get, "ab")):
            assert b.state is State.CLOSED
        b, uses = module_wide
        assert b.state is (State.CLOSED if uses else State.OPEN)
        uses.append(time)
        everything_open()

    def test_travel_moves_a_module_level_breaker():
        with time_machine.travel("2026-01-01", tick=False) as traveller:
            with pytest.raises(ConnectionError):
                app.at_module_level.call(fail)
            traveller.shift(59)
            assert app.at_module_level.state is State.OPEN
            traveller.shift(1)
            assert app.at_module_level.state is State.HALF_OPEN

    def test_the_clock_after_a_travel():
        assert abs(system_clock.now() - time.time()) < 60
        assert app.at_module_level.state is State.CLOSED

    def test_a_fresh_registry(breaker_registry):
        assert breaker_registry is registry
        assert registry.names() == []
        assert breaker("api", failure_threshold=9) is not app.at_module_level

    def test_the_registry_is_back():
        assert registry.names() == ["api", "hosts"]
        assert breaker("api") is app.at_module_level

    def test_events(breaker_events):
        app.by_decorator()
        with pytest.raises(ConnectionError):
            app.by_decorator(fail=True)
        assert [type(event).__name__ for event in breaker_events] == [
            "CallSucceeded", "CallFailed", "StateChanged"
        ]

    def test_a_clock(breaker_clock):
        assert isinstance(breaker_clock, ManualClock)
        b = breaker(failure_threshold=1, open_duration=5, clock=breaker_clock)
        with pytest.raises(ConnectionError):
            b.call(fail)
        breaker_clock.advance(5)
        assert b.state is State.HALF_OPEN
"""


def _project(pytester, **settings):
    pytester.makepyfile(app=MODULE, test_app=TESTS)
    lines = "".join(f"\n{name} = {value}" for name, value in settings.items())
    pytester.makeini(f"[pytest]\nasyncio_default_fixture_loop_scope = function{lines}")


@pytest.fixture
def clean(monkeypatch):
    """Let an inner pytest run leave the clock, the plugin and the modules as they were."""
    monkeypatch.setattr(system_clock, "now", system_clock.now)
    monkeypatch.delitem(sys.modules, "app", raising=False)


def test_the_plugin_isolates_tests(pytester, clean):
    """C090: each test starts with every breaker closed, on a clock that a travel moves."""
    _project(pytester)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=9)


def test_the_plugin_in_a_process_of_its_own(pytester, monkeypatch):
    """C090: the same in a real run, in reverse order and on two workers."""
    _project(pytester)
    pytester.makeconftest("def pytest_collection_modifyitems(items): items.reverse()")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    pytester.runpytest_subprocess(*PLUGIN, "-n2").assert_outcomes(passed=9)


def test_isolation_can_be_turned_off(pytester, clean):
    """``breakerkit_isolation = false`` leaves clock and breakers alone; the fixtures stay."""
    _project(pytester, breakerkit_isolation="false")
    pytester.makepyfile(
        test_off="""
        import app
        from breakerkit import State, system_clock

        source = system_clock.now

        def test_open_it(breaker_events, breaker_clock, breaker_registry):
            app.at_module_level.force_open()

        def test_it_is_open_still():
            assert app.at_module_level.state is State.OPEN
            assert system_clock.now is source
        """
    )
    before = system_clock.now
    result = pytester.runpytest_inprocess(*PLUGIN, "test_off.py")
    result.assert_outcomes(passed=2)
    assert system_clock.now is before


def test_the_plugin_gives_the_clock_back(pytester, clean):
    """After the run the default clock is what it was before."""
    before = system_clock.now
    _project(pytester)
    pytester.makepyfile(test_app="def test_nothing(): pass")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)
    assert system_clock.now is before


def test_the_fixtures_are_listed(pytester, clean):
    """``pytest --fixtures`` tells what each fixture is for."""
    _project(pytester)
    result = pytester.runpytest_inprocess(*PLUGIN, "--fixtures")
    result.stdout.fnmatch_lines(
        ["breaker_registry*", "breaker_events*", "breaker_clock*"], consecutive=False
    )


def test_reset_all_inside_a_running_loop():
    """The tools need no loop and disturb none."""

    async def run():
        testing.reset_all()
        return await breaker(failure_threshold=1).call(asyncio.sleep, 0, 7)

    assert asyncio.run(run()) == 7


def test_reset_all_imports_nothing():
    """Where no policy but the breaker was ever asked for there is nothing else to reset."""
    absent = ("breakerkit.degrade.rules", "breakerkit.providers.keeper")
    with mock.patch.dict(sys.modules):
        for name in absent:
            sys.modules.pop(name, None)
        testing.reset_all()
        assert not set(absent) & set(sys.modules)
