"""Connections that hold something of another command, that have died unnoticed, and replies that never end."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
import threading
import time
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from breakerkit import RedisStore, State
from breakerkit.store.commands import Begin, EvictAll, InvalidateAll, Put, Read, StoreBusyError
from breakerkit.store.redis import _line, _looks, _loop_line
from breakerkit.store.redis._line import Line
from breakerkit.store.redis._replies import LINE, reply
from breakerkit.store.redis._scripts import READ
from breakerkit.store.redis._sending import forget_async
from tests.servers import Fake, until
from tests.store.between import Bend, Between, twice

TIMEOUT = 0.2
#: What is far more than one timeout, and far less than any of these replies would take.
SOON = 8 * TIMEOUT


@pytest.fixture
def between(valkey):
    with Between(valkey) as one:
        yield one


#: How a store reaches its server.
WAYS = ["url", "client", "client of RESP 2", "async client"]


@pytest.fixture(params=WAYS)
def store(request, between, clock, runner):
    """A store that reaches its server in such a way, with one key in it and another one."""
    settings: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": between.port,
        "socket_timeout": TIMEOUT,
    }
    if request.param == "client of RESP 2":
        settings["protocol"] = 2
    source: Any = between.url
    if request.param.startswith("client"):
        source = redis.Redis(**settings, retry=Retry(NoBackoff(), 0))
    if request.param == "async client":
        source = redis.asyncio.Redis(**settings, retry=AsyncRetry(NoBackoff(), 0))
    one = RedisStore(source, timeout=TIMEOUT, clock=clock)
    yield one
    one.close()
    if request.param.startswith("client"):
        source.close()
    elif request.param == "async client":
        runner.run(source.aclose())
    else:
        runner.run(one.aclose())


def fill(do: Any) -> None:
    for number in range(3):
        assert do(Put(f"k{number}", number, 10, 100)) is True


# -- nothing of another command ---------------------------------------------------------


def test_a_reply_that_came_twice_is_no_other_keys_value(store, between, ask):
    """What is left after a reply is never the next one, whoever has read it into whatever buffer."""
    do = ask(store)
    fill(do)
    assert do(Read("k1")).value == 1
    between.once(twice)
    got = [do(Read(f"k{number}")) for number in (1, 2, 0, 1)]
    assert [
        one is None or one.value == number for one, number in zip(got, (1, 2, 0, 1), strict=True)
    ] == [True] * 4
    assert [do(Read(f"k{number}")).value for number in range(3)] == [0, 1, 2]
    assert store.breaker.state is State.CLOSED


def test_a_reply_to_a_change_that_came_twice_is_told_from_others(store, between, ask):
    """One reply too many does not shift all that follow: the connection is not used again."""
    do = ask(store)
    fill(do)
    between.once(twice)
    assert do(Put("k1", 5, 10, 100)) is True
    for _ in range(2):  # the first may find what is left
        try:
            do(Begin("k2", 5))
        except TypeError as error:
            assert "Begin was answered with" in str(error)  # noqa: PT017  # it need not be raised
        do(Read("k0"))
    assert [do(Read(f"k{number}")).value for number in range(3)] == [0, 5, 2]
    assert store.breaker.state is State.CLOSED


def test_what_is_said_before_anything_is_asked_is_no_reply(between, clock, ask):
    """Nor is it after what redis-py says when it connects."""
    store = RedisStore(between.url, timeout=TIMEOUT, clock=clock)
    do = ask(store)
    between.once(lambda data, _: data + b"+more\r\n" * 10)
    with pytest.raises(redis.InvalidResponse, match="more replies than commands"):
        do(Read("k"))
    clock.advance(1)
    assert do(Read("k")) is None
    store.close()


# -- connections that died ---------------------------------------------------------------------


def crowd(store: Any, do: Any, runner: Any, count: int) -> None:
    """Let a store have many connections that nobody uses."""
    if do == store.do:
        barrier = threading.Barrier(count)

        def held(way: Any, *args: Any) -> Any:
            barrier.wait(10)
            return way.exchange(*args)

        lane = store._clients.sync()
        threads = [
            threading.Thread(target=held, args=(lane, READ, store._key(f"k{number}"), ()))
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return

    async def main() -> None:
        await asyncio.gather(*(store.do_async(Put(str(n), n, 10, 100)) for n in range(count)))

    runner.run(main())


def test_connections_that_died_unnoticed_cost_one_timeout(store, between, clock, ask, runner):
    """Nobody said that they are gone: with the first all are let go, and the next try makes a new one."""
    do = ask(store)
    fill(do)
    crowd(store, do, runner, 6)
    between.forget()
    with pytest.raises(redis.TimeoutError):
        do(Read("k1"))
    assert store.breaker.state is State.OPEN
    clock.advance(1)
    assert do(Read("k1")).value == 1
    assert store.breaker.state is State.CLOSED


def test_a_loop_that_did_not_turn_meanwhile_finds_what_was_closed(between, runner, clock):
    """It has not heard of it: the sockets are asked before they are used."""
    store = RedisStore(between.url, timeout=TIMEOUT, clock=clock)
    runner.run(asyncio.wait_for(_fill_async(store), 10))
    for _ in range(3):
        lane = runner.run(store._clients.here())
        sockets = [line._writer.get_extra_info("socket") for line in lane._idle]
        between.hang_up()
        until(lambda: all(_ended(one) for one in sockets))  # noqa: B023  # it is called here
        assert runner.run(store.do_async(Read("k1"))).value == 1
    assert store.breaker.snapshot().failures == 0
    runner.run(store.aclose())


async def _fill_async(store: Any) -> None:
    await asyncio.gather(
        *(store.do_async(Put(f"k{number}", number, 10, 100)) for number in range(3))
    )


def _ended(one: Any) -> bool:
    with socket.socket(fileno=os.dup(one.fileno())) as copy:
        try:
            return copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False


def test_a_blocking_pool_of_another_version_is_left_alone(between, clock):
    """What cannot tell idle connections from others closes none."""

    class Pool(redis.ConnectionPool):
        def disconnect(self) -> None:  # type: ignore[override]  # as redis-py 6.2 has it
            raise AssertionError

    client = redis.Redis(
        connection_pool=Pool(
            host="127.0.0.1", port=between.port, socket_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
    )
    store = RedisStore(client, clock=clock)
    fill(store.do)
    between.forget()
    with pytest.raises(redis.TimeoutError):
        store.do(Read("k1"))
    redis.ConnectionPool.disconnect(client.connection_pool)


def test_nodes_of_another_version_are_left_alone(runner):
    """Those of older versions of redis-py cannot tell idle connections from others either."""
    runner.run(forget_async(SimpleNamespace(get_nodes=lambda: [object()])))


# -- replies without an end ----------------------------------------------------------------------


def drip(stop: threading.Event) -> Bend:
    """Say it byte by byte, each soon after the one before."""

    def bend(data: bytes, client: socket.socket) -> bytes:
        for at in range(len(data)):
            client.sendall(data[at : at + 1])
            if stop.wait(TIMEOUT / 3):
                break
        return b""

    return bend


def flood(stop: threading.Event, head: bytes) -> Bend:
    """Say more and more."""

    def bend(_: bytes, client: socket.socket) -> bytes:
        client.sendall(head)
        while not stop.is_set():
            client.sendall(b"a" * 100_000)
        return b""

    return bend


def cut(store: Any, do: Any, kind: Any) -> None:
    """Assert that a reply is not waited for."""
    began = time.monotonic()
    with pytest.raises(kind):
        do(Read("k1"))
    assert time.monotonic() - began < SOON
    assert store.breaker.state is State.OPEN


def test_a_reply_that_drips_has_one_time_as_a_whole(between, clock, ask):
    """Each piece of it comes in time, and all of it would take many timeouts."""
    store, stop = RedisStore(between.url, timeout=TIMEOUT, clock=clock), threading.Event()
    do = ask(store)
    fill(do)
    between.once(drip(stop))
    cut(store, do, redis.TimeoutError)
    stop.set()
    clock.advance(1)
    assert do(Read("k1")).value == 1
    store.close()


@pytest.mark.parametrize(
    "head", [b"+", b"$3000000000\r\n", b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"]
)
def test_a_reply_that_grows_without_an_end_is_cut(between, clock, ask, head):
    """A line, a text, or lists in lists."""
    store, stop = RedisStore(between.url, timeout=TIMEOUT, clock=clock), threading.Event()
    do = ask(store)
    fill(do)
    between.once(flood(stop, head))
    cut(store, do, redis.InvalidResponse)
    stop.set()
    store.close()


def test_a_list_without_an_end_is_cut(between, clock, ask, monkeypatch):
    """However fast it grows."""
    for module in (_line, _loop_line, _looks):
        monkeypatch.setattr(module, "MOST_PIECES", 1)
    store, stop = RedisStore(between.url, timeout=TIMEOUT, clock=clock), threading.Event()
    do = ask(store)
    fill(do)

    def bend(_: bytes, client: socket.socket) -> bytes:
        client.sendall(b"*500000000\r\n")
        while not stop.is_set():
            client.sendall(b"$1000\r\n" + b"a" * 1000 + b"\r\n")
        return b""

    between.once(bend)
    cut(store, do, (redis.InvalidResponse, redis.TimeoutError))
    stop.set()
    store.close()


def test_what_has_come_is_read_before_it_is_too_late(monkeypatch):
    """A thread that was held up has all of a reply to read; where nothing can be asked of a socket, time counts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(TIMEOUT)
        connection = SimpleNamespace(
            _sock=ours, _parser=SimpleNamespace(parse_error=str), can_read=lambda: False,
            connect=lambda: None, socket_timeout=TIMEOUT,
        )  # fmt: skip
        line = Line(connection)
        line.open()
        monkeypatch.setattr(
            _line, "monotonic", iter(range(100)).__next__
        )  # each look is a second later
        theirs.sendall(b"$150000\r\n" + b"x" * 150_000 + b"\r\n")
        assert len(line.ask(b"?")) == 150_000
        line._poll = None
        theirs.sendall(b"$150000\r\n" + b"x" * 150_000 + b"\r\n")
        with pytest.raises(redis.TimeoutError):
            line.ask(b"?")


