"""The Redis store: settings, clients, loops, threads, forks, what is on the server and for how long."""

from __future__ import annotations

import asyncio
import enum
import gc
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter, OrderedDict, defaultdict
from datetime import timedelta
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from breakerkit import ConfigError, MemoryStore, RedisStore, Store, breaker, registry
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
    Write,
)
from breakerkit.store.redis._loop_lane import LoopLane
from breakerkit.store.redis._script import Script
from breakerkit.store.redis._scripts import READ
from breakerkit.store.redis._serializers import Packing
from breakerkit.store.redis._through import Through
from breakerkit.testing import ManualClock
from tests.servers import Server, until

LINGER = 600


@pytest.fixture
def store(valkey):
    with RedisStore(valkey.url, timeout=5) as one:
        yield one


# -- settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout": 0}, "timeout=0: must be seconds or a timedelta above 0, best 0.05 to 0.25"),
        ({"timeout": "1"}, "timeout='1'"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"prefix": ""}, "prefix='': must be a text"),
        ({"prefix": b"x"}, "prefix=b'x'"),
        ({"max_connections": 0}, "max_connections=0: must be an int of at least 1"),
        ({"max_value_bytes": 0}, "max_value_bytes=0: must be an int of at least 1, or None"),
        ({"cluster": 1}, "cluster=1: must be True or False"),
        (
            {"cluster": True},
            "cluster=True with unix:///nowhere: nodes of a cluster are reached by TCP",
        ),
        ({"name": ""}, "name='': must be a text"),
        ({"name": 3}, "name=3"),
        ({"serializer": "yaml"}, "serializer='yaml': must be 'json', 'msgspec', 'pickle'"),
        ({"serializer": object}, "serializer=<class 'object'>"),
        ({"clock": 3}, "clock=3"),
    ],
)
def test_a_wrong_setting_is_told_with_its_value_and_what_is_allowed(settings, said):
    """When the store is made, before any server is asked."""
    with pytest.raises(ConfigError) as caught:
        RedisStore("unix:///nowhere", **settings)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "localhost",
        "http://x",
        "redis://secret@host:port",
        "redis://:secret@[",
        None,
        5,
        redis.Redis,
    ],
)
def test_what_is_no_url_and_no_client_is_refused(source):
    """Without repeating a password."""
    with pytest.raises(ConfigError, match="url_or_client") as caught:
        RedisStore(source)
    assert "secret" not in str(caught.value)


def test_a_client_of_one_server_is_none_of_a_cluster():
    """The two do not go together."""
    with pytest.raises(ConfigError, match="cluster=True: Redis is no client of a cluster"):
        RedisStore(redis.Redis(), cluster=True)


def test_durations_may_be_timedeltas(valkey):
    """As everywhere."""
    with RedisStore(valkey.url, timeout=timedelta(seconds=1)) as store:
        connection = store._clients.sync()._make()
        assert (connection.socket_timeout, connection.socket_connect_timeout) == (1, 1)


def test_what_it_looks_like_shows_no_password():
    """Neither its repr nor the name of its breaker."""
    store = RedisStore("redis://user:secret@host:7000/2?password=secret", prefix="p:")
    assert repr(store) == "<RedisStore 'p:' at redis://host:7000/2>"
    assert store.name == store.breaker.name == "redis://host:7000/2"
    assert repr(RedisStore(redis.Redis())) == "<RedisStore 'breakerkit:' at redis.client.Redis>"
    assert RedisStore("redis://host", name="shared").breaker.name == "shared"


def test_nothing_is_asked_and_nothing_listed_when_it_is_made():
    """Building an object writes nothing, and its breaker is in no shared registry."""
    store = RedisStore("redis://nowhere.invalid")
    assert isinstance(store, Store)
    assert store.local is False
    assert store.breaker not in list(registry)
    assert breaker(store.name) is not store.breaker


