"""The references (bare, closure, wrapt) and breakerkit, made into subjects group by group."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import wrapt

import breakerkit
from benchmarks import policies
from benchmarks.harness import Subject
from benchmarks.shapes import (
    GROUPS,
    Refused,
    Unavailable,
    async_generator_loop,
    await_loop,
    empty_loop,
    fresh,
    on_the_loop,
    rejection_loop,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BARE, CLOSURE, WRAPT, OURS = "bare", "closure", "wrapt no-op", "breakerkit"
#: Long enough that no breaker half-opens while it is measured, in seconds.
AN_HOUR = 3600.0
#: A peer that has not opened after so many failures will not.
MOST_FAILURES = 1000


def subject(
    key: str,
    name: str,
    decorate: Callable[[Any], Any],
    *,
    error: type[Exception] = Refused,
    before: Callable[[], None] | None = None,
) -> Subject:
    """Guard the workload of a group and put a loop of its own around it.

    Args:
        key: the group.
        name: who does the guarding.
        decorate: what does it.
        error: what a rejection raises, in the group ``open``: the guarded
            function is made to fail until it is raised.
        before: runs untimed before each batch.
    """
    group = GROUPS[key]
    target = decorate(fresh(group.workload)) if key != "method" else _instance(decorate)
    loop = fresh(group.loop)
    if group.loop in (await_loop, async_generator_loop):
        loop = on_the_loop(loop)
    elif group.loop is rejection_loop:
        _open(target, error)
        loop = functools.partial(loop, error=error)
    measure = functools.partial(loop, target)
    return Subject(key, name, measure, before) if before else Subject(key, name, measure)


def _instance(decorate: Callable[[Any], Any]) -> Any:
    class Service:
        @decorate
        def work(self, value: int) -> int:
            return value

    return Service()


def _open(call: Callable[[int], object], error: type[Exception]) -> None:
    """Fail until the breaker rejects, as an outage would."""
    for _ in range(MOST_FAILURES):
        try:
            call(1)
        except error:
            return
        except Unavailable:
            continue
    msg = f"it did not open within {MOST_FAILURES} failures"
    raise RuntimeError(msg)


def references(key: str) -> list[Subject]:
    """Return what the figures of a group are held against: bare, closure, wrapt."""
    if key == "open":
        return [subject(key, CLOSURE, _refusing, error=Refused)]
    return [
        subject(key, BARE, lambda function: function),
        subject(key, CLOSURE, CLOSURES.get(key, closure)),
        subject(key, WRAPT, _wrapt_no_op),
    ]


def loop_cost() -> Subject:
    """Return the empty loop, which is in every other figure."""
    return Subject("loop", "empty loop", functools.partial(empty_loop, None))


def closure(function: Callable[..., Any]) -> Any:
    """Wrap a function in the no-op everything is held against."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def _async_closure(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def inner(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return inner


def _generator_closure(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return (yield from function(*args, **kwargs))

    return inner


def _async_generator_closure(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def inner(*args: Any, **kwargs: Any) -> Any:
        async for item in function(*args, **kwargs):
            yield item

    return inner


CLOSURES: dict[str, Callable[[Any], Any]] = {
    "async": _async_closure,
    "generator": _generator_closure,
    "async-generator": _async_generator_closure,
    "async-bulkhead": _async_closure,
    "async-timeout": policies.under_asyncio_timeout,
    "async-pipeline": _async_closure,
    "async-stale-hit": _async_closure,
}


def _refusing(function: Callable[..., Any]) -> Any:
    """Reject every call with an exception made for it, from values that are at hand."""
    name, reason, opened_at = "payments", "consecutive failures", object()

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        raise Refused(name, reason, 30.0, opened_at)

    return inner


def _pass_through(wrapped: Any, _instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _wrapt_no_op(function: Callable[..., Any]) -> Any:
    return wrapt.FunctionWrapper(function, _pass_through)


def ours(key: str) -> Subject:
    """Return breakerkit in one group."""
    if key in policies.OURS:
        return subject(key, OURS, policies.OURS[key]())
    made = breakerkit.breaker(
        f"benchmark-{key}",
        registry=breakerkit.Registry(),
        open_duration=AN_HOUR,
        **SETTINGS.get(key, {}),
    )
    if key == "listener":
        made.subscribe(_listener)
    elif key == "state-listener":
        made.subscribe(_listener, breakerkit.StateChanged)
    return subject(key, OURS, made, error=breakerkit.CircuitOpenError)


SETTINGS: dict[str, dict[str, Any]] = {
    "count-window": {"window_size": 100, "minimum_calls": 10, "failure_rate_threshold": 50},
    "time-window": {"window_duration": 60, "minimum_calls": 10, "failure_rate_threshold": 50},
    "slow-call": {
        "window_size": 100,
        "minimum_calls": 10,
        "failure_rate_threshold": 50,
        "slow_call_duration": 1.0,
        "slow_call_rate_threshold": 50,
    },
}


def _listener(_event: object) -> None:
    """Hear of it, and do nothing."""
