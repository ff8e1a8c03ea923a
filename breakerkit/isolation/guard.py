"""The guard of a bulkhead: lets a call in, lets it wait, or turns it away; takes its slot back when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._abandoned import ledger
from breakerkit.isolation._pool import Here, Pool
from breakerkit.isolation._waiters import Bell, Patience, Promise
from breakerkit.isolation._waiting import Waiting
from breakerkit.isolation._watch import Watch

if TYPE_CHECKING:
    from collections.abc import Hashable

    from breakerkit._outcome import Outcome
    from breakerkit.errors import CallRejectedError
    from breakerkit.isolation._slots import Slot


class BulkheadGuard(Waiting):
    """What stands in front of a call, as the shell sees it: a gate whose admission may wait."""

    __slots__ = ("_pool", "_watch")

    #: Every call asks.
    fast = None
    waits = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._pool: Pool | None = None
        self._watch = Watch()

    def after_fork(self) -> None:
        """Let go of the parent's workers too, in a forked child."""
        self._pool = None
        self._watch = Watch()
        super().after_fork()

    @property
    def pool(self) -> Pool:
        """Its workers, begun when first asked for."""
        pool = self._pool
        if pool is None:
            make = Here if self.config.isolation == "thread" else self._process
            made = Pool(self.name, self.config.max_concurrent, make)
            with self.lock:
                pool = self._pool = self._pool or made
            self.tell()
        return pool

    @property
    def watch(self) -> Watch:
        """Who looks at the time of those who wait in the queue by themselves."""
        return self._watch

    @property
    def workers(self) -> int:
        """How many workers are alive."""
        return 0 if self._pool is None else self._pool.alive

    def _process(self) -> Any:
        from breakerkit.isolation._process import ProcessRunner  # noqa: PLC0415  # multiprocessing is slow to import

        return ProcessRunner(self)

    def adopt(self, config: Any) -> None:
        """Take new settings, the workers too."""
        super().adopt(config)
        if self._pool is not None:
            self._pool.resize(config.max_concurrent)

    def reconfigure(self, config: Any) -> None:
        """Swap the settings of a live bulkhead; who waits profits at once."""
        if self.postpone(lambda: self.reconfigure(config)):
            return
        super().reconfigure(config)
        self.serve()

    # -- admission -------------------------------------------------------------

    def admit(self, later: object = None, share: Hashable = None) -> Slot | CallRejectedError:  # noqa: ARG002  # a gate's form
        """Let a call in, after a wait if need be, or return the rejection to be raised."""
        entry = self.ask(share)
        if entry is not None:
            return entry
        patience = Patience(self.clock, self.config.max_wait)
        bell = Bell(share, patience.since)
        entry = self.join(bell, patience)
        if entry is not None:
            return entry
        try:
            self.tell()
            bell.wait(patience, self.tell)
            return self.left(bell, patience)
        except BaseException:
            # Twice: what interrupts is as likely to come in the middle of this.
            try:
                self.forsake(bell)
            except BaseException:
                self.forsake(bell)
                raise
            raise

    async def admit_async(self, share: Hashable = None) -> Slot | CallRejectedError:
        """Do the same without blocking the event loop."""
        entry = self.ask(share)
        if entry is not None:
            return entry
        from asyncio import get_running_loop  # noqa: PLC0415  # a program without asyncio pays nothing

        patience = Patience(self.clock, self.config.max_wait)
        promise = Promise(share, patience.since, get_running_loop())
        entry = self.join(promise, patience)
        if entry is not None:
            return entry
        try:
            self.tell()
            await promise.wait(patience)
            return self.left(promise, patience)
        except BaseException:
            try:
                self.forsake(promise)
            except BaseException:
                self.forsake(promise)
                raise
            raise

    # -- the end of a call -------------------------------------------------------

    def release(self, slot: Slot, mark: int | None = None) -> None:
        """Take a slot back; where the call left work that goes on, when that has ended.

        Args:
            slot: the slot.
            mark: the ledger's when the call began; ``None``: as the slot says.
        """
        if not self.mine(slot):
            return
        mark = slot.mark if mark is None else mark
        if mark != ledger.mark and (left := ledger.since(mark)):
            _Held(self, slot, left)
            return
        self.put_back(slot)

    def succeeded(self, entry: Slot, *_: object) -> None:
        """Hear that a call has ended."""
        self.release(entry, entry.mark)

    def failed(self, entry: Slot, *_: object) -> None:
        """Hear that a call has ended."""
        self.release(entry, entry.mark)

    def drop(self, entry: Slot, *, decided: bool = False) -> None:  # noqa: ARG002  # a gate's form
        """Hear from a destructor that a call has ended somehow."""
        self.release(entry, ledger.mark)

    def check_sync(self) -> None:
        """Serve sync calls, always."""

    def decide(self, entry: Slot, outcome: Outcome, *_: object) -> None:
        """Hear the outcome of a block, which is nothing to a bulkhead."""


class _Held:
    """A slot whose call has ended and left work that goes on."""

    __slots__ = ("_guard", "_left", "_slot")

    def __init__(self, guard: BulkheadGuard, slot: Slot, left: list[Any]) -> None:
        self._guard = guard
        self._slot = slot
        # Whoever takes the first away, which is the last to go, gives the slot back.
        self._left = [True] + [False] * (len(left) - 1)
        for work in left:
            work.on_end(self._one_less)

    def _one_less(self) -> None:
        if self._left.pop():
            self._guard.release(self._slot, ledger.mark)