@pytest.mark.parametrize(("missing", "make"), [
    ("redis", "breakerkit.RedisStore('redis://host')"),
    ("msgspec", "breakerkit.RedisStore('redis://host', serializer='msgspec')"),
])  # fmt: skip
def test_what_is_not_installed_is_told_with_its_extra(missing, make):
    """Importing breakerkit and its other stores needs none of them."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
import breakerkit
breakerkit.MemoryStore()
assert "redis" not in [name for name, module in sys.modules.items() if module]
try:
    {make}
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"breakerkit[{missing}]" in done.stdout


@pytest.mark.parametrize(("missing", "settings"), [
    ("breakerkit.store.redis._clients", {}), ("msgspec", {"serializer": "msgspec"}),
])  # fmt: skip
def test_what_is_not_installed_is_an_import_error(monkeypatch, missing, settings):
    """With the import that failed as its cause."""
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delattr("breakerkit.store.redis._clients")
    with pytest.raises(ImportError, match=r"breakerkit\[") as caught:
        RedisStore("redis://host", **settings)
    assert isinstance(caught.value.__cause__, ImportError)


# -- what is on the server ---------------------------------------------------------------


def ttl(valkey: Any, key: str = "k") -> float:
    """Return the seconds until the server forgets a key."""
    return valkey.client.pttl(f"breakerkit:{{{key}}}") / 1000


def test_all_of_a_key_is_in_one_hash_with_a_tag(store, valkey):
    """So that it lives on one node of a cluster, and prefixes keep stores apart."""
    store.do(Put("a:1", 1, 10, 100))
    store.do(Begin("a:1", 5))
    assert valkey.client.keys() == [b"breakerkit:{a:1}"]
    assert valkey.client.type("breakerkit:{a:1}") == b"hash"
    with RedisStore(valkey.url, timeout=5, prefix="other:") as other:
        assert other.do(Read("a:1")) is None
        other.do(EvictAll(""))
    assert store.do(Read("a:1")) is not None


def test_the_server_forgets_a_value_that_nobody_wants(store, valkey):
    """By its own expiry, when ``keep`` is over."""
    store.do(Put("k", 1, 10, 100))
    assert 95 < ttl(valkey) <= 100
    store.do(Put("k", 1, 10, 0.001))
    assert until(lambda: not valkey.client.exists("breakerkit:{k}"))


def test_attempts_are_remembered_as_long_as_they_may_matter(store, valkey):
    """While one runs its hash lives as long as its lease, and some time for those that are late."""
    ticket = store.do(Begin("k", 30))
    assert LINGER < ttl(valkey) <= LINGER + 30
    store.do(Evict("k"))
    assert LINGER < ttl(valkey) <= LINGER + 30
    assert store.do(Write("k", ticket, 1, 10, 100)) is False
    assert valkey.client.keys() == []


def test_more_than_one_value_is_garbage(store, valkey):
    """A value that somebody has written on is nothing stored."""
    store.do(Put("k", 1, 10, 100))
    (key,) = valkey.client.keys("*{k}")
    valkey.client.hset(key, "v", valkey.client.hget(key, "v") + b" 2")
    assert store.do(Read("k")) is None


@pytest.mark.parametrize("end", [
    lambda ticket: Release("k", ticket), lambda ticket: Postpone("k", ticket, 10), lambda _: Evict("k"),
])  # fmt: skip
def test_a_key_with_nothing_left_to_know_is_forgotten_at_once(store, valkey, end):
    """No hash stays for a key without value and without attempts."""
    store.do(end(store.do(Begin("k", 30))))
    store.do(Evict("k"))
    left = [one for one in valkey.client.hkeys("breakerkit:{k}") if one != b"b"]
    assert left == []
    store.do(Invalidate("other"))
    store.do(Evict("other"))
    assert not valkey.client.exists("breakerkit:{other}")


def test_the_end_of_the_last_attempt_leaves_the_value_alone(store, valkey):
    """The hash then lives as long as the value."""
    store.do(Write("k", store.do(Begin("k", 3000)), 1, 10, 100))
    assert 95 < ttl(valkey) <= 100
    assert set(valkey.client.hkeys("breakerkit:{k}")) == {b"v", b"m"}


def test_a_refresh_time_alone_lives_until_it_has_come(store, valkey):
    """And takes no place for a value."""
    store.do(Postpone("k", store.do(Begin("k", 3)), 10, empty=True))
    assert 5 < ttl(valkey) <= 10
    assert valkey.client.hkeys("breakerkit:{k}") == [b"m"]
    assert store.do(Read("k")).value is NOTHING


def test_an_attempt_of_which_nothing_is_left_does_not_write(store, valkey):
    """Nobody knows whether its key was evicted since: one as old as that is not believed."""
    store._moment = 1_800_000_000_000_000
    late = store.do(Begin("k", 30))
    valkey.client.flushall()
    store._moment += (LINGER + 1) * 1_000_000
    assert store.do(Write("k", late, 1, 10, 100)) is False
    store.do(Postpone("k", late, 10, empty=True))
    assert store.do(Read("k")) is None
    young = store.do(Begin("k", 30))
    valkey.client.flushall()
    assert store.do(Write("k", young, 1, 10, 100)) is True


def test_attempts_that_were_killed_are_given_up(store, valkey):
    """They do not keep the hash of a key for ever."""
    store._moment = 1_800_000_000_000_000
    store.do(Begin("k", 30))
    store._moment += (LINGER + 30) * 1_000_000
    store.do(Put("k", 1, 10, 100))
    assert store.do(Read("k")).value == 1
    assert set(valkey.client.hkeys("breakerkit:{k}")) == {b"v", b"m"}


def test_an_attempt_with_a_short_lease_hides_no_longer_one(store, valkey):
    """The hash lives for the last that may end."""
    store.do(Begin("k", 3000))
    store.do(Invalidate("k"))
    store.do(Begin("k", 1))
    assert ttl(valkey) > 3000


def test_an_attempt_that_was_given_up_ends_no_other(store):
    """It comes back after all: the one that runs is still known, and late after an eviction."""
    store._moment = 1_800_000_000_000_000
    lost = store.do(Begin("k", 30))
    store._moment += (LINGER + 30) * 1_000_000
    running = store.do(Begin("k", 30))
    store.do(Release("k", lost))
    store.do(Evict("k"))
    assert store.do(Write("k", running, 1, 10, 100)) is False


def test_a_value_that_aged_out_takes_no_room(store, valkey):
    """Though its hash is kept for an attempt that runs."""
    store._moment = 1_800_000_000_000_000
    store.do(Begin("k", 10))
    store._moment += 10_000_000
    store.do(Write("k", store.do(Begin("k", 10)), 1, 10, 20))
    store._moment += 20_000_000
    store.do(Begin("k", 10))
    assert valkey.client.hkeys("breakerkit:{k}") == [b"b"]


def test_all_numbers_of_a_century_are_exact(store):
    """The longest spans do not leave what the server counts with exactly."""
    store.do(Put("k", 1, 1e12, 1e12))
    entry = store.do(Read("k"))
    assert entry.due > 2e9
    assert store.do(Begin("k", 1e12)) is not None
    assert store.do(Begin("k", 1)) is None


def test_many_keys_are_evicted_in_batches(store, valkey):
    """A thousand keys are no thousand round trips."""
    for number in range(1000):
        store.do(Put(f"n:{number}", number, 10, 100))
    store.do(EvictAll(""))
    valkey.client.config_resetstat()
    for number in range(1000):
        valkey.client.hset(f"breakerkit:{{n:{number}}}", "m", "x")
    valkey.client.config_resetstat()
    store.do(EvictAll("n:"))
    assert valkey.client.dbsize() == 0
    assert valkey.client.info("commandstats")["cmdstat_evalsha"]["calls"] < 50


def test_many_keys_are_evicted_in_batches_by_tasks(store, valkey, runner):
    """The same without blocking the loop."""
    for number in range(500):
        valkey.client.hset(f"breakerkit:{{n:{number}}}", "m", "x")
    runner.run(store.do_async(EvictAll("n:")))
    assert valkey.client.dbsize() == 0


def test_keys_are_evicted_by_scripts_that_the_server_has_forgotten(store, valkey, runner):
    """They are sent again."""
    for way in (store.do, lambda one: runner.run(store.do_async(one))):
        way(Put("n:1", 1, 10, 100))
        valkey.client.script_flush()
        way(EvictAll("n:"))
        assert way(Read("n:1")) is None


@pytest.mark.parametrize("given", [False, True])
def test_to_look_for_keys_may_fail_as_well(runner, given):
    """An outage like any other; what was under way is nobody else's reply."""
    with Server() as server:
        client = redis.Redis.from_url(server.url, socket_timeout=0.05, protocol=2)
        store = RedisStore(client if given else server.url, timeout=0.05, clock=ManualClock())
        ways = [store.do] if given else [store.do, lambda one: runner.run(store.do_async(one))]
        for way in ways:
            assert way(Put("k", 1, 10, 100)) is True
            server.freeze()
            with pytest.raises(redis.TimeoutError):
                way(EvictAll(""))
            assert store.breaker.state.value == "open"
            server.thaw()
            store.breaker.reset()
            assert way(Put("k", 1, 10, 100)) is True
            way(EvictAll(""))
            assert way(Read("k")) is None
        store.close()
        client.close()


