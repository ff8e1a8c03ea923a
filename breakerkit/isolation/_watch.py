"""The time of submitted calls that wait in a queue: who submits does not wait, so a thread looks for him."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakerkit.isolation._waiters import Patience
    from breakerkit.isolation._work import Work
    from breakerkit.isolation.guard import BulkheadGuard


class Watch:
    """A thread that looks at the time of submitted calls in the queue, while there are any."""

    __slots__ = ("_lock", "_running", "_watched")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = False
        self._watched: list[tuple[Work, Patience]] = []

    def add(self, guard: BulkheadGuard, work: Work, patience: Patience) -> None:
        """Watch one more."""
        with self._lock:
            self._watched.append((work, patience))
            begin, self._running = not self._running, True
        if begin:
            name = f"breakerkit bulkhead {guard.name} queue"
            threading.Thread(target=self._run, args=(guard,), name=name, daemon=True).start()

    def _run(self, guard: BulkheadGuard) -> None:
        wait = threading.Event().wait
        while watched := self._still():
            pauses = [_look(guard, work, patience) for work, patience in watched]
            wait(min(pauses))

    def _still(self) -> list[tuple[Work, Patience]]:
        with self._lock:
            self._watched = [one for one in self._watched if not _over(one[0])]
            self._running = bool(self._watched)
            return self._watched


def _over(work: Work) -> bool:
    """Tell whether a call waits no longer."""
    return work.decided or work.begun or work.concluded or work.future.cancelled()  # type: ignore[attr-defined]  # a Submitted


def _look(guard: BulkheadGuard, work: Work, patience: Patience) -> float:
    """Reject a call that has waited for too long; return the seconds to the next look."""
    error: BaseException | None
    try:
        pause = patience.pause()
        if pause:
            return pause
        error = guard.give_up(work, patience)
    except BaseException as raised:  # its signal is set, or a clock of the user's is broken
        error = raised
        guard.forsake(work)
    if error is not None:
        work.conclude(None, error)
    return 0.0
