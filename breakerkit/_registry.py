"""Names to policies: the same name gives the same object, over the whole process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from breakerkit import _fork as fork
from breakerkit._fields import near, show
from breakerkit._hub import Hub, subscription
from breakerkit._keeper import Keeper
from breakerkit.errors import ConfigError, NameConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from breakerkit._hub import Subscription

__all__ = ["Registry", "registry"]

#: The kind that a name means where none is said.
BREAKER = "breaker"


class Registry:
    """Policies by kind and name. `registry` is the one that everybody shares by default.

    A breaker and a bulkhead may have the same name: they are two kinds.

    Named policies are held for good. Unnamed ones, and those of one instance
    or one key, are held weakly and not listed; their events are told all the same.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._policies: dict[tuple[str, str], Any] = {}
        self._hub = Hub()
        self._keepers = fork.Crowd()
        fork.remember(self)

    def get(self, name: str, kind: str | None = None) -> Any:
        """Return the policy of this name.

        Args:
            name: its name.
            kind: the verb that made it, such as ``"bulkhead"``; if not given, the
                breaker of this name, or the only other policy that has it.

        Raises:
            KeyError: there is none, or several are no breaker; the message lists
                names that look like it, or the kinds.
        """
        found = {of: one for (of, known), one in self._all() if known == name}
        if kind is None and len(found) == 1:
            return next(iter(found.values()))
        try:
            return found[BREAKER if kind is None else kind]
        except (KeyError, TypeError):
            raise KeyError(self._unknown(name, kind, list(found))) from None

    def names(self, kind: str | None = None) -> list[str]:
        """Return all names, or those of one kind, sorted."""
        return sorted({name for (of, name), _ in self._all() if kind is None or of == kind})

    def snapshot(self) -> dict[str, Any]:
        """Return a snapshot of every policy.

        Those of breakers go by name, those of keys as ``name[key]``, all others
        with their kind in front: ``"bulkhead db"``.
        """
        found: dict[str, Any] = {}
        for (kind, _), policy in sorted(self._all()):
            front = "" if kind == BREAKER else f"{kind} "
            found.update({front + name: seen for name, seen in policy._snapshots().items()})
        return found

    def _all(self) -> list[tuple[tuple[str, str], Any]]:
        return list(self._policies.items())

    def _unknown(self, name: str, kind: str | None, kinds: list[str]) -> str:
        if kinds and kind is None:
            return f"several policies are named {show(name)}: give kind=, one of {sorted(kinds)}"
        return f"no {kind or 'policy'} is named {show(name)}{near(name, self.names(kind))}"

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
        one = subscription(listener, kinds)
        with self._lock:
            self._hub.add(one)
        self._retune()

        def unsubscribe() -> None:
            with self._lock:
                self._hub.remove(one)
            self._retune()

        return unsubscribe

    def __contains__(self, name: object) -> bool:
        return any(known == name for (_, known), _ in self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._policies)

    def __repr__(self) -> str:
        return f"<Registry of {len(self)}>"

    def get_or_add(
        self, kind: str, name: str, make: Callable[[], Any], conflict: Callable[[Any], str | None]
    ) -> Any:
        """Return the policy of this kind and name, made if there is none.

        Args:
            kind: the verb that makes it.
            name: a text that is not empty.
            make: makes the policy.
            conflict: says what of an existing one differs from what is asked.

        Raises:
            ConfigError: the name is no such text.
            NameConflictError: the existing one differs.
        """
        if not isinstance(name, str) or not name:
            raise ConfigError(f"name={show(name)}: must be a text that is not empty")
        key = (kind, name)
        policy = self._policies.get(key)
        if policy is None:
            made = make()  # reads a clock of the user's, so with the lock free
            with self._lock:
                policy = self._policies.setdefault(key, made)
            if policy is made:
                return policy
        if difference := conflict(policy):
            raise NameConflictError(f"the name {name!r} is taken: {difference}")
        return policy

    @property
    def hub(self) -> Hub:
        """The listeners of all its policies."""
        return self._hub

    def adopt(self, keeper: Keeper) -> None:
        """Keep a policy in mind, weakly, so that listeners who come later reach it."""
        self._keepers.add(keeper)
        # One may have come, or gone, while the policy was being made.
        if self._hub.listeners() or keeper.hub.waiting is not None:
            with keeper.lock:
                keeper.retune()

    def exchange(
        self, policies: dict[tuple[str, str], Any], listeners: tuple[Subscription, ...]
    ) -> tuple[dict[tuple[str, str], Any], tuple[Subscription, ...]]:
        """Put other policies and listeners in place and return those that were there (for tests)."""
        with self._lock:
            old, self._policies = self._policies, policies
            heard = self._hub.exchange(listeners)
        if heard != listeners:  # two for each test, and there may be many policies
            self._retune()
        return old, heard

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child."""
        self._lock = threading.RLock()

    def _retune(self) -> None:
        for keeper in self._keepers.of(Keeper):
            with keeper.lock:
                keeper.retune()


#: The registry that is shared by default.
registry = Registry()