# -- clients -----------------------------------------------------------------------------


async def use_async(store: Any, key: str = "k") -> Any:
    """Store a value and read it, in a task."""
    await store.do_async(Put(key, 1, 10, 100))
    return (await store.do_async(Read(key))).value


def use(store: Any, key: str = "k") -> Any:
    """Do the same in a thread."""
    store.do(Put(key, 1, 10, 100))
    return store.do(Read(key)).value


@pytest.mark.parametrize("decode", [False, True])
def test_a_sync_client_is_used_as_it_is_and_an_async_one_made_like_it(valkey, runner, decode):
    """Whatever it does with replies: values are bytes."""
    with redis.Redis(unix_socket_path=valkey.socket, decode_responses=decode, protocol=2) as client:
        store = RedisStore(client, timeout=5)
        assert use(store) == 1
        assert store._clients.sync().client() is client
        assert runner.run(use_async(store)) == 1
        store.do(EvictAll(""))
        store.close()
        assert client.ping() is True
        assert store._clients.sync().client() is client


@pytest.mark.parametrize("decode", [False, True])
def test_an_async_client_is_used_as_it_is_in_its_loop(valkey, decode):
    """Other loops, and threads, get clients of their own."""
    client = redis.asyncio.Redis(
        unix_socket_path=valkey.socket, decode_responses=decode, protocol=2
    )
    store = RedisStore(client, timeout=5)

    async def first() -> None:
        assert await use_async(store) == 1
        assert (await store._clients.here()).client is client
        await store.do_async(EvictAll(""))
        await store.aclose()
        assert await client.ping() is True
        await client.aclose()

    async def second() -> None:
        assert await use_async(store) == 1
        assert isinstance(await store._clients.here(), LoopLane)

    asyncio.run(first())
    asyncio.run(second())
    assert use(store) == 1
    store.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_may_speak_either_protocol(valkey, runner, protocol):
    """The answers are the same in RESP2 and RESP3."""
    with redis.Redis(unix_socket_path=valkey.socket, protocol=protocol) as client:
        store = RedisStore(client, timeout=5)
        assert use(store) == 1
        assert store.do(Read("other")) is None
        assert store.do(Begin("k", 5)) > 0
        assert store.do(Begin("k", 5)) is None
        store.do(EvictAll(""))
        assert store.do(Read("k")) is None


