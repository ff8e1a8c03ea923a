"""New settings for a live breaker: what is kept, what is dropped, and that nothing is judged (SPEC 1)."""

from __future__ import annotations

from typing import Any

import pytest

from breakerkit import (
    BreakerConfig,
    ConfigChanged,
    ConfigError,
    OpenReason,
    State,
    StateChanged,
    backoff,
)
from tests.circuit.rig import Rig

# -- reconfigure (SPEC 1) ----------------------------------------------------


def test_reconfigure_returns_what_is_in_force() -> None:
    """Changes, or a whole config, or a config with changes."""
    rig = Rig()
    assert rig.breaker.reconfigure(failure_threshold=3) == BreakerConfig(failure_threshold=3)
    whole = BreakerConfig(window_size=5)
    assert rig.breaker.reconfigure(whole) == whole
    assert rig.breaker.config == whole
    assert rig.breaker.reconfigure(whole, probe_limit=2) == whole.evolve(probe_limit=2)


@pytest.mark.parametrize("changes", [{"window_size": -1}, {"minimum_calls": 11}, {"windows": 1}])
def test_reconfigure_validates_first(changes: dict[str, Any]) -> None:
    """A wrong change is a `ConfigError`, and nothing has changed."""
    rig = Rig(window_size=10)
    before = rig.breaker.config
    with rig.events() as log, pytest.raises(ConfigError):
        rig.breaker.reconfigure(**changes)
    assert rig.breaker.config is before
    assert log == []


def test_reconfigure_takes_a_config_only() -> None:
    """Something else than a config is a `TypeError` that shows it."""
    with pytest.raises(TypeError, match="config=5: must be a BreakerConfig"):
        Rig().breaker.reconfigure(5)  # type: ignore[arg-type]  # that is the test


def test_reconfigure_is_told() -> None:
    """A `ConfigChanged` with both configs."""
    rig = Rig()
    old = rig.breaker.config
    with rig.events() as log:
        new = rig.breaker.reconfigure(failure_threshold=3)
    assert [(one.old, one.new) for one in log.of(ConfigChanged)] == [(old, new)]


def test_nothing_is_judged_in_the_change() -> None:
    """A threshold that is exceeded by the change opens at the next completed call only."""
    rig = Rig(window_size=10)
    rig.breaker.reconfigure(minimum_calls=10)
    rig.fail(3)
    rig.breaker.reconfigure(failure_threshold=2)
    assert rig.state is State.CLOSED
    rig.raises(KeyboardInterrupt())
    assert rig.state is State.CLOSED
    rig.fail()
    assert rig.seen.reason is OpenReason.CONSECUTIVE_FAILURES


def test_a_success_is_judged_after_a_change() -> None:
    """A rate threshold that the change made reached opens at the next success."""
    rig = Rig(window_size=10, minimum_calls=2)
    rig.fail()
    rig.ok(2)
    rig.breaker.reconfigure(failure_rate_threshold=20)
    assert rig.state is State.CLOSED
    rig.ok()
    assert rig.seen.reason is OpenReason.FAILURE_RATE
    assert rig.window == (4, 1)


def test_state_streak_and_evidence_are_kept() -> None:
    """A change of something else leaves all as it was, calls in flight too."""
    rig = Rig(window_size=10, minimum_calls=10)
    rig.fail(4)
    call = rig.start()
    rig.breaker.reconfigure(probe_limit=2)
    assert (rig.seen.consecutive_failures, rig.window) == (4, (4, 4))
    rig.end(call, ConnectionError())
    assert rig.state is State.OPEN


def test_a_window_that_shrinks_drops_the_oldest() -> None:
    """And it does not get them back by growing again."""
    rig = Rig(failure_threshold=None, window_size=10, minimum_calls=10)
    rig.fail(2)
    rig.ok(3)
    rig.breaker.reconfigure(window_size=4, minimum_calls=4)
    assert rig.window == (4, 1)
    rig.breaker.reconfigure(window_size=10, minimum_calls=10)
    assert rig.window == (4, 1)
    rig.ok(6)
    assert rig.window == (10, 1)
    rig.ok()
    assert rig.window == (10, 0)


@pytest.mark.parametrize(
    ("seconds", "inside"), [(0, (2, 2)), (4, (2, 2)), (5, (1, 1)), (10, (0, 0))]
)
def test_a_time_window_that_shrinks(seconds: float, inside: tuple[int, int]) -> None:
    """It drops the oldest buckets; their calls do not come back by growing again."""
    rig = Rig(failure_threshold=None, window_duration=10, minimum_calls=10)
    rig.fail()
    rig.wait(1)
    rig.fail()
    rig.wait(seconds)
    rig.breaker.reconfigure(window_duration=5)
    assert rig.window == inside
    rig.breaker.reconfigure(window_duration=20)
    assert rig.window == inside


def test_a_time_window_that_grows() -> None:
    """What had left it by time does not come back by growing it; what is inside stays longer."""
    rig = Rig(failure_threshold=None, window_duration=10, minimum_calls=10)
    rig.fail()
    rig.wait(5)
    rig.fail()
    rig.wait(5)
    rig.breaker.reconfigure(window_duration=100)
    assert rig.window == (1, 1)
    rig.wait(80)
    assert rig.window == (1, 1)


def test_a_window_switched_off_is_cleared() -> None:
    """And one that is switched on starts empty."""
    rig = Rig(window_size=10, minimum_calls=10)
    rig.fail()
    rig.breaker.reconfigure(window_size=0, minimum_calls=0)
    assert rig.window == (0, 0)
    rig.fail()
    rig.breaker.reconfigure(window_size=10, minimum_calls=10)
    assert (rig.window, rig.seen.consecutive_failures) == ((0, 0), 2)
    rig.ok()
    assert rig.window == (1, 0)


