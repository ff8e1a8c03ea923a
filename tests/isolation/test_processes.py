"""Process isolation: each call in one process, which may die and is replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import breakerkit
from breakerkit import (
    BulkheadFullError,
    CallTimeoutError,
    FullReason,
    WorkerLost,
    WorkerLostError,
    bulkhead,
)
from tests.isolation import importable
from tests.isolation.rig import PATIENCE, Background, until
from tests.isolation.test_waiting import limited

ROOT = str(Path(breakerkit.__file__).parents[1])


@pytest.fixture(scope="module")
def shared():
    """A bulkhead of processes that several tests use, for they take long to begin."""
    return importable.work.bulkhead


@pytest.fixture
def alone():
    """A bulkhead of processes of the test's own; its workers end with it."""
    b = bulkhead(isolation="process", max_concurrent=2, max_waiting=1)
    yield b
    b.reconfigure(max_concurrent=1)


def pids(path):
    """Return who has begun."""
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def test_calls_run_in_another_process_that_is_kept(shared):
    """A call runs elsewhere, again and again in the same process, and its caller gets the value."""
    value, pid = importable.work({"a": 1})
    assert value == {"a": 1}
    assert pid != os.getpid()
    assert importable.work(value=2) == (2, pid)
    assert shared.call(os.getpid) == pid
    assert shared.apply(pow, (2,), {"exp": 3}) == 8
    assert shared.submit(importable.work, 3).result(PATIENCE) == (3, pid)
    assert asyncio.run(run(shared, importable.work, 4)) == (4, pid)
    assert shared.snapshot().workers == 1


async def run(b, *call):
    """Await a call."""
    return await b.run(*call)


def test_what_a_name_leads_to(shared):
    """A function is found by its name although that leads to what decorates it; so are methods."""
    assert importable.between(1)[0] == 1
    assert importable.between(1)[1] != os.getpid()
    service = importable.Service()
    for call, value in (
        (service.method, (1,)), (importable.Service.class_method, ("Service", 1)),
        (importable.Service.static_method, (1,)),
    ):  # fmt: skip
        *got, pid = call(1)
        assert tuple(got) == value
        assert pid != os.getpid()
    assert shared.call(service.method, 2)[0] == 2


@pytest.mark.parametrize(
    ("kind", "error"),
    [("error", ConnectionError), ("exit", SystemExit), ("interrupt", KeyboardInterrupt)],
)
def test_what_a_call_raises_is_the_callers(shared, kind, error):
    """An exception comes back as what it was, with a note on where it was raised; the worker lives on."""
    with pytest.raises(error) as caught:
        shared.call(importable.raise_it, kind)
    assert "importable.py" in caught.value.__notes__[0]
    assert importable.work(1)[0] == 1


def test_what_cannot_be_sent(shared):
    """What cannot go to a worker, or come back, is a TypeError that says what and why."""
    with pytest.raises(TypeError, match="the function cannot be sent to a worker process"):
        shared.call(lambda: 1)
    with pytest.raises(TypeError, match="argument 0 cannot be sent"):
        importable.work(lambda: 1)
    with pytest.raises(TypeError, match="argument 'value' cannot be sent"):
        shared.submit(importable.work, value=lambda: 1)
    with pytest.raises(TypeError, match="what the call returned cannot be sent"):
        shared.call(importable.make_unsendable)
    with pytest.raises(
        TypeError, match="Unsendable: no way, which the call raised, cannot be sent"
    ):
        shared.call(importable.raise_it, "unsendable")
    with pytest.raises(TypeError, match="cannot be read back"):
        shared.call(importable.raise_it, "unreadable")
    assert shared.snapshot().running == 0


@pytest.mark.parametrize(
    ("kind", "said"), [("busy", "Busy: http://x is busy"), ("odd", "Odd: "), ("busier", "Busier: ")]
)
def test_an_error_that_cannot_be_sent_is_told_by_its_base(shared, kind, said):
    """What goes by types still finds it: it comes as the nearest base that can be sent, with its trace."""
    with pytest.raises(ConnectionError, match=said) as caught:
        shared.call(importable.raise_it, kind)
    assert type(caught.value) is ConnectionError
    assert "importable.py" in caught.value.__notes__[0]


def test_what_cannot_be_sent_together(shared):
    """Arguments that pickle one by one and not together are told as they are."""

    class Moody:
        times = 0

        def __reduce__(self):
            Moody.times += 1
            if Moody.times == 1:
                raise ValueError("not now")
            return int, ()

    with pytest.raises(TypeError, match="the call cannot be sent to a worker process: not now"):
        importable.work(Moody())


def test_a_function_that_has_no_module(shared):
    """A callable that is no function goes as it pickles."""
    assert shared.call("{}!".format, 7) == "7!"
    assert shared.apply(len, ([1, 2],)) == 2


def test_what_processes_cannot_run(shared):
    """What does not end when its call ends is refused, with advice."""

    async def later():
        return 1

    with pytest.raises(TypeError, match="isolation='caller'"):
        shared(later)


