"""Ctrl-C wherever a signal comes in, and forks at any moment: no attempt is left behind."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
import traceback
import warnings

import pytest

from breakerkit import MemoryStore, Registry, return_value, stale_if_error
from breakerkit.testing import ManualClock
from tests.concurrency.tracing import signalled
from tests.stale.rig import Crowd, Down, until


@pytest.fixture
def traced(monkeypatch):
    # Python itself swallows one that comes in a destructor.
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    yield
    gc.enable()


class World:
    def __init__(self, **settings):
        self.clock = ManualClock()
        self.down = False
        self.cache = stale_if_error(
            "world", refresh_after=2, max_stale=10, jitter=0, clock=self.clock, registry=Registry(),
            **settings,
        )  # fmt: skip
        self.call = self.cache(self.serve)

    def serve(self, key):
        if self.down:
            raise Down
        return key

    def well(self, step):
        until(lambda: not self.cache.info().background)
        info = self.cache.info()
        assert info.running == 0, step
        assert not self.cache._guard.lock._is_owned(), step
        assert self.cache._guard._background == 0, step
        self.down = False
        assert self.call("k") == "k", step
        assert self.call("other") == "other", step


def miss(world):
    world.call("k")


def refresh(world):
    world.call("k")
    world.clock.advance(2)
    world.call("k")


def stale(world):
    world.call("k")
    world.clock.advance(2)
    world.down = True
    world.call("k")


def disaster(world):
    world.down = True
    world.call("k")


def commands(world):
    world.cache.put("k", "k")
    world.cache.invalidate("k")
    world.cache.evict_all()


@pytest.mark.parametrize(
    "act", [miss, refresh, stale, disaster, commands], ids=lambda act: act.__name__
)
@pytest.mark.parametrize("settings", [{}, {"background": True}, {"soft_timeout": 0.001}], ids=str)
def test_ctrl_c_in_a_call(act, settings, traced):
    """Wherever it comes: no attempt, place or lock is held; the next call loads."""
    for step in itertools.count(1):
        world = World(disaster=return_value("x"), **settings)
        gc.disable()
        places = []
        try:
            with signalled(step) as places:
                act(world) if not settings.get("soft_timeout") else act_on_a_moving_clock(
                    act, world
                )
        except KeyboardInterrupt:
            pass
        gc.enable()
        world.clock.advance(3)
        world.well(places)
        if not places:
            break
    assert step > 5


@pytest.mark.parametrize("forked", [False, True])
def test_ctrl_c_while_a_place_is_given_back(forked, traced):
    """It is given back once, by whoever tries again; that of the process this one was forked from never was here."""
    for step in itertools.count(1):
        keeper, held, places = World().cache._guard, [], []
        assert keeper.take_place(held)
        if forked:
            keeper.after_fork()
        try:
            with signalled(step) as places:
                keeper.give_back(held)
        except KeyboardInterrupt:
            pass
        keeper.give_back(held)
        assert (keeper.info().background, held) == (0, []), places
        if not places:
            break
    assert step > 1


def act_on_a_moving_clock(act, world):
    """A soft limit looks at the clock."""
    done = threading.Event()

    def move():
        while not done.is_set():
            world.clock.advance(0.001)
            done.wait(0.001)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        act(world)
    finally:
        done.set()
        mover.join()


def in_child(act):
    """Fork, and let the child do this in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            os._exit(0 if act() else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return status


def test_a_fork_in_the_middle_of_an_attempt(cached, clock):
    """C033: attempts run in the parent; the child has its values and makes its own."""
    leave, inside = threading.Event(), threading.Event()
    parent = os.getpid()
    c = cached(background=True)

    @c
    def load(key):
        if os.getpid() == parent and key == "slow":
            inside.set()
            leave.wait(20)
        return os.getpid()

    load("known")
    c.put("stale", "old")
    leader = Crowd(1, lambda: load("slow"))
    assert inside.wait(10)

    def act():
        assert load("known") == parent
        assert load("slow") == os.getpid()
        assert c.info().running == c.info().background == 0
        c.evict_all()
        return load("known") == os.getpid()

    assert in_child(act) == 0
    leave.set()
    assert leader.join() == [parent]


def test_a_fork_inside_of_the_origin(cached):
    """The child goes on with the attempt, and ends it."""
    parent = os.getpid()
    statuses = []
    c = cached()

    @c
    def load(key):
        if os.getpid() == parent and not statuses:
            child = os.fork()
            if child == 0:
                signal.alarm(5)
                return "child"
            statuses.append(os.waitpid(child, 0)[1])
        return "parent"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            value = load("k")
        except BaseException:
            os._exit(3) if os.getpid() != parent else None
            raise
    if os.getpid() != parent:
        os._exit(0 if value == load("k") == "child" and c.info().running == 0 else 1)
    assert (value, statuses) == ("parent", [0])


def test_a_fork_while_every_lock_is_held(cached, clock):
    """C033: all is fresh in the child."""
    c = cached("held", store=MemoryStore(clock=clock))
    call = c(lambda key: key)
    call("k")
    guard = c._guard
    locks = [guard.lock, guard.attempts._turn, guard.instances._lock, c.store._lock]
    taken, leave = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        taken.set()
        leave.wait(20)
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(10)

    def act():
        assert (call("k"), call("new")) == ("k", "new")
        # A store that may be in the middle of a change starts empty.
        return c.info().misses == 3 and len(c.store) == 2

    assert in_child(act) == 0
    leave.set()
    thread.join()
