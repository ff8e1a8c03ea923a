"""Servers that are gone, frozen, killed, full or mad: what the store raises, and how soon it is used again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from typing import Any

import pytest
import redis

from breakerkit import CircuitOpenError, RedisStore, Registry, State, StoreLost, stale_if_error
from breakerkit.store.commands import (
    NOTHING,
    Begin,
    Entry,
    Evict,
    Invalidate,
    Postpone,
    Put,
    Read,
    Release,
    StoreBusyError,
    Write,
)
from tests.servers import Fake, Server, free_ports, until

#: Seconds the store waits for a server in these tests.
TIMEOUT = 0.3
#: Within this nobody has waited twice; and within the other one nobody has waited at all.
ONCE, AT_ONCE = 1.9 * TIMEOUT, 0.9 * TIMEOUT


@pytest.fixture
def make(clock, ask):
    """Make stores with a breaker on a clock that stands still, and how to ask them."""
    made = []

    def one(url: str, **settings: Any) -> Any:
        store = RedisStore(url, **{"timeout": TIMEOUT, "clock": clock, **settings})
        made.append(store)
        return store, ask(store)

    yield one
    for store in made:
        store.close()


def fails(do: Any, kind: Any, command: Any = Read("k"), *, within: float = ONCE) -> None:
    """Assert that a command fails in such a way, in time."""
    began = time.monotonic()
    with pytest.raises(kind):
        do(command)
    assert time.monotonic() - began < within


def rests(do: Any, store: Any) -> None:
    """Assert that the server is left alone."""
    assert store.breaker.state is State.OPEN
    fails(do, CircuitOpenError, within=AT_ONCE)


def works(do: Any) -> None:
    """Assert that the store stores."""
    assert do(Put("back", 1, 10, 100)) is True
    assert do(Read("back")).value == 1


def test_a_refused_port_is_asked_once_and_again_after_a_second(make, clock):
    """The first failure opens the store's breaker; the server is used once it is there."""
    (port,) = free_ports(1)
    store, do = make(f"redis://127.0.0.1:{port}")
    fails(do, redis.ConnectionError)
    rests(do, store)
    clock.advance(1)
    with Server(port=port):
        works(do)
        assert store.breaker.state is State.CLOSED


def test_the_rest_grows_to_half_a_minute(make, clock):
    """Each failure in a row doubles the time for which the server is left alone."""
    (port,) = free_ports(1)
    _, do = make(f"redis://127.0.0.1:{port}")
    rested = []
    for _ in range(7):
        fails(do, redis.ConnectionError)
        with pytest.raises(CircuitOpenError) as caught:
            do(Read("k"))
        rested.append(caught.value.retry_after)
        clock.advance(caught.value.retry_after)
    assert rested == [1, 2, 4, 8, 16, 30, 30]


def test_a_frozen_server_costs_one_timeout(make, clock):
    """Whether there is a connection already or not."""
    with Server() as server:
        store, do = make(server.url)
        works(do)
        server.freeze()
        fails(do, redis.TimeoutError)
        rests(do, store)
        clock.advance(1)
        fails(do, redis.TimeoutError)  # the connection is a new one
        server.thaw()
        clock.advance(2)
        works(do)


def test_a_server_that_dies_in_the_middle_of_a_command_is_an_error_at_once(clock):
    """And is used again when it has come back."""
    with Server() as server, RedisStore(server.url, timeout=10, clock=clock) as store:
        works(store.do)
        server.freeze()
        raised: list[Exception] = []
        sent = threading.Event()
        (line,) = store._clients.sync()._idle
        connection = line.connection._sock

        class Told:
            """A connection that says when it waits."""

            sendall, settimeout, shutdown, close = (
                connection.sendall, connection.settimeout, connection.shutdown, connection.close,
            )  # fmt: skip

            def recv(self, size: int) -> Any:
                sent.set()
                return connection.recv(size)

        line.connection._sock = Told()

        def call() -> None:
            try:
                store.do(Begin("k", 10))
            except redis.RedisError as error:
                raised.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        assert sent.wait(10)
        server.kill()
        thread.join(10)
        assert isinstance(raised[0], redis.ConnectionError)
        server.start()
        clock.advance(1)
        works(store.do)


