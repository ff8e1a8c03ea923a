"""The room of a bulkhead: its slots, who waits for them, and the one place where they change hands."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from breakerkit._abandoned import ledger
from breakerkit._fork import Crowd
from breakerkit._keeper import Keeper
from breakerkit.isolation._queue import Queue
from breakerkit.isolation._slots import Slot, nobody
from breakerkit.isolation.events import EVENT_KINDS, CallDequeued

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.isolation._waiters import Waiter
    from breakerkit.isolation.config import BulkheadConfig

#: In place of the free slots where nobody may take one without asking.
_NOTHING: deque[Any] = deque(maxlen=0)


class Room(Keeper):
    """Slots and waiters.

    While nobody waits, a call takes a slot from ``open`` and appends it there,
    both atomic, and looks at ``busy`` after that; no lock. Who joins the queue
    says ``busy`` first and looks at the free slots then, so that of a slot that
    comes free at that moment and a call that begins to wait, one sees the other.

    Attributes:
        open: the free slots, for who comes now; empty while others wait, and
            where each call must be looked at.
        busy: whether a slot that comes free is to be looked at.
        free: the free slots.
        returned: slots that came back and have not been put in their place yet.
        minted: slots there are: free, held or on their way; made when first needed.
        postponed: changes that a destructor or signal handler wanted in the middle of another.
        rings: waiters that have been decided on and not told yet.
        held: by class, slots that its calls hold; the rest's are what is left.
    """

    __slots__ = (
        "_me",
        "_slots",
        "busy",
        "config",
        "ended",
        "free",
        "guaranteed",
        "held",
        "longest_wait",
        "minted",
        "open",
        "postponed",
        "queue",
        "rejected",
        "returned",
        "rings",
        "timed_out",
        "total_wait",
        "wait_count",
    )

    kinds = EVENT_KINDS

    def __init__(self, name: str, config: BulkheadConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.rejected = self.timed_out = self.wait_count = self.ended = 0
        self.total_wait = self.longest_wait = 0.0
        self.config = config
        self.guaranteed = config.guaranteed
        self._empty()
        self._tune()

    def _empty(self) -> None:
        """Begin with nobody inside and nobody waiting."""
        # With a callback it is an object of its own: slots of before a fork lead elsewhere.
        self._me = weakref.ref(self, _gone)
        self.minted = 0
        self.busy = False
        self.free: deque[Slot] = deque()
        self.open: deque[Slot] = self.free
        self.returned: deque[Slot] = deque()
        self.rings: deque[Waiter] = deque()
        self.postponed: deque[Callable[[], object]] = deque()
        self.queue = Queue()
        self.held: dict[Hashable, int] = {}
        self._slots = Crowd()

    def after_fork(self) -> None:
        """Begin anew in a forked child: whoever is inside or waits, is so in the parent."""
        super().after_fork()
        self.ended += sum(slot.uses for slot in self._slots.of(Slot))
        self._empty()
        self._tune()

    def adopt(self, config: BulkheadConfig) -> None:
        """Take new settings: free slots above the limit go at once, held ones when they come back."""
        self.config = config
        self.guaranteed = config.guaranteed
        self._settle()

    # -- slots ---------------------------------------------------------------

    def take(self, share: Hashable) -> Slot | None:
        """Return a slot, if one is free and nobody waits for it. Under the lock."""
        if self.queue.size or (self.minted > self.config.max_concurrent and self._debt()):
            return None
        return self._next_slot(share)

    def _next_slot(self, share: Hashable) -> Slot | None:
        try:
            slot = self.free.pop()
        except IndexError:
            if self.minted >= self.config.max_concurrent:
                return None
            slot = self._mint()
        slot.mark = ledger.mark
        if share is not None:
            slot.share = share
            self.held[share] = self.held.get(share, 0) + 1
        return slot

    def _mint(self) -> Slot:
        slot = Slot()
        self._slots.add(slot)
        slot.of = self._me  # from here on it counts, and nothing can come between
        self.minted += 1
        return slot

    def _debt(self) -> bool:
        """Give up free slots above the limit; tell whether that was not enough."""
        while self.minted > self.config.max_concurrent:
            try:
                slot = self.free.pop()
            except IndexError:
                return True
            self.ended += slot.uses
            slot.uses = 0
            slot.of = nobody
            self.minted -= 1
        return False

    def mine(self, slot: Slot) -> bool:
        """Tell whether a slot is of this process; one of before a fork is the parent's."""
        return slot.of is self._me

    def lost(self, slot: Slot) -> None:
        """Hear from a slot's destructor that nobody has it: a fresh one takes its place."""
        if self.mine(slot):
            fresh = Slot(slot.uses, slot.share)
            self._slots.add(fresh)
            fresh.of = self._me
            self.put_back(fresh)

    # -- changing hands --------------------------------------------------------

    def serve(self) -> None:
        """Put what came back in its place and tell who was decided on; under no lock.

        A destructor or signal handler in the middle of a change leaves that to
        the code it interrupted, which looks again once the lock is free.
        """
        if self.between():
            return
        while True:
            while self.postponed:
                self.postponed.popleft()()
            with self.lock:
                self._settle()
            self._ring()
            if not self.unfinished():
                return

    def _ring(self) -> None:
        """Tell who was decided on, each by one thread; an interrupt leaves it to whoever serves next."""
        while self.rings:
            taken: list[Waiter] = []
            try:
                with self.lock:
                    if self.rings:
                        # In this order: a signal comes after a call, and one of the two has it.
                        taken.append(self.rings[0])
                        self.rings.popleft()
                for waiter in taken:
                    if not waiter.ring():
                        self._nobody_there(waiter)
            except BaseException:
                with self.lock:
                    self.rings.extend(one for one in taken if one not in self.rings)
                raise

    def put_back(self, slot: Slot) -> None:
        """Put a slot back and serve who waits for it, an interrupt or not."""
        try:
            self.returned.append(slot)
            self.serve()
        except BaseException:
            self.serve()
            raise

    def unfinished(self) -> bool:
        """Tell whether there is anything to `serve`."""
        return bool(self.returned or self.rings or self.postponed or (self.busy and self.free))

    def postpone(self, change: Callable[[], object]) -> bool:
        """Keep a change for later, and say so, if this very thread is in the middle of one."""
        if not self.between():
            return False
        self.postponed.append(change)
        return True

    def _settle(self) -> None:
        """Take back, pay, hand over. Under the lock."""
        while self.returned:
            slot = self.returned.popleft()
            if slot.share is not None:
                self.held[slot.share] -= 1
            slot.started = slot.share = None
            slot.uses += 1
            self.free.append(slot)
        if not self._debt():
            self._hand_over()
        self._tune()

    def _hand_over(self) -> None:
        while self.queue.size:
            waiter = self.queue.first(self.owed, newest=self.config.order == "lifo")
            slot = self._next_slot(waiter.share)
            if slot is None:
                return
            self.queue.remove(waiter)
            waiter.slot = slot
            self.rings.append(waiter)

    def owed(self, share: Hashable) -> int:
        """Return how many slots a class has below what it is guaranteed, negative above."""
        if share is None:
            inside = self.minted - len(self.free)
            running = inside - sum(self.held.values())
        else:
            running = self.held.get(share, 0)
        return self.guaranteed.get(share, 0) - running

    def _tune(self) -> None:
        """Say how those who come and go without the lock may do so. Under the lock."""
        owing = self.minted > self.config.max_concurrent
        self.busy = owing or self.queue.size > 0
        looked_at = self.config.shares is not None or self.config.stuck_after is not None
        self.open = _NOTHING if self.busy or looked_at else self.free

    def _nobody_there(self, waiter: Waiter) -> None:
        """Pass on the slot of a waiter whose event loop is closed."""
        with self.lock:
            slot, waiter.slot = waiter.slot, None
        if slot is not None:
            self.unused(slot)

    def unused(self, slot: Slot) -> None:
        """Give a slot back that no call has used; the next gets it."""
        if self.mine(slot):
            slot.uses -= 1
            self.put_back(slot)

    def waited(self, waiter: Waiter, now: float, *, admitted: bool) -> None:
        """Take down, once, that somebody waits no longer. Under the lock."""
        if not waiter.queued:
            return
        waiter.queued = False
        seconds = max(0.0, now - waiter.since)
        self.wait_count += 1
        self.total_wait += seconds
        self.longest_wait = max(self.longest_wait, seconds)
        self.post(CallDequeued, share=waiter.share, waited=seconds, admitted=admitted)

    # -- numbers -----------------------------------------------------------------

    @property
    def running(self) -> int:
        """Calls that hold a slot now."""
        return self.minted - len(self.free) - len(self.returned)

    def slots(self) -> list[Slot]:
        """Return every slot there is."""
        return self._slots.of(Slot)


def _gone(_: object) -> None:
    """Make a weak reference an object of its own."""
