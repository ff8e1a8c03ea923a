"""Who is listed now: the list is read anew for each try, and what belongs to a name is kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit._log import PASSING, fault_in
from breakerkit.errors import ConfigError
from breakerkit.providers._provider import Provider, wrapped
from breakerkit.providers._slots import Member, Slot

if TYPE_CHECKING:
    from collections.abc import Callable

#: Absent providers that are remembered at least; those absent longest are forgotten first.
REMEMBERED = 100


def check_source(source: Any) -> None:
    """Refuse what is no list of providers and gives none; a list is looked through.

    Raises:
        ConfigError: as said.
    """
    if _is_list(source):
        named(source)
    elif not callable(source) or fields.is_coroutine_function(source) or isinstance(source, type):
        raise ConfigError(f"providers={fields.show(source)}: {_ALLOWED}")
    elif not fields.takes(source, 0):
        raise ConfigError(
            f"providers={fields.show(source)}: {_ALLOWED}; a function is decorated with"
            " @failover([...])"
        )


_ALLOWED = "must be a list or tuple, or a plain callable without arguments that returns one"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def named(values: Sequence[Any]) -> dict[str, Provider[Any]]:
    """Return the providers of a list by name, in order.

    Raises:
        ConfigError: two have the same name.
    """
    found: dict[str, Provider[Any]] = {}
    for value in values:
        provider = wrapped(value)
        name = provider.label
        if name in found:
            raise ConfigError(
                f"providers: two are named {fields.show(name)}: give each a name of its own,"
                " Provider(value, 'name')"
            )
        found[name] = provider
    return found


class Roster:
    """The providers listed now, and what is kept by name of these and of some that were.

    A list that cannot be read, or is wrong, changes nothing: the last good one
    stays in force and the fault is logged; if there is none it is raised.

    Args:
        source: a sequence, or a callable that returns one.
        make: makes what is kept by a name, from the name and its provider.
        lock: called for the lock of the failover.
    """

    __slots__ = ("_known", "_lock", "_make", "_seen", "fixed", "members", "source")

    def __init__(
        self, source: Any, make: Callable[[str, Provider[Any]], Slot], lock: Callable[[], Any]
    ) -> None:
        self.source = source
        self.members: tuple[Member, ...] = ()
        #: Whether the list is read already and can never change.
        self.fixed = False
        self._make = make
        self._lock = lock
        self._seen: tuple[Any, ...] | None = None
        self._known: OrderedDict[str, Slot] = OrderedDict()

    def unchanged(self) -> bool:
        """Tell cheaply whether ``members`` are those that `read` would return; ``False`` may be wrong."""
        if self.fixed:
            return True
        seen, source = self._seen, self.source
        if seen is None or type(source) is not list or len(source) != len(seen):
            return False
        return all(map(is_, source, seen))  # by identity, see below

    def read(self, name: str) -> tuple[Member, ...]:
        """Return who is listed now.

        Args:
            name: name of the failover, should there be something to log.
        """
        if self.unchanged():
            return self.members
        try:
            return self._read()
        except PASSING:
            raise
        except Exception as error:
            if self._seen is None:
                raise
            fault_in("list of providers", name, error)
            return self.members

    def _read(self) -> tuple[Member, ...]:
        found = self.source if _is_list(self.source) else self.source()
        if not _is_list(found):
            raise ConfigError(f"providers() returned {fields.show(found)}: must be a list or tuple")
        values, seen = tuple(found), self._seen
        # By identity: what equals an old value may still be another one.
        if seen is not None and len(values) == len(seen) and all(map(is_, values, seen)):
            return self.members
        return self._replace(values)

    def _replace(self, values: tuple[Any, ...]) -> tuple[Member, ...]:
        listed = named(values)
        with self._lock():
            slots = {name: self._known[name] for name in listed if name in self._known}
        # Made with the lock free: breakers read a clock, and that may be a user's.
        made = {name: self._make(name, one) for name, one in listed.items() if name not in slots}
        with self._lock():
            for name, slot in made.items():  # another thread may have been faster
                slots[name] = self._known.get(name, slot)
            self._remember({name: slots[name] for name in listed})
            # In this order: who finds the list unchanged shall find its members, too.
            self.members = tuple(Member(one, slots[name]) for name, one in listed.items())
            self._seen = values
            self.fixed = type(self.source) is tuple
            return self.members

    def _remember(self, slots: dict[str, Slot]) -> None:
        """Keep these in mind, and of the absent ones those that left last. Under the lock."""
        for name, slot in slots.items():
            self._known[name] = slot
            self._known.move_to_end(name)
        while len(self._known) > len(slots) + max(REMEMBERED, len(slots)):
            self._known.popitem(last=False)

    def seen(self, name: str) -> tuple[Member, ...]:
        """Do what `read` does, for who only wants to look: a list that cannot be read is empty."""
        try:
            return self.read(name)
        except PASSING:
            raise
        except Exception as error:
            fault_in("list of providers", name, error)
            return ()

    def known(self) -> list[Slot]:
        """Return what is kept, of absent providers too."""
        return list(self._known.values())

    def forget(self) -> None:
        """Read the list again at the next call, and make everything anew. Under the lock."""
        self._known.clear()
        self._seen, self.fixed = None, False
