"""Listeners: who wants which events, and delivery in order, outside every lock."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields
from breakerkit._callbacks import is_coroutine_function
from breakerkit._log import fault_in, hook_name, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Events that may wait for a slow listener; beyond that the oldest are dropped and that is told.
MOST_WAITING = 10_000


@attrs.frozen(eq=False)
class Subscription:
    """One listener and the kinds of event it wants."""

    listener: Callable[[Any], object]
    kinds: tuple[type[Any], ...]

    def tell(self, event: Any) -> None:
        """Call the listener if it wants this kind; what it raises is logged."""
        if not isinstance(event, self.kinds):
            return
        try:
            self.listener(event)
        except Exception as error:
            fault_in(f"listener {hook_name(self.listener)}", event.name, error)


def subscription(
    listener: Callable[[Any], object], kinds: tuple[type[Any], ...], known: tuple[type[Any], ...]
) -> Subscription:
    """Check a listener and its kinds; no kinds mean all.

    Raises:
        TypeError: the listener is no plain callable, or a kind is no event class.
    """
    if not callable(listener) or is_coroutine_function(listener):
        raise TypeError(
            f"listener={fields.show(listener)}: must be a callable that is no coroutine function"
        )
    for kind in kinds:
        if kind not in known:
            names = ", ".join(one.__name__ for one in known)
            raise TypeError(f"kind={fields.show(kind)}: must be one of {names}")
    return Subscription(listener, kinds or known)


class Hub:
    """The listeners of one policy, and those of its registry.

    Whoever finds nobody delivering delivers, until nothing waits; so events
    arrive in order, a listener may call through the policy without deadlock,
    and nobody waits for a listener but the one call that delivers.
    """

    __slots__ = ("_delivering", "_dropped", "_own", "_parent", "_waiting")

    def __init__(self, parent: Hub | None = None) -> None:
        self._own: tuple[Subscription, ...] = ()
        self._parent = parent
        # Made at the first event: most breakers never have one.
        self._waiting: deque[Any] | None = None
        self._delivering = threading.Lock()
        self._dropped = 0

    def add(self, one: Subscription) -> None:
        """Add a listener."""
        self._own = (*self._own, one)

    def remove(self, one: Subscription) -> None:
        """Take a listener away; one that is gone already is no error."""
        self._own = tuple(other for other in self._own if other is not one)

    def listeners(self) -> Iterable[Subscription]:
        """Return own and inherited listeners."""
        return self._own if self._parent is None else (*self._own, *self._parent.listeners())

    def kinds(self) -> frozenset[type[Any]]:
        """Return the kinds of event that somebody listens to."""
        return frozenset(kind for one in self.listeners() for kind in one.kinds)

    def post(self, event: Any) -> None:
        """Queue an event; called under the policy's lock, which gives events their order."""
        if self._waiting is None:
            self._waiting = deque()
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._drop(event.name)
        self._waiting.append(event)

    def drain(self) -> None:
        """Deliver what waits, unless somebody is at it; called outside every lock.

        An event posted while the one who delivers is about to stop is not
        lost: the look at the queue comes again after the lock is free.
        """
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                self._deliver(self._waiting)
            finally:
                self._delivering.release()

    def forget(self) -> None:
        """Start empty in a forked child: the delivering thread lives in the parent."""
        self._waiting = None
        self._delivering = threading.Lock()

    def _deliver(self, waiting: deque[Any]) -> None:
        while waiting:
            event = waiting.popleft()
            for one in self.listeners():
                one.tell(event)

    def _drop(self, name: str) -> None:
        self._dropped += 1
        if self._dropped == 1:
            logger.warning("listeners of %r are too slow: events are being dropped", name)