def test_connections_of_an_own_kind_serve_their_side_alone(valkey, runner):
    """The other side gets a clear error, which is no outage of the server."""

    class Own(redis.UnixDomainSocketConnection):
        pass

    pool = redis.ConnectionPool(connection_class=Own, path=valkey.socket)
    with redis.Redis.from_pool(pool) as client:
        store = RedisStore(client, timeout=5)
        with pytest.raises(ConfigError, match="make a second RedisStore with the same prefix"):
            runner.run(use_async(store))
        assert use(store) == 1


@pytest.mark.parametrize("url", ["rediss://user:word@host:7000/3", "redis://host:7000/3"])
def test_a_client_made_from_another_has_its_settings(url, runner):
    """Address, name, password and TLS; timeouts and retries are the store's."""
    store = RedisStore(redis.Redis.from_url(url, socket_timeout=9), timeout=0.2)
    way = runner.run(store._clients.here())
    made = way._make()
    assert type(made) is (
        redis.asyncio.SSLConnection if "rediss" in url else redis.asyncio.Connection
    )
    assert (made.host, made.port, made.db) == ("host", 7000, 3)
    assert made.password == ("word" if "word" in url else None)
    assert (made.retry.get_retries(), made.socket_timeout, way._timeout) == (0, None, 0.2)
    store = RedisStore(redis.asyncio.Redis.from_url(url, socket_timeout=9), timeout=0.2)
    back = store._clients.sync()._make()
    assert (back.port, back.retry.get_retries(), back.socket_timeout) == (7000, 0, 0.2)


