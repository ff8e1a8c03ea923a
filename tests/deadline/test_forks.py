"""C033: a forked child has no abandoned work and no threads; the deadline around the fork goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import breakerkit

SCRIPT = """
import threading, time
from breakerkit import CallTimeoutError, abandoned_work, current_deadline, timeout
from breakerkit._abandoned import ledger
from breakerkit.deadline._workers import pool
from tests.concurrency.forking import in_child

go = threading.Event()
one = timeout(0.05, name="db", mode="abandon", max_abandoned=2)


def left_behind():
    for _ in range(2):
        try:
            one.call(go.wait, 30)
        except CallTimeoutError:
            pass
    assert len(abandoned_work()) == one.snapshot().working == 2


def in_the_child():
    seen = one.snapshot()
    assert (abandoned_work(), seen.working, seen.abandoned_now) == ([], 0, ()), seen
    assert pool.idle == []
    assert one.call(lambda: "works") == "works"
    left_behind()
    left = current_deadline()
    return f"{left.name} {0 < left.remaining < 30}"


def busy():
    timeout(30, name="other", mode="abandon").call(int)
    left_behind()
    with timeout(30, name="around").guard():
        assert in_child(in_the_child) == "around True"
        with ledger.lock, one._guard.lock:
            assert in_child(in_the_child) == "around True"
    assert len(abandoned_work()) == one.snapshot().working == 2


def from_a_worker():
    # The child goes on in what was a worker; what it gives back is the parent's.
    def fork():
        return in_child(lambda: one.snapshot().working)
    slow = timeout(30, name="slow", mode="abandon")
    assert slow.call(fork) == "0"
    assert slow.snapshot().working == 0


import sys
{"busy": busy, "from_a_worker": from_a_worker}[sys.argv[1]]()
"""


@pytest.mark.parametrize("scene", ["busy", "from_a_worker"])
def test_forks(scene: str):
    """Work that hangs in the parent is not the child's, whatever lock was held at the fork."""
    root = Path(breakerkit.__file__).parent.parent
    path = [str(root), *sys.path]
    code = f"import sys; sys.path[:0] = {path!r}\n{SCRIPT}"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, scene]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_in_this_process():
    """What is given back after a fork by a thread of before it, is not counted twice."""
    from breakerkit import timeout
    from breakerkit.deadline._jobs import Job
    from breakerkit.deadline._workers import Pool

    one = timeout(30, mode="abandon")
    guard = one._guard
    job = Job(guard, int, (), {}, [0.0, guard.terms, None, None, False])
    guard._take(job)
    guard.after_fork()
    assert one.snapshot().working == 0
    guard.give_back(job)
    guard.give_back(job)
    assert one.snapshot().working == 0
    pool = Pool()
    pool.idle.append("a thread of before")
    pool.after_fork()
    assert pool.idle == []
