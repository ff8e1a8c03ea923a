"""Stores whose time the tests move, asked by threads and by tasks."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from breakerkit import MemoryStore, RedisStore
from breakerkit.testing import ManualClock
from tests.servers import debian_server, valkey, valkey_server

__all__ = ["debian_server", "valkey", "valkey_server"]

#: When a test begins, by the server's clock, in seconds.
BEGIN = 1_800_000_000


class World:
    """A store, how it is asked, and its time."""

    def __init__(self, store: Any, do: Callable[[Any], Any]) -> None:
        self.store = store
        self.do = do
        self.clock = ManualClock(BEGIN)
        self.advance(0)

    def advance(self, seconds: float) -> None:
        """Let time pass in the store."""
        self.clock.advance(seconds)
        if isinstance(self.store, MemoryStore):
            self.store.clock = self.clock
        else:
            self.store._moment = round(self.clock.now() * 1_000_000)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """An event loop that stays for the whole test."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(params=["do", "do_async"])
def ask(request: pytest.FixtureRequest, runner: asyncio.Runner) -> Callable[[Any], Any]:
    """Return how to ask a store: in a thread, or in a task."""
    if request.param == "do":
        return lambda store: store.do
    return lambda store: lambda command: runner.run(store.do_async(command))


@pytest.fixture(
    params=[
        "memory",
        "valkey",
        pytest.param(
            "redis",
            marks=pytest.mark.skipif(
                shutil.which("redis-server") is None, reason="no redis-server on this machine"
            ),
        ),
    ]
)
def world(request: pytest.FixtureRequest, ask: Callable[[Any], Any]) -> Iterator[World]:
    """Every store there is, asked in both ways."""
    if request.param == "memory":
        store: Any = MemoryStore()
        yield World(store, ask(store))
        return
    server = request.getfixturevalue("valkey" if request.param == "valkey" else "debian_server")
    server.client.flushall()
    with RedisStore(server.url, timeout=5, max_value_bytes=None) as store:
        yield World(store, ask(store))
