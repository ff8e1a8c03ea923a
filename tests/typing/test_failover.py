"""Failover's types: callers leave out the provider, and nothing else changes."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, assert_type

from breakerkit import (
    AllProvidersFailedError,
    BreakerConfig,
    Failover,
    FailoverConfig,
    FailoverSnapshot,
    Provider,
    failover,
)


class Client:
    """A provider's client."""

    def get(self, path: str) -> bytes:
        """Answer."""
        return path.encode()


eu, us = Client(), Client()
line = failover([Provider(eu, "eu"), Provider(us, "us", attempts=1)])
assert_type(line, Failover[Client])
assert_type(failover(["a", "b"]), Failover[str])
named: Failover[str] = failover(("a", "b"), "typing.tuple", order="random")
assert_type(failover(lambda: [1, 2]), Failover[int])
assert_type(failover("typing.tuple"), Failover[Any])


def find() -> Sequence[Provider[Client]]:
    """Return who is there."""
    return [Provider(eu, "eu")]


assert_type(failover(find, breaker=BreakerConfig(), config=FailoverConfig()), Failover[Client])


@line
def fetch(client: Client, path: str, *, limit: int = 1) -> bytes:
    """Fetch."""
    return client.get(path)[:limit]


@line
async def fetch_async(client: Client, path: str) -> bytes:
    """Fetch."""
    return client.get(path)


@line
def rows(client: Client, path: str) -> Iterator[bytes]:
    """Fetch one by one."""
    yield client.get(path)


@line
async def rows_async(client: Client) -> AsyncIterator[bytes]:
    """Fetch one by one."""
    yield client.get("")


@failover(["a", "b"], strategy="failsafe", default=0)
def by_verb(provider: str, number: int) -> int:
    """Count."""
    return len(provider) + number


class Service:
    """A class with methods of each kind."""

    @line
    def method(self, client: Client, path: str) -> bytes:
        """Fetch."""
        return client.get(path)

    @line
    async def coroutine(self, client: Client, path: str) -> bytes:
        """Fetch."""
        return client.get(path)

    @line
    @staticmethod
    def static(client: Client, path: str) -> bytes:
        """Fetch."""
        return client.get(path)


def test_functions() -> None:
    """Arguments and result are those of the bare function, without the provider."""
    assert_type(fetch("x", limit=2), bytes)
    assert_type(asyncio.run(_async()), bytes)
    assert_type(list(rows("x")), list[bytes])
    assert_type(by_verb(2), int)
    callback: Callable[[str], bytes] = fetch_plain
    assert_type(callback("x"), bytes)


@line
def fetch_plain(client: Client, path: str) -> bytes:
    """Fetch."""
    return client.get(path)


async def _async() -> bytes:
    assert_type([item async for item in rows_async()], list[bytes])
    return assert_type(await fetch_async("x"), bytes)


def test_methods() -> None:
    """A method keeps its ``self`` and loses the provider."""
    assert_type(Service().method("x"), bytes)
    assert_type(Service.method(Service(), "x"), bytes)
    assert_type(asyncio.run(Service().coroutine("x")), bytes)
    assert_type(Service.static("x"), bytes)


def test_calls() -> None:
    """``call`` checks the arguments without the provider."""
    assert_type(line.call(Client.get, "x"), bytes)


def test_what_it_tells() -> None:
    """Snapshot, config and names have their types."""
    assert_type(line.snapshot(), FailoverSnapshot)
    assert_type(line.config, FailoverConfig)
    assert_type(line.providers, tuple[str, ...])
    assert_type(line.run_pending(), int)
    error = AllProvidersFailedError("x", [("a", KeyError())])
    assert_type(error.providers, tuple[str, ...])
    assert_type(error.exceptions, tuple[Exception | ExceptionGroup[Exception], ...])


if TYPE_CHECKING:
    # What is wrong must be an error to both checkers.
    fetch(eu, "x")  # type: ignore[call-arg, arg-type]  # callers give no provider
    fetch(2)  # type: ignore[arg-type]  # a number for a text
    Service().method()  # type: ignore[call-arg]  # no path
    by_verb("a")  # type: ignore[arg-type]  # a text for a number
    line.call(Client.get, 2)  # type: ignore[arg-type]  # a number for a text
    failover(["a"], strategi="failsafe")  # type: ignore[call-overload]  # misspelt
    failover(42)  # type: ignore[call-overload]  # no list

    @line  # type: ignore[arg-type]  # no provider is an int
    def wrong(client: int) -> None:
        """Do nothing."""
