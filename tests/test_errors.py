"""The errors: one tree, plain values, and they survive a trip to another process."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime

import pytest

from breakerkit import (
    BreakerkitError,
    CallCancelledError,
    CallRejectedError,
    CircuitOpenError,
    ConfigError,
    NameConflictError,
    OpenReason,
    ProbeLimitError,
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

ERRORS = [
    CircuitOpenError("api", OpenReason.FAILURE_RATE, 1.5, MOMENT),
    CircuitOpenError("api", OpenReason.FORCED, None, MOMENT),
    CircuitOpenError("api", "my own rule", 0.0, MOMENT),
    ProbeLimitError("api", OpenReason.PROBE_FAILURE, 1.5, MOMENT),
    CallRejectedError("limit", "full", None),
    CallCancelledError("api", "user left"),
    CallCancelledError("api"),
    ConfigError("failure_threshold=0: must be at least 1"),
    NameConflictError("the name 'api' is taken"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}")
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_errors_pickle_and_copy(error, again):
    """C027: an error arrives as the same class with equal fields and message."""
    same = again(error)
    assert type(same) is type(error)
    assert (str(same), same.args, vars(same)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol):
    """Every pickle protocol will do, and notes go along."""
    error = CircuitOpenError("api", OpenReason.FAILURE_RATE, 1.5, MOMENT)
    error.add_note("seen in the nightly run")
    same = pickle.loads(pickle.dumps(error, protocol))
    assert (same.opened_at, same.__notes__) == (MOMENT, ["seen in the nightly run"])


def test_the_messages():
    """Each message names the breaker, why, and when to come back."""
    assert [str(error) for error in ERRORS[:6]] == [
        "circuit breaker 'api' is open (failure rate); retry after 1.5 s",
        "circuit breaker 'api' is open (forced)",
        "circuit breaker 'api' is open (my own rule); retry after 0 s",
        "circuit breaker 'api' is half-open and every probe slot is taken (probe failure); retry after 1.5 s",
        "policy 'limit' rejected the call (full)",
        "the call through 'api' was cancelled: user left",
    ]  # fmt: skip


def test_a_call_that_was_cancelled_before_it_began_says_so():
    """The message tells what was not run from what was stopped in the middle, after a pickle too."""
    error = CallCancelledError("api", "user left")
    error.begun = False
    text = "the call through 'api' was cancelled before it began: user left"
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == text


def test_the_tree():
    """One ``except`` per thing a caller can do; none is an ``OSError``, so retry lists let them be."""
    assert issubclass(ProbeLimitError, CircuitOpenError)
    assert issubclass(CircuitOpenError, CallRejectedError)
    assert not issubclass(CallCancelledError, CallRejectedError)
    assert issubclass(NameConflictError, ConfigError)
    assert issubclass(ConfigError, ValueError)
    for error in ERRORS:
        assert isinstance(error, BreakerkitError)
        assert not isinstance(error, OSError)
