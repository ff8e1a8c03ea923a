"""Origins that come back to a cache: which attempts this code is part of, and which wait would never end."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakerkit.stale._attempts import Attempt

#: So many attempts, one inside of the other, are an origin that calls itself without end.
DEEPEST = 100

#: The attempts whose origin this code is part of, outermost first; tasks and copied contexts take it along.
making: ContextVar[tuple[Attempt, ...]] = ContextVar("breakerkit_making", default=())


def running() -> tuple[Attempt, ...]:
    """Return those of them that run: what an origin has only planned goes on without it."""
    return tuple(one for one in making.get() if one.how is None)


def inside(attempt: Attempt) -> tuple[Attempt, ...]:
    """Return what `making` is for the origin of an attempt that is begun here."""
    return (*running(), attempt)


def wait_for(attempt: Attempt) -> tuple[Attempt, ...]:
    """Say that what runs here is about to wait for an attempt; return what `waited` is to be given.

    First said and then looked at: of two that wait for each other at least one
    sees it.
    """
    mine = running()
    for one in mine:
        one.waits.append(attempt)
    return mine


def waited(mine: tuple[Attempt, ...], attempt: Attempt) -> None:
    """Take that back."""
    for one in mine:
        if attempt in one.waits:
            one.waits.remove(attempt)


def never_ends(mine: tuple[Attempt, ...], attempt: Attempt) -> bool:
    """Tell whether an attempt waits, by whatever others, for one of these."""
    seen: set[int] = set()
    left = [attempt] if mine else []
    while left:
        one = left.pop()
        if one in mine:
            return True
        if id(one) not in seen and one.how is None:
            seen.add(id(one))
            left.extend(one.waits)
    return False


def check_depth(name: str, key: str) -> None:
    """Refuse an origin that calls itself without end: tasks have no stack that would overflow.

    Raises:
        RecursionError: as said.
    """
    if len(running()) >= DEEPEST:
        raise RecursionError(
            f"cache {name!r}: the origin of key {key!r} calls itself through the cache, again and again"
        )
