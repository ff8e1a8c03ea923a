"""The types of ``call``, ``apply``, ``guard`` and of what one reads off a breaker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any, assert_type

from breakerkit import (
    BreakerConfig,
    CancelSignal,
    CircuitBreaker,
    CircuitOpenError,
    GuardBlock,
    GuardedByKey,
    KeyedBreakers,
    Mode,
    ModeHandle,
    OpenContext,
    OpenReason,
    Registry,
    Snapshot,
    State,
    StateChanged,
    backoff,
    breaker,
)
from breakerkit.testing import ManualClock

payments = breaker("typing.payments", clock=ManualClock(), registry=Registry())


def work(number: int, *, text: str = "") -> str:
    return text * number


async def work_async(number: int) -> str:
    return str(number)


guarded = payments(work)


def test_call_and_apply() -> None:
    """``call`` checks the arguments of the function; both give its result."""
    assert_type(payments.call(work, 1, text="a"), str)
    assert_type(payments.call(guarded, 1, text="a"), str)
    assert_type(payments.call(len, "abc"), int)
    assert_type(payments.apply(work, (1,), {"text": "a"}, cancel=CancelSignal()), str)


async def use() -> None:
    assert_type(await payments.call(work_async, 1), str)
    assert_type(await payments.apply(work_async, (1,)), str)
    async with payments.guard() as lease:
        assert_type(lease, GuardBlock)


def test_async_calls_and_blocks() -> None:
    """Awaited they give the real type; a block is a `GuardBlock`."""
    asyncio.run(use())
    with payments.guard() as lease:
        assert_type(lease, GuardBlock)
        assert_type(lease.ignore(), None)
        assert_type(lease.fail(OSError()), None)


def _statement() -> int:
    with payments.guard():
        return 1


def test_a_block_never_swallows() -> None:
    """A checker knows that a block does not suppress: what follows need not return."""
    assert_type(_statement(), int)


def test_what_one_reads() -> None:
    """State, mode, config, snapshot and handles have their types."""
    b = breaker()
    assert_type(b.name, str)
    assert_type(b.state, State)
    assert_type(b.mode, Mode)
    assert_type(b.config, BreakerConfig)
    assert_type(b.snapshot(), Snapshot)
    assert_type(b.snapshot().reason, OpenReason | str | None)
    assert_type(b.snapshot().opened_at, datetime | None)
    assert_type(b.why(), str)
    assert_type(b.reset(), CircuitBreaker)
    assert_type(b.reconfigure(open_duration=5), BreakerConfig)
    with b.force_open(reason="why", by="who", until=timedelta(hours=1)) as handle:
        assert_type(handle, ModeHandle)
        assert_type(b.handles, tuple[ModeHandle, ...])
    assert_type(CircuitOpenError("n", "r", None, datetime.now()).retry_after, float | None)


def test_callbacks_and_listeners() -> None:
    """Callbacks keep their type; a listener gets events; what is returned ends it."""
    b = breaker()

    @b.on_open
    def callback(context: OpenContext, /) -> None:
        assert_type(context.reason, OpenReason | str)

    def listener(event: StateChanged) -> None:
        assert_type(event.new, State)

    assert_type(callback, Callable[[OpenContext], None])
    unsubscribe = b.subscribe(listener, StateChanged)
    for _ in range(5):
        with contextlib.suppress(OSError):
            b.call(_fail)
    assert_type(unsubscribe(), None)


def _fail() -> None:
    raise OSError


def test_settings() -> None:
    """Each setting may be written in all its forms."""
    breaker(
        failure_threshold=None,
        window_size=10,
        minimum_calls=5,
        open_duration=backoff(30, factor=2, maximum=600),
        slow_call_duration=timedelta(seconds=1),
        failure_on=lambda error: isinstance(error, OSError),
        ignore_on=[KeyError],
        success_on=LookupError,
        failure_if=lambda value: value is None,
        on_open=[lambda context: None, (print, "extra")],
    )
    breaker(open_duration=lambda context: context.openings * 2.0, window_duration=60)


def by_host(url: str, **_: Any) -> str:
    return url


class Client:
    @breaker("typing.method", key=by_host)
    def get(self, url: str) -> bytes:
        return url.encode()

    @classmethod
    @breaker(key=by_host)
    def of_class(cls, url: str) -> bytes:
        return url.encode()

    @breaker(key=by_host)
    @staticmethod
    def static(url: str) -> bytes:
        return url.encode()


@breaker("typing.api", key=by_host, max_keys=10, failure_threshold=3)
def fetch(url: str, *, timeout: float = 1) -> bytes:
    return url.encode()


@breaker(key=by_host)
async def fetch_async(url: str) -> bytes:
    return url.encode()


def plain(url: str, /) -> bytes:
    return url.encode()


async def use_keyed() -> None:
    assert_type(await fetch_async("a"), bytes)


def test_keyed() -> None:
    """Keyed functions and methods have the bare type; ``.breaker`` is the family."""
    assert_type(breaker(key=by_host), KeyedBreakers)
    assert_type(fetch("a", timeout=2), bytes)
    assert_type(fetch.breaker, KeyedBreakers)
    assert_type(fetch.breaker.get("a"), CircuitBreaker)
    assert_type(fetch.breaker.keys(), list[Hashable])
    assert_type(fetch.breaker.call(len, "abc"), int)
    assert_type(Client().get("a"), bytes)
    assert_type(Client().get.breaker, KeyedBreakers)
    assert_type(Client.of_class("a"), bytes)
    assert_type(Client.static("a"), bytes)
    assert_type(Client().static("a"), bytes)
    assert_type(breaker(key=by_host)(plain), GuardedByKey[[str], bytes])
    assert_type(plain("a"), bytes)
    asyncio.run(use_keyed())
