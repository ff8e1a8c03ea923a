"""The two windows: what is inside, what falls out, and what a success need not look at."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakerkit.circuit._window import BUCKETS, EMPTY, CountWindow, Tally, TimeWindow

CALLS = st.lists(st.booleans(), max_size=40)
STEPS = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=40)
EXACT = settings(max_examples=200, derandomize=True, database=None)


def feed(window: CountWindow, calls: list[bool], start: int = 0) -> int:
    """Let calls join, the marked ones marked, and return the last ticket."""
    for ticket, marked in enumerate(calls, start + 1):
        if marked:
            window.mark(ticket, 0.0)
        window.roll(ticket, 0.0)
    return start + len(calls)


def test_an_empty_tally_is_empty() -> None:
    """With no window there is nothing to count."""
    assert Tally(calls=0, marked=0) == EMPTY


@pytest.mark.parametrize("window", [CountWindow(3, 7), TimeWindow(10.0, 5.0, 7)])
def test_a_window_starts_empty(window: CountWindow | TimeWindow) -> None:
    """What was before its first ticket is not in it."""
    assert window.tally(7, 5.0) == EMPTY
    assert not window.marks
    assert window.tally(9, 5.0) == Tally(2, 0)


# -- over so many calls ------------------------------------------------------


@EXACT
@given(CALLS, st.integers(1, 12))
def test_count_window_is_the_last_calls(calls: list[bool], size: int) -> None:
    """It holds the last ``size`` calls and no other, marked or not."""
    window = CountWindow(size)
    last = feed(window, calls)
    inside = calls[-size:]
    assert window.tally(last, 0.0) == Tally(len(inside), sum(inside))
    assert len(window.marks) == sum(inside)


@EXACT
@given(CALLS, st.integers(1, 12))
def test_count_window_as_of_an_earlier_call(calls: list[bool], size: int) -> None:
    """It can be counted as of a call that others have passed, while nothing was let go of."""
    window = CountWindow(size)
    for ticket, marked in enumerate(calls, 1):
        if marked:
            window.mark(ticket, 0.0)
    for at in range(1, len(calls) + 1):
        inside = calls[:at][-size:]
        assert window.tally(at, 0.0) == Tally(len(inside), sum(inside))


@EXACT
@given(CALLS, st.integers(1, 12), st.integers(1, 12), CALLS)
def test_count_window_resized(calls: list[bool], old: int, new: int, more: list[bool]) -> None:
    """Smaller drops the oldest, larger keeps all, and neither brings anything back."""
    window = CountWindow(old)
    last = feed(window, calls)
    window.resize(new, last, 0.0)
    kept = calls[-old:][-new:]
    assert window.tally(last, 0.0) == Tally(len(kept), sum(kept))
    last = feed(window, more, last)
    inside = (kept + more)[-new:]
    assert window.tally(last, 0.0) == Tally(len(inside), sum(inside))
    assert window.size == new


def test_count_window_takes_an_integer_size() -> None:
    """A size that comes as a float, as both kinds of window allow, is an integer inside."""
    window = CountWindow(3)
    window.resize(5.0, 0, 0.0)
    assert (window.size, type(window.size)) == (5, int)


@pytest.mark.parametrize(
    ("minimum", "last", "ticket"), [(5, 7, 12), (5, 11, 12), (5, 12, math.inf), (1, 7, 8)]
)
def test_count_window_reaches_a_minimum(minimum: int, last: int, ticket: float) -> None:
    """It can say which ticket fills it up to a minimum, once only."""
    assert CountWindow(10, 7).reaches(minimum, last) == ticket


def test_count_window_has_no_edge() -> None:
    """Time has no part in it."""
    window = CountWindow(3)
    window.mark(1, 10.0)
    assert window.edge() == -math.inf
    assert window.tally(1, 1e9) == Tally(1, 1)
    assert not window.timed


def test_count_window_remembers_marked_calls_only() -> None:
    """A success costs no memory: 100 000 of them leave nothing behind."""
    window = CountWindow(100_000)
    window.mark(1, 0.0)
    window.roll(100_000, 0.0)
    assert list(window.marks) == [1]
    window.roll(100_001, 0.0)
    assert not window.marks


# -- over so many seconds ----------------------------------------------------


def run(
    window: TimeWindow, steps: list[tuple[int, bool]], now: int = 0, last: int = 0
) -> tuple[int, int, list[tuple[int, bool]]]:
    """Let a call join after each pause; return the time, the last ticket and all calls."""
    joined = []
    for pause, marked in steps:
        now, last = now + pause, last + 1
        (window.mark if marked else window.roll)(last if marked else last - 1, float(now))
        joined.append((now, marked))
    return now, last, joined


def inside(joined: list[tuple[int, bool]], now: float, width: Fraction) -> Tally:
    """Count by hand: the present bucket and the nine before it."""
    oldest = math.floor(now / width) - BUCKETS
    kept = [marked for at, marked in joined if math.floor(at / width) > oldest]
    return Tally(len(kept), sum(kept))


@EXACT
@given(STEPS, st.sampled_from([10, 20, 50, 80]), st.integers(0, 100))
def test_time_window_is_the_last_ten_buckets(
    steps: list[tuple[int, bool]], duration: int, silence: int
) -> None:
    """It holds the calls of the present bucket and the nine before, also after a silence."""
    window = TimeWindow(float(duration), 0.0)
    now, last, joined = run(window, steps)
    for later in (now, now + silence):
        assert window.tally(last, float(later)) == inside(
            joined, later, Fraction(duration, BUCKETS)
        )


@EXACT
@given(
    STEPS, st.sampled_from([10, 20, 80]), st.sampled_from([10, 20, 80]), st.integers(0, 50), STEPS
)
def test_time_window_resized(
    steps: list[tuple[int, bool]], old: int, new: int, pause: int, more: list[tuple[int, bool]]
) -> None:
    """Each bucket goes by its middle into the new ones; what had left does not come back."""
    window = TimeWindow(float(old), 0.0)
    now, last, joined = run(window, steps)
    now += pause
    window.resize(float(new), last, float(now))
    width, newer = Fraction(old, BUCKETS), Fraction(new, BUCKETS)
    if old != new:
        oldest = math.floor(now / width) - BUCKETS
        joined = [one for one in joined if math.floor(one[0] / width) > oldest]
        middles = [((math.floor(at / width) + Fraction(1, 2)) * width, bad) for at, bad in joined]
        joined = [(min(middle, Fraction(now)), bad) for middle, bad in middles]  # type: ignore[misc]  # exact
        joined = [
            one for one in joined if math.floor(one[0] / newer) > math.floor(now / newer) - BUCKETS
        ]
    assert window.tally(last, float(now)) == inside(joined, now, newer)
    assert window.marks >= window.tally(last, float(now)).marked
    assert window.duration == new
    now, last, later = run(window, more, now, last)
    assert window.tally(last, float(now)) == inside(joined + later, now, newer)


def test_time_window_edge_is_the_end_of_the_bucket() -> None:
    """Until its edge a success belongs to the present bucket and need not look."""
    window = TimeWindow(10.0, 3.5)
    assert window.duration == 10.0
    assert window.edge() == 4.0
    window.roll(0, 4.0)
    assert window.edge() == 5.0
    assert window.timed


def test_time_window_lets_go_at_the_very_boundary() -> None:
    """A bucket is gone when the tenth after it begins, not before."""
    window = TimeWindow(10.0, 0.0)
    window.mark(1, 0.999)
    assert window.tally(1, 9.999) == Tally(1, 1)
    assert window.tally(1, 10.0) == EMPTY


def test_time_window_marks_are_those_it_may_still_count() -> None:
    """Whether anything is marked at all can be told without counting, after rolling too."""
    window = TimeWindow(10.0, 0.0)
    window.mark(1, 0.0)
    window.mark(2, 5.0)
    assert window.marks == 2
    window.roll(2, 10.0)
    assert window.marks == 1
    window.roll(2, 15.0)
    assert window.marks == 0


def test_time_window_memory_is_bounded() -> None:
    """Ten buckets and the present one are all it keeps, whatever the traffic."""
    window = TimeWindow(10.0, 0.0)
    for ticket in range(1, 1000):
        window.mark(ticket, ticket / 10)
    assert len(window._closed) <= BUCKETS


def test_time_window_reaches_a_minimum() -> None:
    """It can say at which ticket a minimum is inside, should no bucket leave first."""
    window = TimeWindow(10.0, 0.0, 7)
    assert window.reaches(3, 7) == 10
    window.roll(9, 1.0)  # two calls in the first bucket
    assert window.reaches(3, 9) == 10
    assert window.reaches(3, 10) == math.inf
    window.roll(10, 2.0)
    assert window.reaches(5, 10) == 12


def test_time_window_overtaken_reading() -> None:
    """A call whose reading of the clock another thread overtook joins the present bucket."""
    window = TimeWindow(10.0, 0.0)
    window.mark(1, 5.0)
    window.mark(2, 4.9)
    assert window.tally(2, 5.0) == Tally(2, 2)
    assert window.edge() == 6.0


def test_time_window_overtaken_ticket() -> None:
    """A call that drew its ticket before the newest in a bucket takes nothing out of it."""
    window = TimeWindow(10.0, 0.0)
    window.mark(3, 0.0)
    window.roll(1, 2.0)
    assert window.tally(3, 2.0) == Tally(3, 1)
    assert window.tally(3, 10.0) == EMPTY


def test_time_window_as_of_an_earlier_ticket() -> None:
    """As of a call before the newest marked one it counts up to that one: marks have no tickets."""
    window = TimeWindow(10.0, 0.0)
    window.mark(3, 0.0)
    assert window.tally(1, 0.0) == Tally(3, 1)


def test_time_window_small_step_back_of_the_clock() -> None:
    """A step back within the window keeps what is there."""
    window = TimeWindow(10.0, 100.0)
    window.mark(1, 100.0)
    window.mark(2, 95.0)
    assert window.tally(2, 95.0) == Tally(2, 2)


def test_time_window_big_step_back_of_the_clock() -> None:
    """A step back by more than the window forgets all: the last ten seconds hold none of it."""
    window = TimeWindow(10.0, 100.0)
    window.mark(1, 100.0)
    window.mark(2, 50.0)
    assert window.tally(2, 50.0) == Tally(1, 1)
    assert window.marks == 1
    assert window.edge() == 51.0
    window.mark(3, 90.5)
    assert window.tally(3, 90.5) == Tally(1, 1)


def test_time_window_step_back_by_just_the_window() -> None:
    """At ten buckets back what is there is still kept."""
    window = TimeWindow(10.0, 100.0)
    window.mark(1, 100.0)
    window.mark(2, 90.0)
    assert window.tally(2, 90.0) == Tally(2, 2)


def test_time_window_forgets_what_a_new_size_leaves_out() -> None:
    """A bucket that lies just outside of the new window is let go of, not kept unseen."""
    window = TimeWindow(20.0, 0.0)
    window.mark(1, 0.0)
    window.roll(1, 11.0)
    window.resize(10.0, 1, 11.0)
    assert (window.tally(1, 11.0), window.marks) == (EMPTY, 0)
    assert window.reaches(1, 1) == 2


def test_time_window_same_size_changes_nothing() -> None:
    """Giving the size it has leaves each call in its bucket."""
    window = TimeWindow(10.0, 0.0)
    window.mark(1, 0.0)
    window.roll(1, 1.0)
    window.resize(10.0, 1, 9.0)
    assert window.tally(1, 9.999) == Tally(1, 1)
    assert window.tally(1, 10.0) == EMPTY
