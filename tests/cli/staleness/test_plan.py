"""What the price service is told, and which recordings have something to play."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli._client import Client
from breakerkit.cli._options import UsageError
from breakerkit.cli._service import Reply, Script
from breakerkit.cli._trace import Answer, Call, Recording
from breakerkit.cli.staleness import _prices
from breakerkit.cli.staleness._plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable


def test_by_default_the_recording_takes_twelve_seconds(recording: Recording) -> None:
    """The store's end comes after it; what callers did wrong is left out."""
    plan = make_plan(recording)
    assert plan.recorded.speed == pytest.approx(recording.span / 12)
    assert (plan.frozen_at, plan.killed_at, plan.span) == (13.0, 16.0, 19.0)
    assert Answer.CALLER_ERROR not in {call.answer for call in plan.recorded.calls}
    assert make_plan(Recording("a", recording.calls[:100])).recorded.speed == 1.0


def test_too_fast_is_said_with_what_is_not(recording: Recording) -> None:
    """A recording that is over before anything expires shows nothing."""
    with pytest.raises(
        UsageError, match=r"--speed: must be at most 6\.66 here: .* has to last 3 s"
    ):
        make_plan(recording, 100)


def test_a_recording_of_nothing_but_faults_of_callers_says_nothing() -> None:
    """There is no service to be seen in it."""
    calls = (Call(0.0, 1.0, Answer.CALLER_ERROR, 404),)
    with pytest.raises(UsageError, match=r"--trace: faults\.csv has no call"):
        make_plan(Recording("faults.csv", calls))


async def at(service: _prices.Prices, seconds: float) -> Reply:
    """Return what the service says so many seconds after it was told to go."""
    service._began = asyncio.get_running_loop().time() - seconds
    return service.reply("tea")


async def test_each_moment_has_its_recorded_answer() -> None:
    """The call that began last is what counts; before the recording and after it the service is well."""
    replies = [Reply(0.5, "server error", 503), Reply(0.0, "reset", 0), Reply(0.1, "right", 200)]
    script = Script(replies, [])
    service = _prices.make(_prices.dumps(script, [0.2, 1.0, 2.0], 3.0))
    assert service.reply("tea") == replies[2]
    assert await at(service, 0.0) == replies[0]
    assert await at(service, 0.5) == replies[0]
    assert await at(service, 1.5) == replies[1]
    assert await at(service, 2.5) == replies[2]
    assert await at(service, 3.5) == replies[2]
    await at(service, 5.2)
    assert service.body(replies[2]) == b"4.05"
    assert service.body(replies[0]) == b""
    await service.close()


def test_a_price_comes_over_http(as_thread: Callable, recording: Recording) -> None:
    """The service never had a good answer: then it has one of its own, at once."""
    script = _prices.dumps(Script([Reply(0.0, "server error", 503)], []), [0.0], 1.0)
    with (
        as_thread(_prices.__file__, script, "prices") as service,
        closing(Client(service.port, 10)) as client,
    ):
        assert client.get("/price/tea") == (True, "4.00")
    plan = make_plan(recording)
    with (
        as_thread(_prices.__file__, plan.script(), "prices") as service,
        closing(Client(service.port, 10)) as client,
    ):
        service.go()
        right, price = client.get("/price/tea")
        assert (right, float(price)) == (True, pytest.approx(4.0, abs=0.2))
