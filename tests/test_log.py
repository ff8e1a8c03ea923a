"""The log: a handful of lines whatever the traffic, and nothing that a hook does in the way."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from breakerkit import CircuitOpenError, Registry, _log, breaker
from breakerkit.testing import ManualClock
from tests.shapes import raising, returning


class _Loud(Exception):
    """An error whose text costs more than it may."""

    formatted = 0

    def __str__(self) -> str:
        _Loud.formatted += 1
        return "loud"


class Proxy:
    """Something like a request's local that stands for nothing outside of one."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("outside of any request")

    def __call__(self, context: Any) -> None:
        raise OSError("mine")


def _open(guarded: Any) -> None:
    with pytest.raises(ConnectionError):
        guarded.call(raising(ConnectionError("down")))


def test_a_hundred_thousand_rejections_are_a_handful_of_lines(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines of an open period do not depend on how many calls it rejects (C073)."""
    caplog.set_level(logging.DEBUG, "breakerkit")
    guarded = breaker("b", failure_threshold=1, open_duration=10, clock=clock)

    @guarded
    def work() -> None:
        """Never run."""

    _open(guarded)
    for _ in range(100_000):
        with _rejected():
            work()
    clock.advance(10)
    work()
    assert guarded.snapshot().rejected == 100_000
    assert [record.getMessage() for record in caplog.records] == [
        "circuit breaker 'b' opened: consecutive failures",
        "circuit breaker 'b' is half-open",
        "circuit breaker 'b' is closed",
    ]


class _rejected:
    """``pytest.raises`` at a tenth of its cost."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: object) -> bool:
        assert kind is CircuitOpenError
        return True


def test_at_warning_an_outage_writes_nothing(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Moves are told at INFO; at WARNING a whole outage is silent."""
    caplog.set_level(logging.WARNING, "breakerkit")
    guarded = breaker(failure_threshold=1, clock=clock)
    _open(guarded)
    for _ in range(100):
        with _rejected():
            guarded.call(returning())
    assert caplog.records == []


def test_a_hook_that_raises_a_thousand_times_is_four_lines(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The 1st, 10th, 100th and 1000th fault is logged, with how many there were."""

    def listener(event: Any) -> None:
        raise OSError("mine")

    guarded = breaker("b", clock=clock)
    guarded.subscribe(listener)
    for number in range(1000):
        guarded.reconfigure(failure_threshold=1 + number)
    assert len(caplog.records) == 4
    assert [record.args[2] for record in caplog.records if record.args] == [1, 10, 100, 1000]
    assert all(record.exc_info and record.exc_info[0] is OSError for record in caplog.records)
    assert "listener" in caplog.records[0].getMessage()


def test_faults_are_counted_exactly_by_many_threads(caplog: pytest.LogCaptureFixture) -> None:
    """Threads whose hooks raise at the same time write the same four lines."""
    start = threading.Barrier(8)

    def run() -> None:
        start.wait(20)
        for _ in range(125):
            _log.fault_in("hook", "b", OSError())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(record.args[2] for record in caplog.records if record.args) == [1, 10, 100, 1000]


def test_each_breaker_hook_and_kind_of_fault_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of another breaker, hook or type is told although one like it was."""
    for kind, name, error in [
        ("a", "b", OSError()), ("a", "c", OSError()), ("d", "b", OSError()), ("a", "b", KeyError()),
    ]:  # fmt: skip
        _log.fault_in(kind, name, error)
        _log.fault_in(kind, name, error)
    assert len(caplog.records) == 4


def test_what_has_been_told_is_bounded() -> None:
    """Names made from traffic do not grow the memory of faults for ever."""
    for number in range(3000):
        _log.fault_in("hook", f"name {number}", OSError())
    assert len(_log._told) <= 1000


def test_nothing_is_formatted_for_a_level_that_is_off(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """With the level off, neither names nor errors are turned into text."""
    caplog.set_level(logging.CRITICAL, "breakerkit")
    guarded = breaker(failure_threshold=1, clock=clock, registry=Registry())
    guarded.on_open(lambda context: raising(_Loud())())
    with pytest.raises(_Loud):
        guarded.call(raising(_Loud()))
    with _rejected():
        guarded.call(returning())
    assert _Loud.formatted == 0


@pytest.mark.parametrize("kind", ["handler", "filter"])
def test_a_log_handler_that_raises_harms_no_call(
    clock: ManualClock, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A handler or filter of the application's is a hook like any other: outcomes stand."""
    caplog.set_level(logging.DEBUG, "breakerkit")
    handler = logging.Handler()
    broken = raising(OSError("no log of mine"))
    setattr(handler, "emit" if kind == "handler" else "filter", lambda record: broken())
    logger = logging.getLogger("breakerkit")
    logger.addHandler(handler)
    try:
        family = breaker("f", key=lambda key: key, max_keys=1, failure_threshold=1, clock=clock)
        guarded = family.get(1)
        guarded.on_open(lambda context: broken())
        _open(guarded)
        family.get(2)
        with _rejected():
            guarded.call(returning())
        clock.advance(30)
        assert guarded.call(returning(7)) == 7
    finally:
        logger.removeHandler(handler)


def test_a_hook_that_answers_nothing_has_its_types_name() -> None:
    """A hook's name is its qualified name, else that of its type, whatever it does when asked."""

    assert _log.hook_name(returning).endswith("returning")
    assert _log.hook_name(_log.logger) == "Logger"
    assert _log.hook_name(Proxy()).endswith("Proxy")


def test_a_callback_that_answers_nothing_leaves_the_outcome(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An unbound proxy as callback and listener is logged, and the caller gets its own error."""

    guarded = breaker(failure_threshold=1, clock=clock)
    guarded.on_open(Proxy())
    guarded.subscribe(Proxy())
    _open(guarded)
    assert ["Proxy" in record.getMessage() for record in caplog.records] == [True, True]
