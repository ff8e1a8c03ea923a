"""The process of one worker thread: it runs the calls of that thread, and is replaced when it dies."""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.process as lists
import os
import pickle
import weakref
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit import _fork as fork
from breakerkit.errors import WorkerLostError
from breakerkit.isolation import _child as child
from breakerkit.isolation.events import WorkerLost

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from breakerkit.isolation._work import Work
    from breakerkit.isolation.guard import BulkheadGuard

#: Never a plain fork: the parent has threads, and their locks would be copied as they are.
_context = multiprocessing.get_context("spawn")
#: Seconds between two looks whether the process lives, should its pipe not tell.
_PATIENCE = 1.0


class ProcessRunner:
    """Runs calls in a process of its own, one after another, over a pipe that nobody shares.

    So a process that dies takes one call with it, and everybody knows which.
    """

    __slots__ = ("_bulkhead", "_pipe", "_process")

    def __init__(self, bulkhead: BulkheadGuard) -> None:
        self._bulkhead = weakref.ref(bulkhead)
        self._process: Any = None
        self._pipe: Connection[Any, Any] | None = None

    def alive(self) -> bool:
        """Tell whether there is a process."""
        process = self._process
        try:
            return process is not None and process.exitcode is None
        except ValueError:  # it has just been closed, by the thread whose it is
            return False

    def run(self, work: Work) -> Any:
        """Run a call over there: what it returns, or raises.

        Raises:
            WorkerLostError: the process died in the middle of it.
        """
        if not self.alive():
            self._begin()  # the first, or one that died while it had nothing to do
        pipe = self._pipe
        assert pipe is not None
        context = work.context
        assert context is not None
        limit = context.run(ambient.limit.get)
        try:
            pipe.send_bytes(child.request(work.function, limit))
            answer = self._answer(pipe)
        except (EOFError, OSError):
            answer = None
        if answer is None:
            raise self._lost()
        return _value(answer)

    def _begin(self) -> None:
        self.close()
        if registered.closing:
            raise RuntimeError("the interpreter is exiting: no worker process is begun any more")
        ours, theirs = _context.Pipe()
        process = _context.Process(target=child.main, args=(theirs, os.getpid()), daemon=False)
        process.start()
        theirs.close()
        # Whoever forks this process and exits would end our workers, or wait for them.
        lists._children.discard(process)  # type: ignore[attr-defined]  # there is no other way out of it
        registered.add(process)
        self._process, self._pipe = process, ours

    def _answer(self, pipe: Connection[Any, Any]) -> bytes | None:
        process = self._process
        while True:
            if pipe in wait([pipe, process.sentinel], _PATIENCE) or pipe.poll():
                return pipe.recv_bytes()
            if process.exitcode is not None:
                return None

    def _lost(self) -> WorkerLostError:
        process, guard = self._process, self._bulkhead()
        process.join(_PATIENCE)
        code = process.exitcode
        pid = process.pid
        self.close()
        if guard is None:
            return WorkerLostError("a bulkhead", code)
        with guard.lock:
            guard.post(WorkerLost, pid=pid, code=code)
        guard.tell()
        return WorkerLostError(guard.name, code)

    def close(self) -> None:
        """End the process: it has nothing to do."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.join(_PATIENCE)
            process.kill()
            process.join()
            registered.remove(process)
            process.close()


def _value(answer: bytes) -> Any:
    try:
        ended, value = pickle.loads(answer)  # noqa: S301  # from our own worker process
    except Exception as error:
        raise TypeError(
            f"what the call returned or raised cannot be read back from the worker process: {error!r}"
        ) from error
    if ended == child.RETURNED:
        return value
    if ended == child.RAISED:
        raise value
    raise TypeError(value)


class _Registered:
    """Every worker process of this process: none outlives it, and none keeps it from exiting."""

    def __init__(self) -> None:
        self.processes: dict[int, Any] = {}
        self.closing = False
        atexit.register(self.end)
        fork.remember(self)

    def add(self, process: Any) -> None:
        self.processes[id(process)] = process

    def remove(self, process: Any) -> None:
        self.processes.pop(id(process), None)

    def end(self) -> None:
        """Kill them: what hangs over there shall not be waited for."""
        self.closing = True
        for process in list(self.processes.values()):
            try:
                process.kill()
            except (ValueError, OSError):
                continue  # it has just been closed

    def after_fork(self) -> None:
        """Let go of the parent's, in a forked child."""
        self.processes = {}


registered = _Registered()
