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

    __slots__ = ("_changed", "_running", "_watched")

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = False
        self._watched: list[tuple[Work, Patience]] = []

    def add(self, guard: BulkheadGuard, work: Work, patience: Patience) -> None:
        """Watch one more; where no thread can be begun for that, it leaves the queue.

        Raises:
            BaseException: that of the thread that cannot be begun.
        """
        with self._changed:
            self._watched.append((work, patience))
            begin, self._running = not self._running, True
            self._changed.notify_all()
        if not begin:
            return
        name = f"breakerkit bulkhead {guard.name} queue"
        try:
            threading.Thread(target=self._run, args=(guard,), name=name, daemon=True).start()
        except BaseException:
            with self._changed:
                self._running = False
                self._watched = [one for one in self._watched if one[0] is not work]
            guard.forsake(work)
            raise

    def _run(self, guard: BulkheadGuard) -> None:
        while watched := self._still():
            pause = min(_look(guard, work, patience) for work, patience in watched)
            with self._changed:
                if len(watched) == len(self._watched):  # else there is one more
                    self._changed.wait(pause)

    def _still(self) -> list[tuple[Work, Patience]]:
        with self._changed:
            self._watched = [one for one in self._watched if not _over(one[0])]
            self._running = bool(self._watched)
            return list(self._watched)


def _over(work: Work) -> bool:
    """Tell whether a call waits no longer."""
    return work.decided or work.begun or work.over or work.future.cancelled()  # type: ignore[attr-defined]  # a Submitted


def _look(guard: BulkheadGuard, work: Work, patience: Patience) -> float:
    """Reject a call that has waited for too long; return the seconds to the next look."""
    error: BaseException | None
    try:
        pause = patience.pause()
        if pause:
            return pause
        error = guard.give_up(work, patience)
    except BaseException as raised:  # its signal is set, or a clock of the user's is broken
        # One that has a slot meanwhile runs: its caller hears what comes of it.
        error = raised if guard.withdraw(work) else None
    if error is not None:
        work.conclude(None, error)
    return 0.0