def test_the_deadline_goes_along(shared, tmp_path):
    """Code in a worker sees the deadline of its caller; the caller leaves in time."""
    assert shared.call(importable.seconds_left) is None
    name, seconds, left = limited(60, lambda: shared.call(importable.seconds_left))
    assert (name, seconds) == ("around", 60)
    assert 0 < left <= 60
    path = tmp_path / "stay"
    path.touch()
    with pytest.raises(CallTimeoutError):
        limited(0.02, lambda: shared.call(importable.until_gone, str(path)))
    assert shared.snapshot().running == 1
    path.unlink()
    until(lambda: shared.snapshot().running == 0)


def test_a_killed_worker_fails_its_own_call_and_is_replaced(alone, tmp_path):
    """One of two workers is killed in the middle: its caller hears it, the other call ends well (C038)."""
    heard, path, stay = [], tmp_path / "begun", tmp_path / "stay"
    stay.touch()
    alone.subscribe(heard.append, WorkerLost)
    background = Background()
    background.call(alone.call, importable.hang, str(path))
    until(lambda: pids(path))
    other = alone.submit(importable.until_gone, str(stay))
    until(lambda: pids(tmp_path / "stay.begun"))
    with pytest.raises(BulkheadFullError):
        queued = alone.submit(os.getpid)
        alone.call(int)
    (pid,) = pids(path)
    os.kill(pid, signal.SIGKILL)
    (error,) = background.join()
    assert type(error) is WorkerLostError
    assert (error.name, error.code) == (alone.name, -signal.SIGKILL)
    assert "died in the middle of the call (exit status -9)" in str(error)
    assert [(event.pid, event.code) for event in heard] == [(pid, -signal.SIGKILL)]
    stay.unlink()
    assert other.result(PATIENCE) in pids(tmp_path / "stay.begun")
    assert queued.result(PATIENCE) != pid
    assert alone.call(importable.work, 1)[0] == 1
    assert alone.snapshot().running == 0


def test_a_worker_that_dies_by_itself(alone):
    """A call that takes its process down gets the status; one that died idle fails no call."""
    with pytest.raises(WorkerLostError) as caught:
        alone.call(os._exit, 3)
    assert caught.value.code == 3
    with pytest.raises(WorkerLostError):
        alone.call(importable.kill_me)
    pid = alone.call(os.getpid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: alone.snapshot().workers == 0)
    assert alone.call(os.getpid) != pid
    assert alone.snapshot().running == 0


def test_a_large_call_and_a_large_answer(shared):
    """More than a pipe holds goes over it, both ways."""
    data = b"x" * 3_000_000
    assert importable.work(data)[0] == data


def test_max_wait_in_the_queue(tmp_path):
    """A call that finds no process within max_wait is not run."""
    b = bulkhead(isolation="process", max_concurrent=1, max_waiting=1, max_wait=0.02)
    path = tmp_path / "stay"
    path.touch()
    future = b.submit(importable.until_gone, str(path))
    with pytest.raises(BulkheadFullError) as caught:
        b.call(int)
    assert caught.value.reason is FullReason.MAX_WAIT
    path.unlink()
    future.result(PATIENCE)


def test_a_process_that_ends_when_its_pool_shrinks(alone, tmp_path):
    """A smaller pool ends the processes above its size, and a dropped one all of them."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.touch()
    futures = [alone.submit(importable.until_gone, str(path)) for path in paths]
    until(lambda: all(Path(f"{path}.begun").exists() for path in paths))
    alone.reconfigure(max_concurrent=1)
    for path in paths:
        path.unlink()
    begun = [future.result(PATIENCE) for future in futures]
    until(lambda: alone.snapshot().workers == 1)
    until(lambda: sum(map(lives, begun)) == 1)


def lives(pid):
    """Tell whether there is such a process, dead ones that nobody has buried not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
from tests.isolation import importable

def main():
    path = Path(sys.argv[1])
    b = importable.work.bulkhead
    futures = [b.submit(importable.hang_deaf, str(path)) for _ in range(2)]
    while not path.exists() or len(path.read_text().split()) < 2:
        threading.Event().wait(0.001)
    print("ending", flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "forked":
        if os.fork() == 0:
            sys.exit()
        os.wait()
        assert b.snapshot().running == 2 and not any(one.done() for one in futures)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("how", ["ends", "killed", "forked"])
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_nothing_is_left_of_a_program(how, tmp_path):
    """A program whose workers hang ends within a second, and they with it, even when it is killed.

    One that forks and lets the child exit keeps its workers.
    """
    script, path = tmp_path / "script.py", tmp_path / "begun"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(script), str(path), how],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, *sys.path])},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ending\n"
    began = time.monotonic()
    status = process.wait(10)
    assert time.monotonic() - began < 3
    assert status == (-signal.SIGKILL if how == "killed" else 0)
    workers = pids(path)
    assert len(workers) == 2
    until(lambda: not any(map(lives, workers)))
    process.stdout.close()
