"""Where time comes from."""

from __future__ import annotations

import time

import pytest

from breakerkit import Clock, SystemClock, WallClock, system_clock


@pytest.mark.parametrize(
    ("clock", "source"), [(SystemClock(), time.monotonic), (WallClock(), time.time)]
)
def test_a_clock_reads_its_source(clock: Clock, source: object) -> None:
    """The system's clock reads the monotonic time, the wall clock the wall's."""
    before, now, after = source(), clock.now(), source()  # type: ignore[operator]  # one of the two above
    assert before <= now <= after
    assert isinstance(clock, Clock)


def test_a_clock_shows_what_it_is() -> None:
    """An error that names a clock is readable."""
    assert (repr(system_clock), repr(WallClock())) == ("SystemClock()", "WallClock()")
