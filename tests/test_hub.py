"""Listeners: order, isolation, and nobody who waits but the one call that delivers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from breakerkit import BreakerConfig, CircuitBreaker, Registry, State, _hub, breaker
from breakerkit.circuit.guard import Guard
from breakerkit.events import CallFailed, CallSucceeded, ConfigChanged, StateChanged
from breakerkit.testing import ManualClock
from tests.shapes import Shape, every_shape, in_thread, raising, returning

PATIENCE = 20


def _numbers(events: list[Any]) -> list[int]:
    return [event.new.failure_threshold for event in events]


def test_a_blocked_listener_keeps_nobody_else_waiting(clock: ManualClock) -> None:
    """While a listener blocks in one thread, others call on; all events arrive later, in order."""
    guarded = breaker(failure_threshold=100, clock=clock)
    entered, leave = threading.Event(), threading.Event()
    seen: list[Any] = []

    def listener(event: Any) -> None:
        seen.append(event)
        entered.set()
        assert leave.wait(PATIENCE)

    guarded.subscribe(listener, ConfigChanged)
    slow = threading.Thread(target=lambda: guarded.reconfigure(failure_threshold=1))
    slow.start()
    assert entered.wait(PATIENCE)
    for number in range(2, 12):
        in_thread(lambda number=number: guarded.reconfigure(failure_threshold=number))
        assert in_thread(lambda: guarded.call(returning(7))) == 7
    assert _numbers(seen) == [1]
    leave.set()
    slow.join(PATIENCE)
    assert _numbers(seen) == list(range(1, 12))


def test_a_successs_event_waits_behind_those_before_it(clock: ManualClock) -> None:
    """A success told without the lock does not overtake what was posted before it."""
    guarded = breaker(failure_threshold=3, clock=clock)
    entered, leave = threading.Event(), threading.Event()
    seen: list[str] = []

    def listener(event: Any) -> None:
        seen.append(type(event).__name__)
        if len(seen) == 1:
            entered.set()
            assert leave.wait(PATIENCE)

    guarded.subscribe(listener, CallSucceeded, CallFailed)
    slow = threading.Thread(target=lambda: guarded.call(returning()))
    slow.start()
    assert entered.wait(PATIENCE)
    with pytest.raises(ConnectionError):
        in_thread(lambda: guarded.call(raising(ConnectionError())))
    in_thread(lambda: guarded.call(returning()))
    assert seen == ["CallSucceeded"]
    leave.set()
    slow.join(PATIENCE)
    assert seen == ["CallSucceeded", "CallFailed", "CallSucceeded"]


@every_shape
def test_a_listener_hears_only_the_kinds_it_asked_for(clock: ManualClock, shape: Shape) -> None:
    """A listener of failures hears no success, whatever the success had to change."""
    guarded = breaker(failure_threshold=3, clock=clock)
    seen: list[Any] = []
    guarded.subscribe(seen.append, CallFailed)
    shape.run(guarded, returning())
    shape.fail(guarded)
    shape.run(guarded, returning())
    assert [type(event) for event in seen] == [CallFailed]
    assert guarded.snapshot().consecutive_failures == 0


@every_shape
def test_a_listener_may_call_through_its_breaker(clock: ManualClock, shape: Shape) -> None:
    """What a listener sets off is told after what it was told of, without recursion or deadlock."""
    guarded = breaker(failure_threshold=1, open_duration=1, clock=clock)
    order: list[str] = []

    def first(event: Any) -> None:
        order.append(f"first {event.new}")
        if event.new is State.OPEN:
            guarded.reset()
            guarded.call(returning())

    guarded.subscribe(first, StateChanged)
    guarded.subscribe(lambda event: order.append(f"second {event.new}"), StateChanged)
    shape.fail(guarded)
    assert order == ["first open", "second open", "first closed", "second closed"]


def test_a_listener_far_too_slow_costs_bounded_memory(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest events make room, which is logged once, and the newest arrive."""
    monkeypatch.setattr(_hub, "MOST_WAITING", 5)
    guarded = breaker("b", clock=clock)
    entered, leave = threading.Event(), threading.Event()
    seen: list[Any] = []

    def listener(event: Any) -> None:
        seen.append(event)
        entered.set()
        assert leave.wait(PATIENCE)

    guarded.subscribe(listener, ConfigChanged)
    slow = threading.Thread(target=lambda: guarded.reconfigure(failure_threshold=1))
    slow.start()
    assert entered.wait(PATIENCE)
    for number in range(2, 102):
        guarded.reconfigure(failure_threshold=number)
    assert len(guarded._guard.hub.waiting or ()) == 5
    leave.set()
    slow.join(PATIENCE)
    assert _numbers(seen) == [1, 97, 98, 99, 100, 101]
    [record] = caplog.records
    assert "listeners" in record.getMessage()
    assert "95" in str(record.exc_info)


