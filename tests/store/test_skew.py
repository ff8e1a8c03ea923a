"""Clocks of servers that are set back, and what cannot be read: neither holds anybody longer than it may."""

from __future__ import annotations

from typing import Any

import pytest

from breakerkit import RedisStore, Registry, return_value, stale_if_error
from breakerkit.store.commands import (
    NOTHING,
    Begin,
    Entry,
    Invalidate,
    Postpone,
    Put,
    Read,
    Write,
)

BEGIN = 1_800_000_000
AN_HOUR = 3600


class Server:
    """A store whose server's clock the test sets."""

    def __init__(self, store: Any, do: Any) -> None:
        self.store, self.do = store, do
        self.now(0)

    def now(self, seconds: float) -> None:
        self.store._moment = round((BEGIN + seconds) * 1_000_000)


@pytest.fixture
def server(valkey, ask):
    with RedisStore(valkey.url, timeout=5) as store:
        yield Server(store, ask(store))


def test_a_lease_from_the_future_is_none(server):
    """Its holder was killed before the clock was set back: nobody waits for the whole jump."""
    assert server.do(Begin("k", 30, 7)) is not None
    server.now(-1)
    assert server.do(Begin("k", 30, 8)) is None  # clocks are corrected by so much
    server.now(-AN_HOUR)
    ticket = server.do(Begin("k", 30, 8))
    assert ticket is not None
    assert server.do(Begin("k", 30, 9)) is None  # that one is from now
    assert server.do(Write("k", ticket, 1, 10, 100)) is True
    assert server.do(Read("k")) == Entry(1, 0, 10, rests=False)


def test_a_longer_lease_than_ones_own_is_kept(server):
    """The caches of a fleet need not ask for the same."""
    server.do(Begin("k", 3000, 7))
    assert server.do(Begin("k", 1, 8)) is None


@pytest.mark.parametrize("empty", [False, True])
def test_a_refresh_time_from_the_future_is_none(server, empty):
    """The value is as old as it seems, and due; with no value there is nothing."""
    server.do(Put("k", 1, 10, 2 * AN_HOUR))
    server.now(AN_HOUR)
    server.do(Postpone("k", server.do(Begin("k", 30)), 60, empty))
    server.do(Postpone("none", server.do(Begin("none", 30)), 60, empty=True))
    server.now(AN_HOUR - 1)
    assert server.do(Read("k")).due == 61
    server.now(60)
    assert server.do(Read("k")) == Entry(1, 60, 0, rests=True)
    assert server.do(Read("none")) is None


def test_an_invalidated_value_stays_so(server):
    """Also if the clock is set back behind that moment."""
    server.do(Put("k", 1, 10, 2 * AN_HOUR))
    server.now(AN_HOUR)
    server.do(Invalidate("k"))
    server.now(5)
    assert server.do(Read("k")) == Entry(1, 5, 0, rests=False)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("what", ["serializer", "garbage", "future"])
def test_what_cannot_be_read_rests_as_an_empty_key_does(server, valkey, what, empty):
    """It is nothing stored; that an attempt has failed since is known."""
    if what == "future":
        server.now(AN_HOUR)
    server.do(Put("k", 1, 10, 2 * AN_HOUR))
    server.now(0)
    if what != "future":
        valkey.client.hset("breakerkit:{k}", "v", "2:json:1" if what == "serializer" else "\0\xff")
    assert server.do(Read("k")) is None  # nobody has failed yet
    server.do(Postpone("k", server.do(Begin("k", 30)), 20, empty))
    found = server.do(Read("k"))
    assert found == Entry(NOTHING, 0, 20, rests=True)
    server.now(20)
    assert server.do(Read("k")) is None
    assert server.do(Write("k", server.do(Begin("k", 30)), 2, 10, 100)) is True
    assert server.do(Read("k")) == Entry(2, 0, 10, rests=False)


@pytest.fixture
def stores(valkey):
    """Stores of several serializers."""
    made = {name: RedisStore(valkey.url, timeout=5, serializer=name) for name in ("json", "pickle")}
    yield made
    for one in made.values():
        one.close()


def test_a_fleet_that_changes_over_in_an_outage_leaves_the_origin_alone(stores):
    """A value of another serializer is nothing, and the origin rests after its failure as with nothing stored."""
    asked: list[int] = []

    def cache(serializer: Any) -> Any:
        return stale_if_error(
            "fleet", store=stores[serializer],
            registry=Registry(), key=lambda key: key, disaster=return_value("none"),
        )  # fmt: skip

    def fails(key: int) -> None:
        asked.append(key)
        raise OSError

    cache("pickle").call(lambda key: key, 1)
    new = cache("json")
    assert [new.call(fails, key) for key in (1, 1, 1, 2, 2, 2)] == ["none"] * 6
    assert asked == [1, 2]


@pytest.mark.parametrize("meta", [
    f"5 1{'0' * 400} 9000000000000000 1 0 0", f"-1{'0' * 400} 5 9000000000000000 1 0 0", f"1 2 {'9' * 5000} 1 0 0",
    "1 nan inf 1 0 0", "1 2 9000000000000000 1 x 0",
])  # fmt: skip
def test_garbage_in_the_times_is_no_outage(server, valkey, meta):
    """Numbers that no clock has ever said: nothing stored, and mended by the next value."""
    server.do(Put("k", 1, 10, 100))
    valkey.client.hset("breakerkit:{k}", "m", meta)
    server.do(Read("k"))
    assert server.do(Write("k", server.do(Begin("k", 30)), 2, 10, 100)) is True
    assert server.do(Read("k")) == Entry(2, 0, 10, rests=False)


def test_what_an_older_version_wrote_is_nothing(server, valkey):
    """With four numbers."""
    valkey.client.hset("breakerkit:{k}", mapping={"m": "1 2 9000000000000000 1", "v": "1:json:1"})
    assert server.do(Read("k")) is None