def test_a_large_value_that_comes_too_slowly_is_no_outage(between, clock, ask, caplog):
    """It is told once: the breaker hears of it if small replies take too long as well."""
    store, stop = RedisStore(between.url, timeout=TIMEOUT, clock=clock), threading.Event()
    do = ask(store)

    def beginning(data: bytes, client: socket.socket) -> bytes:
        client.sendall(data[:200])
        stop.wait(SOON)
        return b""

    assert do(Put("k1", "x" * 3_000_000, 10, 100)) is True
    for _ in range(2):
        assert do(Read("k2")) is None  # it is connected
        between.once(beginning)
        with pytest.raises(
            StoreBusyError, match="a value of 3000... bytes took longer than the timeout"
        ):
            do(Read("k1"))
    stop.set()
    assert store.breaker.snapshot().failures == 0
    assert [record.getMessage().partition(" a value")[0] for record in caplog.records] == [
        f"{store.name}: not read:"
    ]
    store.close()


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b"*2\r\n$1\r\nx\r\n*1\r\n:-5\r\n", [b"x", [-5]]),
        (b"+OK\r\n", b"OK"),
        (b"*1\r\n-ERR no\r\n", ["ERR no"]),
        (b"$0\r\n\r\n", b""),
    ],
)
def test_a_reply_is_read_as_it_is_meant(said, means):
    """Texts, numbers, errors, lists of them, and nothing."""
    assert parsed(said) == means


