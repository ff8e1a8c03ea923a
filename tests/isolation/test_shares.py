"""Shares: each class is guaranteed its part, what is idle is lent, who is owed a slot is served first."""

from __future__ import annotations

import asyncio

import pytest

from breakerkit import BulkheadFullError, FullReason, ShareSnapshot, bulkhead
from tests.isolation.rig import Background, end, full, idle, until, waiting
from tests.shapes import every_shape, returning


def make(**settings):
    """Return a bulkhead of ten slots: five for gold, three for small, two for the rest."""
    usual = {
        "max_concurrent": 10, "max_waiting": 20,
        "shares": {"gold": 0.5, "small": 0.3}, "share_of": lambda *args, **kwargs: None,
    }  # fmt: skip
    return bulkhead(**{**usual, **settings})


def queue(b, background, *shares):
    """Let calls of these classes wait, one after the other; return in which order they will run."""
    ran = []

    def work(share):
        with b.guard(share):
            ran.append(share)

    for number, share in enumerate(shares, 1 + waiting(b)):
        background.call(work, share)
        until(lambda: waiting(b) == number)
    return ran


def test_idle_share_is_lent():
    """While nobody else wants them, one class may have all slots."""
    b = make(max_waiting=0)
    with full(b, 10, "small"):
        seen = b.snapshot()
        assert seen.shares["small"] == ShareSnapshot(guaranteed=3, running=10, waiting=0)
        with pytest.raises(BulkheadFullError), b.guard("gold"):
            pass
    idle(b)


def test_who_is_owed_a_slot_is_served_first():
    """A lent slot is not taken back, but the next that comes free goes to the class that is owed it."""
    b, background = make(), Background()
    with full(b, 10, "small") as blocks:
        ran = queue(b, background, "small", None, "small", "gold")
        end(blocks)
        until(lambda: len(ran) == 4)
    assert ran[:2] == [None, "gold"]
    background.join()
    idle(b)


def test_no_more_than_the_share_goes_first():
    """A class that has its share waits its turn like any other."""
    b, background = make(), Background()
    with full(b, 5, "gold"), full(b, 5, "small") as blocks:
        ran = queue(b, background, "small", "gold")
        end(blocks)
        until(lambda: len(ran) == 2)
    assert ran == ["small", "gold"]
    background.join()
    idle(b)


def test_an_unknown_class_is_of_the_rest():
    """A class without a share, and no class, are the rest, which is guaranteed what is left."""
    b = make()
    with full(b, 1, "unknown"), full(b, 1), full(b, 1, "gold"):
        assert b.snapshot().shares == {
            "gold": ShareSnapshot(guaranteed=5, running=1, waiting=0),
            "small": ShareSnapshot(guaranteed=3, running=0, waiting=0),
            None: ShareSnapshot(guaranteed=2, running=2, waiting=0),
        }
    idle(b)


def test_who_is_owed_a_slot_finds_a_place_in_a_full_queue():
    """A flood of one class cannot keep another from waiting: the last of the flood makes room."""
    b, background = make(max_waiting=2), Background()
    with full(b, 10, "small") as blocks:
        ran = queue(b, background, "small", "small")
        background.call(lambda: b.guard("gold").__enter__())
        until(lambda: b.snapshot().shares["gold"].waiting == 1)
        assert waiting(b) == 2
        until(lambda: background.results)
        assert background.results[0].reason is FullReason.DISPLACED
        end(blocks)
        until(lambda: len(background.results) == 2)
        end(blocks)
        until(lambda: len(ran) == 1)
    del background.results[:]
    background.join()
    idle(b)


@pytest.mark.parametrize(("order", "left"), [("fifo", [0, 1]), ("lifo", [2, 1])])
def test_who_makes_room(order, left):
    """Room is made by whoever would have been served last."""
    b, background, ran = make(max_waiting=3, order=order), Background(), []

    def work(number):
        with b.guard("small"):
            ran.append(number)

    with full(b, 10, "small"):
        for number in range(3):
            background.call(work, number)
            until(lambda: waiting(b) == number + 1)
        background.call(b.call, int)
        until(lambda: b.snapshot().shares[None].waiting == 1)
    background.join()
    assert sorted(ran) == sorted(left)
    idle(b)


