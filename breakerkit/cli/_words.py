"""How figures are written: counts, durations, and the dash for what is not known."""

from __future__ import annotations

__all__ = ["NOTHING", "count", "duration"]

NOTHING = "-"
_MANY_SECONDS, _MANY_MINUTES = 600, 36_000  # where the next unit reads better; seconds


def count(number: int | None) -> str:
    """Return a whole number with its thousands set apart."""
    return NOTHING if number is None else f"{number:,}"


def duration(seconds: float | None) -> str:
    """Return a duration in the unit that suits it."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MANY_SECONDS:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < _MANY_MINUTES else f"{seconds / 3600:,.0f} h"
