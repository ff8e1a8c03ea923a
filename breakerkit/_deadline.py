"""What code may ask of the time it has: the deadline of the calls around it, and whether it has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit.cancel import CancelSignal

if TYPE_CHECKING:
    from breakerkit._ambient import Limit

__all__ = ["Deadline", "check_deadline", "current_deadline"]


class Deadline:
    """The moment by which the code that asks should be done; a view, cheap to make.

    Attributes:
        name: name of the timeout that set it.
        seconds: how long that allowed in all.
    """

    __slots__ = ("_limit", "name", "seconds")

    def __init__(self, of: Limit) -> None:
        self._limit = of
        terms = ambient.binding(of)[1][1]
        self.seconds: float = terms.seconds
        self.name: str = terms.name

    @property
    def remaining(self) -> float:
        """Seconds left, never negative, and never more than ``seconds``."""
        return max(0.0, min(self.seconds, ambient.binding(self._limit)[0]))

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return ambient.binding(self._limit)[0] <= 0

    @property
    def signal(self) -> CancelSignal:
        """A signal that reads as cancelled once the deadline has passed, or that of the calls around."""
        passing, given = _Passing(self), self._limit[3]
        return passing if given is None else ambient.Either(passing, given)

    def __repr__(self) -> str:
        return f"<Deadline of {self.name!r}: {self.remaining:.3g} of {self.seconds:g} s left>"


class _Passing(CancelSignal):
    """The signal of a deadline: nobody has to set it."""

    __slots__ = ("_deadline",)

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    @property
    def cancelled(self) -> bool:
        return bool(self._set) or self._deadline.expired

    @property
    def reason(self) -> Any:
        if self._set:
            return super().reason
        return f"deadline of {self._deadline.name!r}" if self._deadline.expired else None


def current_deadline() -> Deadline | None:
    """Return the deadline of the calls around this code, ``None`` if there is none.

    Example:
        >>> current_deadline() is None
        True
    """
    one = ambient.live(ambient.limit.get())
    return None if one is None or one[0] == ambient.NEVER else Deadline(one)


def check_deadline() -> None:
    """Raise if the time of the calls around this code is over, or their signal is set.

    Call it between the steps of long work: under ``timeout(..., mode="cooperative")``
    nothing else ends a sync function early. With no deadline it does nothing.

    Raises:
        CallTimeoutError: the deadline has passed; its ``name`` says whose.
        CallCancelledError: the signal is set, or the work was abandoned.
    """
    one = ambient.live(ambient.limit.get())
    if one is None:
        return
    left, bound = ambient.binding(one)
    if left <= 0:
        raise ambient.expired(bound)
    if one[3] is not None:
        one[3].raise_if_cancelled(one[1].name)
