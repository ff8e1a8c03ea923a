"""Work that one thread does at a time: whose turn it is, and that a signal leaves no turn behind."""

from __future__ import annotations

import itertools

import pytest

from breakerkit._sole import Sole
from tests.concurrency.tracing import signalled
from tests.shapes import in_thread


def test_it_is_done_and_done_again():
    """Each turn ends with its work, whether it returns or raises."""
    sole, done = Sole(), []
    assert sole.run(lambda: done.append(1))
    with pytest.raises(ZeroDivisionError):
        sole.run(lambda: 1 / 0)
    assert sole.run(lambda: done.append(2))
    assert done == [1, 2]


def test_another_thread_is_sent_away():
    """While one thread is at it, another does nothing; after, it may."""
    sole, done = Sole(), []
    assert sole.run(lambda: done.append(in_thread(lambda: sole.run(lambda: done.append("both")))))
    assert in_thread(lambda: sole.run(lambda: done.append("after")))
    assert done == [False, "after"]


def test_the_same_thread_is_sent_away_too():
    """Work that asks for the work does not begin it twice, and keeps its turn."""
    sole, done = Sole(), []

    def work() -> None:
        done.append(sole.run(work))
        done.append(in_thread(lambda: sole.run(work)))

    assert sole.run(work)
    assert done == [False, False]


@pytest.mark.parametrize("fails", [False, True])
def test_a_signal_anywhere_leaves_the_turn_free(fails):
    """Ctrl-C wherever a signal is let in: the next one may go, in this thread and in another."""

    def work() -> None:
        if fails:
            raise ConnectionError

    for step in itertools.count(1):
        sole, error, places = Sole(), None, []
        try:
            with signalled(step) as places:
                sole.run(work)
        except (KeyboardInterrupt, ConnectionError) as raised:
            error = raised  # kept, as a debugger would: what it holds must not matter
        assert in_thread(lambda: sole.run(list)), places
        assert sole.run(list), places
        if not places:
            break
        assert isinstance(error, KeyboardInterrupt)
    assert step > 3