def test_nobody_makes_room_for_who_is_owed_nothing():
    """A class that has its share, or as many waiting as it is owed, is rejected by a full queue."""
    b, background = make(max_waiting=2), Background()
    with full(b, 5, "gold"), full(b, 5, "small"):
        queue(b, background, None, None)
        for share in ("gold", "small", None):
            with pytest.raises(BulkheadFullError) as caught, b.guard(share):
                pass
            assert caught.value.reason is FullReason.QUEUE_FULL
    background.join()
    idle(b)


def test_nobody_makes_room_who_is_owed_a_slot():
    """In a full queue of calls that are owed slots themselves there is no room for one more."""
    b, background = make(max_waiting=1), Background()
    with full(b, 10, "small"):
        queue(b, background, "gold")
        with pytest.raises(BulkheadFullError) as caught, b.guard("gold"):
            pass
        assert caught.value.reason is FullReason.QUEUE_FULL
    background.join()
    idle(b)


@every_shape
def test_a_call_gets_its_class_from_its_arguments(shape):
    """The class is asked before admission, whatever way the call comes; what has no arguments is the rest."""
    b = bulkhead(max_concurrent=2, shares={"a": 0.5}, share_of=lambda *args, **kwargs: "a")
    seen = []
    shape.run(b, lambda: seen.append(b.snapshot().shares["a"].running) or "value")
    assert seen == [0 if "guard" in shape.name else 1]
    idle(b)


def test_share_of_gets_no_self_of_a_property():
    """A property's function is a method too."""
    asked = []
    b = make(share_of=lambda *args: asked.append(args))

    class Service:
        @property
        @b
        def one(self):
            return 1

    assert Service().one == 1
    assert asked == [()]


def test_share_of_gets_no_self():
    """For methods the class of a call comes from its arguments without self or cls."""
    asked = []
    b = bulkhead(max_concurrent=2, shares={"a": 0.5}, share_of=lambda *args: asked.append(args))

    class Service:
        @b
        def method(self, one):
            return one

        @classmethod
        @b
        def class_method(cls, one):
            return one

        @b
        @staticmethod
        def static_method(one):
            return one

        @b
        async def later(self, one):
            return one

    service = Service()
    assert [service.method(1), service.class_method(2), Service.static_method(3)] == [1, 2, 3]
    assert asyncio.run(service.later(4)) == 4
    assert b.call(service.method, 5) == 5
    assert b.call([].append, 6) is None
    assert asked == [(1,), (2,), (3,), (4,), (5,), (6,)]
    idle(b)


@every_shape
def test_a_share_of_that_raises(shape):
    """What share_of raises reaches the caller before admission; a block does not ask it."""
    error = ArithmeticError("no class")

    def share_of(*args):
        raise error

    b = bulkhead(max_concurrent=1, shares={"a": 0.5}, share_of=share_of)
    if "guard" in shape.name:
        assert shape.run(b, returning(7)) == 7
    else:
        with pytest.raises(ArithmeticError) as caught:
            shape.run(b, returning())
        assert caught.value is error
    idle(b)


def test_a_class_that_is_not_hashable():
    """A class that no share can have is the caller's TypeError, before anything has happened."""
    b = bulkhead(max_concurrent=1, shares={"a": 0.5}, share_of=list)
    with pytest.raises(TypeError, match="unhashable"):
        b.call(int)
    idle(b)


def test_shares_of_a_live_bulkhead():
    """Shares may come and go while it is live; functions decorated before follow."""
    b = bulkhead(max_concurrent=4)

    @b
    def work(share):
        return b.snapshot().shares

    assert work("gold") == {}
    b.reconfigure(shares={"gold": 0.5}, share_of=lambda share: share)
    assert work("gold")["gold"] == ShareSnapshot(guaranteed=2, running=1, waiting=0)
    with full(b, 1, "gold"):
        b.reconfigure(shares=None, share_of=None)
        assert work("gold") == {}
    idle(b)


def test_an_async_block_of_a_class():
    """An async block may name its class too."""
    b = make()

    async def main():
        async with b.guard("gold") as block:
            block.ignore()
            return b.snapshot().shares["gold"].running

    assert asyncio.run(main()) == 1
    idle(b)