def test_each_loop_has_a_client_and_closes_it_at_its_end(valkey):
    """Two loops in turn, and two at once, leave no connection open and nothing alive."""
    store = RedisStore(valkey.url, timeout=5)
    loops = []

    async def main() -> Any:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        assert await use_async(store) == 1
        assert await store._clients.here() is await store._clients.here()

    for _ in range(2):
        asyncio.run(main())
    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store._clients._here) == 0
    until(lambda: len(valkey.client.client_list()) == 1)
    gc.collect()
    assert [one() for one in loops] == [None] * 4


def test_a_loop_that_was_not_shut_down_is_let_go_by_the_next(valkey):
    """Its connections cannot be closed there any more, but do not stay for ever."""
    store = RedisStore(valkey.url, timeout=5)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(store._clients.here())
    loop.close()

    async def main() -> None:
        await store._clients.here()
        assert list(store._clients._here) == [asyncio.get_running_loop()]

    asyncio.run(main())


def test_what_is_in_use_when_it_is_closed_is_closed_afterwards(valkey, runner):
    """A close harms nobody who is at it: their connections do not go back to the idle ones."""
    store = RedisStore(valkey.url, timeout=5)
    store.do(Read("k"))
    way = store._clients.sync()
    line = way._idle.pop()  # as one who uses it has
    store.close()
    way._back(line)
    assert way._idle == []

    async def main() -> None:
        await store.do_async(Read("k"))
        loop_way = await store._clients.here()
        connection = loop_way._idle.pop()
        await store.aclose()
        loop_way._back(connection)
        assert loop_way._idle == []

    runner.run(main())
    until(lambda: len(valkey.client.client_list()) == 1)


def test_a_connection_that_was_closed_meanwhile_is_not_used(valkey, runner, monkeypatch):
    """By the server: also where there is no poll to see it by."""
    with RedisStore(valkey.url, timeout=5) as store:
        for poll in (True, False):
            if not poll:
                monkeypatch.delattr(select, "poll")
            assert use(store) == 1
            assert use(store) == 1
            valkey.client.client_kill_filter(_type="normal", skipme=True)
            assert use(store) == 1
            store.close()

    async def main() -> None:
        assert await use_async(store) == 1
        valkey.client.client_kill_filter(_type="normal", skipme=True)
        await asyncio.sleep(0.01)  # a loop that runs sees that a connection is closed
        assert await use_async(store) == 1
        await store.aclose()

    runner.run(main())
    assert store.breaker.snapshot().failures == 0


def test_a_client_on_which_something_is_built_is_asked_as_its_users_ask_it(valkey):
    """A subclass, a single connection, or what a tracer has wrapped: no command goes past it."""
    asked: list[Any] = []

    class Own(redis.Redis):
        def execute_command(self, *args: Any, **options: Any) -> Any:
            asked.append(args[0])
            return super().execute_command(*args, **options)

    for kind, settings in ((Own, {}), (redis.Redis, {"single_connection_client": True})):
        with kind.from_url(valkey.url, protocol=2, **settings) as client:
            assert use(RedisStore(client)) == 1
    assert asked == ["EVALSHA"] * 2


