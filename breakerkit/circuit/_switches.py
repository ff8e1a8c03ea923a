"""Switches an operator holds: forced open, disabled, observe; who, why, until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

from breakerkit.events import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ModeHandle"]

#: Which switch wins when several are held.
ORDER = (Mode.FORCED_OPEN, Mode.DISABLED, Mode.OBSERVE)


class ModeHandle:
    """A switch somebody holds on a breaker; ``release()`` or the end of ``with`` gives it up.

    Several handles do not undo each other: while another one is held, its mode
    stays in force.

    Attributes:
        mode: what it switches to.
        reason: why, as given.
        by: who, as given.
        since: when it was taken, aware UTC.
        until: when it expires by itself, aware UTC, or ``None``.
    """

    __slots__ = ("_release", "by", "deadline", "mode", "reason", "since", "until")

    def __init__(
        self,
        mode: Mode,
        reason: str | None,
        by: str | None,
        lasts: float | None,
        now: float,
        release: Callable[[ModeHandle], None],
    ) -> None:
        self.mode = mode
        self.reason = reason
        self.by = by
        self.since = datetime.now(UTC)
        self.until = None if lasts is None else self.since + timedelta(seconds=lasts)
        self.deadline = None if lasts is None else now + lasts
        self._release = release

    def release(self) -> None:
        """Give the switch up; doing so twice, or after it expired, is no error."""
        self._release(self)

    def expired(self, now: float) -> bool:
        """Tell whether it has ended by itself at ``now``, by the breaker's clock."""
        return self.deadline is not None and now >= self.deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return (
            f"<ModeHandle {self.mode.value} by={self.by!r} reason={self.reason!r}"
            f" until={self.until}>"
        )


def in_force(handles: tuple[ModeHandle, ...], now: float) -> ModeHandle | None:
    """Return the handle that decides at ``now``: force before disable before observe."""
    for mode in ORDER:
        for handle in handles:
            if handle.mode is mode and not handle.expired(now):
                return handle
    return None


def forced_for(handles: tuple[ModeHandle, ...], now: float) -> float | None:
    """Return how long forced-open handles hold it, in seconds; ``None`` without an end."""
    ends = [
        handle.deadline
        for handle in handles
        if handle.mode is Mode.FORCED_OPEN and not handle.expired(now)
    ]
    if any(end is None for end in ends):
        return None
    return max((end - now for end in ends if end is not None), default=0.0)
