"""Time many subjects side by side in one interleaved run, and sum the rounds up.

A round measures every subject once. Groups come in a new order each round and
so do the subjects of a group, which stay together: a ratio is taken within one
round, between two measurements that lie milliseconds apart, so a machine that
slows down for a second slows both sides of it. What is reported is the median
of those ratios, never the ratio of two medians. Each measurement is itself the
median of a few short slices, since another process may take the processor away
for longer than a slice lasts.
"""

from __future__ import annotations

import gc
import random
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Rounds below which a run shows that the benchmark works and not how fast anything is.
ENOUGH_ROUNDS = 15
#: Parts of a batch that are timed one by one.
SLICES = 5


def _nothing() -> None:
    """Prepare nothing: the default of `Subject.before`."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing to be timed.

    Attributes:
        group: what it is compared within.
        name: who it is; one of each name in a group.
        measure: runs that many calls and returns the nanoseconds they took.
        before: runs untimed before each slice of a batch.
        weight: how much longer than usual a slice must be to mean something.
    """

    group: str
    name: str
    measure: Callable[[int], int]
    before: Callable[[], None] = _nothing
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interquartile range, the "give or take" of a table cell."""
        return (self.high - self.low) / 2


#: Nanoseconds per call, round by round, by group and name.
Samples = dict[str, dict[str, list[float]]]


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratios(values: Sequence[float], baseline: Sequence[float]) -> Spread:
    """Divide round by round, then sum up."""
    return spread([value / base for value, base in zip(values, baseline, strict=True)])


def calibrate(subject: Subject, slice_ns: int) -> int:
    """Return how many calls of ``subject`` take about ``slice_ns`` nanoseconds."""
    wanted = slice_ns * subject.weight
    count = 1
    while True:
        subject.before()
        taken = max(1, subject.measure(count))
        if taken * 4 >= wanted:
            return max(1, round(count * wanted / taken))
        # Short batches are mostly clock and first-call costs: do not trust them far.
        count *= min(10, max(2, wanted // (taken * 2)))


def order(subjects: Sequence[Subject], rng: random.Random) -> list[Subject]:
    """Return the subjects in the order of one round: groups shuffled, then shuffled within."""
    groups: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        groups[subject.group].append(subject)
    shuffled = list(groups.values())
    rng.shuffle(shuffled)
    for members in shuffled:
        rng.shuffle(members)
    return [subject for members in shuffled for subject in members]


def run(
    subjects: Sequence[Subject],
    *,
    rounds: int,
    batch_ns: int,
    progress: Callable[[str, int, int], None],
    seed: int = 1,
) -> Samples:
    """Measure every subject once a round, ``rounds`` times over.

    Args:
        subjects: what to measure, in the order the result keeps.
        rounds: how often.
        batch_ns: about how long one measurement lasts, in nanoseconds.
        progress: told the stage, how much of it is done, and of how much.
        seed: of the order; the same one gives the same order.

    Returns:
        Nanoseconds per call for each round.
    """
    rng = random.Random(seed)  # noqa: S311 - an order to measure in, nothing secret
    counts = _calibrated(subjects, batch_ns, progress)
    samples: Samples = defaultdict(dict)
    for subject in subjects:
        samples[subject.group][subject.name] = []
    # The fixtures of a run are large (100 000 keyed breakers): the collector
    # need not look at them again in every pause between two rounds.
    gc.collect()
    gc.freeze()
    try:
        for done in range(rounds):
            for subject in order(subjects, rng):
                taken = _batch(subject, counts[subject.group, subject.name])
                samples[subject.group][subject.name].append(taken)
            progress("round", done + 1, rounds)
    finally:
        gc.unfreeze()
    return dict(samples)


def _calibrated(
    subjects: Sequence[Subject], batch_ns: int, progress: Callable[[str, int, int], None]
) -> dict[tuple[str, str], int]:
    """Find each subject's number of calls, which warms it up at the same time."""
    counts = {}
    for done, subject in enumerate(subjects):
        with _no_collector():
            counts[subject.group, subject.name] = calibrate(subject, batch_ns // SLICES)
        progress("warm-up", done + 1, len(subjects))
    return counts


def _batch(subject: Subject, count: int) -> float:
    """Return the median of a batch's slices: most of them pass without an interruption."""
    slices = []
    for _ in range(SLICES):
        with _no_collector():
            subject.before()
            slices.append(subject.measure(count) / count)
    return statistics.median(slices)


class _no_collector:  # noqa: N801 - reads as a verb phrase after `with`
    """Keep the garbage collector out of a measurement, and let it work after it."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