@pytest.mark.parametrize("kinds", [(10, None), (0, 10.0)])
def test_another_kind_of_window_is_empty(kinds: tuple[int, float | None]) -> None:
    """A change between ``window_size`` and ``window_duration`` clears the window."""
    size, duration = kinds
    rig = Rig(failure_threshold=9, window_size=size, window_duration=duration, minimum_calls=9)
    rig.fail()
    rig.breaker.reconfigure(window_size=10 - size, window_duration=None if duration else 10)
    assert rig.window == (0, 0)


def test_an_open_period_keeps_its_end() -> None:
    """A new open duration holds for the next opening."""
    rig = Rig(failure_threshold=1, open_duration=10)
    rig.fail()
    rig.wait(4)
    rig.breaker.reconfigure(open_duration=100)
    assert rig.seen.retry_after == 6
    rig.wait(6)
    rig.fail()
    assert rig.seen.retry_after == 100


def test_a_raised_probe_limit_admits_at_once() -> None:
    """More probes are let in; a lowered limit stops nobody."""
    rig = Rig(failure_threshold=1, probe_success_threshold=5)
    rig.half_open()
    rig.hang()
    rig.rejected()
    rig.breaker.reconfigure(probe_limit=3)
    rig.hang(2)
    rig.breaker.reconfigure(probe_limit=1)
    assert rig.seen.probes_active == 3
    rig.rejected()
    for probe in rig.hanging:
        rig.end(probe)
    assert rig.seen.probe_successes == 3


def test_a_lowered_success_threshold_closes_at_the_next_release() -> None:
    """Not in the change itself."""
    rig = Rig(failure_threshold=1, probe_success_threshold=3)
    rig.half_open()
    rig.ok(2)
    rig.breaker.reconfigure(probe_success_threshold=2)
    assert rig.state is State.HALF_OPEN
    rig.raises(KeyboardInterrupt())
    assert rig.state is State.CLOSED


def test_a_lapse_comes_before_the_change() -> None:
    """A probe that has lapsed by the old timeout does not get its slot back by a longer one."""
    rig = Rig(failure_threshold=1, probe_limit=2, probe_timeout=1)
    rig.half_open()
    rig.hang()
    rig.ok()
    rig.wait(1)
    with rig.events() as log:
        rig.breaker.reconfigure(probe_timeout=100)
    assert rig.state is State.CLOSED
    assert [type(one) for one in log] == [StateChanged, ConfigChanged]


def test_growth_is_kept_by_a_change() -> None:
    """Another plan goes on at the step that was reached."""
    rig = Rig(failure_threshold=1, open_duration=backoff(1))
    rig.fail()
    rig.breaker.reconfigure(open_duration=backoff(1, factor=10))
    rig.wait(1)
    rig.fail()
    assert rig.seen.retry_after == 10


SLOW = {"window_size": 10, "minimum_calls": 3, "slow_call_duration": 1, "failure_threshold": None}


def test_slow_tally_follows_its_window() -> None:
    """It shrinks with the window, and is cleared when it is switched off or the kind changes."""
    rig = Rig(**{**SLOW, "minimum_calls": 10})
    for seconds in (1, 1, 0, 0):
        call = rig.start()
        rig.wait(seconds)
        rig.end(call)
    assert rig.slow == (4, 2)
    rig.breaker.reconfigure(window_size=3, minimum_calls=3)
    assert rig.slow == (3, 1)
    rig.breaker.reconfigure(window_size=0, window_duration=10)
    assert rig.slow == (0, 0)
    rig.ok()
    rig.breaker.reconfigure(slow_call_duration=None)
    assert rig.slow == (0, 0)
    rig.breaker.reconfigure(slow_call_duration=1)
    assert rig.slow == (0, 0)


def test_a_new_slow_limit_holds_at_once() -> None:
    """Calls that run already are measured by the new limit."""
    rig = Rig(**SLOW)
    rig.hang()
    rig.wait(0.5)
    rig.breaker.reconfigure(slow_call_duration=0.5)
    rig.ok()
    assert rig.slow == (2, 1)


def test_what_hangs_is_watched_through_a_change_of_kind() -> None:
    """The tally starts over, but calls that hang turn slow all the same."""
    rig = Rig(**SLOW)
    rig.hang(3)
    rig.breaker.reconfigure(window_size=0, window_duration=10)
    rig.wait(1)
    rig.rejected()
    assert rig.slow == (3, 3)


def test_a_call_from_before_the_slow_rule_is_slow_by_its_length() -> None:
    """If it is known when a call began, its end tells whether it was slow."""
    rig = Rig(window_size=10, minimum_calls=3, failure_threshold=None, failure_if=lambda _: False)
    call = rig.start()
    rig.breaker.reconfigure(slow_call_duration=1)
    rig.wait(1)
    rig.end(call)
    assert rig.slow == (1, 1)


def test_only_slow_calls_are_judged_when_one_turns_slow() -> None:
    """A threshold lowered below the streak is judged at the next completed call, not by a call that hangs."""
    rig = Rig(**{**SLOW, "failure_threshold": 5, "minimum_calls": 10})
    rig.fail(3)
    rig.breaker.reconfigure(failure_threshold=2)
    rig.hang()
    rig.wait(1)
    rig.hang()
    assert (rig.state, rig.slow) == (State.CLOSED, (4, 1))
    rig.fail()
    assert rig.seen.reason is OpenReason.CONSECUTIVE_FAILURES
