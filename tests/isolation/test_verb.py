"""The public verb: names, conflicts, pickles, events, and a bulkhead among other policies."""

from __future__ import annotations

import copy
import inspect
import pickle

import attrs
import pytest

from breakerkit import (
    Bulkhead,
    BulkheadConfig,
    BulkheadFullError,
    BulkheadRejected,
    BulkheadSnapshot,
    CallDequeued,
    CallQueued,
    ConfigChanged,
    ConfigError,
    FullReason,
    NameConflictError,
    Registry,
    State,
    breaker,
    bulkhead,
    pipeline,
    registry,
)
from breakerkit.testing import ManualClock
from tests.isolation.rig import Background, full, idle, until, waiting
from tests.shapes import every_shape, returning


def test_the_ways_to_decorate():
    """Bare, called, and by name; an attribute leads to the bulkhead, and the function looks as before."""

    @bulkhead
    def bare(one):
        """Do it."""
        return one

    @bulkhead()
    def called():
        return bulkhead("db")

    @bulkhead("db", max_concurrent=3)
    async def named():
        return 1

    assert bare(1) == 1
    assert bare.bulkhead.name.endswith("test_the_ways_to_decorate.<locals>.bare")
    assert (bare.__doc__, inspect.signature(bare)) == ("Do it.", inspect.signature(lambda one: 1))
    assert inspect.iscoroutinefunction(named)
    assert called() is named.bulkhead
    assert bulkhead("db", max_concurrent=3) is named.bulkhead
    assert bare.bulkhead is not called.bulkhead
    assert named.bulkhead(named) is named


def test_names():
    """A name is one bulkhead; other settings are a conflict; a breaker may have the same name."""
    db = bulkhead("db", max_concurrent=3)
    breaker("db")
    assert registry.get("db", "bulkhead") is db
    with pytest.raises(NameConflictError, match="max_concurrent=3.*max_concurrent=4"):
        bulkhead("db", max_concurrent=4)
    assert bulkhead("db", registry=Registry()) is not db
    assert registry.snapshot()["bulkhead db"].max_concurrent == 3
    with pytest.raises(TypeError, match="make a Bulkhead with bulkhead"):
        Bulkhead("db")
    with pytest.raises(ConfigError, match="config="):
        bulkhead(config=3)


def test_a_config_object():
    """Settings may come as one object, and be changed one by one."""
    config = BulkheadConfig(max_concurrent=2)
    b = bulkhead(config=config, max_waiting=1)
    assert b.config == BulkheadConfig(max_concurrent=2, max_waiting=1)
    assert b.reconfigure(config) == config
    assert b.reconfigure(max_wait=5).max_wait == 5
    with pytest.raises(ConfigError, match="max_concurrent=0"):
        b.reconfigure(max_concurrent=0)
    assert b.config == config.evolve(max_wait=5)


def test_it_pickles_by_name():
    """A named bulkhead pickles as its name; copies are the object itself; an unnamed one does not pickle."""
    b = bulkhead("db", max_concurrent=3)
    assert pickle.loads(pickle.dumps(b)) is b
    assert copy.deepcopy(b) is copy.copy(b) is b
    with pytest.raises(TypeError, match="only a bulkhead named there pickles"):
        pickle.dumps(bulkhead())
    error = BulkheadFullError("db", FullReason.MAX_WAIT, None)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, str(again)) == (BulkheadFullError, error.args, str(error))
    assert repr(b) == "<Bulkhead 'db'>"


def test_events():
    """A listener hears who waits, for how long, who is turned away and why, and changed settings."""
    clock, heard, background = ManualClock(), [], Background()
    b = bulkhead("db", max_concurrent=1, max_waiting=1, clock=clock)
    b.subscribe(heard.append)
    with full(b):
        background.call(b.call, int)
        until(lambda: waiting(b) == 1)
        with pytest.raises(BulkheadFullError):
            b.call(int)
        clock.advance(3)
    background.join()
    b.reconfigure(max_waiting=0)
    told = [attrs.asdict(event, recurse=False) for event in heard]
    assert all(event.pop("name") == "db" and event.pop("timestamp") for event in told)
    assert [type(event) for event in heard] == [
        CallQueued, BulkheadRejected, CallDequeued, ConfigChanged,
    ]  # fmt: skip
    assert told[0] == {"share": None, "waiting": 1}
    assert told[1] == {
        "reason": FullReason.QUEUE_FULL, "share": None, "running": 1, "waiting": 1,
    }  # fmt: skip
    assert told[2] == {"share": None, "waited": 3.0, "admitted": True}
    with pytest.raises(TypeError, match="must be one of"):
        b.subscribe(heard.append, int)


