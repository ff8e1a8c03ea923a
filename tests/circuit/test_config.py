"""Settings: defaults, units, ranges, and that every fault is named before anything runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import attrs
import pytest

from breakerkit import BreakerConfig, ConfigError, OpenContext, OpenReason, backoff

COUNT = "must be an int of at least 0"
POSITIVE = "must be an int of at least 1"
SECONDS = "must be a finite number of seconds or a timedelta above 0"
PERCENT = "must be a percentage from 1 to 100 (a half is 50)"
PERIOD = "must be a finite number of seconds or a timedelta above 0, backoff(...), or a callable"
TYPES = "must be Exception types, or a predicate"


@attrs.frozen
class Rule:
    """A rule that never fires."""

    def judge(self, evidence: object) -> None:
        """Return nothing."""


def callback(context: OpenContext, *extras: object) -> None:
    """Do nothing."""


async def later(value: object) -> bool:
    """Be a coroutine function, which no hook of a config may be but ``on_open``."""
    return bool(value)


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("failure_threshold", 5),
        ("open_duration", 30.0),
        ("window_size", 0),
        ("window_duration", None),
        ("minimum_calls", 0),
        ("failure_rate_threshold", 100.0),
        ("slow_call_duration", None),
        ("slow_call_rate_threshold", 100.0),
        ("probe_limit", 1),
        ("probe_success_threshold", 1),
        ("probe_timeout", None),
        ("failure_on", (Exception,)),
        ("success_on", ()),
        ("ignore_on", ()),
        ("failure_if", None),
        ("on_open", ()),
        ("trip_rules", ()),
    ],
)
def test_defaults(field: str, default: object) -> None:
    """Each field has the default that the table of the SPEC gives it."""
    assert getattr(BreakerConfig(), field) == default
    assert len(attrs.fields(BreakerConfig)) == 17


@pytest.mark.parametrize("width", [5e-324, 1e-308, 9e-7])
def test_a_window_that_no_clock_can_measure(width: float) -> None:
    """A window narrower than a microsecond is refused, for its buckets would have no width."""
    with pytest.raises(ConfigError, match=r"window_duration=.*: must be at least 1e-06 \(a micro"):
        BreakerConfig(window_duration=width)
    assert BreakerConfig(window_duration=1e-6).has_window


def test_is_keyword_only() -> None:
    """No field can be given by position."""
    with pytest.raises(TypeError):
        BreakerConfig(5)  # type: ignore[misc]  # that is the test


def test_is_frozen() -> None:
    """A config cannot be changed once it is made."""
    config = BreakerConfig()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.window_size = 3  # type: ignore[misc]  # that is the test
    with pytest.raises((AttributeError, TypeError)):
        config.windowsize = 3  # type: ignore[attr-defined]  # that is the test


WRONG: list[tuple[str, Any, str]] = [
    *(("failure_threshold", bad, POSITIVE) for bad in (0, -1, True, 2.5, "3", 3.0)),
    *(("window_size", bad, COUNT) for bad in (-1, False, 2.5, "10", None)),
    *(("minimum_calls", bad, COUNT) for bad in (-1, True, 1.0, "1", None)),
    *(("probe_limit", bad, POSITIVE) for bad in (0, -3, True, 1.5, None)),
    *(("probe_success_threshold", bad, POSITIVE) for bad in (0, -3, True, 1.5, None)),
    *(
        (field, bad, SECONDS)
        for field in ("window_duration", "slow_call_duration", "probe_timeout")
        for bad in (0, -1, float("nan"), float("inf"), "30", True, timedelta(0), 10**400)
    ),
    *(
        ("open_duration", bad, PERIOD)
        for bad in (
            0,
            -1,
            float("nan"),
            float("inf"),
            "30",
            True,
            None,
            timedelta(-1),
            float,
            10**400,
        )
    ),
    *(
        (field, bad, PERCENT)
        for field in ("failure_rate_threshold", "slow_call_rate_threshold")
        for bad in (0.5, 0, 0.99, 100.5, -1, float("nan"), "50", True, None, 10**400)
    ),
    *(
        (field, bad, TYPES)
        for field in ("failure_on", "success_on")
        for bad in (
            "ConnectionError",
            None,
            5,
            int,
            ConnectionError(),
            (ValueError, "OSError"),
            KeyboardInterrupt,
            later,
        )
    ),
    *(("ignore_on", bad, "must be BaseException types") for bad in ("OSError", int, None, later)),
    *(("failure_if", bad, "must be a predicate") for bad in ("x", 5, bool, later)),
    *(
        ("on_open", bad, "must be a callable that takes (context, *extras)")
        for bad in (5, "x", [5], (5, callback))
    ),
    *(
        ("trip_rules", bad, "must be frozen, hashable objects with judge")
        for bad in (5, [5], callback, Rule, [{}], "x")
    ),
]


@pytest.mark.parametrize(
    ("field", "value", "allowed"), WRONG, ids=lambda part: str(part).partition(" at 0x")[0][:30]
)
def test_each_wrong_value_is_refused(field: str, value: Any, allowed: str) -> None:
    """A wrong value is a `ConfigError` that names field, value and what is allowed (C069, C070)."""
    with pytest.raises(ConfigError) as caught:
        BreakerConfig(**{field: value})
    text = str(caught.value)
    assert text.startswith(f"BreakerConfig: {field}=")
    assert allowed in text
    shown = repr(value)
    assert shown in text or len(shown) > 30


def test_an_async_open_duration_is_refused() -> None:
    """An open duration that could only be awaited is refused when the config is made."""
    with pytest.raises(ConfigError, match="open_duration=<function lat"):
        BreakerConfig(open_duration=later)  # type: ignore[arg-type]  # that is the test


def test_a_config_error_is_a_value_error() -> None:
    """Who catches `ValueError` catches a wrong config."""
    with pytest.raises(ValueError, match="window_size=-1"):
        BreakerConfig(window_size=-1)


def test_all_faults_are_in_one_error() -> None:
    """One error names every fault, so that nobody mends them one by one."""
    with pytest.raises(ConfigError) as caught:
        BreakerConfig(failure_threshold=0, open_duration="30", window_size=5, minimum_calls=10)  # type: ignore[arg-type]  # that is the test
    for fault in ("failure_threshold=0", "open_duration='30'", "minimum_calls=10, window_size=5"):
        assert fault in str(caught.value)


@pytest.mark.parametrize("field", ["window_duration", "slow_call_duration", "probe_timeout"])
@pytest.mark.parametrize("value", [2, 2.0, timedelta(seconds=2)])
def test_durations_become_float_seconds(field: str, value: Any) -> None:
    """Seconds or `timedelta` at the door, float seconds inside."""
    more = {"window_size": 5} if field == "slow_call_duration" else {}
    kept = getattr(BreakerConfig(**{field: value}, **more), field)
    assert (kept, type(kept)) == (2.0, float)


@pytest.mark.parametrize("value", [2, 2.0, timedelta(seconds=2)])
def test_open_duration_becomes_float_seconds(value: Any) -> None:
    """A plain open duration is kept as float seconds too."""
    kept = BreakerConfig(open_duration=value).open_duration
    assert (kept, type(kept)) == (2.0, float)


@pytest.mark.parametrize("plan", [backoff(2), lambda _: 3.0])
def test_open_duration_may_be_a_plan(plan: Any) -> None:
    """A `backoff` or a callable is kept as it is."""
    assert BreakerConfig(open_duration=plan).open_duration is plan


@pytest.mark.parametrize("percent", [1, 1.0, 33.3, 100, 100.0])
def test_percent_is_from_1_to_100_inclusive(percent: float) -> None:
    """Both ends of the range of a rate are allowed."""
    config = BreakerConfig(failure_rate_threshold=percent, slow_call_rate_threshold=percent)
    assert config.failure_rate_threshold == config.slow_call_rate_threshold == percent


@pytest.mark.parametrize("order", [1, -1])
def test_minimum_calls_may_not_exceed_the_window(order: int) -> None:
    """The final pair is judged, whatever the order of the keywords; both numbers are told (C068)."""
    pair = dict([("window_size", 5), ("minimum_calls", 10)][::order])
    with pytest.raises(ConfigError, match="minimum_calls=10, window_size=5: minimum_calls may not"):
        BreakerConfig(failure_threshold=None, **pair)  # type: ignore[arg-type]  # a pair of counts


def test_minimum_calls_may_equal_the_window() -> None:
    """Only more than the window holds is refused."""
    assert BreakerConfig(window_size=5, minimum_calls=5).minimum_calls == 5


@pytest.mark.parametrize("window", [{}, {"window_duration": 10}])
def test_minimum_calls_is_free_without_a_count_window(window: dict[str, Any]) -> None:
    """With no count window any minimum is accepted."""
    assert BreakerConfig(minimum_calls=99, **window).minimum_calls == 99


def test_only_one_kind_of_window() -> None:
    """``window_duration`` is exclusive with ``window_size``."""
    with pytest.raises(ConfigError, match=r"window_size=5, window_duration=10\.0: only one"):
        BreakerConfig(window_size=5, window_duration=10)


def test_slow_calls_need_a_window() -> None:
    """``slow_call_duration`` without a window is refused."""
    with pytest.raises(ConfigError, match=r"slow_call_duration=1\.0: needs window_size or"):
        BreakerConfig(slow_call_duration=1)


@pytest.mark.parametrize("window", [{"window_size": 5}, {"window_duration": 5}])
def test_slow_calls_with_either_window(window: dict[str, Any]) -> None:
    """Either kind of window serves slow calls."""
    assert BreakerConfig(slow_call_duration=1, **window).has_window


def test_some_rule_must_be_on() -> None:
    """A breaker that can never open is refused."""
    with pytest.raises(ConfigError, match="at least one rule must be on"):
        BreakerConfig(failure_threshold=None)


@pytest.mark.parametrize(
    "rule", [{"window_size": 1}, {"window_duration": 1}, {"trip_rules": Rule()}]
)
def test_any_one_rule_is_enough(rule: dict[str, Any]) -> None:
    """The streak rule may be off when a window or a rule of the user's is on."""
    assert BreakerConfig(failure_threshold=None, **rule).failure_threshold is None


