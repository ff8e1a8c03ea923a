"""Work that one thread does at a time: whose turn it is, and that a signal leaves no turn behind."""

from __future__ import annotations

import itertools

import pytest

from breakerkit._hub import Hub, Subscription
from breakerkit._sole import Sole
from breakerkit.events import Event
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


class Plain(Event):
    """An event of no policy."""


class Taken(dict):
    """Nobody is at it when one looks, and somebody is a moment later."""

    def __init__(self, ended: bool) -> None:
        self.ended = ended

    def __bool__(self) -> bool:
        return False

    def setdefault(self, key, me):
        self[key] = me + 1
        if self.ended:
            del self[key]  # and has ended before we look again
        return me + 1


@pytest.mark.parametrize("ended", [False, True])
def test_a_race_that_is_lost(ended):
    """Of two that find it free at once one is sent away, and takes nobody's turn from him."""
    sole, done = Sole(), []
    sole.turn = Taken(ended)
    assert not sole.run(lambda: done.append("both"))
    assert (done, len(sole.turn)) == ([], 0 if ended else 1)


@pytest.mark.parametrize("ended", [False, True])
def test_an_event_whose_race_is_lost(ended):
    """It waits for whoever delivers; if that one has ended meanwhile it is delivered here."""
    hub, heard = Hub(), []
    event = Plain("b", 0.0)
    hub.add(Subscription(heard.append, (Plain,)))
    hub.retune((Plain,))
    hub._delivering.turn = Taken(ended)
    hub.tell(event)
    assert list(hub.waiting) == [event]
    hub._delivering = Sole()
    hub.drain()
    assert heard == [event]
