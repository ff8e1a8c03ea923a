"""A slot: whoever has the object may run one call; lost on the way, it comes back by itself."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


def nobody() -> None:
    """Stand in for the bulkhead of a slot that belongs to none."""


class Slot:
    """The right to run one call.

    It is popped from a deque and appended to it again. Should the code between
    be interrupted (Ctrl-C between two opcodes), nobody holds it any more, and
    its destructor tells the bulkhead, which takes a fresh one in its place.

    Attributes:
        mark: of the ledger of abandoned work, when it was handed out.
        of: leads to its bulkhead; weak, so that no cycle holds a dropped one.
        uses: calls it has served.
        share: the class of the call that has it.
        started: when that call began, where anybody wants to know.
    """

    __slots__ = ("__weakref__", "mark", "of", "share", "started", "uses")

    # To the shell, as an entry: its end is always told.
    ticks = itertools.repeat(0)
    attention = judge_at = 0
    edge = 0.0

    def __init__(self, uses: int = 0, share: Hashable = None) -> None:
        self.of: Callable[[], Any] = nobody
        self.uses = uses
        self.share = share
        self.started: float | None = None
        self.mark = 0

    def __del__(self) -> None:
        bulkhead = getattr(self, "of", nobody)()  # absent if __init__ was interrupted
        if bulkhead is not None:
            bulkhead.lost(self)
