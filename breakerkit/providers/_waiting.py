"""The queue of failed calls that are to be tried again, and the one thread that serves it."""

from __future__ import annotations

import heapq
import itertools
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit._log import fault_in, hook_name
from breakerkit.providers._view import PendingRetry
from breakerkit.providers.events import GiveUpReason

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    from breakerkit.clock import Clock

#: Seconds the thread sleeps at most, so that it sees a clock that jumps and a loop that is closed.
LONGEST_SLEEP = 1.0


@attrs.define(eq=False)
class Waiting:
    """One failed call.

    Attributes:
        work: what is called.
        context: the context variables of the call that failed.
        loop: the event loop it belongs to, if it is async.
        provider: who failed last.
        error: its last error, without the frames it came from.
        made: how often it was tried again.
        queued: whether it is in the queue; else it is new, or being tried.
        over: whether its end was told.
    """

    work: Any
    context: contextvars.Context
    loop: Any
    provider: str | None
    error: BaseException
    made: int = 0
    queued: bool = False
    over: bool = False

    @property
    def stranded(self) -> bool:
        """Whether its event loop is gone."""
        return self.loop is not None and bool(self.loop.is_closed())

    def seen(self, due: float | None) -> PendingRetry:
        """Return what a snapshot shows of it."""
        return PendingRetry(
            function=hook_name(self.work.function),
            provider=self.provider,
            retries=self.made,
            due=due,
            error=self.error,
        )


class Queue:
    """Calls that wait, by when they are due, and those that are being tried.

    Args:
        serve: called by the thread, again and again, to try what is due.
    """

    def __init__(self, serve: Callable[[], object]) -> None:
        self._serve = serve
        self._numbers = itertools.count()
        # Reentrant: a destructor may end a call in the middle of any of this.
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Waiting]] = []
        self._running: dict[int, Waiting] = {}
        self._thread: threading.Thread | None = None
        self.closed = False
        #: How many of them belong to event loops.
        self.loops = 0

    def put(self, one: Waiting, due: float, most: int | None = None) -> GiveUpReason | None:
        """Let it wait until ``due``, or say why not.

        Args:
            one: the call; new, or one that was being tried.
            due: when it is tried again.
            most: how many there may be; ``None`` for one that is of them.
        """
        with self._changed:
            if self.closed:
                return GiveUpReason.CLOSED
            if most is not None and len(self._waiting) + len(self._running) >= most:
                return GiveUpReason.QUEUE_FULL
            self._running.pop(id(one), None)
            self.loops += most is not None and one.loop is not None
            one.queued = True
            heapq.heappush(self._waiting, (due, next(self._numbers), one))
            self._changed.notify_all()
        return None

    def take(self, now: float, hand: list[Waiting]) -> bool:
        """Put the next that is due into ``hand``, which has it before the queue has not; once closed, all are due."""
        with self._changed:
            if not self._waiting or (self._waiting[0][0] > now and not self.closed):
                return False
            one = self._waiting[0][2]
            hand.append(one)
            self._running[id(one)] = one
            heapq.heappop(self._waiting)
            one.queued = False
            return True

    def put_back(self, one: Waiting) -> None:
        """Let one that was taken and of which nothing has come (there was an interrupt) be due again."""
        with self._changed:
            # One of a loop may have been sent there: it is not run twice.
            held = self._running.pop(id(one), None) if one.loop is None else None
            if held is not None and not one.queued:
                one.queued = True
                heapq.heappush(self._waiting, (float("-inf"), next(self._numbers), one))
                self._changed.notify_all()

    def end(self, one: Waiting) -> bool:
        """Take it out; ``False`` if its end was told already."""
        with self._changed:
            first, one.over = not one.over, True
            held = self._running.pop(id(one), None) is not None or one.queued
            self.loops -= held and one.loop is not None
            if one.queued:
                one.queued = False
                self._waiting = [entry for entry in self._waiting if entry[2] is not one]
                heapq.heapify(self._waiting)
            self._changed.notify_all()
        return first

    def all(self) -> list[Waiting]:
        """Return all there are."""
        with self._changed:
            return [*(entry[2] for entry in self._waiting), *self._running.values()]

    def seen(self, now: float) -> tuple[PendingRetry, ...]:
        """Return what waits, the next one first, then what is being tried."""
        with self._changed:
            waiting, running = sorted(self._waiting), list(self._running.values())
        return (
            *(one.seen(max(0.0, due - now)) for due, _, one in waiting),
            *(one.seen(None) for one in running),
        )

    def close(self) -> None:
        """Take no more, and let all that waits be due."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def forget(self) -> None:
        """Drop all there is without a word, and begin anew (for tests)."""
        with self._changed:
            for one in (*(entry[2] for entry in self._waiting), *self._running.values()):
                one.over, one.queued = True, False
            self._waiting.clear()
            self._running.clear()
            self.closed, self.loops = False, 0
            self._changed.notify_all()

    def wait_until_empty(self, until: float) -> bool:
        """Wait for the end of all, until that moment of ``time.monotonic`` or a while; tell whether to go on."""
        with self._changed:
            left = until - monotonic()
            if left > 0 and (self._waiting or self._running):
                self._changed.wait(min(left, LONGEST_SLEEP))
            return left > 0 and bool(self._waiting or self._running)

    # -- the thread -------------------------------------------------------------

    def work(self, name: str, clock: Clock) -> None:
        """See that the thread runs, as long as there is anything."""
        with self._changed:
            if self._thread is not None or not (self._waiting or self._running):
                return
            self._thread = threading.Thread(
                target=self._loop,
                args=(name, clock),
                name=f"breakerkit failover {name}",
                daemon=True,
            )
            try:
                self._thread.start()
            except RuntimeError as error:  # there are too many, or the program is ending
                self._thread = None
                fault_in("thread of retries", name, error)
            except BaseException:
                self._thread = None  # should it run all the same, there are two: both may
                raise

    def in_thread(self) -> bool:
        """Tell whether this is the thread."""
        return threading.current_thread() is self._thread

    def _loop(self, name: str, clock: Clock) -> None:
        try:
            while self._sleep(clock.now()):
                try:
                    self._serve()
                except BaseException as error:  # a callback's: the others still wait
                    fault_in("callback of retries", name, error)
        except BaseException as error:  # the clock's: the next call begins another thread
            fault_in("clock of retries", name, error)
        finally:
            with self._changed:
                if self.in_thread():
                    self._thread = None

    def _sleep(self, now: float) -> bool:
        """Sleep until there may be something to do; ``False``: nothing is left."""
        with self._changed:
            if not (self._waiting or self._running):
                self._thread = None
                return False
            due = self._waiting[0][0] if self._waiting else now + LONGEST_SLEEP
            if due > now and not (self.closed and self._waiting):
                self._changed.wait(min(due - now, LONGEST_SLEEP))
        return True
