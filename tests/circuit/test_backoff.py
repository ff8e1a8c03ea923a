"""Open periods that grow while it stays down, and come back step by step once it is well."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from breakerkit import Backoff, ConfigError, State, backoff
from tests.circuit.rig import Rig


def lasts(rig: Rig) -> float:
    """Return how long the open period that has just begun lasts."""
    wait = rig.seen.retry_after
    assert wait is not None
    return wait


def fail_probe(rig: Rig) -> float:
    """Wait until it is half-open, let the probe fail, and return the new period."""
    rig.wait(lasts(rig))
    rig.fail()
    return lasts(rig)


def recover(rig: Rig, healthy: float = 0.0) -> None:
    """Wait until it is half-open, let the probe succeed, and stay well for a while."""
    rig.wait(lasts(rig))
    rig.ok()
    rig.wait(healthy)


def test_each_opening_is_one_step() -> None:
    """2, 4, 8, 8: each step exactly one opening later, none skipped by rounding (C013)."""
    rig = Rig(open_duration=backoff(2, factor=2, maximum=8))
    rig.open()
    assert [lasts(rig), *(fail_probe(rig) for _ in range(4))] == [2, 4, 8, 8, 8]


@pytest.mark.parametrize(
    ("healthy", "period"), [(0, 8), (3.75, 8), (4, 4), (5.75, 4), (6, 2), (3600, 2)]
)
def test_growth_decays_step_by_step(healthy: float, period: float) -> None:
    """A step is forgotten after as long a time closed as the pause it added; one success forgets none."""
    rig = Rig(failure_threshold=1, open_duration=backoff(2, factor=2, maximum=8))
    rig.open()
    fail_probe(rig)
    fail_probe(rig)
    recover(rig, healthy)
    rig.open()
    assert lasts(rig) == period


def test_growth_goes_on_after_a_recovery() -> None:
    """An outage right after a recovery goes on where the last one stopped (C013)."""
    rig = Rig(failure_threshold=1, open_duration=backoff(1, factor=3))
    rig.open()
    recover(rig)
    rig.open()
    assert lasts(rig) == 3
    recover(rig)
    rig.open()
    assert lasts(rig) == 9


def test_time_open_is_not_healthy_time() -> None:
    """Only time closed takes growth back."""
    rig = Rig(failure_threshold=1, open_duration=backoff(2, factor=2, maximum=8))
    rig.open()
    rig.wait(3600)
    rig.fail()
    assert lasts(rig) == 4


def test_reset_starts_the_growth_over() -> None:
    """`reset` forgets the growth."""
    rig = Rig(failure_threshold=1, open_duration=backoff(2, factor=2))
    rig.open()
    fail_probe(rig)
    rig.breaker.reset()
    rig.open()
    assert lasts(rig) == 2


def test_defaults() -> None:
    """It doubles up to ten minutes, without jitter."""
    assert backoff(30) == Backoff(30.0, factor=2.0, maximum=600.0, jitter=0.0)


def test_takes_timedelta() -> None:
    """Durations may be `timedelta`."""
    plan = backoff(timedelta(seconds=2), maximum=timedelta(minutes=1))
    assert (plan.initial, plan.maximum) == (2.0, 60.0)


WRONG: list[tuple[str, Any, str]] = [
    *(
        ("initial", bad, "must be a finite number of seconds")
        for bad in (0, -1, "2", None, float("inf"), True)
    ),
    *(("maximum", bad, "must be a finite number of seconds") for bad in (0, "8", float("nan"))),
    *(("factor", bad, "must be a number from 1 to 1000") for bad in (0.99, 1001, "2", None, True)),
    *(("jitter", bad, "must be a share from 0") for bad in (-0.1, 1, 1.0, "0.1", None)),
]


@pytest.mark.parametrize(("field", "value", "allowed"), WRONG)
def test_wrong_values(field: str, value: Any, allowed: str) -> None:
    """A wrong value is a `ConfigError` that names it and what is allowed."""
    settings = {"initial": 2, field: value}
    with pytest.raises(ConfigError, match=rf"Backoff: {field}=.*{allowed}"):
        backoff(settings.pop("initial"), **settings)


def test_maximum_below_initial() -> None:
    """A maximum that the first period would exceed is refused, both told."""
    with pytest.raises(ConfigError, match=r"maximum=5\.0: must be at least initial=10\.0"):
        backoff(10, maximum=5)
    assert backoff(10, maximum=10).pause(3) == 10


def test_bounds_are_inclusive() -> None:
    """The ends of the ranges are allowed."""
    assert backoff(1, factor=1).factor == 1
    assert backoff(1, factor=1000).factor == 1000
    assert backoff(1, jitter=0.99).jitter == 0.99


def test_factor_one_stays() -> None:
    """With factor 1 nothing grows, and no step is counted."""
    plan = backoff(2, factor=1)
    assert [plan.pause(step) for step in range(3)] == [2, 2, 2]
    assert plan.grown(0) == 0


def test_steps_stop_at_the_maximum() -> None:
    """The step stops where the maximum is reached, so that recovery is not longer than the growth."""
    plan = backoff(2, factor=2, maximum=8)
    assert [plan.grown(step) for step in range(4)] == [1, 2, 2, 3]


def test_huge_powers_are_the_maximum() -> None:
    """A power that no float can hold is just the maximum."""
    assert backoff(1, factor=1000, maximum=1e9).pause(10_000) == 1e9


@pytest.mark.parametrize(("draw", "period"), [(-1.0, 9.0), (0.0, 10.0), (1.0, 11.0)])
def test_jitter_moves_by_its_share(
    monkeypatch: pytest.MonkeyPatch, draw: float, period: float
) -> None:
    """Jitter moves a period at random, both ways, by up to its share."""
    monkeypatch.setattr(
        "random.uniform", lambda low, high: draw if (low, high) == (-1, 1) else None
    )
    assert backoff(10, jitter=0.1).spread(10) == pytest.approx(period)


def test_jitter_keeps_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """No period is longer than the maximum, jitter included."""
    monkeypatch.setattr("random.uniform", lambda _low, high: float(high))
    assert backoff(10, maximum=10, jitter=0.5).spread(10) == 10


def test_no_jitter_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without jitter no random number is drawn."""
    monkeypatch.setattr("random.uniform", None)
    rig = Rig(failure_threshold=1, open_duration=backoff(2))
    rig.open()
    assert lasts(rig) == 2


def test_jitter_is_in_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """The breaker stays open for the period with its jitter."""
    monkeypatch.setattr("random.uniform", lambda low, _high: float(low))
    rig = Rig(failure_threshold=1, open_duration=backoff(2, factor=2, jitter=0.5))
    rig.open()
    assert lasts(rig) == 1
    rig.wait(1)
    assert rig.state is State.HALF_OPEN
    rig.fail()
    assert lasts(rig) == 2
