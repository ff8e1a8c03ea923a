"""What stands behind every policy: a name, a clock, a lock and listeners; it survives forks."""

from __future__ import annotations

import threading
from time import time
from typing import TYPE_CHECKING, Any, ClassVar

from breakerkit import _fork as fork
from breakerkit._hub import Hub, subscription
from breakerkit.events import ConfigChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.clock import Clock


class Keeper:
    """The one mutable thing of a policy, or the part of it that all policies share.

    User code (calls, hooks, listeners, a clock of the user's) never runs under
    ``lock``, which is reentrant only so that a signal handler or a destructor
    that comes back to the same policy cannot deadlock.

    Attributes:
        name: name of the policy.
        clock: where its time comes from.
        lock: guards all the rest.
        hub: its listeners.
        wanted: the kinds of event that somebody listens to.
    """

    __slots__ = ("__weakref__", "clock", "hub", "lock", "name", "wanted")

    #: The settings in force; where they are kept is the policy's matter.
    config: Any
    #: The kinds of event it tells.
    kinds: ClassVar[tuple[type[Any], ...]] = (ConfigChanged,)

    def __init__(self, name: str, clock: Clock, parent: Hub | None) -> None:
        self.name = name
        self.clock = clock
        self.lock = threading.RLock()
        self.hub = Hub(parent)
        self.wanted = self.hub.retune(self.kinds)
        fork.remember(self)

    def adopt(self, config: Any) -> None:
        """Take new settings. Under the lock."""
        self.config = config

    def between(self) -> bool:
        """Tell whether this very thread is in the middle of a change.

        Only a destructor or a signal handler can find it so, and what they do
        then must touch nothing.
        """
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]  # threading.Condition asks the same

    def retune(self) -> None:
        """Look again who listens. Under the lock."""
        self.wanted = self.hub.retune(self.kinds)

    def post(self, kind: type[Any], **fields: Any) -> None:
        """Queue an event if somebody wants it; `Hub.drain` delivers it once the lock is free."""
        if kind in self.wanted:
            self.hub.post(kind(self.name, time(), **fields))

    def reconfigure(self, config: Any) -> None:
        """Swap the settings of a live policy, and say so."""
        with self.lock:
            old = self.config
            self.adopt(config)
            self.post(ConfigChanged, old=old, new=config)
        self.hub.drain()

    def subscribe(
        self, listener: Callable[[Any], object], kinds: tuple[type[Any], ...]
    ) -> Callable[[], None]:
        """Add a listener; return what takes it away."""
        one = subscription(listener, kinds, self.kinds)
        with self.lock:
            self.hub.add(one)
            self.retune()

        def unsubscribe() -> None:
            with self.lock:
                self.hub.remove(one)
                self.retune()

        return unsubscribe

    def rename(self, name: str) -> None:
        """Take a name, once it is known."""
        with self.lock:
            self.name = name

    def after_fork(self) -> None:
        """Take a fresh lock and let go of the parent's deliveries, in a forked child."""
        self.lock = threading.RLock()
        self.hub.forget()
