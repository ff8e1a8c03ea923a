"""Listeners: who wants which events, and delivery in order, outside every lock."""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields
from breakerkit._log import PASSING, fault_in, hook_name
from breakerkit._sole import Sole
from breakerkit.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable

#: Events that may wait for a slow listener; beyond that the oldest are dropped and that is told.
MOST_WAITING = 10_000


@attrs.frozen(eq=False)
class Subscription:
    """One listener and the kinds of event it wants; none are all."""

    listener: Callable[[Any], object]
    kinds: tuple[type[Any], ...]


def subscription(
    listener: Callable[[Any], object],
    kinds: tuple[type[Any], ...],
    known: tuple[type[Any], ...] = (),
) -> Subscription:
    """Check a listener and its kinds; no kinds mean all.

    Args:
        listener: a plain callable of one event.
        kinds: event classes it wants; a base class stands for those below it.
        known: the kinds there are; any event class if none are given.

    Raises:
        TypeError: the listener is no plain callable, or a kind is no event class.
    """
    at_once = callable(listener) and not fields.is_coroutine_function(listener)
    if not at_once or not fields.takes(listener, 1):
        raise TypeError(
            f"listener={fields.show(listener)}: must be a callable that takes one event and is"
            " no coroutine function"
        )
    for kind in kinds:
        if not _is_event(kind) or (known and not any(issubclass(one, kind) for one in known)):
            names = ", ".join(one.__name__ for one in known) or "the event classes"
            raise TypeError(f"kind={fields.show(kind)}: must be one of {names}")
    return Subscription(listener, kinds)


def _is_event(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Event)


class Hub:
    """The listeners of one policy, and those of its registry.

    Whoever finds nobody delivering delivers, until nothing waits; so events
    arrive in order, a listener may call through the policy without deadlock,
    and nobody waits for a listener but the one call that delivers.
    """

    __slots__ = ("_delivering", "_own", "_parent", "_targets", "dropped", "waiting")

    def __init__(self, parent: Hub | None = None) -> None:
        self._own: tuple[Subscription, ...] = ()
        self._parent = parent
        self._targets: dict[type[Any], tuple[Subscription, ...]] = {}
        self._delivering = Sole()
        # Made for the first listener: most breakers never have one.
        self.waiting: deque[Any] | None = None
        self.dropped = 0

    def add(self, one: Subscription) -> None:
        """Add a listener."""
        self._own = (*self._own, one)

    def remove(self, one: Subscription) -> None:
        """Take a listener away; one that is gone already is no error."""
        self._own = tuple(other for other in self._own if other is not one)

    def exchange(self, own: tuple[Subscription, ...]) -> tuple[Subscription, ...]:
        """Put other listeners in place and return those that were there (for tests)."""
        old, self._own = self._own, own
        return old

    def listeners(self) -> tuple[Subscription, ...]:
        """Return own and inherited listeners."""
        return self._own if self._parent is None else (*self._own, *self._parent.listeners())

    def retune(self, kinds: tuple[type[Any], ...]) -> frozenset[type[Any]]:
        """Look again who listens, and return those of ``kinds`` that somebody wants."""
        targets: dict[type[Any], tuple[Subscription, ...]] = {}
        for one in self.listeners():
            for kind in kinds:
                if not one.kinds or issubclass(kind, one.kinds):
                    targets[kind] = (*targets.get(kind, ()), one)
        self._targets = targets
        if targets and self.waiting is None:
            self.waiting = deque(maxlen=MOST_WAITING)
        return frozenset(targets)

    def post(self, event: Any) -> None:
        """Queue an event; what is posted under the policy's lock keeps that order."""
        waiting = self.waiting
        if waiting is None:
            return  # the last listener has gone
        if len(waiting) == MOST_WAITING:
            self.dropped += 1  # the oldest makes room
        waiting.append(event)

    def tell(self, event: Any) -> None:
        """Deliver an event that was posted under no lock: at once, if nothing waits.

        `Sole.run` is written out, because each call of a function pays for it
        while somebody listens.
        """
        turn = self._delivering.turn
        if self.waiting or turn:
            self.post(event)
            self.drain()
            return
        me = get_ident()
        try:
            if turn.setdefault(None, me) == me:
                self._call(event)
            else:
                self.post(event)
        finally:
            try:
                if turn[None] == me:
                    del turn[None]
            except KeyError:
                pass
        if self.waiting:
            self.drain()

    def drain(self) -> None:
        """Deliver what waits, unless somebody is at it; called outside every lock.

        An event posted while the one who delivers is about to stop is not
        lost: the look at the queue comes again after the turn has ended.
        """
        while self.waiting:
            if not self._delivering.run(self._deliver):
                return

    def forget(self) -> None:
        """Start empty in a forked child: the delivering thread lives in the parent."""
        self.waiting = None
        self._delivering = Sole()

    def _deliver(self) -> None:
        waiting = self.waiting
        # A listener may fork: in the child this queue is the parent's.
        while waiting and waiting is self.waiting:
            event = waiting.popleft()
            self._call(event)
            if self.dropped:
                self._tell_dropped(event.name)

    def _call(self, event: Any) -> None:
        for one in self._targets.get(type(event), ()):
            try:
                one.listener(event)
            except PASSING:
                raise
            except BaseException as error:
                fault_in(f"listener {hook_name(one.listener)}", event.name, error)

    def _tell_dropped(self, name: str) -> None:
        fault_in(
            "listeners", name, OverflowError(f"too slow: {self.dropped} events dropped in a row")
        )
        self.dropped = 0