def test_a_server_that_was_restarted_is_used_without_an_error(make, runner):
    """The connections that are dead are found before they are used, and the scripts are loaded again."""
    with Server() as server:
        _, do = make(server.url, timeout=5)
        works(do)
        server.kill()
        server.start()
        runner.run(asyncio.sleep(0))  # a loop that runs sees that a connection is closed
        assert do(Read("back")) is None
        works(do)


def test_a_server_that_runs_something_long_costs_one_timeout(make, clock):
    """A script of somebody else's holds the server."""
    with Server() as server:
        store, do = make(server.url)
        works(do)
        other = redis.Redis(unix_socket_path=server.socket)
        busy = threading.Thread(target=lambda: other.execute_command("DEBUG", "SLEEP", "0.5"))
        busy.start()
        until(lambda: _busy(do))
        rests(do, store)
        busy.join()
        other.close()
        clock.advance(1)
        works(do)


def _busy(do: Any) -> bool:
    try:
        do(Read("k"))
    except redis.TimeoutError:
        return True
    return False


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, redis.TimeoutError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", redis.InvalidResponse),
        (b"\0\xff\r\n", redis.InvalidResponse),
        (b"*3\r\n$1\r\n", (redis.TimeoutError, redis.ConnectionError, redis.InvalidResponse)),
        (b"-ERR no\r\n", redis.ResponseError),
        (b"-LOADING wait\r\n", redis.BusyLoadingError),
        (b"$-5\r\n", Exception),
    ],
)
def test_a_server_that_talks_nonsense_is_an_outage(make, answer, kind):
    """Whatever it says, or says nothing: the store fails in time, and leaves it alone."""
    with Fake(answer) as server:
        store, do = make(server.url)
        fails(do, kind)
        rests(do, store)


@pytest.mark.parametrize("answer", [b"+OK\r\n", b":1\r\n", b"$2\r\nxy\r\n"])
def test_a_server_that_talks_of_something_else_has_nothing(make, answer):
    """A reply that is one, and makes no sense, is never a value."""
    with Fake(answer) as server:
        store, do = make(server.url)
        assert do(Read("k")) is None
        assert store.breaker.state is State.CLOSED


@pytest.mark.parametrize("answer", [b"$-1\r\n", b"*-1\r\n", b"+OK\r\n", b"*0\r\n", b":-7\r\n"])
def test_a_server_that_gives_no_ticket_is_one_outage(clock, answer):
    """C061: nobody takes its reply for a lease of somebody else's; told once, each call asks the origin."""
    lost, runs = [], []
    with Fake(answer) as server, RedisStore(server.url, timeout=TIMEOUT) as store:
        c = stale_if_error(
            "nonsense", store=store, clock=clock, registry=Registry(), key=lambda x: x
        )
        c.subscribe(lost.append, StoreLost)
        assert [c.call(lambda x: runs.append(x) or x, x) for x in "abc"] == ["a", "b", "c"]
    assert (runs, len(lost)) == (["a", "b", "c"], 1)


def test_forgotten_scripts_are_loaded_again_once(make, valkey):
    """After SCRIPT FLUSH each script is sent as text once, and no call fails."""
    _, do = make(valkey.url, timeout=5)
    for _ in range(3):
        works(do)
        valkey.client.script_flush()
        valkey.client.config_resetstat()
        for _ in range(5):
            works(do)
        calls = valkey.client.info("commandstats")
        assert calls["cmdstat_eval"]["calls"] == 2  # one for reading, one for putting
        assert calls["cmdstat_evalsha"]["calls"] == 10


