"""A run: calls issued on time by threads, what came of each, and everything that can end it early."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from breakerkit import State
from breakerkit.cli import _drive
from breakerkit.cli._child import ServiceDiedError, script_of
from breakerkit.cli._client import Client
from breakerkit.cli._drive import Kind, Move, Outcome, Run, Tally, TraceClock, drive
from breakerkit.cli._plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.cli._trace import Recording


def watch_nothing(_run: Run) -> None:
    """Look away."""


def test_a_tally_adds_up() -> None:
    """Calls are counted by kind; waiting is the sum of all, time lost that of the failed ones."""
    tally = Tally()
    tally.add([Outcome(0, 1.0, 1.5, Kind.ANSWERED), Outcome(1, 2.0, 4.0, Kind.FAILED)])
    tally.add([Outcome(2, 5.0, 5.0, Kind.REJECTED)])
    assert tally == Tally(answered=1, failed=1, rejected=1, waited=2.5, lost=2.0)
    assert tally.let_through == 2


def test_the_clock_is_real_time_times_speed() -> None:
    """It begins at 0 when it is made."""
    times = iter([100.0, 100.0, 102.5])
    clock = TraceClock(4.0, lambda: next(times))
    assert [clock.now(), clock.now()] == [0.0, 10.0]


def test_the_state_at_a_moment(outage: Recording) -> None:
    """It is the one entered last, and closed before the first move."""
    run = Run(make_plan(outage), guarded=True, moves=[Move(5.0, State.OPEN, "x")])
    assert [run.state_at(4.9), run.state_at(5.0)] == [State.CLOSED, State.OPEN]


def test_how_late_calls_began(outage: Recording) -> None:
    """The latest hundredth apart, in seconds of real time."""
    run = Run(make_plan(outage, speed=2.0), guarded=False)
    assert run.lateness() == 0.0
    run.outcomes += [Outcome(0, 0.0, 0.1, Kind.ANSWERED)] * 150
    assert run.lateness() == 0.0
    run.outcomes += [Outcome(0, 1.0, 1.1, Kind.ANSWERED)] * 2
    assert run.lateness() == 0.5


def test_a_bare_run_sees_every_recorded_failure(outage: Recording, in_thread: Callable) -> None:
    """Each call is made once, at its time, and ends as it did when it was recorded."""
    plan = make_plan(outage, speed=24.0)
    service, seen = in_thread(script_of(plan)), []
    run = Run(plan, guarded=False)
    drive(run, service, seen.append)
    assert sorted(one.number for one in run.outcomes) == list(range(len(plan.calls)))
    assert sum(one.kind is Kind.FAILED for one in run.outcomes) == pytest.approx(30, abs=2)
    assert not any(one.kind is Kind.REJECTED for one in run.outcomes)
    assert all(one.began >= plan.calls[one.number].start for one in run.outcomes)
    assert run.moves == []
    assert run.label == "bare"
    assert set(map(id, seen)) == {id(run)}


def test_a_guarded_run_rejects_while_the_breaker_is_open(
    outage: Recording, in_thread: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The breaker lives on the recording's time: it opens, probes and closes within one real second."""
    eager = _drive.make_breaker.__globals__["RECOMMENDED"].evolve(
        window_size=20, minimum_calls=10, failure_rate_threshold=50, open_duration=1
    )
    monkeypatch.setitem(_drive.make_breaker.__globals__, "RECOMMENDED", eager)
    plan = make_plan(outage, speed=12.0)
    run = Run(plan, guarded=True)
    drive(run, in_thread(script_of(plan)), watch_nothing)
    kinds = [one.kind for one in run.outcomes]
    assert kinds.count(Kind.REJECTED) > 10
    assert kinds.count(Kind.FAILED) < 25
    assert len(kinds) == len(plan.calls)
    states = [move.state for move in run.moves]
    assert (states[0], states[-1]) == (State.OPEN, State.CLOSED)
    assert run.moves[0].reason == "failure rate"
    assert 6 < run.moves[0].at < 12 < run.moves[-1].at
    assert run.label == "guarded"


def test_a_wrong_answer_is_a_failure_and_a_4xx_is_none(
    outage: Recording, in_thread: Callable
) -> None:
    """A caller of a wrong answer got it all the same, but the call failed; 404 is an answer."""
    crew = _drive._Crew.__new__(_drive._Crew)
    crew._run = Run(make_plan(outage), guarded=False)
    from breakerkit.cli._service import Reply, Script

    replies = [
        Reply(0, "right", 200),
        Reply(0, "wrong", 200),
        Reply(0, "x", 404),
        Reply(0, "x", 500),
    ]
    service = in_thread(Script(replies, []))
    with closing(Client(service.port, 10)) as client:
        kinds = [crew._issue(client, number) for number in range(4)]
    assert kinds == [Kind.ANSWERED, Kind.FAILED, Kind.ANSWERED, Kind.FAILED]


def test_a_dead_service_ends_the_run(outage: Recording, in_thread: Callable) -> None:
    """The run stops at once, and so do its threads: nobody goes on calling."""
    service = in_thread(script_of(make_plan(outage)))
    service.died = ServiceDiedError("gone")
    run = Run(make_plan(outage, speed=1.0), guarded=False)
    with pytest.raises(ServiceDiedError):
        drive(run, service, watch_nothing)
    for thread in threading.enumerate():
        if thread.daemon and "_work" in thread.name:
            thread.join(10)
    assert len(run.outcomes) < len(run.plan.calls)


def test_a_bug_in_a_thread_ends_the_run(
    outage: Recording, in_thread: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no thread expects is raised where the run was started, not lost in the thread."""
    plan = make_plan(outage, speed=24.0)

    def fetch(_self: Client, _number: int) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Client, "fetch", fetch)
    with pytest.raises(ZeroDivisionError):
        drive(Run(plan, guarded=False), in_thread(script_of(plan)), watch_nothing)


def test_too_many_threads_for_the_machine_are_an_error(
    outage: Recording, in_thread: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how many, and what to do; the threads that did start are stopped."""
    plan = make_plan(outage, threads=3)
    service = in_thread(script_of(plan))

    def start(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match="cannot run 3 threads; choose fewer with --threads"):
        drive(Run(plan, guarded=False), service, watch_nothing)


def test_a_move_before_the_clock_is_none(outage: Recording) -> None:
    """A run that has not started has no time to note a move at."""
    run = Run(make_plan(outage), guarded=True)
    run._moved(None)  # type: ignore[arg-type]  # it does not look
    assert run.moves == []
