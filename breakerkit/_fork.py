"""Every object that holds a lock, weakly: a forked child gives each a fresh one."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol, TypeVar

from breakerkit._log import fault_in, hook_name


class Forks(Protocol):
    """Something that must mend itself in a forked child."""

    def after_fork(self) -> None:
        """Take fresh locks and let go of what belongs to the parent's threads."""


T = TypeVar("T")


class Crowd:
    """Objects held weakly, by identity.

    A plain dict and not a ``WeakSet``: each operation is atomic, so a fork in
    the middle of another thread's registration leaves nothing half done. The
    references carry their key, which costs less than a closure for each.
    """

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[int, weakref.ref[Any]] = {}

    def add(self, one: Any) -> None:
        """Keep ``one`` in mind for as long as it lives."""
        ref = _Ref(one, _forget)
        ref.key, ref.members = id(one), self._members
        self._members[ref.key] = ref

    def of(self, kind: type[T]) -> list[T]:
        """Return every living member of ``kind``."""
        found = (ref() for ref in list(self._members.values()))
        # One that has just died gives None, which is an object too.
        return [one for one in found if one is not None and isinstance(one, kind)]


class _Ref(weakref.ref[Any]):
    __slots__ = ("key", "members")

    key: int
    members: dict[int, weakref.ref[Any]]


def _forget(ref: Any) -> None:
    ref.members.pop(ref.key, None)


_alive = Crowd()


def remember(one: Forks) -> None:
    """Keep ``one`` in mind for as long as it lives."""
    _alive.add(one)


def alive(kind: type[T]) -> list[T]:
    """Return every living object of ``kind`` that was remembered."""
    return _alive.of(kind)


def _after_fork() -> None:
    for one in alive(object):
        try:
            one.after_fork()  # type: ignore[attr-defined]  # only those are remembered
        except Exception as error:
            fault_in("after_fork", hook_name(one), error)  # the others shall be mended all the same


if hasattr(os, "register_at_fork"):  # pragma: no branch  # absent on Windows only
    os.register_at_fork(after_in_child=_after_fork)
