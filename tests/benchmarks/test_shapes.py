"""What is timed is what is guarded: every shape runs, and rejections are real ones."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from benchmarks import peers
from benchmarks.peers import peer_subjects
from benchmarks.shapes import GROUPS, Refused, fresh, work
from benchmarks.subjects import BARE, CLOSURE, references, subject


@pytest.mark.parametrize("key", GROUPS)
def test_every_reference_can_be_timed(key: str) -> None:
    """Each group's loop runs its references and says how many nanoseconds passed."""
    for made in references(key):
        assert made.measure(3) > 0


@pytest.mark.parametrize("key", [key for key in GROUPS if key != "open"])
def test_a_bare_call_is_the_workload_itself(key: str) -> None:
    """The list of references starts with the unguarded call, then the closure."""
    assert [made.name for made in references(key)][:2] == [BARE, CLOSURE]


def test_a_copy_has_bytecode_of_its_own() -> None:
    """A fresh loop shares no specialised bytecode, and does the same."""
    copy = fresh(work)
    assert copy.__code__ is not work.__code__
    assert copy(5) == 5


def test_a_rejection_is_timed_once_the_breaker_is_open() -> None:
    """The guarded function fails until it is refused, and not once more."""
    calls: list[int] = []

    def after_three(function: Any) -> Any:
        @functools.wraps(function)
        def inner(value: int) -> int:
            if len(calls) == 3:
                raise Refused("n", "r", 1.0, None)
            calls.append(value)
            return function(value)  # type: ignore[no-any-return]  # the workload returns an int

        return inner

    made = subject("open", "three", after_three)
    made.measure(10)
    assert len(calls) == 3


def test_a_breaker_that_never_opens_is_an_error() -> None:
    """It is not timed as if it were open."""
    with pytest.raises(RuntimeError, match="did not open"):
        subject("open", "never", lambda function: function)


def test_a_peer_that_cannot_be_imported_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives no subjects and stops nobody."""

    def absent() -> peers.Offer:
        raise ImportError

    monkeypatch.setitem(peers.PEERS, "absent", absent)
    assert peer_subjects("absent", list(GROUPS)) == ([], "not installed")


def test_a_peer_that_breaks_is_named_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new release that changed its ways is shown as failed, and stops nobody."""

    def broken() -> peers.Offer:
        raise AttributeError("gone")

    monkeypatch.setitem(peers.PEERS, "broken", broken)
    assert peer_subjects("broken", list(GROUPS)) == ([], "failed: AttributeError: gone")
