"""Open periods that grow while a dependency stays down, and shrink step by step once it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from breakerkit import _fields as fields

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["Backoff", "backoff"]


#: Growth per opening beyond this is a slip of the keyboard.
STEEPEST = 1000


def _to_factor(value: float) -> float:
    if fields.is_number(value) and 1 <= value <= STEEPEST:
        return float(value)
    return fields.fault(value, "must be a number from 1 to 1000")  # type: ignore[no-any-return]  # a Fault


def _to_jitter(value: float) -> float:
    if fields.is_number(value) and 0 <= value < 1:
        return float(value)
    return fields.fault(value, "must be a share from 0 (none) to below 1")  # type: ignore[no-any-return]  # a Fault


@attrs.frozen
class Backoff:
    """What `backoff` returns: the plan of a growing open period. Units are seconds."""

    initial: float = attrs.field(converter=fields.to_seconds)
    factor: float = attrs.field(default=2.0, converter=_to_factor, kw_only=True)
    maximum: float = attrs.field(default=600.0, converter=fields.to_seconds, kw_only=True)
    jitter: float = attrs.field(default=0.0, converter=_to_jitter, kw_only=True)

    def __attrs_post_init__(self) -> None:
        order = None
        if fields.sound(self.initial, self.maximum) and self.maximum < self.initial:
            order = f"maximum={self.maximum}: must be at least initial={self.initial}"
        fields.check(self, order)

    def pause(self, step: int) -> float:
        """Return the open period after ``step`` earlier openings, without jitter, in seconds."""
        try:
            return min(self.initial * self.factor**step, self.maximum)
        except OverflowError:
            return self.maximum

    def grown(self, step: int) -> int:
        """Return the step after one more opening; it stops where the maximum is reached."""
        return step + 1 if self.pause(step) < self.maximum and self.factor > 1 else step

    def cooled(self, step: int, healthy: float) -> int:
        """Return the step that is left of ``step`` after ``healthy`` seconds closed.

        A step is forgotten after as long a time closed as the pause it added.
        """
        while step > 0 and healthy >= (needed := self.pause(step - 1)):
            healthy -= needed
            step -= 1
        return step

    def spread(self, pause: float) -> float:
        """Return ``pause`` moved by up to ``jitter`` of itself, at most ``maximum``, in seconds."""
        if not self.jitter:
            return pause
        import random  # noqa: PLC0415  # slow to import, and only jitter needs it

        moved = pause * (1 + self.jitter * random.uniform(-1, 1))  # noqa: S311  # spreads load, hides nothing
        return min(moved, self.maximum)


def backoff(
    initial: float | timedelta,
    *,
    factor: float = 2.0,
    maximum: float | timedelta = 600.0,
    jitter: float = 0.0,
) -> Backoff:
    """Make open periods grow: pass the result as ``open_duration``.

    The first period lasts ``initial`` seconds, each further opening multiplies
    it by ``factor`` up to ``maximum``. Once closed, the growth is taken back
    step by step: a step is forgotten after as long a time closed as the pause
    it added, so one success does not throw it all away, and an outage right
    after a recovery goes on where the last one stopped. ``reset()`` starts over.

    Args:
        initial: the first open period, seconds or ``timedelta``.
        factor: growth per opening, 1 to 1000.
        maximum: longest period, seconds or ``timedelta``.
        jitter: share by which each period is moved at random, 0 to below 1.

    Raises:
        ConfigError: a value is out of its range.

    Example:
        >>> plan = backoff(2, factor=2, maximum=8)
        >>> [plan.pause(step) for step in range(4)]
        [2.0, 4.0, 8.0, 8.0]

    The decay is that of Envoy's outlier ejection; the growth is the common
    exponential backoff.
    """
    return Backoff(initial, factor=factor, maximum=maximum, jitter=jitter)
