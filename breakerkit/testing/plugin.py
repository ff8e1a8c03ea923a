"""The pytest plugin: each test starts with every breaker closed, on a clock that time-machine moves.

It is found by its entry point. ``breakerkit_isolation = false`` in the pytest
settings turns it off, and leaves the fixtures.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from breakerkit import testing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from breakerkit._registry import Registry

_stack = pytest.StashKey[contextlib.ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting."""
    parser.addini(
        "breakerkit_isolation",
        "close every circuit breaker before each test, and let the default clock follow time.time",
        type="bool",
        default=True,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let the default clock follow the wall clock for the whole run."""
    stack = config.stash[_stack] = contextlib.ExitStack()
    if config.getini("breakerkit_isolation"):
        stack.enter_context(testing.wall_clock())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the default clock back."""
    config.stash.get(_stack, contextlib.ExitStack()).close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Close every breaker before the fixtures of a test are set up."""
    if item.config.getini("breakerkit_isolation"):
        testing.reset_all()


@pytest.fixture
def breaker_registry() -> Iterator[Registry]:
    """The shared registry, empty for this test; what was there comes back after it."""
    with testing.fresh_registry() as fresh:
        yield fresh


@pytest.fixture
def breaker_events() -> Iterator[testing.EventLog]:
    """The events of every breaker of the shared registry during this test, in order."""
    with testing.capture_events() as log:
        yield log


@pytest.fixture
def breaker_clock() -> testing.ManualClock:
    """A clock that stands still until it is advanced; pass it as ``clock=``."""
    return testing.ManualClock()
