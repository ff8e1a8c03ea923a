"""The tickets of completed calls: which ones are out of reach."""

from __future__ import annotations

import sys

#: A ticket that is far away. Below 2**30 CPython compares integers by a shorter path.
FAR = 2**30 - 1


def never(last: int) -> int:
    """Return a ticket that will not be reached soon after ``last``."""
    return FAR if last < FAR // 2 else sys.maxsize