def test_the_snapshot():
    """All numbers in one frozen record."""
    b = bulkhead("db", max_concurrent=4, max_waiting=2, clock=ManualClock())
    b.call(int)
    with full(b, 2):
        assert b.snapshot() == BulkheadSnapshot(
            name="db", isolation="caller", max_concurrent=4, max_waiting=2, running=2, waiting=0,
            admitted=3, completed=1, rejected=0, timed_out=0, waits=0, total_wait=0.0,
            longest_wait=0.0, stuck=0, workers=0, shares={},
        )  # fmt: skip
    assert b.snapshot().mean_wait == 0.0


@every_shape
def test_stuck_calls(shape, clock):
    """With stuck_after, calls that run for so long are counted in the snapshot, in every way to call."""
    b = bulkhead(max_concurrent=2, stuck_after=5, clock=clock)
    seen = []

    def behave():
        for _ in range(2):
            seen.append(b.snapshot().stuck)
            clock.advance(5)
        return "value"

    shape.run(b, behave)
    assert seen == [0, 1]
    assert b.snapshot().stuck == 0
    idle(b)


def test_stuck_after_a_wait(clock):
    """A call that had to wait is stuck from when it began to run, not from when it came."""
    b = bulkhead(max_concurrent=1, max_waiting=1, stuck_after=5, clock=clock)
    background, seen = Background(), []

    def work():
        seen.append(b.snapshot().stuck)

    with full(b):
        background.call(b.call, work)
        until(lambda: waiting(b) == 1)
        clock.advance(50)
        assert b.snapshot().stuck == 1
    background.join()
    assert seen == [0]


def test_stuck_after_comes_and_goes(clock):
    """The limit may be set while it is live; calls from before are not looked at."""
    b = bulkhead(max_concurrent=2, clock=clock)
    with full(b, 1):
        b.reconfigure(stuck_after=5)
        with full(b, 1):
            clock.advance(9)
            assert b.snapshot().stuck == 1
            b.reconfigure(stuck_after=None)
            assert b.snapshot().stuck == 0
    idle(b)


@every_shape
def test_a_refusal_is_no_evidence_to_a_breaker_around(shape):
    """A breaker outside a full bulkhead ignores a hundred refusals and stays closed (C054)."""
    b, outer = bulkhead(max_concurrent=1), breaker(failure_threshold=1)

    def behave():
        return b.call(int)

    with full(b):
        for _ in range(100):
            with pytest.raises(BulkheadFullError):
                shape.run(outer, behave)
    seen = outer.snapshot()
    assert (seen.ignored, seen.consecutive_failures, seen.state) == (100, 0, State.CLOSED)


@pytest.mark.parametrize("together", [True, False], ids=["pipeline", "decorators"])
def test_a_refused_probe_gives_its_slot_back(together, clock):
    """Half-open, the probe refused by a full bulkhead: the next call is the probe (C053)."""
    inner = bulkhead(max_concurrent=1)
    outer = breaker(failure_threshold=1, open_duration=10, clock=clock)
    failing = [True]

    def work():
        if failing:
            raise ConnectionError("down")
        return 7

    call = pipeline(outer, inner)(work) if together else outer(inner(work))
    with pytest.raises(ConnectionError):
        call()
    clock.advance(10)
    failing.clear()
    with full(inner):
        for _ in range(3):
            with pytest.raises(BulkheadFullError):
                call()
            assert outer.state is State.HALF_OPEN
            assert outer.snapshot().probes_active == 0
    assert call() == 7
    assert outer.state is State.CLOSED
    idle(inner)


def test_a_pipeline_of_workers():
    """A thread bulkhead in a pipeline runs what is inside of it in its worker."""
    whole = pipeline(breaker(), bulkhead(isolation="thread"), bulkhead(max_concurrent=1))

    @whole
    def work(value):
        return value

    assert work(7) == 7
    assert whole.call(returning(8)) == 8
