"""Servers that may be read and refuse to write: what they have is served, and the origin is left alone."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import redis

from breakerkit import RedisStore, Registry, State, return_value, stale_if_error
from breakerkit.store.commands import (
    NOTHING,
    Begin,
    Evict,
    EvictAll,
    Invalidate,
    Postpone,
    Put,
    Read,
    Release,
    StoreBusyError,
    Write,
)
from breakerkit.store.redis import _refusals
from breakerkit.store.redis._faults import answered
from tests.servers import Server


@pytest.fixture(scope="module")
def own():
    """A server whose settings are changed."""
    with Server("--appendonly", "no") as server:
        yield server


def refuse(server: Server, why: str) -> None:
    """Let a server take no writes."""
    if why == "READONLY":
        server.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    else:
        server.client.config_set("min-replicas-to-write", 1)


def accept(server: Server) -> None:
    """Let it take them again."""
    server.client.execute_command("REPLICAOF", "NO", "ONE")
    server.client.config_set("min-replicas-to-write", 0)


@pytest.fixture(params=["READONLY", "NOREPLICAS"])
def why(request, own):
    yield request.param
    accept(own)
    own.client.flushall()


@pytest.fixture(params=["url", "client"])
def world(request, own, ask, clock):
    client = redis.Redis.from_url(own.url)
    store = RedisStore(own.url if request.param == "url" else client, timeout=5, clock=clock)
    yield store, ask(store)
    store.close()
    client.close()


def test_a_server_that_takes_no_writes_serves_what_it_has(world, own, why, caplog, clock):
    """Which is told once, when it begins and when it ends; the breaker stays closed, and no command is an error of the server's."""
    caplog.set_level(logging.INFO, "breakerkit")
    store, do = world
    do(Put("k", "old", 10, 100))
    refuse(own, why)
    assert do(Read("k")).value == "old"
    ticket = do(Begin("k", 30))
    assert ticket is not None
    assert do(Begin("k", 30)) is not None  # there are no leases
    assert do(Write("k", ticket, "new", 20, 100)) is False
    found = do(Read("k"))
    assert (found.value, found.rests, 15 < found.due <= 20) == ("old", True, True)
    assert do(Put("k", "new", 20, 100)) is False
    assert do(Read("k")).rests is False
    do(Postpone("k", do(Begin("k", 30)), 50))
    assert 45 < do(Read("k")).due <= 50
    assert do(Release("k", ticket)) is None
    clock.advance(50)
    assert do(Read("k")).rests is False
    for command in (Invalidate("k"), Evict("k"), EvictAll("")):
        do(Postpone("k", ticket, 50))
        with pytest.raises(StoreBusyError):
            do(command)
        assert do(Read("k")).rests is False
    assert store.breaker.state is State.CLOSED
    assert store.breaker.snapshot().failures == 0
    accept(own)
    assert do(Write("k", do(Begin("k", 30)), "newest", 10, 100)) is True
    assert do(Read("k")).value == "newest"
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.name}: the server takes no writes ({why}), and keeps no new values",
        f"{store.name}: stores again",
    ]


def test_a_refresh_time_with_no_value_is_kept_where_it_was_asked_for(world, own, why, clock):
    """In this process, until it has come, or until the server takes something newer."""
    _, do = world
    refuse(own, why)
    for key, empty in (("a", True), ("b", False)):
        do(Postpone(key, do(Begin(key, 30)), 50, empty))
    assert (do(Read("a")).value, do(Read("a")).due, do(Read("b"))) == (NOTHING, 50, None)
    do(Write("b", do(Begin("b", 30)), 1, 50, 100))
    assert do(Read("b")) is None  # its value was not kept: the origin is asked
    accept(own)
    assert do(Put("a", 1, 10, 100)) is True
    assert do(Read("a")).value == 1
    do(Postpone("c", do(Begin("c", 30)), 50, empty=True))
    refuse(own, why)
    do(Postpone("c", 1, 5))
    assert do(Read("c")).due > 40
    do(Postpone("c", 1, 50, empty=True))
    accept(own)
    do(EvictAll(""))
    assert do(Read("c")) is None


