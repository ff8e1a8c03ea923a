"""The harness: order, calibration, and ratios that are taken round by round."""

from __future__ import annotations

import gc
import itertools
import random

import pytest

from benchmarks.harness import SLICES, Spread, Subject, calibrate, order, ratios, run, spread


def silent(_stage: str, _done: int, _total: int) -> None:
    """Show no progress."""


def steady(group: str, name: str, per_call: int, **more: object) -> Subject:
    """Return a subject whose calls take the same time whenever they are measured."""
    return Subject(group, name, lambda count: count * per_call, **more)  # type: ignore[arg-type]  # checked by Subject


def test_a_spread_is_the_median_and_the_quartiles() -> None:
    """Five rounds 1 to 5 have the median 3 and the quartiles 2 and 4."""
    found = spread([5.0, 1.0, 4.0, 2.0, 3.0])
    assert found == Spread(3.0, 2.0, 4.0)
    assert found.half_width == 1.0


def test_one_round_is_its_own_spread() -> None:
    """A single value is median and quartiles at once."""
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)


def test_a_ratio_is_taken_within_a_round() -> None:
    """A round that is slow for both sides changes no ratio."""
    assert ratios([2.0, 200.0, 2.0], [1.0, 100.0, 1.0]) == Spread(2.0, 2.0, 2.0)


def test_a_ratio_needs_as_many_rounds_on_both_sides() -> None:
    """Rounds that do not pair up are an error, never dropped."""
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize("per_call", [1, 40, 3_000, 5_000_000])
def test_a_slice_lasts_about_as_long_as_wanted(per_call: int) -> None:
    """Calibration finds the number of calls for a slice, from a nanosecond to beyond it."""
    count = calibrate(steady("g", "s", per_call), 2_000_000)
    assert count == max(1, round(2_000_000 / per_call))


def test_a_heavy_subject_gets_longer_slices() -> None:
    """The weight multiplies the length of a slice."""
    assert calibrate(steady("g", "s", 100, weight=5), 1_000_000) == 50_000


def test_calibration_survives_a_clock_that_stands() -> None:
    """A measurement of 0 ns is taken for 1 and does not divide by zero."""
    subject = Subject("g", "s", lambda count: 0 if count < 10 else count)
    assert calibrate(subject, 1_000) == 1_000


def test_groups_stay_together_in_every_order() -> None:
    """A round visits each subject once and a group's subjects one after the other."""
    subjects = [steady(group, name, 1) for group in "abc" for name in ("x", "y", "z")]
    orders = [order(subjects, random.Random(seed)) for seed in range(20)]
    for found in orders:
        assert sorted(map(id, found)) == sorted(map(id, subjects))
        assert [found[at].group for at in (0, 3, 6)] == [found[at].group for at in (2, 5, 8)]
    assert len({tuple(map(id, found)) for found in orders}) > 10


def test_a_run_measures_every_subject_in_every_round() -> None:
    """The samples hold nanoseconds per call, one for each round, in the order of the subjects."""
    subjects = [steady("g", "slow", 30), steady("g", "fast", 10), steady("h", "only", 5)]
    samples = run(subjects, rounds=4, batch_ns=3_000, progress=silent)
    assert samples == {"g": {"slow": [30.0] * 4, "fast": [10.0] * 4}, "h": {"only": [5.0] * 4}}
    assert list(samples["g"]) == ["slow", "fast"]


def test_each_slice_is_prepared_and_runs_without_the_collector() -> None:
    """`before` comes ahead of each measurement; the collector is off in it and on after it."""
    happened: list[str] = []

    def measure(count: int) -> int:
        happened.append("measured" if not gc.isenabled() else "collector on")
        return count * 1_000

    subject = Subject("g", "s", measure, lambda: happened.append("prepared"))
    run([subject], rounds=3, batch_ns=1_000 * SLICES, progress=silent)
    assert happened == ["prepared", "measured"] * (1 + 3 * SLICES)
    assert gc.isenabled()


def test_an_interrupted_slice_changes_no_figure() -> None:
    """Two slices of five may be a hundred times as long: their median is not."""
    turn = itertools.count()

    def measure(count: int) -> int:
        return count * (1_000 if next(turn) % SLICES in {1, 3} else 10)

    samples = run([Subject("g", "s", measure)], rounds=3, batch_ns=50, progress=silent)
    assert samples == {"g": {"s": [10.0] * 3}}


def test_progress_tells_warm_up_and_rounds() -> None:
    """Whoever waits sees each subject warmed up and each round done."""
    told: list[tuple[str, int, int]] = []
    run(
        [steady("g", "a", 9), steady("g", "b", 9)],
        rounds=2,
        batch_ns=100,
        progress=lambda stage, done, total: told.append((stage, done, total)),
    )
    assert told == [("warm-up", 1, 2), ("warm-up", 2, 2), ("round", 1, 2), ("round", 2, 2)]
