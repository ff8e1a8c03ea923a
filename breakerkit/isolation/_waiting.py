"""Asking for a slot, waiting for one, and every way in which a wait ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._abandoned import ledger
from breakerkit.errors import BulkheadFullError, CallRejectedError
from breakerkit.isolation._room import Room
from breakerkit.isolation._slots import Slot
from breakerkit.isolation.events import BulkheadRejected, CallQueued, FullReason

if TYPE_CHECKING:
    from collections.abc import Hashable

    from breakerkit.isolation._waiters import Patience, Waiter


class Waiting(Room):
    """A room with a door: `ask`, then `join`, then exactly one of `left`, `give_up` and `forsake`."""

    __slots__ = ()

    def ask(self, share: Hashable) -> Slot | CallRejectedError | None:
        """Return a free slot, or a rejection where nobody may wait, or ``None``: wait for one."""
        if self.between():
            return self._ask_between()
        config = self.config
        now = None if config.stuck_after is None else self.clock.now()
        with self.lock:
            if self.returned:
                self._settle()
            slot = self.take(share if share in self.guaranteed else None)
            full = slot is None and not config.max_waiting
            rejection = self._reject(FullReason.QUEUE_FULL, share) if full else None
        if slot is not None:
            slot.started = now
        entry = slot or rejection
        return self._told(entry) if self.hub.waiting or self.unfinished() else entry

    def _ask_between(self) -> Slot | CallRejectedError:
        """Ask from a destructor or signal handler in the middle of a change: no waiting there."""
        try:
            slot = self.open.pop()
        except IndexError:
            return BulkheadFullError(self.name, FullReason.QUEUE_FULL, None)
        slot.mark = ledger.mark
        return slot

    def join(self, waiter: Waiter, patience: Patience) -> Slot | CallRejectedError | None:
        """Let a call wait; or return a slot that has come free, or the rejection: no place, no time."""
        if waiter.share not in self.guaranteed:
            waiter.share = None
        if patience.left() <= 0:
            return self.refuse(waiter, patience.reason, patience)
        if self.queue.size >= self.config.max_waiting:
            self.sweep()
        with self.lock:
            self._settle()
            entry: Any = self.take(waiter.share)
            if entry is None and self._has_place(waiter.share):
                self._enqueue(waiter)
                return None
            entry = entry or self._reject(FullReason.QUEUE_FULL, waiter.share)
        return self._told(entry)  # type: ignore[no-any-return]  # what it was given

    def _has_place(self, share: Hashable) -> bool:
        """Tell whether one more of a class may wait, if need be at the cost of one who is owed nothing."""
        if self.queue.size < self.config.max_waiting:
            return True
        if self.config.shares is None or self.queue.size > self.config.max_waiting:
            return False
        if self.owed(share) <= self.queue.length(share):
            return False
        victim = self.queue.last(self.owed, newest=self.config.order == "lifo")
        if victim is None:
            return False
        self.queue.remove(victim)
        victim.refused = FullReason.DISPLACED
        self.rings.append(victim)
        return True

    def _enqueue(self, waiter: Waiter) -> None:
        waiter.queued = True
        self.queue.add(waiter)
        self.post(CallQueued, share=waiter.share, waiting=self.queue.size)
        self._tune()  # it is busy from here on: a slot that comes free now is looked at,
        self._settle()  # and one that has just come free is found

    def left(self, waiter: Waiter, patience: Patience) -> Slot | CallRejectedError:
        """Return what came of the wait; a slot that came in the last instant is taken."""
        now = self.clock.now()
        with self.lock:
            self.queue.remove(waiter)
            entry: Any = waiter.slot
            self.waited(waiter, now, admitted=entry is not None)
            if entry is None:
                self.timed_out += waiter.refused is None
                entry = self._reject(waiter.refused or patience.reason, waiter.share, patience)
            elif self.config.stuck_after is not None:
                entry.started = now
            waiter.slot = None
            self._tune()
        return self._told(entry)  # type: ignore[no-any-return]  # what it was given

    def _told(self, entry: Any) -> Any:
        """Deliver events; a listener may end the program, and then the slot is free again."""
        try:
            self.tell()
        except BaseException:
            if isinstance(entry, Slot):
                self.unused(entry)
            raise
        return entry

    def give_up(self, waiter: Waiter, patience: Patience) -> CallRejectedError | None:
        """Take a call out of the queue for which no time is left; ``None`` if it waits no longer."""
        now = self.clock.now()
        rejection = None
        with self.lock:
            if self.queue.remove(waiter):
                self.waited(waiter, now, admitted=False)
                self.timed_out += 1
                rejection = self._reject(patience.reason, waiter.share, patience)
                self._tune()
        self.tell()
        return rejection

    def withdraw(self, waiter: Waiter) -> bool:
        """Take a call out of the queue; tell whether it was in it."""
        now = self._now(waiter.since)
        with self.lock:
            waited = self.queue.remove(waiter)
            if waited:
                self.waited(waiter, now, admitted=False)
                self._tune()
        self.tell()
        return waited

    def refuse(
        self, waiter: Waiter, reason: FullReason, patience: Patience | None = None
    ) -> CallRejectedError:
        """Return the rejection of a call that is in the queue no more."""
        with self.lock:
            rejection = self._reject(reason, waiter.share, patience)
        self.tell()
        return rejection

    def handed(self, waiter: Waiter) -> None:
        """Hear that a call that stood in the queue by itself has its slot, or will get none."""
        now = self._now(waiter.since)
        with self.lock:
            self.waited(waiter, now, admitted=waiter.slot is not None)
            if waiter.slot is None:
                self._reject(waiter.refused or FullReason.QUEUE_FULL, waiter.share)
            elif self.config.stuck_after is not None:
                waiter.slot.started = now
        self.tell()

    def rejection(self, reason: FullReason) -> BulkheadFullError:
        """Return an error that has been told."""
        return BulkheadFullError(self.name, reason, None)

    def forsake(self, waiter: Waiter) -> None:
        """Hear that nobody waits any more: a slot that was handed over passes on to the next."""
        if self.postpone(lambda: self.forsake(waiter)):
            return
        now = self._now(waiter.since)
        with self.lock:
            slot, waiter.slot = waiter.slot, None
            self.queue.remove(waiter)
            self.waited(waiter, now, admitted=False)
            self._tune()
        if slot is not None:
            self.unused(slot)
        self.tell()

    def _now(self, else_: float) -> float:
        """Read the clock where nothing may fail, not even because a user's clock does."""
        try:
            return self.clock.now()
        except Exception:
            return else_

    def sweep(self) -> int:
        """Let those go who wait in event loops that are closed; tell how many."""
        closed = [loop for loop in list(self.queue.loops) if loop.is_closed()]
        if not closed or self.between():
            return 0
        with self.lock:
            gone = [waiter for waiter in self.queue.of_loops(closed) if self.queue.remove(waiter)]
            self._tune()
        return len(gone)

    def _reject(
        self, reason: FullReason, share: Hashable, patience: Patience | None = None
    ) -> CallRejectedError:
        self.rejected += 1
        self.post(
            BulkheadRejected,
            reason=reason,
            share=share,
            running=self.running,
            waiting=self.queue.size,
        )
        if reason is FullReason.DEADLINE and patience is not None:
            return patience.unbegun()  # whoever set it knows it by the moment
        return BulkheadFullError(self.name, reason, None)

    def tell(self) -> None:
        """Do what is left to be done once the lock is free: serve, ring, deliver."""
        if self.unfinished():
            self.serve()
        if self.hub.waiting:
            self.hub.drain()