@pytest.mark.parametrize(
    "said", [b"$x\r\n", b"$-2\r\n", b"*1_0\r\n", b"$9999999999\r\n", b"!\r\n", b"\r\n"]
)
def test_what_is_no_reply_is_told(said):
    """And never guessed."""
    with pytest.raises(redis.InvalidResponse):
        parsed(said)


def parsed(said: bytes) -> Any:
    """Return what a text of a server means."""
    course, at = reply(lambda text: text), 0
    wanted = next(course)
    try:
        while True:
            end = said.index(b"\r\n", at) + 2 if wanted == LINE else at + wanted
            part, at = said[at:end], end
            wanted = course.send(part[:-2] if wanted == LINE else part)
    except StopIteration as done:
        return done.value


@pytest.mark.parametrize("rest", [b"", b"$100\r\nabc"])
def test_a_server_that_hangs_up_in_the_middle_is_an_outage_at_once(between, clock, ask, rest):
    """Nobody waits for the rest."""
    store = RedisStore(between.url, timeout=10, clock=clock)
    do = ask(store)
    fill(do)

    def bend(_: bytes, client: socket.socket) -> bytes:
        client.sendall(rest)
        client.shutdown(socket.SHUT_RDWR)
        return b""

    between.once(bend)
    cut(store, do, redis.ConnectionError)
    store.close()


