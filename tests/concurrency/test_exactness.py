"""Nothing is lost and nothing counted twice, however many threads call and whatever is done meanwhile."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from breakerkit import CircuitOpenError, State, breaker
from breakerkit.events import CallFailed, CallIgnored, CallRejected, CallSucceeded, StateChanged
from breakerkit.testing import ManualClock
from tests.concurrency.crowds import together
from tests.shapes import raising, returning

pytestmark = pytest.mark.usefixtures("eager")

THREADS = 32


class Down(Exception):
    """What a failing dependency raises."""


def _failures(guarded: Any, times: int) -> Callable[[], None]:
    @guarded
    def work() -> None:
        raise Down

    def run() -> None:
        for _ in range(times):
            with pytest.raises((Down, CircuitOpenError)):
                work()

    return run


def _faultless(raised: BaseException | None) -> None:
    if raised is not None:
        raise raised


def test_a_streak_of_many_threads_is_exact(clock: ManualClock) -> None:
    """Thirty-two threads that only fail make a streak of exactly as many failures (C031)."""
    guarded = breaker(failure_threshold=1_000_000, clock=clock)
    together([_failures(guarded, 1000)] * THREADS, _faultless)
    seen = guarded.snapshot()
    assert (seen.consecutive_failures, seen.failures, seen.calls) == (32_000, 32_000, 32_000)
    assert seen.state is State.CLOSED


def test_the_last_of_many_failures_opens_once(clock: ManualClock) -> None:
    """A threshold that just the last failure reaches is one opening and one callback (C031)."""
    opened: list[Any] = []
    guarded = breaker(failure_threshold=32_000, clock=clock, on_open=opened.append)
    changes: list[Any] = []
    guarded.subscribe(changes.append, StateChanged)
    together([_failures(guarded, 1000)] * THREADS, _faultless)
    seen = guarded.snapshot()
    assert (seen.state, seen.openings, seen.failures, seen.rejected) == (State.OPEN, 1, 32_000, 0)
    assert [context.consecutive_failures for context in opened] == [32_000]
    assert [change.new for change in changes] == [State.OPEN]


def test_a_window_of_many_threads_is_exact(clock: ManualClock) -> None:
    """A window as large as all calls holds each of them once."""
    guarded = breaker(failure_threshold=None, window_size=6400, minimum_calls=6400, clock=clock)
    bad, good = guarded(raising(Down())), guarded(returning())

    def run() -> None:
        for number in range(200):
            with pytest.raises(Down) if number % 4 == 0 else _nothing():
                (bad if number % 4 == 0 else good)()

    together([run] * THREADS, _faultless)
    seen = guarded.snapshot()
    assert (seen.window_calls, seen.window_failures) == (6400, 1600)
    assert (seen.successes, seen.failures, seen.state) == (4800, 1600, State.CLOSED)


class _nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _no_switch(guarded: Any, clock: ManualClock, number: int) -> None:
    """Let only the clock go on."""


def _resets(guarded: Any, clock: ManualClock, number: int) -> None:
    guarded.reset()


def _forces(guarded: Any, clock: ManualClock, number: int) -> None:
    with guarded.force_open(until=timedelta(seconds=30)):
        guarded.snapshot()


def _reconfigures(guarded: Any, clock: ManualClock, number: int) -> None:
    guarded.reconfigure(failure_threshold=3 + number % 5, failure_rate_threshold=40 + number % 50)


def _watches(guarded: Any, clock: ManualClock, number: int) -> None:
    guarded.subscribe(lambda event: None)()
    guarded.why()


def _observes(guarded: Any, clock: ManualClock, number: int) -> None:
    with guarded.observe():
        guarded.snapshot()


CONFIGS = {
    "streak": {},
    "window": {"window_size": 20, "minimum_calls": 7, "failure_rate_threshold": 60},
    "time": {"window_duration": 4, "minimum_calls": 7, "failure_rate_threshold": 60},
    "slow": {"window_size": 20, "slow_call_duration": 2, "slow_call_rate_threshold": 90},
    "value": {"failure_if": lambda value: value == "bad"},
}
CHANGES = [_no_switch, _resets, _forces, _reconfigures, _watches, _observes]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_counters_are_what_callers_saw(
    clock: ManualClock, config: dict[str, Any], change: Callable[..., None]
) -> None:
    """Successes, failures, ignored and rejected calls add up to exactly what the callers saw."""
    guarded = breaker(**{"failure_threshold": 4, "open_duration": 1, "clock": clock, **config})
    ended: Counter[str] = Counter()
    done = threading.Event()

    @guarded
    def work(what: int) -> str:
        if what < 4:
            raise Down
        if what == 4:
            raise KeyboardInterrupt
        return "bad" if what == 5 else "good"

    def caller(seed: int) -> None:
        mine: Counter[str] = Counter()
        source = random.Random(seed)
        for _ in range(500):
            try:
                mine[work(source.randrange(12))] += 1
            except (Down, KeyboardInterrupt, CircuitOpenError) as raised:
                mine[type(raised).__name__] += 1
        for key, times in mine.items():
            with lock:
                ended[key] += times

    def operator() -> None:
        for number in itertools.count():
            if done.is_set():
                return
            clock.advance(0.05)
            change(guarded, clock, number)

    lock = threading.Lock()
    thread = threading.Thread(target=operator)
    thread.start()
    try:
        together([lambda seed=seed: caller(seed) for seed in range(6)], _faultless)
    finally:
        done.set()
        thread.join()
    seen = guarded.snapshot()
    bad = ended["bad"] if "failure_if" in config else 0
    assert seen.successes == ended["good"] + ended["bad"] - bad
    assert seen.failures == ended["Down"] + bad
    assert seen.ignored == ended["KeyboardInterrupt"]
    assert seen.rejected == ended["CircuitOpenError"] + ended["ProbeLimitError"]
    assert seen.calls == 3000
    assert seen.window_calls <= guarded.config.window_size or guarded.config.window_duration


def test_listeners_are_told_everything_once_and_in_order(clock: ManualClock) -> None:
    """Each call is one event, and each change of state begins where the one before it ended."""
    guarded = breaker(failure_threshold=4, open_duration=1, clock=clock)
    events: list[Any] = []
    guarded.subscribe(events.append)
    done = threading.Event()

    @guarded
    def work(what: int) -> None:
        if what < 3:
            raise Down
        if what == 3:
            raise KeyboardInterrupt

    def caller(seed: int) -> None:
        source = random.Random(seed)
        for _ in range(300):
            try:
                work(source.randrange(10))
            except (Down, KeyboardInterrupt, CircuitOpenError):
                pass

    def operator() -> None:
        for number in itertools.count():
            if done.is_set():
                return
            clock.advance(0.05)
            if number % 20 == 0:
                guarded.reset()
            if number % 30 == 0:
                with guarded.force_open():
                    pass

    thread = threading.Thread(target=operator)
    thread.start()
    try:
        together([lambda seed=seed: caller(seed) for seed in range(6)], _faultless)
    finally:
        done.set()
        thread.join()
    told = Counter(type(event) for event in events)
    seen = guarded.snapshot()
    assert told[CallSucceeded] == seen.successes
    assert told[CallFailed] == seen.failures
    assert told[CallIgnored] == seen.ignored
    assert told[CallRejected] == seen.rejected
    changes = [event for event in events if isinstance(event, StateChanged)]
    assert len(changes) > 3
    for before, after in itertools.pairwise(changes):
        assert before.new is after.old
    assert sum(change.new is State.OPEN for change in changes) >= seen.openings