@pytest.mark.parametrize(
    "settings",
    [
        {"window_size": "5", "window_duration": 5},
        {"window_size": "5", "minimum_calls": 9},
        {"window_size": "5", "slow_call_duration": 1},
        {"window_size": "5", "failure_threshold": None},
    ],
)
def test_what_is_wrong_alone_is_not_compared(settings: dict[str, Any]) -> None:
    """A value that is no count is told as such, and nothing else is made of it."""
    with pytest.raises(ConfigError) as caught:
        BreakerConfig(**settings)
    assert str(caught.value) == f"BreakerConfig: window_size='5': {COUNT}"


def test_more_successes_than_slots() -> None:
    """``probe_success_threshold`` may exceed ``probe_limit``."""
    config = BreakerConfig(probe_limit=1, probe_success_threshold=10)
    assert config.probe_success_threshold == 10


@pytest.mark.parametrize("field", ["failure_on", "success_on", "ignore_on"])
@pytest.mark.parametrize("given", [OSError, [OSError], (OSError,), {OSError}, frozenset([OSError])])
def test_exception_types_become_a_tuple(field: str, given: Any) -> None:
    """One type, or several in whatever holds them."""
    assert getattr(BreakerConfig(**{field: given}), field) == (OSError,)


def test_sets_of_types_in_any_order_are_equal() -> None:
    """Sets come in any order, and the configs made of them are equal all the same."""
    kinds = [type(f"Kind{n}", (Exception,), {}) for n in range(8)]
    one, two = BreakerConfig(failure_on=set(kinds)), BreakerConfig(failure_on={*reversed(kinds)})
    assert one == two


