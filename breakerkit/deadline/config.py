"""What a timeout is told: one frozen, checked set of settings."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from breakerkit import _fields as fields

__all__ = ["TimeoutConfig", "TimeoutMode"]


class TimeoutMode(enum.StrEnum):
    """How sync code is limited; async code is cancelled in every mode."""

    AUTO = "auto"
    COOPERATIVE = "cooperative"
    ABANDON = "abandon"


def _to_mode(value: Any) -> TimeoutMode:
    try:
        return TimeoutMode(value)
    except ValueError:
        return fields.fault(  # type: ignore[no-any-return]  # a Fault
            value, "must be 'auto', 'cooperative' or 'abandon'"
        )


@attrs.frozen(kw_only=True)
class TimeoutConfig:
    """Settings of a timeout, checked together when the object is made.

    Equal configs are equal and hash alike.

    Args:
        seconds: how long a call may take: seconds or ``timedelta``, kept as
            float seconds.
        mode: how sync code is limited. ``"cooperative"``: it sees the deadline,
            and ends early where it asks `check_deadline`. ``"abandon"``: it runs
            in a thread, and its caller goes on in time although the thread does
            not. ``"auto"``: cooperative. Async code is cancelled in every mode.
        max_abandoned: with ``"abandon"``: how many threads this timeout may have
            at work, calls that are waited for and abandoned ones together; with
            that many, further calls are rejected.

    Raises:
        ConfigError: one error that names every wrong field, its value and what
            is allowed.
    """

    seconds: float = attrs.field(default=30.0, converter=fields.to_seconds)
    mode: TimeoutMode = attrs.field(default=TimeoutMode.AUTO, converter=_to_mode)
    max_abandoned: int = attrs.field(default=100, converter=fields.to_positive)

    def __attrs_post_init__(self) -> None:
        fields.check(self)

    def evolve(self, **changes: Any) -> TimeoutConfig:
        """Return a new, checked config with ``changes``; this one stays as it is.

        Raises:
            ConfigError: a change is unknown or wrong, alone or with the rest.
        """
        return fields.evolve(self, changes)