class Slow:
    """A way to a server that takes some time for each thing that is said to it."""

    def __init__(self, server: Server, seconds: float) -> None:
        self._seconds = seconds
        self._server = server
        self._ears = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._ears]
        self._threads: list[threading.Thread] = []
        self.url = f"redis://127.0.0.1:{self._ears.getsockname()[1]}"
        self._run(self._accept)

    def _run(self, act: Any, *args: Any) -> None:
        self._threads.append(threading.Thread(target=act, args=args))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._ears.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._server.socket)
                self._open += [here, there]
                self._run(self._carry, here, there, self._seconds)
                self._run(self._carry, there, here, 0)

    def _carry(self, source: socket.socket, target: socket.socket, seconds: float) -> None:
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                pause.wait(seconds)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for one in self._open:
            one.close()


def test_a_slow_server_is_no_outage(make, valkey):
    """Each reply that comes in time is one: a call takes as many of them as it asks for."""
    with Slow(valkey, 0.2) as slow:
        store, do = make(slow.url, timeout=1)
        for _ in range(2):
            works(do)
        assert store.breaker.state is State.CLOSED


def test_a_large_value_has_a_timeout_for_each_megabyte(make, valkey):
    """And for its reply: a slow way to the server is none that hangs."""
    with Slow(valkey, 0.002) as slow:  # 65 kB each time: some 0.25 s for all
        store, do = make(slow.url, timeout=0.1, max_value_bytes=None)
        value = "x" * 8_000_000
        assert do(Put("k", value, 10, 100)) is True
        assert len(do(Read("k")).value) == len(value)
        assert store.breaker.state is State.CLOSED


def test_a_value_that_is_too_large_is_not_stored(make, valkey, caplog):
    """Which is told once for each type of value; what was stored before it goes or stays as with any other."""
    store, do = make(valkey.url, timeout=5, max_value_bytes=1000)
    assert do(Put("k", "x" * 900, 10, 100)) is True
    ticket = do(Begin("k", 30))
    assert do(Write("k", ticket, "x" * 1000, 10, 100)) is False
    assert do(Read("k")).value == "x" * 900
    assert do(Begin("k", 30)) is not None
    assert do(Put("k", "x" * 2000, 10, 100)) is False
    assert do(Read("k")) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.name}: a value of 1009 bytes is not stored, max_value_bytes=1000: str"
    ]
    assert store.breaker.state is State.CLOSED


@pytest.mark.parametrize("given", [False, True])
def test_a_value_that_takes_too_long_because_of_its_size_is_no_outage(ask, clock, caplog, given):
    """It is told once; the breaker hears of it if small commands take too long as well."""
    with Server() as server:
        client = redis.Redis.from_url(server.url, socket_timeout=TIMEOUT, protocol=2)
        store = RedisStore(client if given else server.url, timeout=TIMEOUT, clock=clock)
        do = ask(store)
        works(do)
        server.freeze()
        large = Put("large", "x" * 2_000_000, 10, 100)
        fails(do, StoreBusyError, large, within=4 * TIMEOUT)  # one more for each megabyte
        assert store.breaker.state is State.CLOSED
        assert [record.getMessage() for record in caplog.records] == [
            f"{store.name}: a value took too long to store: str"
        ]
        fails(do, redis.TimeoutError)
        rests(do, store)
        server.thaw()
        store.close()
        client.close()


def test_a_value_from_the_future_is_nothing(make, valkey):
    """The server's clock was set back, or another server has taken over: nobody knows how old it is."""
    store, do = make(valkey.url, timeout=5)
    store._moment = 1_800_000_000_000_000
    do(Put("k", 1, 10, 100))
    store._moment -= 1_000_000
    assert do(Read("k")) == Entry(1, 0, 11, rests=False)  # clocks are corrected by so much
    store._moment -= 1
    assert do(Read("k")) is None
    ticket = do(Begin("k", 30))
    assert do(Write("k", ticket, 2, 10, 100)) is True
    assert do(Read("k")) == Entry(2, 0, 10, rests=False)


@pytest.fixture
def full():
    """A server that takes no more."""
    with Server("--maxmemory-policy", "noeviction") as server:
        yield server


def fill(server: Server) -> None:
    """Leave no room."""
    server.client.config_set("maxmemory", 1)