@pytest.mark.parametrize("field", ["failure_on", "success_on", "ignore_on", "failure_if"])
def test_a_predicate_is_kept(field: str) -> None:
    """A predicate on the exception, or on the value, is kept as it is."""
    assert getattr(BreakerConfig(**{field: bool.__call__}), field) == bool.__call__


def test_ignore_on_may_list_what_is_no_exception() -> None:
    """Types such as `KeyboardInterrupt`, neutral anyway, may be named as ignored."""
    assert BreakerConfig(ignore_on=KeyboardInterrupt).ignore_on == (KeyboardInterrupt,)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, []),
        ((), []),
        ([], []),
        (callback, [(callback, ())]),
        ((callback, 1, "two"), [(callback, (1, "two"))]),
        ([callback, (callback, 1)], [(callback, ()), (callback, (1,))]),
        ((callback, callback), [(callback, (callback,))]),
    ],
)
def test_callbacks_with_their_extras(given: Any, expected: list[Any]) -> None:
    """A tuple is one callback with its extras, a list is several of either form."""
    assert [(one.callback, one.extras) for one in BreakerConfig(on_open=given).on_open] == expected


def test_rules_from_one_or_several() -> None:
    """One rule, or a tuple or list of them."""
    rule = Rule()
    for given in (rule, [rule], (rule,)):
        assert BreakerConfig(trip_rules=given).trip_rules == (rule,)


