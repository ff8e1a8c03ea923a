"""A cache around an origin, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from breakerkit import stale_if_error
from breakerkit.testing import ManualClock
from tests.stale.rig import Bench, Origin


@pytest.fixture
def bench(clock: ManualClock) -> Callable[..., Bench]:
    """Make a cache around an origin, in one kind of call."""
    return lambda kind, **settings: Bench(*kind, clock, **settings)


@pytest.fixture
def origin() -> Origin:
    """Something to be cached."""
    return Origin()


@pytest.fixture
def cached(clock: ManualClock) -> Callable[..., Any]:
    """Make a cache that refreshes every two seconds and serves for ten."""

    def make(name: str | None = None, **settings: Any) -> Any:
        usual = {"refresh_after": 2, "max_stale": 10, "jitter": 0, "clock": clock}
        return stale_if_error(name, **{**usual, **settings})

    return make