def test_a_client_is_used_with_its_retries(valkey):
    """A connection that was closed is no error then."""
    retry = Retry(NoBackoff(), 1)
    with redis.Redis.from_url(valkey.url, protocol=2, retry=retry) as client:
        store = RedisStore(client)
        assert use(store) == 1
        held = client.connection_pool.get_connection()
        send = held.send_packed_command
        failures = iter([redis.ConnectionError("once")])

        def fail_once(*args: Any, **kwargs: Any) -> None:
            for error in failures:
                raise error
            send(*args, **kwargs)

        held.send_packed_command = fail_once
        client.connection_pool.release(held)
        assert store.do(Read("k")).value == 1
        assert list(failures) == []
        valkey.client.script_flush()
        assert use(store) == 1


def test_what_a_server_refuses_leaves_the_connection_of_a_client_as_it_is(valkey):
    """It was an answer."""
    with redis.Redis.from_url(valkey.url, protocol=2) as client:
        store = RedisStore(client)
        assert use(store) == 1
        number = client.client_id()
        with pytest.raises(redis.ResponseError):
            store._clients.sync().exchange(Script("return redis.call('NONE')"), b"k", ())
        assert client.client_id() == number


def test_it_is_closed_by_its_blocks_and_can_be_used_again(valkey):
    """Of one loop at a time; a second close does nothing."""
    store = RedisStore(valkey.url, timeout=5)
    with store:
        assert use(store) == 1
    store.close()
    assert use(store) == 1
    store.close()

    async def main() -> None:
        async with store:
            assert await use_async(store) == 1
        await store.aclose()
        assert len(store._clients._here) == 0
        assert await use_async(store) == 1

    asyncio.run(main())
    until(lambda: len(valkey.client.client_list()) == 1)


@pytest.mark.parametrize("ours", [True, False])
def test_threads_make_one_client(ours):
    """Of two that make it at once, which asks the nodes of a cluster, one is closed again, if it is ours."""
    barrier, made = threading.Barrier(2), []

    class Client:
        closed = False

        def close(self) -> None:
            self.closed = True

    def slow() -> Any:
        barrier.wait(10)
        made.append(Client())
        return made[-1]

    way = Through(slow, 5, 1, 1, ours=ours)
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(way.client())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert got[0] is got[1] is way.client()
    assert sorted(one.closed for one in made) == [False, ours]
    assert got[0].closed is False
    way.close()
    assert got[0].closed is ours


def test_threads_have_one_way(valkey):
    """Of two that look for it at once one makes it."""
    store = RedisStore(valkey.url, timeout=5)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(store._clients.sync()))
    with store._clients._lock:
        thread.start()
        mine = store._clients.sync()
    thread.join()
    assert got == [mine]


def test_threads_and_tasks_share_a_store(valkey):
    """Of a hundred that begin at once one gets the lease."""
    store = RedisStore(valkey.url, timeout=5, max_connections=8)
    barrier, tickets = threading.Barrier(8), []

    def in_thread() -> None:
        barrier.wait(10)
        tickets.extend(store.do(Begin("k", 60)) for _ in range(10))

    async def main() -> None:
        barrier.wait(10)
        tickets.extend(await asyncio.gather(*(store.do_async(Begin("k", 60)) for _ in range(10))))

    threads = [threading.Thread(target=in_thread) for _ in range(6)]
    threads += [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tickets) == 80
    assert sum(ticket is not None for ticket in tickets) == 1
    store.close()


def test_a_task_that_is_cancelled_harms_no_other(valkey, runner):
    """Its connection is dropped, and no answer goes to somebody else."""
    store = RedisStore(valkey.url, timeout=5, max_connections=2)

    async def main() -> None:
        for number in range(20):
            await store.do_async(Put(str(number), number, 10, 100))
        for turn in range(1, 30):
            tasks = [asyncio.ensure_future(store.do_async(Read(str(n)))) for n in range(4)]
            for _ in range(turn % 6):
                await asyncio.sleep(0)
            tasks[turn % 4].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for number in range(5):
                assert (await store.do_async(Read(str(number)))).value == number
        assert store.breaker.state.value == "closed"
        await store.aclose()

    runner.run(main())


