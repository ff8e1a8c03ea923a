"""A cluster of three masters, one of which dies: keys find their node, and the next one after a failover."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from breakerkit import CircuitOpenError, RedisStore, State
from breakerkit.store.commands import Begin, EvictAll, InvalidateAll, Put, Read, Write
from tests.servers import Cluster, until

TIMEOUT = 1.0
#: What redis-py raises for a node, and for a cluster.
OUTAGE = (redis.RedisError, redis.exceptions.RedisClusterException)
KEYS = [f"user:{number}" for number in range(40)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for this file: it takes seconds to agree with itself."""
    with Cluster() as one:
        yield one


@pytest.fixture
def world(cluster, clock, ask):
    """A store in the cluster, and how it is asked."""
    with RedisStore(cluster.url, cluster=True, timeout=TIMEOUT, clock=clock) as store:
        yield store, ask(store)


def test_keys_live_on_all_nodes(world, cluster):
    """Each key with all that belongs to it on one of them."""
    store, do = world
    for key in KEYS:
        ticket = do(Begin(key, 30))
        assert do(Write(key, ticket, key, 10, 100)) is True
    assert [do(Read(key)).value for key in KEYS] == KEYS
    assert all(node.client.dbsize() > 0 for node in cluster.nodes[:3])


def test_a_prefix_reaches_all_masters(world, cluster):
    """Whichever node has the keys."""
    _, do = world
    for key in (*KEYS, "other"):
        do(Put(key, 1, 10, 100))
    do(InvalidateAll("user:"))
    assert {do(Read(key)).due <= 0 for key in KEYS} == {True}
    do(EvictAll("user:"))
    assert [do(Read(key)) for key in KEYS] == [None] * 40
    assert do(Read("other")).due > 0


def test_scripts_are_loaded_again_on_each_node(world, cluster):
    """After SCRIPT FLUSH on all of them no call fails."""
    _, do = world
    for node in cluster.nodes[:3]:
        node.client.script_flush()
    for key in KEYS:
        assert do(Put(key, 1, 10, 100)) is True


def test_connections_that_nobody_uses_are_let_go_on_all_nodes(cluster, runner):
    """And made again when they are needed; before there is a client there is nothing to do."""
    store = RedisStore(cluster.url, cluster=True, timeout=TIMEOUT)
    store._clients.sync().forget()
    for key in KEYS:
        store.do(Put(key, 1, 10, 100))
    store._clients.sync().forget()
    pools = [node.redis_connection.connection_pool for node in store._clients.sync().client().get_nodes()
             if node.redis_connection]  # fmt: skip
    known = "inuse_connections" in inspect.signature(pools[0].disconnect).parameters  # redis-py 8
    assert ([one for pool in pools for one in pool._connections if one._sock] == []) is known
    assert store.do(Read(KEYS[0])).value == 1
    store.close()

    async def main() -> None:
        for key in KEYS:
            await store.do_async(Read(key))
        await (await store._clients.here()).forget()
        assert (await store.do_async(Read(KEYS[0]))).value == 1
        await store.aclose()

    runner.run(main())


def test_a_cluster_client_of_one_side_serves_both(cluster, runner):
    """The other is made from its nodes."""
    with redis.RedisCluster.from_url(cluster.url, protocol=2) as client:
        store = RedisStore(client, timeout=TIMEOUT)
        assert store._clients.sync().client() is client
        store.do(Put("k", 1, 10, 100))
        assert runner.run(store.do_async(Read("k"))).value == 1
        runner.run(store.aclose())

    async def main() -> None:
        other = redis.asyncio.RedisCluster.from_url(cluster.url, protocol=2)
        store = RedisStore(other, timeout=TIMEOUT)
        assert (await store.do_async(Read("k"))).value == 1
        assert (await store._clients.here()).client is other
        assert store.do(Read("k")).value == 1
        store.close()
        await other.aclose()

    runner.run(main())


def test_an_encrypted_cluster_stays_so_on_the_other_side(runner):
    """And keeps its password."""
    given = redis.asyncio.RedisCluster.from_url("rediss://:word@host:7000")
    store = RedisStore(given, timeout=0.2)
    made: list[dict[str, Any]] = []
    real, redis.RedisCluster.__init__ = (
        redis.RedisCluster.__init__,
        lambda _, **kwargs: made.append(kwargs),
    )  # type: ignore[method-assign]  # only for this test
    try:
        store._clients.sync().client()
    finally:
        redis.RedisCluster.__init__ = real  # type: ignore[method-assign]  # only for this test
    assert made[0]["ssl"] is True
    assert made[0]["password"] == "word"
    assert [(node.host, node.port) for node in made[0]["startup_nodes"]] == [("host", 7000)]


def test_a_cluster_that_is_not_there_is_an_outage(clock, ask):
    """As with one server."""
    store = RedisStore("redis://127.0.0.1:1", cluster=True, timeout=0.05, clock=clock)
    do = ask(store)
    with pytest.raises(OUTAGE):
        do(Read("k"))
    with pytest.raises(CircuitOpenError):
        do(Read("k"))
    store.close()


def test_a_failover_is_an_outage_that_ends(cluster, clock, runner):
    """A master dies: calls fail soon, the rest of the time the breaker answers; then its replica serves."""
    stores = [RedisStore(cluster.url, cluster=True, timeout=TIMEOUT, clock=clock) for _ in range(2)]
    ways = [stores[0].do, lambda command: runner.run(stores[1].do_async(command))]
    for do in ways:
        for key in KEYS:
            do(Put(key, 1, 1000, 1000))
    until(lambda: cluster.nodes[3].client.dbsize() == cluster.nodes[0].client.dbsize())
    there = cluster.nodes[0].client.keys()
    lost = next(key for key in KEYS if f"breakerkit:{{{key}}}".encode() in there)
    cluster.nodes[0].kill()
    for do, store in zip(ways, stores, strict=True):
        began = time.monotonic()
        with pytest.raises(OUTAGE):
            do(Read(lost))
        with pytest.raises(CircuitOpenError):
            do(Read(lost))
        assert store.breaker.state is State.OPEN
        assert time.monotonic() - began < 5
    cluster.wait_for_failover()
    for do, store in zip(ways, stores, strict=True):
        until(lambda: _back(do, lost, clock))
        assert [do(Read(key)).value for key in KEYS] == [1] * 40
        assert do(Put("new", 2, 10, 100)) is True
        assert store.breaker.state is State.CLOSED
        store.close()


def _back(do: Any, key: str, clock: Any) -> bool:
    try:
        assert do(Read(key)).value == 1
    except (*OUTAGE, CircuitOpenError):  # the client may have to look at the nodes again
        clock.advance(30)
        return False
    return True