def test_a_full_queue_that_is_emptied_meanwhile(clock: ManualClock) -> None:
    """Threads that post while another delivers lose nothing below the bound."""
    guarded = breaker(failure_threshold=100_000, clock=clock)
    seen: list[Any] = []
    guarded.subscribe(seen.append, CallFailed)
    start = threading.Barrier(8)

    def run() -> None:
        start.wait(PATIENCE)
        for _ in range(200):
            with pytest.raises(ConnectionError):
                guarded.call(raising(ConnectionError()))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(seen) == 1600


def test_an_interrupted_listener_leaves_the_queue_usable(clock: ManualClock) -> None:
    """Ctrl-C inside a listener passes to the caller; the next event is told as always."""
    guarded = breaker(failure_threshold=3, clock=clock)
    seen: list[int] = []

    def listener(event: Any) -> None:
        seen.append(event.new.failure_threshold)
        if len(seen) == 1:
            raise KeyboardInterrupt

    guarded.subscribe(listener, ConfigChanged)
    with pytest.raises(KeyboardInterrupt):
        guarded.reconfigure(failure_threshold=4)
    guarded.reconfigure(failure_threshold=5)
    assert seen == [4, 5]


def test_an_interrupted_success_listener_too(clock: ManualClock) -> None:
    """The same for an event that is told without the queue."""
    guarded = breaker(failure_threshold=3, clock=clock)
    seen: list[Any] = []

    def listener(event: Any) -> None:
        seen.append(event)
        if len(seen) == 1:
            raise KeyboardInterrupt

    guarded.subscribe(listener, CallSucceeded)
    with pytest.raises(KeyboardInterrupt):
        guarded.call(returning())
    assert guarded.call(returning(7)) == 7
    assert len(seen) == 2
    assert guarded.snapshot().successes == 2


def test_listeners_of_a_registry_hear_breakers_made_before_and_after(clock: ManualClock) -> None:
    """A registry's listener is told of every breaker in it, until it unsubscribes."""
    registry = Registry()
    before = breaker("before", failure_threshold=1, registry=registry, clock=clock)
    seen: list[str] = []
    unsubscribe = registry.subscribe(lambda event: seen.append(event.name), StateChanged)
    after = breaker("after", failure_threshold=1, registry=registry, clock=clock)
    unnamed = breaker(failure_threshold=1, registry=registry, clock=clock)
    for one in (before, after, unnamed):
        with pytest.raises(ConnectionError):
            one.call(raising(ConnectionError()))
    assert seen == ["before", "after", "unnamed"]
    unsubscribe()
    unsubscribe()
    before.reset()
    assert len(seen) == 3


def test_listeners_come_and_go_in_many_threads(clock: ManualClock) -> None:
    """Subscriptions of a registry that meet lose none of each other."""
    registry = Registry()
    guarded = breaker("b", failure_threshold=1, registry=registry, clock=clock)
    start = threading.Barrier(16)
    seen: list[int] = []

    def run(number: int) -> None:
        start.wait(PATIENCE)
        registry.subscribe(lambda event: seen.append(number), StateChanged)
        guarded.subscribe(lambda event: seen.append(number + 100), StateChanged)
        registry.subscribe(lambda event: seen.append(-1), StateChanged)()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError()))
    assert sorted(seen) == sorted([*range(16), *range(100, 116)])


@pytest.mark.parametrize("comes", [True, False], ids=["comes", "goes"])
def test_a_listener_while_a_breaker_is_being_made(clock: ManualClock, comes: bool) -> None:
    """A registry's listener that comes or goes between a breaker's making and its adoption counts."""
    registry = Registry()
    seen: list[Any] = []
    unsubscribe = registry.subscribe(seen.append) if not comes else None
    guard = Guard("b", BreakerConfig(failure_threshold=1), clock, registry.hub)
    if unsubscribe is None:
        registry.subscribe(seen.append)
    else:
        unsubscribe()
    registry.adopt(guard)
    with pytest.raises(ConnectionError):
        CircuitBreaker(guard, named=False).call(raising(ConnectionError()))
    assert bool(seen) is comes


def test_an_event_nobody_waits_for_any_more(clock: ManualClock) -> None:
    """An event posted just as the last listener went is dropped in silence."""
    hub = _hub.Hub()
    hub.post(ConfigChanged("b", 0.0, None, None))  # type: ignore[arg-type]  # never looked at
    hub.drain()
    guarded = breaker(clock=clock)
    guarded.subscribe(lambda event: None)()
    assert guarded.call(returning(7)) == 7


@pytest.mark.parametrize("listener", [None, "text", 7])
def test_a_listener_must_be_callable(listener: Any) -> None:
    """What is no plain callable is refused before anything is changed."""
    with pytest.raises(TypeError, match="listener="):
        breaker().subscribe(listener)


def test_a_coroutine_function_is_no_listener() -> None:
    """A coroutine function would never be awaited: it is refused."""

    async def listener(event: Any) -> None:
        """Hear nothing."""

    with pytest.raises(TypeError, match="listener="):
        Registry().subscribe(listener)


def test_a_kind_must_be_an_event_class() -> None:
    """A kind that is no event class is refused, and the message lists them all."""
    with pytest.raises(TypeError, match="StateChanged, CallSucceeded"):
        breaker().subscribe(print, ValueError)