FORK = """
import asyncio, os, sys, threading
from breakerkit import RedisStore
from breakerkit.store.commands import Put, Read

store = RedisStore(sys.argv[1], timeout=5)

def in_child(act):
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

async def use():
    await store.do_async(Put("async", os.getpid(), 10, 100))
    assert (await store.do_async(Read("async"))).value == os.getpid()

def use_all():
    store.do(Put("sync", os.getpid(), 10, 100))
    assert store.do(Read("sync")).value == os.getpid()
    asyncio.run(use())

use_all()
store._clients._lock.acquire()
thread = threading.Thread(target=in_child, args=(use_all,))  # the lock is held by another thread
thread.start()
thread.join()
store._clients._lock.release()

async def main():
    await use()
    mine = await store._clients.here()
    in_child(lambda: store.do(Read("sync")))
    await use()
    assert await store._clients.here() is mine
asyncio.run(main())
use_all()
store.close()
"""


def test_a_forked_child_connects_anew(valkey):
    """Parent and child never share a connection, a lock or a selector."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", FORK, valkey.url],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_child_leaves_its_parents_connections_alone(valkey, runner):
    """It forgets them without closing one: their sockets are the parent's too."""
    store = RedisStore(valkey.url, timeout=5)
    assert use(store) == runner.run(use_async(store)) == 1
    mine, sync = runner.run(store._clients.here()), store._clients.sync()
    (held,), (line,) = mine._idle, sync._idle
    store.after_fork()  # what the child does
    assert store._clients.sync() is not sync
    assert runner.run(store._clients.here()) is not mine
    assert use(store) == runner.run(use_async(store)) == 1
    assert (mine._idle, sync._idle) == ([held], [line])
    assert runner.run(mine.exchange(READ, b"none", ())) is None
    assert sync.exchange(READ, b"none", ()) is None
    runner.run(mine.close())
    sync.close()
    store.close()


def test_processes_share_the_lease(valkey, store):
    """Of four one begins; killed, it loses the key when its lease runs out, and not before."""
    store._moment = 1_800_000_000_000_000
    code = f"""
import signal, sys
from breakerkit import RedisStore
from breakerkit.store.commands import Begin
store = RedisStore(sys.argv[1], timeout=5)
store._moment = {store._moment}
print(store.do(Begin("k", 30)), flush=True)
sys.stdin.read()
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, valkey.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [child.stdout.readline().strip() for child in children]
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    assert sum(ticket != "None" for ticket in said) == 1
    for _ in range(3):
        store._moment += 9_000_000
        assert store.do(Begin("k", 30)) is None
    store._moment += 3_000_000
    assert store.do(Begin("k", 30)) is not None


# -- values --------------------------------------------------------------------------------


@pytest.fixture
def pair(valkey):
    """Make stores that write in such ways."""
    stores = []

    def make(*serializers: Any) -> list[RedisStore]:
        stores.extend(RedisStore(valkey.url, timeout=5, serializer=one) for one in serializers)
        return stores

    yield make
    for store in stores:
        store.close()


@pytest.mark.parametrize("serializer", ["json", "msgspec", "pickle"])
@pytest.mark.parametrize("value", [None, True, -1.5, "текст😀", [1, [2, None]], {"a": {"b": []}}])
def test_plain_values_come_back_as_they_are(pair, serializer, value):
    """By every serializer."""
    (store,) = pair(serializer)
    assert store.do(Put("k", value, 10, 100)) is True
    assert store.do(Read("k")).value == value


def test_pickle_carries_what_python_has(pair, caplog):
    """For those who ask for it, and without a word."""
    (store,) = pair("pickle")
    value = {"when": timedelta(days=1), "what": (1, {2, 3})}
    store.do(Put("k", value, 10, 100))
    assert store.do(Read("k")).value == value
    assert caplog.records == []


class Words:
    """A serializer of the user's that writes texts."""

    def dumps(self, value: Any) -> str:
        return f"<{value}>"

    def loads(self, data: bytes) -> Any:
        return data.decode()[1:-1]


def test_a_serializer_may_be_an_object_or_a_module(pair):
    """Whatever has dumps and loads."""
    import marshal

    own, module = pair(Words(), marshal)
    own.do(Put("a", "x", 10, 100))
    module.do(Put("b", (1, 2), 10, 100))
    assert own.do(Read("a")).value == "x"
    assert module.do(Read("b")).value == (1, 2)


