"""Every object that holds a lock, weakly: a forked child gives each a fresh one."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol, TypeVar


class Forks(Protocol):
    """Something that must mend itself in a forked child."""

    def after_fork(self) -> None:
        """Take fresh locks and let go of what belongs to the parent's threads."""


T = TypeVar("T")

# A plain dict and not a WeakSet: each operation is atomic, so a fork in the
# middle of another thread's registration leaves nothing half done.
_alive: dict[int, weakref.ref[Any]] = {}


def remember(one: Forks) -> None:
    """Keep ``one`` in mind for as long as it lives."""
    key = id(one)
    _alive[key] = weakref.ref(one, lambda _: _alive.pop(key, None))


def alive(kind: type[T]) -> list[T]:
    """Return every living object of ``kind`` that was remembered."""
    found = (ref() for ref in list(_alive.values()))
    return [one for one in found if isinstance(one, kind)]


def _after_fork() -> None:
    for one in alive(object):
        one.after_fork()  # type: ignore[attr-defined]  # only those are remembered


if hasattr(os, "register_at_fork"):  # pragma: no branch  # absent on Windows only
    os.register_at_fork(after_in_child=_after_fork)
