"""Strategies of one try: ``"failfast"`` and ``"failsafe"``."""

from __future__ import annotations

import asyncio
import logging

import pytest

from breakerkit import (
    BreakerConfig,
    DeadlineExceededError,
    NoProviderError,
    ProvidersExhausted,
    failover,
)
from breakerkit.testing import ManualClock
from tests.providers.rig import DOWN, Providers, every_shape, value_shapes, within

FRAIL = BreakerConfig(failure_threshold=1, open_duration=10)


@every_shape
def test_failfast(shape):
    """One try; its very error at once."""
    line, both = failover(["a", "b"], strategy="failfast"), Providers(a=DOWN)
    with pytest.raises(ConnectionError) as caught:
        shape.run(line, both)
    assert caught.value is DOWN
    assert both.asked == ["a"]
    assert line.snapshot().exhausted == 1
    both.does = {}
    assert shape.run(line, both) == "a"


@every_shape
def test_failfast_passes_over(shape):
    """The one try goes to a provider that may be asked."""
    line = failover(["a", "b"], strategy="failfast", breaker=FRAIL, clock=ManualClock())
    both = Providers(a=DOWN)
    with pytest.raises(ConnectionError):
        shape.run(line, both)
    assert shape.run(line, both) == "b"
    with pytest.raises(NoProviderError):
        shape.run(failover([], strategy="failfast"), both)


@value_shapes
def test_failsafe(shape, caplog):
    """One try; its error is logged and the default returned, the very object."""
    default = ["none"]
    line = failover(["a", "b"], "safe", strategy="failsafe", default=default)
    both, told = Providers(a=DOWN), []
    line.subscribe(told.append, ProvidersExhausted)
    assert shape.run(line, both) is default
    assert both.asked == ["a"]
    assert [one.error for one in told] == [DOWN]
    assert "failover 'safe': a call failed (1 so far); it returned its default" in caplog.text
    assert caplog.records[0].exc_info[1] is DOWN
    both.does = {}
    assert shape.run(line, both) == "a"


@every_shape
def test_failsafe_streams_end_empty(shape):
    """A stream that fails before its first item ends with no items."""
    both = Providers(a=DOWN)
    assert shape.run(failover(["a"], strategy="failsafe"), both) is None


@every_shape
def test_failsafe_with_nobody_to_ask(shape):
    """That there was nobody to ask is a failure like any other to who wants no errors."""
    line = failover([], strategy="failsafe")
    assert shape.run(line, Providers()) is None
    assert line.snapshot().rejected == 1


@every_shape
def test_failsafe_is_not_for_everything(shape):
    """What is neutral or the business's own passes, and so does a deadline of the calls around."""
    line = failover(["a"], strategy="failsafe", on=(ConnectionError,))
    for error in (LookupError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            shape.run(line, Providers(a=error))
    clock = ManualClock()
    with within(1, clock):
        clock.advance(1)
        with pytest.raises(DeadlineExceededError):
            shape.run(line, Providers())


def test_failsafe_and_a_late_failure():
    """A try that fails when the time is over is a failure, not a deadline."""
    clock = ManualClock()

    def late():
        clock.advance(5)
        raise DOWN

    with within(1, clock):
        assert failover(["a"], strategy="failsafe", default=7).call(Providers(a=late)) == 7


def test_failsafe_logs_a_handful_of_lines(caplog):
    """Ten thousand failures are five lines, their number growing tenfold."""
    line = failover(["a"], strategy="failsafe", breaker=None)
    both = Providers(a=DOWN)
    with caplog.at_level(logging.ERROR, "breakerkit"):
        for _ in range(10_000):
            line.call(both)
    assert len(caplog.records) == 5


def test_an_async_generator_that_is_half_read_when_its_loop_ends():
    """The loop closes it, and nothing is said of that."""
    said: list[object] = []

    @failover(["a"])
    async def items(provider: str):
        yield provider
        yield provider

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        kept.append(items())
        assert await anext(kept[0]) == "a"

    kept: list[object] = []
    asyncio.run(main())
    assert said == []
