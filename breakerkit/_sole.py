"""Work that one thread does at a time, and that nobody waits for."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Sole:
    """Lets one thread at a time do a piece of work; whoever else comes is sent away.

    A lock that is tried and not waited for would do, but for signals: one that
    raises between the try and the ``try:`` (CPython lets them in after every
    call) leaves it locked for good. Here the thread's own name is what is put
    down, so that the ``finally`` knows whose turn it is however far it got.
    """

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn: dict[None, int] = {}

    def run(self, work: Callable[[], object]) -> bool:
        """Do ``work`` unless somebody is at it, this thread further out too.

        Returns:
            Whether it was done.

        Raises:
            BaseException: whatever ``work`` raises.
        """
        turn, me = self._turn, get_ident()
        mine = {None: me}
        if turn == mine:
            return False
        try:
            if turn.setdefault(None, me) != me:
                return False
            work()
        finally:
            # No call from here to the end, or a signal might come in between.
            if turn == mine:
                del turn[None]
        return True
