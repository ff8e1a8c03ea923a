"""No lock is held while a user's code runs, and nobody waits for anybody else's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from breakerkit import CircuitOpenError, Registry, State, breaker
from breakerkit.events import (
    StateChanged,
)
from breakerkit.testing import ManualClock
from tests.concurrency.crowds import PATIENCE, together
from tests.shapes import Shape, every_shape, in_thread, raising, returning, sync_shapes


class Hooks:
    """Every kind of code that a user can give to a breaker; each notes when it runs under a lock."""

    def __init__(self) -> None:
        self.locks: list[Any] = []
        self.ran: set[str] = set()
        self.under_a_lock: list[str] = []

    def note(self, name: str) -> None:
        """A hook of this name runs."""
        self.ran.add(name)
        if any(lock._is_owned() for lock in self.locks):
            self.under_a_lock.append(name)

    def hook(self, name: str, answer: Any = None) -> Callable[..., Any]:
        """Return a hook that notes that it runs."""

        def run(*_: Any, **__: Any) -> Any:
            self.note(name)
            return answer

        return run


@attrs.frozen
class _Rule:
    hooks: Hooks = attrs.field(eq=False)

    def judge(self, evidence: Any) -> str | None:
        self.hooks.note("trip rule")
        return "the rule" if evidence.consecutive_failures >= 2 else None


def _broken(*_: Any) -> None:
    raise OSError("a hook of mine")


class _Clock(ManualClock):
    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self.hooks = hooks

    def now(self) -> float:
        self.hooks.note("clock")
        return super().now()


class _Key:
    def __init__(self, hooks: Hooks, text: str) -> None:
        self.hooks, self.text = hooks, text

    def __hash__(self) -> int:
        self.hooks.note("key")
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        self.hooks.note("key")
        return isinstance(other, _Key) and other.text == self.text


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    """Hooks of every kind, and a log handler, which is a user's code too."""
    made = Hooks()
    handler = logging.Handler()
    handler.emit = made.hook("log handler")  # type: ignore[method-assign]  # the shortest handler
    logger = logging.getLogger("breakerkit")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield made
    logger.setLevel(level)
    logger.removeHandler(handler)


def _settings(hooks: Hooks) -> dict[str, Any]:
    return {
        "failure_threshold": None,
        "trip_rules": (_Rule(hooks),),
        "failure_on": hooks.hook("failure_on", answer=True),
        "success_on": hooks.hook("success_on", answer=False),
        "ignore_on": hooks.hook("ignore_on", answer=False),
        "failure_if": hooks.hook("failure_if", answer=False),
        "open_duration": hooks.hook("open_duration", answer=5),
        "on_open": [hooks.hook("on_open"), _broken],
        "clock": _Clock(hooks),
    }


@every_shape
def test_no_hook_runs_under_the_lock(hooks: Hooks, shape: Shape) -> None:
    """Function, filters, rules, callbacks, listeners, clock and log handlers run with the lock free."""
    guarded = breaker(**_settings(hooks))
    hooks.locks.append(guarded._guard.lock)
    guarded.subscribe(hooks.hook("listener"))
    guarded.subscribe(_broken)
    assert shape.run(guarded, hooks.hook("function", answer=7)) == 7
    shape.fail(guarded, 2)
    assert guarded.state is State.OPEN
    with pytest.raises(CircuitOpenError):
        shape.run(guarded, returning())
    guarded._guard.clock.advance(5)
    shape.fail(guarded)
    guarded._guard.clock.advance(5)
    shape.run(guarded, returning())
    guarded.reconfigure(probe_limit=3)
    guarded.force_open().release()
    with pytest.raises(TypeError):
        shape.run(guarded, raising(TypeError("mine")))
    guarded.reset()
    guarded.why()
    assert hooks.under_a_lock == []
    values = {"failure_if"} if shape.judges_values else set()
    assert hooks.ran == values | {
        "function", "failure_on", "success_on", "ignore_on", "trip rule", "open_duration",
        "on_open", "listener", "clock", "log handler",
    }  # fmt: skip


def test_no_hook_of_a_family_runs_under_a_breakers_lock(hooks: Hooks) -> None:
    """Keys, their hashes and the clock are asked with the locks free, also while keys are evicted."""
    family = breaker(
        "api", key=lambda key: key, max_keys=2, registry=Registry(), clock=_Clock(hooks)
    )
    for number in range(6):
        key = _Key(hooks, f"host {number}")
        family.call(lambda _: number, key) if number % 2 else family.get(key).call(
            returning(number)
        )
        hooks.locks = [family.get(key)._guard.lock for key in family.keys()]
    assert len(family) == 2
    assert {"key", "clock"} <= hooks.ran
    assert hooks.under_a_lock == []


@every_shape
def test_a_breaker_of_hooks_can_be_asked_from_another_thread(
    shape: Shape, clock: ManualClock
) -> None:
    """While a hook runs, another thread can read, call through and reset the breaker."""
    seen: list[str] = []

    def elsewhere(_: object) -> bool:
        seen.append(in_thread(guarded.why))
        in_thread(guarded.snapshot)
        return True

    guarded = breaker(
        failure_threshold=1, open_duration=1, clock=clock, failure_on=elsewhere, on_open=elsewhere
    )
    guarded.subscribe(elsewhere, StateChanged)
    shape.fail(guarded)
    assert len(seen) == 3


@sync_shapes
def test_twenty_slow_calls_take_the_time_of_one(shape: Shape) -> None:
    """Twenty threads are inside the function at once (C030)."""
    guarded = breaker(failure_threshold=3)
    inside = threading.Barrier(20)
    call = shape.bind(guarded, lambda: inside.wait(PATIENCE))
    ended: list[Any] = []
    together([call] * 20, ended.append)
    assert ended == [None] * 20
    assert guarded.snapshot().successes == 20


@pytest.mark.parametrize(
    "settings", [{}, {"window_size": 50, "minimum_calls": 50, "slow_call_duration": 9}]
)
def test_recursion(settings: dict[str, Any]) -> None:
    """A guarded function may call itself, and fail at the bottom (C030)."""
    guarded = breaker(failure_threshold=30, **settings)

    @guarded
    def countdown(number: int) -> int:
        if number == 0:
            raise ConnectionError("bottom")
        return countdown(number - 1)

    with pytest.raises(ConnectionError, match="bottom"):
        countdown(20)
    assert guarded.snapshot().consecutive_failures == 21