def test_what_another_serializer_wrote_is_a_miss(pair):
    """Never a wrong value, and never an error."""
    stores = pair("json", "msgspec", "pickle", Words())
    for writer in stores:
        writer.do(Put("k", "x", 10, 100))
        assert [store.do(Read("k")) is not None for store in stores] == [
            store is writer for store in stores
        ]


def test_a_value_that_cannot_be_written_is_not_stored(store, caplog):
    """The attempt ends all the same, what is put takes the old value away; it is told once for each type."""
    store.do(Put("k", 1, 10, 100))
    ticket = store.do(Begin("k", 30))
    assert store.do(Write("k", ticket, {1, 2}, 10, 100)) is False
    assert store.do(Begin("k", 30)) is not None
    assert store.do(Read("k")).value == 1
    assert store.do(Put("k", {1, 2}, 10, 100)) is False
    assert store.do(Read("k")) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.name}: a value cannot be stored: set"
    ]


def test_a_value_that_comes_back_as_another_is_told_once(store, caplog):
    """JSON makes lists of tuples and texts of keys: the first caller and the next would get different values."""
    for _ in range(2):
        assert store.do(Put("k", {1: (2, 3)}, 10, 100)) is True
    assert store.do(Read("k")).value == {"1": [2, 3]}
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.name}: a value comes back from the store as another one: dict"
    ]


class Level(enum.IntEnum):
    """A number with a name."""

    LOW = 1


@pytest.mark.parametrize("serializer", ["json", "msgspec"])
@pytest.mark.parametrize("value", [
    Counter("a"), defaultdict(list, a=[1]), OrderedDict(a=1), Level.LOW, {"a": Level.LOW}, [[{"a": Counter()}]],
    {"a": True, "b": (1,)}, [1, [2.0, (3,)]],
])  # fmt: skip
def test_a_value_that_comes_back_as_another_type_is_told(pair, caplog, serializer, value):
    """Though it is equal: the next caller of a Counter would get a KeyError for what is 0 to the first."""
    (store,) = pair(serializer)
    assert store.do(Put("k", value, 10, 100)) is True
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.name}: a value comes back from the store as another one: {type(value).__qualname__}"
    ]


@pytest.mark.parametrize(
    ("value", "back"),
    [(1, b"1:json:2"), (1, b"1:json:"), ([1, 2], b"1:json:[1,3]"), ([1], b"1:json:[1,1]")],
)
def test_another_value_is_seen(value, back):
    """Also one that cannot be read at all."""
    assert Packing("json").alters(value, back) is True


@pytest.mark.parametrize("serializer", ["json", "msgspec"])
@pytest.mark.parametrize("value", [
    float("nan"), [float("nan"), 1.5], {"a": {"b": [float("nan"), None, True, "x", -0.0]}}, {}, [], [[], {}], "",
    {"a": [1, 2.5, {"b": None}], "c": "d"},
])  # fmt: skip
def test_a_value_that_comes_back_the_same_is_not_told(pair, caplog, serializer, value):
    """Also one that is no number: it is not equal to itself, and comes back all the same."""
    (store,) = pair(serializer)
    assert store.do(Put("k", value, 10, 100)) is True
    assert caplog.records == []


def test_a_value_that_compares_as_it_likes_is_told_too(pair, caplog):
    """Whoever cannot be compared is not the same."""

    class Odd(str):
        __slots__ = ()

        def __ne__(self, other: object) -> bool:
            raise RuntimeError

    (store,) = pair("json")
    assert store.do(Put("k", Odd("x"), 10, 100)) is True
    assert "as another one: " in caplog.text


def test_lines_about_values_are_bounded(store, caplog):
    """Types that come from traffic do not fill the log, or memory."""
    caplog.set_level(logging.WARNING, "breakerkit")
    for number in range(150):
        store.do(Put("k", type(f"Kind{number}", (), {})(), 10, 100))
    assert len(caplog.records) == len(store._telling.told_of) == 100


def test_the_memory_store_needs_no_redis_package():
    """Nor does it wait for anything."""
    assert MemoryStore.local is True
