"""Failed calls that are tried again in the background: bounded, listed, each heard of once in the end."""

from __future__ import annotations

import contextvars
import logging
import sys
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._log import PASSING, fault_in, hook_name, write_seldom
from breakerkit.errors import NoProviderError
from breakerkit.providers._single import Again
from breakerkit.providers._waiting import Queue, Waiting
from breakerkit.providers.events import GiveUpReason, RetryGivenUp, RetryQueued, RetrySucceeded

if TYPE_CHECKING:
    from breakerkit.providers._view import PendingRetry
    from breakerkit.providers.keeper import FailoverKeeper


class Runner(Protocol):
    """How what waits is called again; the shell knows."""

    def loop(self, work: Any) -> Any:
        """Return the running loop if the work is async, else ``None``."""

    def run(self, one: Waiting, tries: Any) -> Any:
        """Call it now."""

    def send(self, one: Waiting, tries: Any, done: Any) -> None:
        """Let its loop call it, and then ``done(value, error)``; ``RuntimeError`` if that is closed."""


class Retries:
    """What strategy ``"failback"`` does with calls that failed.

    Sync calls run in one daemon thread, one after the other; async ones are
    sent to the loop they came from when they are due.
    """

    def __init__(self, keeper: FailoverKeeper, runner: Runner) -> None:
        self._keeper = keeper
        self._runner = runner
        self._queue = Queue(self.run_due)

    def after_fork(self) -> None:
        """Start empty: what the parent has promised the parent keeps."""
        self._queue = Queue(self.run_due)

    def forget(self) -> None:
        """Drop what waits without a word (for tests)."""
        self._queue.forget()

    @property
    def closed(self) -> bool:
        """Whether no more is taken."""
        return self._queue.closed

    def pending(self, now: float) -> tuple[PendingRetry, ...]:
        """Return what waits, the next one first, then what is being tried."""
        return self._queue.seen(now)

    # -- in -------------------------------------------------------------------

    def queue(self, work: Any, provider: str | None, error: BaseException) -> None:
        """Take a call that has failed, or give it up at once."""
        loop = self._runner.loop(work)
        one = Waiting(work, contextvars.copy_context(), loop, provider, bare(error))
        self._give_up_stranded()
        config = self._keeper.config
        if reason := self._put(one, config.max_pending):
            self._give_up(one, reason)
        else:
            self._tell(RetryQueued, None, error=error, delay=config.retry_interval)

    def _put(self, one: Waiting, most: int | None = None) -> GiveUpReason | None:
        keeper = self._keeper
        due = keeper.clock.now() + keeper.config.retry_interval
        reason = self._queue.put(one, due, most)
        if keeper.config.background:
            self._queue.work(keeper.name, keeper.clock)
        return reason

    # -- again ------------------------------------------------------------------

    def run_due(self) -> int:
        """Try again whatever is due, and return how many that were."""
        self._give_up_stranded()
        count = 0
        hand: list[Waiting] = []
        while self._next(hand):
            count += 1
        return count

    def _next(self, hand: list[Waiting]) -> bool:
        """Try the next that is due; whatever interrupts that, it is not lost."""
        try:
            if not self._queue.take(self._keeper.clock.now(), hand):
                return False
            self._again(hand[-1])
            hand.pop()
            return True
        finally:
            if hand:
                self._queue.put_back(hand.pop())

    def _again(self, one: Waiting) -> None:
        one.made += 1
        tries = Again(self._keeper, one.work, one.provider)
        if one.loop is not None:
            self._send(one, tries)
            return
        try:
            value = self._runner.run(one, tries)
        except BaseException as error:
            self._failed(one, tries, error)
            # The thread must go on, whatever a call raises there.
            if isinstance(error, PASSING) and not self._queue.in_thread():
                raise
        else:
            self._succeeded(one, tries, value)

    def _send(self, one: Waiting, tries: Again) -> None:
        def done(value: Any, error: BaseException | None) -> None:
            if error is None:
                self._succeeded(one, tries, value)
            else:
                self._failed(one, tries, error)

        try:
            self._runner.send(one, tries, done)
        except RuntimeError:
            self._give_up(one, GiveUpReason.LOOP_GONE)

    def _failed(self, one: Waiting, tries: Again, error: BaseException) -> None:
        one.error, one.provider = bare(error), tries.provider
        if one.loop is not None and not isinstance(error, Exception):
            self._give_up(one, GiveUpReason.LOOP_GONE)
        elif not (isinstance(error, NoProviderError) or self._keeper.is_failure(error)):
            self._give_up(one, GiveUpReason.NOT_A_FAILURE)
        elif one.made >= self._keeper.config.retries:
            self._give_up(one, GiveUpReason.RETRIES_USED_UP)
        elif not one.over and (reason := self._put(one)):
            self._give_up(one, reason)

    # -- out ------------------------------------------------------------------

    def _succeeded(self, one: Waiting, tries: Again, value: Any) -> None:
        if not self._queue.end(one):
            return
        keeper = self._keeper
        with keeper.lock:
            keeper.counts.retried += 1
        hook = keeper.config.on_success
        self._tell(RetrySucceeded, hook, provider=tries.provider, value=value, **_of(one))

    def _give_up(self, one: Waiting, reason: GiveUpReason) -> None:
        if not self._queue.end(one):
            return
        keeper = self._keeper
        with keeper.lock:
            keeper.counts.given_up += 1
        hook = keeper.config.on_give_up
        if hook is None:
            message = "%s %r: a call is not tried again (%d so far)"
            write_seldom(logging.ERROR, message, "failover", keeper.name, one.error)
        self._tell(RetryGivenUp, hook, reason=reason, error=one.error, **_of(one))

    def _tell(self, kind: Any, hook: Any, **fields: Any) -> None:
        keeper = self._keeper
        with keeper.lock:
            keeper.post(kind, **fields)
        keeper.hub.drain()
        if hook is None:
            return
        try:
            hook(kind(keeper.name, time(), **fields))
        except PASSING:
            raise
        except BaseException as error:
            fault_in(f"callback {hook_name(hook)}", keeper.name, error)

    # -- the end --------------------------------------------------------------

    def close(self, timeout: float) -> bool:
        """Try all that waits once more, for so many seconds; what is left then is given up.

        Returns:
            Whether nothing was left.
        """
        until = monotonic() + timeout
        self._queue.close()
        left = self._give_up_all(self._of_this_loop())
        self._queue.work(self._keeper.name, self._keeper.clock)
        while self._queue.wait_until_empty(until):
            self._give_up_stranded()
        return not (left + self._give_up_all(self._queue.all()))

    def _of_this_loop(self) -> list[Waiting]:
        """Return what only the loop could run that waits for us."""
        asyncio = sys.modules.get("asyncio")
        loop = None if asyncio is None else asyncio._get_running_loop()
        return [one for one in self._queue.all() if loop is not None and one.loop is loop]

    def _give_up_all(self, some: list[Waiting]) -> int:
        for one in some:
            self._give_up(one, GiveUpReason.CLOSED)
        return len(some)

    def _give_up_stranded(self) -> None:
        """Give up what belongs to loops that are gone."""
        for one in self._queue.all() if self._queue.loops else ():
            if one.stranded:
                self._give_up(one, GiveUpReason.LOOP_GONE)


def _of(one: Waiting) -> dict[str, Any]:
    return {"args": one.work.rest, "kwargs": one.work.kwargs, "retries": one.made}


def bare(error: BaseException) -> BaseException:
    """Take the frames from an error and from all it leads to: what waits shall keep none alive."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            waiting += [more for more in (one.__cause__, one.__context__) if more is not None]
            waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
    return error
