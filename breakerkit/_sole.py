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

    __slots__ = ("turn",)

    def __init__(self) -> None:
        #: Who is at it; nobody while it is empty.
        self.turn: dict[None, int] = {}

    def run(self, work: Callable[..., object], *given: object) -> bool:
        """Do ``work(*given)`` unless somebody is at it, this thread further out too.

        Returns:
            Whether it was done.

        Raises:
            BaseException: whatever ``work`` raises.
        """
        turn = self.turn
        if turn:
            return False
        me = get_ident()
        try:
            if turn.setdefault(None, me) != me:
                return False
            work(*given)
        finally:
            # No call from here to the end, or a signal might come in between.
            try:
                if turn[None] == me:
                    del turn[None]
            except KeyError:  # it was somebody else's, and has ended
                pass
        return True
