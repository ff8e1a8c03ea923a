"""How long something lasts that is said to end at a moment, or so long from now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from breakerkit import _fields as fields
from breakerkit.errors import ConfigError

#: Seconds anything may last at most, a hundred years: beyond that dates end.
LONGEST = 100 * 365.25 * 86_400


def seconds_until(until: Any) -> float | None:
    """Return how long from now ``until`` is, in seconds; ``None`` stays what it is.

    Raises:
        ConfigError: it is neither a ``timedelta`` nor an aware ``datetime``, or not in the future.
    """
    allowed = "must be a timedelta above 0 or an aware datetime in the future, or None"
    if until is None:
        return None
    lasts = until
    if isinstance(until, datetime) and until.tzinfo is not None:
        lasts = until - datetime.now(UTC)
    if isinstance(lasts, timedelta) and lasts > timedelta(0):
        seconds = lasts.total_seconds()
        if seconds <= LONGEST:
            return seconds
    raise ConfigError(f"until={fields.show(until)}: {allowed}")