def test_a_full_server_still_serves_what_it_has(make, full, caplog):
    """New values are not kept, which is told once; the old ones stay, and leases and refresh times work."""
    caplog.set_level(logging.INFO, "breakerkit")
    store, do = make(full.url, timeout=5)
    assert do(Put("k", "old", 10, 100)) is True
    fill(full)
    ticket = do(Begin("k", 30))
    assert ticket is not None
    assert do(Begin("k", 30)) is None
    assert do(Write("k", ticket, "new", 10, 100)) is False
    assert do(Put("other", 1, 10, 100)) is False
    assert do(Read("k")).value == "old"
    do(Postpone("k", do(Begin("k", 30)), 50))
    assert do(Read("k")).due > 40
    do(Postpone("empty", do(Begin("empty", 30)), 50, empty=True))
    assert do(Read("empty")).value is NOTHING
    assert do(Put("k", "put", 10, 100)) is False
    assert do(Read("k")) is None
    do(Invalidate("k"))
    do(Evict("empty"))
    assert do(Read("empty")) is None
    assert store.breaker.state is State.CLOSED
    full.client.config_set("maxmemory", 0)
    works(do)
    works(do)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{store.name}: the server is full, and keeps no new values",
        f"{store.name}: stores again",
    ]


GARBAGE = ["", "x", "1 2 3", "a b c d", "nan nan nan nan", "-1 -1 -1 -1", "1 2 3 4", "9" * 400 + " 1 1 1",
           "1e300 1e300 1e300 1e300", "\0\xff"]  # fmt: skip


@pytest.mark.parametrize("meta", GARBAGE)
@pytest.mark.parametrize(
    "data", [None, "", "1:json:", "1:json:{", "2:json:1", "1:pickle:x", "\0\xff"]
)
def test_garbage_in_a_hash_is_nothing(make, valkey, meta, data):
    """It is read as a miss, and the next attempt puts a value in its place."""
    store, do = make(valkey.url, timeout=5)
    fields = {"m": meta, "b": meta} | ({} if data is None else {"v": data})
    valkey.client.hset("breakerkit:{k}", mapping=fields)
    assert do(Read("k")) is None
    ticket = do(Begin("k", 30))
    assert do(Write("k", ticket, "new", 10, 100)) is True
    assert do(Read("k")).value == "new"
    assert 0 < valkey.client.ttl("breakerkit:{k}") <= 100
    assert store.breaker.state is State.CLOSED


@pytest.mark.parametrize("command", [
    Begin("k", 30), Write("k", 5, 1, 10, 100), Postpone("k", 5, 10, empty=True), Release("k", 5), Put("k", 1, 10, 100),
    Invalidate("k"), Evict("k"),
])  # fmt: skip
def test_what_is_no_hash_is_replaced(make, valkey, command):
    """A key of the store that something else wrote is nothing, for each command."""
    store, do = make(valkey.url, timeout=5)
    valkey.client.set("breakerkit:{k}", "something else")
    assert do(Read("k")) is None
    said = do(command)
    # The attempts that end here began long ago, and nothing is known of them.
    left = (b"hash", True) if isinstance(command, Begin | Put) else (b"none", False)
    assert (valkey.client.type("breakerkit:{k}"), bool(said)) == left
    works(do)
    assert store.breaker.state is State.CLOSED


def test_a_cache_answers_through_an_outage(make, clock):
    """The caller sees the origin's values; each call costs no more than it must."""
    with Server() as server:
        store, _ = make(server.url)
        loads = iter(range(100))

        @stale_if_error("numbers", refresh_after=30, max_stale=60, store=store)
        def number() -> int:
            return next(loads)

        assert number() == number() == 0
        server.freeze()
        began = time.monotonic()
        assert [number() for _ in range(20)] == list(range(1, 21))
        assert time.monotonic() - began < ONCE
        server.thaw()
        clock.advance(1)
        until(lambda: number() == 0)


def test_an_entry_says_what_was_stored(make, valkey):
    """By the server's own clock, which nobody told it."""
    _, do = make(valkey.url, timeout=5)
    do(Put("k", 1, 10, 100))
    entry = do(Read("k"))
    assert entry == Entry(1, entry.age, entry.due, rests=False)
    assert 0 <= entry.age < 5 < entry.due <= 10
