"""Forks of a process with busy threads; run as a script, for a test runner has threads of its own.

    python forking.py busy

Each scene asserts what must hold and ends with status 0.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import breakerkit
from breakerkit import CircuitOpenError, Registry, State, breaker, protect, registry
from breakerkit.testing import ManualClock

#: Seconds a child may take; then it is killed, which its status tells.
LIMIT = 2
_LOCKS = (type(threading.Lock()), type(threading.RLock()))


class Down(Exception):
    """What a failing dependency raises."""


def fail() -> None:
    """Do what a failing dependency does."""
    raise Down


def in_child(act: Callable[[], Any]) -> str:
    """Fork, let the child do this within the limit, and return the text it answers."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        try:
            os.write(writing, str(act()).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    answer = b"".join(iter(lambda: os.read(reading, 4096), b""))
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}"
    return answer.decode()


def call_all(policies: list[Any]) -> str:
    """Make one call through each, and whatever else may need a lock."""
    for policy in policies:
        try:
            policy.call(int, "7")
        except CircuitOpenError:
            pass
    family = policies[-1]
    family.get("a new key").call(int)
    breaker("made in the child").call(int)
    unsubscribe = registry.subscribe(lambda event: None)
    policies[0].reset()
    policies[0].snapshot()
    policies[0].force_open().release()
    unsubscribe()
    return "done"


def make_policies() -> list[Any]:
    """Return breakers of every kind, in every state, a family last."""
    policies: list[Any] = [
        breaker("streak", failure_threshold=3, open_duration=0.01),
        breaker("window", window_size=20, minimum_calls=5, open_duration=0.01),
        breaker("time", window_duration=1, minimum_calls=5, open_duration=0.01),
        breaker("slow", window_size=20, slow_call_duration=1, open_duration=0.01),
        breaker("heard", open_duration=0.01),
        breaker("keys", key=lambda key: key, max_keys=5),
    ]
    policies[4].subscribe(lambda event: None)
    registry.subscribe(lambda event: None)
    return policies


def busy() -> None:
    """A hundred forks while threads call, reset and make breakers: each child's call ends (C033)."""
    policies = make_policies()
    done = threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            for policy in policies:
                try:
                    policy.call(int, "x" if (turn + number) % 3 else "7")
                except (ValueError, CircuitOpenError):
                    pass
            policies[turn % 5].reset() if turn % 7 == 0 else None
            policies[-1].get(turn % 9).call(int)
            breaker(clock=ManualClock())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            assert in_child(lambda: call_all(policies)) == "done"
    finally:
        done.set()
        for thread in threads:
            thread.join()


def locks_of(module: str) -> Iterator[Any]:
    """Return every lock that an object of this package holds."""
    for one in gc.get_objects():
        if not str(type(one).__module__).startswith(module):
            continue
        slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in {*slots, *getattr(one, "__dict__", {})}:
            lock = getattr(one, name, None)
            if isinstance(lock, _LOCKS):
                yield lock


def held() -> None:
    """A fork while another thread holds every lock there is: all is fresh in the child (C033)."""
    policies = make_policies()
    for policy in policies:
        policy.call(int, "7")
    clock = ManualClock()
    undo = protect("json:dumps", policies[0])
    locks = list(locks_of("breakerkit"))
    assert len(locks) >= 10, locks
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        taken.set()
        assert leave.wait(60)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert taken.wait(10)

    def act() -> str:
        clock.advance(1)
        undo()
        return call_all(policies)

    assert in_child(act) == "done"
    leave.set()
    thread.join()


def leases() -> None:
    """A probe that runs in the parent holds no slot in the child, and goes on holding it in the parent."""
    clock = ManualClock()
    guarded = breaker(failure_threshold=1, open_duration=10, clock=clock)
    try:
        guarded.call(fail)
    except Down:
        clock.advance(10)
    inside, leave = threading.Event(), threading.Event()

    def probe() -> None:
        inside.set()
        assert leave.wait(60)

    thread = threading.Thread(target=lambda: guarded.call(probe))
    thread.start()
    assert inside.wait(10)

    def act() -> tuple[Any, ...]:
        before = guarded.snapshot()
        value = guarded.call(int, "7")
        return str(before.state), before.probes_active, value, str(guarded.state)

    assert in_child(act) == "('half-open', 0, 7, 'closed')"
    assert guarded.snapshot().probes_active == 1
    leave.set()
    thread.join()
    assert guarded.state is State.CLOSED


def evidence() -> None:
    """The child keeps state, streak, window, switches and counters; what it does stays its own."""
    clock = ManualClock()
    closed = breaker(failure_threshold=3, window_size=9, minimum_calls=9, clock=clock)
    opened = breaker(failure_threshold=1, open_duration=10, clock=clock)
    forced = breaker(clock=clock)
    handle = forced.force_open(by="the parent")
    for guarded in (closed, closed, opened):
        try:
            guarded.call(fail)
        except Down:
            pass
    for _ in range(5):
        closed.call(int) if closed.snapshot().consecutive_failures == 0 else None
    clock.advance(4)

    def act() -> tuple[Any, ...]:
        seen, period = closed.snapshot(), opened.snapshot()
        try:
            closed.call(fail)
        except Down:
            pass
        held_by = [one.by for one in forced.handles]
        handle.release()
        return (
            seen.consecutive_failures, seen.window_calls, seen.failures, str(closed.state),
            str(period.state), period.retry_after, held_by, str(forced.state),
        )  # fmt: skip

    assert in_child(act) == "(2, 2, 2, 'open', 'open', 6.0, ['the parent'], 'closed')"
    assert closed.state is State.CLOSED
    assert forced.state is State.OPEN


def inside() -> None:
    """A fork inside a guarded function, a listener, a callback or a block: the child goes on well."""
    clock = ManualClock()

    def fork_here(*_: Any) -> None:
        nonlocal answer
        if os.getpid() != parent or answer is not None:
            return
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            answer = status
        else:
            signal.alarm(LIMIT)

    def check(run: Callable[[Any], Any], **settings: Any) -> None:
        nonlocal answer
        answer = None
        guarded = breaker(failure_threshold=1, clock=clock, **settings)
        try:
            run(guarded)
            guarded.reset().call(int)
            assert guarded.state is State.CLOSED
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        if os.getpid() != parent:
            os._exit(0)
        assert answer == 0, answer

    def fails(guarded: Any) -> None:
        try:
            guarded.call(fail)
        except Down:
            pass

    def listens(guarded: Any) -> None:
        guarded.subscribe(fork_here)
        fails(guarded)

    def blocks(guarded: Any) -> None:
        with guarded.guard():
            fork_here()

    parent, answer = os.getpid(), None
    check(lambda guarded: guarded.call(fork_here))
    check(blocks)
    check(listens)
    check(fails, on_open=fork_here)
    check(fails, open_duration=lambda context: fork_here() or 5)


def families() -> None:
    """Many keys make a fork no slower than it can be noticed."""
    family = breaker(key=lambda key: key, max_keys=20_000, registry=Registry())
    for number in range(5_000):
        family.get(number)
    assert in_child(lambda: family.get(7).call(int, "7")) == "7"


if __name__ == "__main__":
    assert breakerkit.__version__
    {one.__name__: one for one in (busy, held, leases, evidence, inside, families)}[sys.argv[1]]()