class Resets(Fake):
    """A server that is friendly, and forgets who asks it for something."""

    def _serve(self, one: socket.socket) -> None:
        while b"EVALSHA" not in (heard := one.recv(65536)):
            one.sendall(b"+OK\r\n" * heard.count(b"*"))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


def test_a_connection_that_is_reset_is_an_outage(clock, ask):
    """As one that is closed."""
    with Resets(None) as server:
        store = RedisStore(server.url, timeout=10, clock=clock)
        cut(store, ask(store), redis.ConnectionError)
        store.close()


def test_keys_are_looked_for_within_bounds_too(between, clock, ask):
    """A sweep that nobody answers ends, and one that is refused leaves the connection as it is."""
    store = RedisStore(between.url, timeout=TIMEOUT, clock=clock)
    do = ask(store)
    fill(do)
    between.once(lambda *_: b"-ERR no\r\n")
    with pytest.raises(redis.ResponseError):
        do(EvictAll(""))
    clock.advance(1)
    opened = between.opened
    do(InvalidateAll(""))
    assert between.opened == opened
    between.forget()
    with pytest.raises(redis.TimeoutError):
        do(EvictAll(""))
    clock.advance(2)
    do(EvictAll(""))
    assert do(Read("k1")) is None
    store.close()


# -- loops that end too soon -------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("command", [Read("k1"), EvictAll("none")])
@pytest.mark.parametrize("early", [False, True])
def test_a_loop_that_is_closed_with_a_command_under_way_is_no_outage(
    between, clock, command, early
):
    """Nor is one that is closed while others wait in line: the other threads and loops go on."""
    store = RedisStore(between.url, timeout=10, max_connections=1, clock=clock)
    fill(store.do)
    sent = threading.Event()

    def swallow(_data: bytes, _client: socket.socket) -> bytes:
        sent.set()
        return b""

    async def main() -> list[Any]:
        if not early:
            await store.do_async(Read("k1"))
        between.bend = swallow
        tasks = [asyncio.ensure_future(store.do_async(command)) for _ in range(3)]
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # that is what is done here
        await asyncio.to_thread(sent.wait, 10)
        return tasks

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    del left, loop
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # a loop that is closed too soon leaves a socket
        gc.collect()
    between.bend = None
    assert store.breaker.snapshot().failures == 0
    assert store.do(Read("k1")).value == 1
    assert asyncio.run(_read(store)) == 1
    store.close()


