"""The cancellation signal: set once, first reason wins, from any thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from breakerkit import CallCancelledError, CancelSignal


def test_it_is_not_set_at_first():
    """A new signal is not set, has no reason, and stops nobody."""
    signal = CancelSignal()
    assert not signal.cancelled
    assert signal.reason is None
    signal.raise_if_cancelled()
    assert repr(signal) == "<CancelSignal not set>"


def test_the_first_reason_wins():
    """The first ``cancel`` sets it and says so; later ones change nothing."""
    signal = CancelSignal()
    assert signal.cancel("user left") is True
    assert signal.cancel("too late") is False
    assert signal.cancelled
    assert signal.reason == "user left"
    assert repr(signal) == "<CancelSignal cancelled: 'user left'>"


def test_no_reason_is_a_reason():
    """Set without a reason it stays so: a later reason does not fill it in."""
    signal = CancelSignal()
    signal.cancel()
    assert signal.cancel("late") is False
    assert signal.cancelled
    assert signal.reason is None


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (None, "the call through 'step' was cancelled"),
        ("user left", "the call through 'step' was cancelled: user left"),
    ],
)
def test_raise_if_cancelled(reason, text):
    """It raises with the name of the step and the reason."""
    signal = CancelSignal()
    signal.cancel(reason)
    with pytest.raises(CallCancelledError) as caught:
        signal.raise_if_cancelled("step")
    assert (caught.value.name, caught.value.reason, str(caught.value)) == ("step", reason, text)
    with pytest.raises(CallCancelledError, match="cancel signal"):
        signal.raise_if_cancelled()


def test_one_of_many_threads_wins():
    """Of many threads that cancel at once exactly one is told that it did, and its reason stands."""
    for _ in range(50):
        signal, start = CancelSignal(), threading.Barrier(8)

        def cancel(number, signal=signal, start=start):
            start.wait(30)
            return number if signal.cancel(number) else None

        with ThreadPoolExecutor(8) as pool:
            (winner,) = [one for one in pool.map(cancel, range(8)) if one is not None]
        assert signal.reason == winner