def test_an_attempt_that_began_when_nothing_was_written_overtakes_nobody(world, own, why):
    """The server knows nothing of it: what it brings is not kept once it can be."""
    _, do = world
    refuse(own, why)
    ticket = do(Begin("k", 30))
    accept(own)
    assert do(Write("k", ticket, 1, 10, 100)) is False
    do(Put("k", 2, 10, 100))
    assert do(Write("k", ticket, 1, 10, 100)) is False
    assert do(Read("k")).value == 2


def test_the_origin_is_asked_once_in_each_refresh_period(own, why, clock):
    """By each process: though nothing can be written, a value that is due does not send every call to the origin."""
    asked: list[int] = []
    store = RedisStore(own.url, timeout=5, clock=clock)
    cache = stale_if_error(
        "refused", store=store, clock=clock, registry=Registry(), refresh_after=30, jitter=0,
        key=lambda key: key, disaster=return_value("none"),
    )  # fmt: skip

    def load(key: int) -> int:
        asked.append(key)
        if key == 2:
            raise OSError
        return len(asked)

    assert cache.call(load, 1) == 1
    cache.invalidate(1)
    refuse(own, why)
    asked.clear()
    for _ in range(3):
        for _ in range(5):
            cache.call(load, 1)
            cache.call(load, 2)
        clock.advance(31)
    assert sorted(asked) == [1, 1, 1, 2, 2, 2]
    store.close()


def test_refresh_times_that_are_kept_here_are_bounded(own, clock, monkeypatch):
    """Keys may come from traffic."""
    monkeypatch.setattr(_refusals, "MOST", 3)
    store = RedisStore(own.url, timeout=5, clock=clock)
    refuse(own, "NOREPLICAS")
    for number in range(5):
        store.do(Postpone(str(number), 1, 50, empty=True))
    accept(own)
    assert [store.do(Read(str(number))) is None for number in range(5)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    store.close()


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (redis.ReadOnlyError("You can't write"), True),
        (redis.exceptions.OutOfMemoryError("command not allowed"), True),
        (redis.ResponseError("MISCONF Valkey is configured to save"), True),
        (
            redis.ResponseError(
                "Error running script (call to f_1): @user_script:1: -READONLY You"
            ),
            True,
        ),
        (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), True),
        (redis.ResponseError("unknown command"), False),
        (redis.ResponseError("BUSY running a script"), False),
    ],
)
def test_only_refusals_of_writing_are_such(error, refused):
    """Whatever a server of another version makes of them; any other error is an outage."""
    assert isinstance(answered(error), StoreBusyError) is refused


@pytest.mark.parametrize("value", [{1, 2}, "x" * 2000])
def test_a_value_that_is_not_kept_leaves_the_older_one_and_the_origin_alone(valkey, ask, value):
    """The origin was asked: the refresh time of what is stored moves; with nothing stored nothing is kept."""
    with RedisStore(valkey.url, timeout=5, max_value_bytes=1000) as store:
        do = ask(store)
        do(Put("k", 1, 0, 100))
        assert do(Write("k", do(Begin("k", 30)), value, 20, 100)) is False
        found = do(Read("k"))
        assert (found.value, found.rests, 15 < found.due <= 20) == (1, True, True)
        assert do(Write("none", do(Begin("none", 30)), value, 20, 100)) is False
        assert do(Read("none")) is None


def test_a_full_server_leaves_the_older_value_and_the_origin_alone(ask):
    """Of a key with nothing stored the origin is asked by each call: there is no other answer."""
    with (
        Server("--maxmemory-policy", "noeviction") as full,
        RedisStore(full.url, timeout=5) as store,
    ):
        do: Any = ask(store)
        do(Put("k", 1, 0, 100))
        full.client.config_set("maxmemory", 1)
        assert do(Write("k", do(Begin("k", 30)), 2, 20, 100)) is False
        found = do(Read("k"))
        assert (found.value, found.rests, 15 < found.due <= 20) == (1, True, True)
        assert do(Write("none", do(Begin("none", 30)), 2, 20, 100)) is False
        assert do(Read("none")) is None