def test_what_is_used_while_a_loop_is_shut_down_is_closed_after_it(valkey):
    """A user's generator may ask for something at its end: nothing warns, and nothing is left."""
    store = RedisStore(valkey.url, timeout=5)
    got: list[Any] = []

    async def generator() -> Any:
        try:
            yield
        finally:
            await asyncio.sleep(0.01)  # ours is closed by then
            got.append(await store.do_async(Put("k", 1, 10, 100)))
            got.append((await store.do_async(Read("k"))).value)

    async def main() -> None:
        await store.do_async(Read("k"))
        left.append(generator())
        await anext(left[0])

    left: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
    assert got == [True, 1]
    assert len(store._clients._here) == 0
    until(lambda: len(valkey.client.client_list()) == 1)


async def _read(store: Any) -> Any:
    found = await store.do_async(Read("k1"))
    await store.aclose()
    return found.value


# -- pools -------------------------------------------------------------------------------------


def test_a_sweep_with_a_pool_that_others_have_emptied_is_no_outage(valkey, runner):
    """As with one key."""
    settings = {"max_connections": 1, "timeout": 0.01, "path": valkey.socket}
    pool = redis.BlockingConnectionPool(
        connection_class=redis.UnixDomainSocketConnection, **settings
    )
    store = RedisStore(redis.Redis(connection_pool=pool))
    taken = pool.get_connection()
    with pytest.raises(StoreBusyError):
        store.do(EvictAll(""))
    pool.release(taken)
    store.do(EvictAll(""))

    async def main() -> None:
        own = redis.asyncio.BlockingConnectionPool(
            connection_class=redis.asyncio.UnixDomainSocketConnection, **settings
        )
        other = RedisStore(redis.asyncio.Redis(connection_pool=own))
        held = await own.get_connection()
        with pytest.raises(StoreBusyError):
            await other.do_async(EvictAll(""))
        await own.release(held)
        await other.do_async(EvictAll(""))
        assert other.breaker.state is State.CLOSED
        await own.disconnect()

    runner.run(main())
    assert store.breaker.state is State.CLOSED
    pool.disconnect()


def test_a_sweep_over_a_connection_that_died_lets_go_of_the_others(store, between, clock, ask):
    """As a command for one key does."""
    do = ask(store)
    fill(do)
    between.forget()
    with pytest.raises(redis.TimeoutError):
        do(EvictAll(""))
    clock.advance(1)
    do(EvictAll(""))
    assert do(Read("k1")) is None


@pytest.mark.parametrize("kind", [redis, redis.asyncio])
def test_a_client_of_one_connection_has_one_command_at_once(between, clock, runner, kind):
    """The others wait before the breaker, which lets go of them, and not behind it for redis-py."""
    client = kind.Redis(
        host="127.0.0.1", port=between.port, socket_timeout=TIMEOUT, single_connection_client=True
    )
    store = RedisStore(client, clock=clock)
    if kind is redis:
        fill(store.do)
        assert store._clients.sync().places._most == 1
        client.close()
        return

    async def main() -> None:
        await _fill_async(store)
        assert (await store._clients.here()).places._most == 1
        await client.aclose()

    runner.run(main())


def test_a_store_that_nobody_closed_hangs_up(valkey):
    """Also in a cycle, and with a connection that has come into being late: no socket is found unclosed."""
    before = len(valkey.client.client_list())
    store = RedisStore(valkey.url, timeout=5)
    store.itself = store
    store.do(Put("k", 1, 10, 100))
    assert len(valkey.client.client_list()) == before + 1
    gc.collect()  # what it has is old, and in no order
    with warnings.catch_warnings(record=True, action="always") as said:
        del store
        gc.collect()
    assert not [one for one in said if "unclosed" in str(one.message)]
    until(lambda: len(valkey.client.client_list()) == before)
