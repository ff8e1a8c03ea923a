"""Counters that are drawn from without a lock, and how to look at one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import itertools

#: A ticket that is far away. Below 2**30 CPython compares integers by a shorter path.
FAR = 2**30 - 1


def drawn(counter: itertools.count[int]) -> int:
    """Return the last number a ``count(1)`` gave out, without drawing one.

    ``repr`` is the only way to look at a count that is neither deprecated nor
    moves it on; a look that moved it would put a call into the window.
    """
    return int(repr(counter)[6:-1]) - 1


def never(last: int) -> int:
    """Return a ticket that will not be reached soon after ``last``."""
    return FAR if last < FAR // 2 else sys.maxsize