def test_evolve_returns_a_new_config() -> None:
    """`evolve` leaves the old config as it is and keeps what is not changed."""
    old = BreakerConfig(window_size=5, on_open=(callback, 1), failure_on=OSError)
    new = old.evolve(minimum_calls=3)
    assert (old.minimum_calls, new.minimum_calls) == (0, 3)
    assert new.evolve(minimum_calls=0) == old


def test_evolve_checks_the_whole() -> None:
    """A change that is wrong with the rest is refused; one that is right together is not."""
    old = BreakerConfig(window_size=10, minimum_calls=10)
    with pytest.raises(ConfigError, match="minimum_calls=10, window_size=5"):
        old.evolve(window_size=5)
    assert old.evolve(window_size=5, minimum_calls=5).window_size == 5


def test_evolve_names_near_fields() -> None:
    """A field that does not exist is a `ConfigError` that names near ones and the other faults."""
    with pytest.raises(ConfigError) as caught:
        BreakerConfig().evolve(window_sizes=5, probe_limit=0)
    text = str(caught.value)
    assert "window_sizes=5: no such setting, did you mean 'window_size'" in text
    assert f"probe_limit=0: {POSITIVE}" in text


def test_equal_configs_are_equal_and_hash_alike() -> None:
    """Two configs that say the same are the same, however they were written."""
    one = BreakerConfig(open_duration=30, failure_on=[OSError], on_open=(callback, ["a", "list"]))
    two = BreakerConfig(
        open_duration=timedelta(seconds=30), failure_on=OSError, on_open=[(callback, ["a", "list"])]
    )
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    "change",
    [{"window_size": 1}, {"open_duration": 31}, {"on_open": callback}, {"trip_rules": Rule()}],
)
def test_other_configs_are_not_equal(change: dict[str, Any]) -> None:
    """Configs that differ in any field are not equal."""
    assert BreakerConfig() != BreakerConfig(**change)


def test_changed_shows_what_is_not_default() -> None:
    """What a conflict shows of a config are the fields that differ from the defaults."""
    assert BreakerConfig().changed() == "BreakerConfig()"
    config = BreakerConfig(window_size=5, open_duration=2)
    assert config.changed() == "BreakerConfig(open_duration=2.0, window_size=5)"


def test_a_reason_is_its_text() -> None:
    """The reasons and states are texts, so that they print and compare plainly."""
    assert OpenReason.FAILURE_RATE == "failure rate"
