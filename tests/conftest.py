"""What every test gets: an empty shared registry, a log of hook faults that starts empty, a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from breakerkit import OpenContext, Snapshot, _log, breaker, testing
from breakerkit.testing import ManualClock

#: Imported when first asked for; here, lest a test that stops threads anywhere stops an import.
IMPORTED = (OpenContext, Snapshot)


@pytest.fixture(autouse=True)
def _nothing_from_before() -> Iterator[None]:
    """Let no test see the names, or the faults already told, of another."""
    _log._told.clear()
    with testing.fresh_registry():
        yield


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until it is advanced."""
    return ManualClock()


@pytest.fixture
def circuit(clock: ManualClock) -> Callable[..., Any]:
    """Make breakers on that clock that open at the second failure in a row, for ten seconds."""

    def make(name: str | None = None, **settings: Any) -> Any:
        usual = {"failure_threshold": 2, "open_duration": 10, "clock": clock}
        return breaker(name, **{**usual, **settings})

    return make
