"""What is kept of a provider by its name: its breaker, as far as it must be known, and its failures."""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._counters import drawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.errors import CallRejectedError
    from breakerkit.providers._provider import Provider

#: Seconds after which a failure counts half, where providers are ordered by their failures.
HALF_LIFE = 10.0


class Health(enum.StrEnum):
    """What a provider's breaker would say to a call, as of now."""

    FIT = "fit"
    DUE = "due for a probe"
    BROKEN = "broken"
    BARRED = "held open by somebody"


class Watch(Protocol):
    """The breaker of a provider, as far as this wing must know it."""

    #: Lets calls in and hears how they end, see the shell's ``Gate``.
    gate: Any
    #: The breaker as users hold it; ``None``: there is none.
    breaker: Any

    def health(self) -> Health:
        """Return what it would say to a call now."""
        ...

    def badness(self) -> tuple[float, ...]:
        """Return how broken it is, to be compared: more is worse."""
        ...

    def refusal(self) -> CallRejectedError:
        """Return the rejection a call would get now."""
        ...

    def follow(self, config: Any) -> bool:
        """Take the failover's new settings; ``False``: it cannot, for there is, or was, no breaker."""
        ...

    def rename(self, name: str) -> None:
        """Take a name."""


class Door:
    """A gate that lets everybody in and does not care how it ends, its own entry at once."""

    __slots__ = ()

    name = ""
    waits = False
    ticks = itertools.repeat(0)
    attention = 1

    @property
    def fast(self) -> Door:
        """An entry that needs no admission."""
        return self

    def failed(self, *_: object) -> None:
        """Hear nothing."""

    drop = ignored = failed


DOOR = Door()


class Unwatched:
    """The watch over a provider that has no breaker."""

    __slots__ = ()

    gate = DOOR
    breaker = None

    def health(self) -> Health:
        """Return that it may be called."""
        return Health.FIT

    def rename(self, name: str) -> None:
        """Take no name: it has none."""


class Slot:
    """One provider by name; it outlives the provider's absence from the list for a while.

    Attributes:
        name: the provider's name.
        watch: its breaker.
        successes: counter of calls that ended well, drawn from without a lock.
        failures: calls that failed.
        skipped: times it was passed over for its breaker's sake.
        bypassed: times it was called although its breaker was open.
    """

    __slots__ = ("_at", "_marks", "bypassed", "failures", "name", "skipped", "successes", "watch")

    def __init__(self, name: str, watch: Any) -> None:
        self.name = name
        self.watch = watch
        self.successes = itertools.count(1)
        self.failures = 0
        self.skipped = 0
        self.bypassed = 0
        self._marks, self._at = 0.0, 0.0

    def mark(self, now: float) -> None:
        """Count a failure. Under the lock."""
        self.failures += 1
        self._marks, self._at = self.weight(now) + 1, now

    def clear(self) -> None:
        """Forget the failures that order providers: it has recovered. Under the lock."""
        self._marks = 0.0

    def weight(self, now: float) -> float:
        """Return its failures, old ones counting less; of a clock that steps back they are new."""
        return float(self._marks * 0.5 ** (max(0.0, now - self._at) / HALF_LIFE))

    @property
    def succeeded(self) -> int:
        """How many calls ended well."""
        return drawn(self.successes)


class Member:
    """A provider that is listed now, and what belongs to its name.

    Attributes:
        value: what the decorated function is given.
        gate: lets calls in.
        slot: what is kept by its name.
        provider: the provider as it was listed.
    """

    __slots__ = ("gate", "provider", "slot", "successes", "value")

    def __init__(self, provider: Provider[Any], slot: Slot) -> None:
        self.provider = provider
        self.value = provider.value
        self.slot = slot
        self.gate = slot.watch.gate
        self.successes = slot.successes

    @property
    def name(self) -> str:
        """Its name."""
        return self.slot.name


class Attempt:
    """One try with one provider, let in and not yet ended; it is settled once.

    Should nobody ever know how it ended, its destructor gives the slot back.
    """

    __slots__ = ("_entry", "_gate", "member", "probes")

    def __init__(self, member: Member, gate: Any, entry: Any, *, probes: bool = False) -> None:
        self.member = member
        self.probes = probes
        self._gate = gate
        self._entry = entry

    @property
    def value(self) -> Any:
        """What the decorated function is given."""
        return self.member.value

    def succeeded(self, value: object, later: Any = None) -> None:
        """Tell the breaker of a value."""
        entry, self._entry = self._entry, None
        if entry is not None and (ticket := next(entry.ticks)) >= entry.attention:
            self._gate.succeeded(entry, ticket, value, later)

    def failed(self, error: BaseException, later: Any = None) -> None:
        """Tell the breaker of an exception."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._gate.failed(entry, error, later)

    def refused(self, error: BaseException) -> bool:
        """Tell whether ``error`` is a rejection by this provider's own breaker."""
        name = self.member.gate.name
        return bool(name) and getattr(error, "name", None) == name

    def __del__(self) -> None:
        entry = getattr(self, "_entry", None)  # absent if __init__ was interrupted
        if entry is not None:
            self._gate.drop(entry)


if TYPE_CHECKING:
    #: From a name, a provider and the settings to its watch.
    Equip = Callable[[str, Provider[Any], Any], Any]
