"""The ledger of abandoned work, for whoever must hold something until it has ended."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from typing import Any

import pytest

from breakerkit import _abandoned, abandoned_work
from breakerkit._abandoned import Ledger, Work, ledger
from tests.shapes import in_thread


def work(name: str = "db", started: float | None = None, **owner: Any) -> Work:
    """Return a work of this very thread."""
    now = time.monotonic() if started is None else started
    return Work(name, "module.function", threading.current_thread(), now, **owner)


@pytest.fixture(autouse=True)
def own_ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger of the test's own."""
    own = Ledger()
    monkeypatch.setattr(_abandoned, "ledger", own)
    return own


def test_a_mark(own_ledger: Ledger):
    """The mark changes with each work abandoned; `since` gives those of this thread that still run."""
    first, second, third = work("1"), work("2"), work("3")
    own_ledger.add(first)
    mark = own_ledger.mark
    assert own_ledger.since(mark) == []
    own_ledger.add(second)
    in_thread(lambda: own_ledger.add(third))
    assert own_ledger.mark != mark
    assert own_ledger.since(mark) == [second]
    second.end()
    assert own_ledger.since(mark) == []
    assert own_ledger.works() == [first, third]


def test_the_end_is_told_once(own_ledger: Ledger):
    """A callback is called once: when it ends, or at once if it has ended."""
    told: list[int] = []
    one = work()
    own_ledger.add(one)
    one.on_end(lambda: told.append(1))
    assert told == []
    one.end()
    one.end()
    assert told == [1]
    assert one.ended
    one.on_end(lambda: told.append(2))
    assert told == [1, 2]
    assert own_ledger.works() == []


def test_a_callback_that_raises(own_ledger: Ledger, caplog: pytest.LogCaptureFixture):
    """What a callback raises is logged, the others are called; an interrupt passes."""
    told: list[int] = []
    one = work()

    def broken() -> None:
        raise LookupError

    one.on_end(broken)
    one.on_end(lambda: told.append(1))
    one.end()
    assert told == [1]
    assert "end of abandoned work" in caplog.text

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.on_end(interrupted)


def test_works_within_works(own_ledger: Ledger):
    """A work with a mark waits for what its thread abandoned since."""
    told: list[int] = []
    outer, inner = work("outer"), work("inner")
    mark = own_ledger.mark
    own_ledger.add(inner)
    outer.on_end(lambda: told.append(1))
    outer.end(mark)
    assert outer.ended
    assert told == []
    inner.end(own_ledger.mark)
    assert told == [1]


def test_taking_over(own_ledger: Ledger):
    """A work that still runs goes over to who gets the result; one that has ended does not."""
    running, ended = work("running"), work("ended")
    in_thread(lambda: own_ledger.add(running, ended))
    ended.end()
    mark = own_ledger.mark
    own_ledger.add(running, ended)
    assert own_ledger.since(mark) == [running] == own_ledger.works()


async def test_tasks_are_told_apart(own_ledger: Ledger):
    """Two tasks of one loop are two callers, and a callback of the loop is a third."""
    mark = own_ledger.mark

    async def abandon(name: str) -> list[str]:
        own_ledger.add(work(name))
        await asyncio.sleep(0)
        return [one.name for one in own_ledger.since(mark)]

    assert await asyncio.gather(abandon("a"), abandon("b")) == [["a"], ["b"]]
    seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: seen.set_result(own_ledger.since(mark)))
    assert await seen == []


def test_what_is_seen(own_ledger: Ledger):
    """A record is frozen and says where the work stood; that of one that is ending says nothing."""
    one = work(owner="me", started=time.monotonic() - 5)
    own_ledger.add(one)
    (seen,) = abandoned_work()
    assert (seen.name, seen.function, seen.thread) == ("db", "module.function", "MainThread")
    assert 5 <= seen.age < 6
    assert one.owner == "me"
    assert "test_what_is_seen" in seen.stack
    assert seen.frames[-1].name == "look"
    assert isinstance(seen.frames[0], traceback.FrameSummary)
    assert "test_what_is_seen" in one.stack()
    assert repr(one).startswith("<Work module.function abandoned by 'db', for 5")
    with pytest.raises(AttributeError):
        seen.name = "other"
    one.end()
    assert one.stack() == "" == one.look().stack
    assert repr(one) == "<Work module.function abandoned by 'db', ended>"


def test_oldest_first(own_ledger: Ledger):
    """The list goes by age, whoever took what over."""
    old, new = work("old", started=time.monotonic() - 5), work("new")
    own_ledger.add(new)
    own_ledger.add(old)
    assert [one.name for one in abandoned_work()] == ["old", "new"]


def test_a_forked_child(own_ledger: Ledger):
    """A child has none of it, and a fresh lock."""
    one = work()
    own_ledger.add(one)
    before = own_ledger.lock
    own_ledger.after_fork()
    assert own_ledger.works() == []
    assert own_ledger.lock is not before
    one.end()
    assert ledger is not own_ledger
