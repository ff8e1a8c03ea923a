"""Names to policies: the same name gives the same object, over the whole process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from breakerkit import _fork as fork
from breakerkit._fields import near, show
from breakerkit._hub import Hub, subscription
from breakerkit.errors import ConfigError, NameConflictError
from breakerkit.events import EVENT_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from breakerkit._hub import Subscription
    from breakerkit.circuit._view import Snapshot
    from breakerkit.circuit.guard import Guard

__all__ = ["Registry", "registry"]


class Registry:
    """Policies by name. `registry` is the one that everybody shares by default.

    Named policies are held for good. Unnamed ones, and those of one instance
    or one key, are held weakly and not listed; their events are told all the same.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._policies: dict[str, Any] = {}
        self._hub = Hub()
        self._guards = fork.Crowd()
        fork.remember(self)

    def get(self, name: str) -> Any:
        """Return the policy of this name.

        Raises:
            KeyError: there is none; the message lists names that look like it.
        """
        try:
            return self._policies[name]
        except (KeyError, TypeError):
            raise KeyError(f"no breaker is named {show(name)}{near(name, self.names())}") from None

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._policies)

    def snapshot(self) -> dict[str, Snapshot]:
        """Return a snapshot of every policy by name; those of keys as ``name[key]``."""
        found: dict[str, Snapshot] = {}
        for name in self.names():
            policy = self._policies.get(name)
            if policy is not None:
                found.update(policy._snapshots())
        return found

    def subscribe(
        self, listener: Callable[[Any], object], /, *kinds: type[Any]
    ) -> Callable[[], None]:
        """Tell ``listener`` the events of every policy here; return what ends that.

        Args:
            listener: a plain callable that gets one frozen record per event.
            *kinds: event classes it wants; all if none are given.

        Raises:
            TypeError: the listener or a kind is not of that sort.
        """
        one = subscription(listener, kinds, EVENT_KINDS)
        with self._lock:
            self._hub.add(one)
        self._retune()

        def unsubscribe() -> None:
            with self._lock:
                self._hub.remove(one)
            self._retune()

        return unsubscribe

    def __contains__(self, name: object) -> bool:
        return name in self._policies

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._policies)

    def __repr__(self) -> str:
        return f"<Registry of {len(self)}>"

    def get_or_add(
        self, name: str, make: Callable[[], Any], conflict: Callable[[Any], str | None]
    ) -> Any:
        """Return the policy of this name, made if there is none.

        Args:
            name: a text that is not empty.
            make: makes the policy.
            conflict: says what of an existing one differs from what is asked.

        Raises:
            ConfigError: the name is no such text.
            NameConflictError: the existing one differs.
        """
        if not isinstance(name, str) or not name:
            raise ConfigError(f"name={show(name)}: must be a text that is not empty")
        policy = self._policies.get(name)
        if policy is None:
            made = make()  # reads a clock of the user's, so with the lock free
            with self._lock:
                policy = self._policies.setdefault(name, made)
            if policy is made:
                return policy
        if difference := conflict(policy):
            raise NameConflictError(f"the name {name!r} is taken: {difference}")
        return policy

    @property
    def hub(self) -> Hub:
        """The listeners of all its policies."""
        return self._hub

    def adopt(self, guard: Guard) -> None:
        """Keep a guard in mind, weakly, so that listeners who come later reach it."""
        self._guards.add(guard)
        # One may have come, or gone, while the guard was being made.
        if self._hub.listeners() or guard.hub.waiting is not None:
            with guard.lock:
                guard.retune()

    def exchange(
        self, policies: dict[str, Any], listeners: tuple[Subscription, ...]
    ) -> tuple[dict[str, Any], tuple[Subscription, ...]]:
        """Put other policies and listeners in place and return those that were there (for tests)."""
        with self._lock:
            old, self._policies = self._policies, policies
            heard = self._hub.exchange(listeners)
        self._retune()
        return old, heard

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child."""
        self._lock = threading.RLock()

    def _retune(self) -> None:
        for guard in self._guards.of(object):
            with guard.lock:  # type: ignore[attr-defined]  # only guards are adopted
                guard.retune()  # type: ignore[attr-defined]  # likewise


#: The registry that is shared by default.
registry = Registry()
