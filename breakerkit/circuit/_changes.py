"""What changes a live machine from outside: reset, new settings, a fresh generation, a fork."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.circuit._states import Closed, HalfOpen, Open, make_slow, make_window
from breakerkit.events import Evidence, OpenReason
from breakerkit.events import State as Name

if TYPE_CHECKING:
    from breakerkit.circuit._machine import Machine
    from breakerkit.circuit._window import Window
    from breakerkit.circuit.config import BreakerConfig


def reset(machine: Machine, now: float) -> None:
    """Start over: closed, no evidence, no growth; what is in flight belongs to the past."""
    machine.openings = 0
    machine.step = 0
    machine.replace(Closed(machine.config, now))


def renew(machine: Machine, now: float, *, slots_free: bool = False) -> None:
    """Start a new generation with the same state and evidence; results in flight are dropped.

    Probes that run keep their slots, though their results count no more, unless
    ``slots_free``: in a forked child they do not run.
    """
    state = machine.state
    if isinstance(state, Closed):
        counted = state.retire()
        machine.counts.successes += counted
        machine.state = state.successor()
    elif isinstance(state, HalfOpen):
        machine.state = successor = state.successor(slots_free=slots_free)
        if slots_free:
            machine.close_if_done(successor, now)


def settle_duration(machine: Machine, state: Open, seconds: float) -> None:
    """Set how long the present open period lasts, once a user's callable has said so."""
    if machine.state is state:
        state.duration, state.until = seconds, state.since + seconds


def reconfigure(machine: Machine, config: BreakerConfig, now: float) -> None:
    """Swap the settings; state, streak and evidence stay, and nothing is judged here."""
    machine.lapse(now)
    old = machine.config
    machine.adopt(config)
    if isinstance(machine.state, Closed):
        _refit(machine.state, old, config, now)
        machine.state.pending = True


def _refit(period: Closed, old: BreakerConfig, new: BreakerConfig, now: float) -> None:
    period.window = _refit_window(period.window, old, new, period.last(), now)
    slow, fresh = period.slow, make_slow(new, now)
    if slow is None or fresh is None:
        period.slow = fresh
    elif _same_kind(old, new):
        slow.adapt(fresh.limit, _size(new), now)
    else:
        fresh.running = slow.running  # the tally starts over, calls that hang are still watched
        period.slow = fresh


def _refit_window(
    window: Window | None, old: BreakerConfig, new: BreakerConfig, last: int, now: float
) -> Window | None:
    """Resize a window; one that is new, or of another kind, starts empty."""
    if window is None or not _same_kind(old, new):
        return make_window(new, now, last)
    window.resize(_size(new), last, now)
    return window


def _same_kind(old: BreakerConfig, new: BreakerConfig) -> bool:
    return bool(old.window_size) == bool(new.window_size) and (old.window_duration is None) == (
        new.window_duration is None
    )


def _size(config: BreakerConfig) -> float:
    """Return the window's size, in calls or seconds; only asked where there is a window."""
    return config.window_size or config.window_duration or 0


def place(machine: Machine, name: Name, now: float, duration: float) -> None:
    """Put the machine into a state, without evidence and without a move to tell (for tests)."""
    reset(machine, now)
    if name is Name.CLOSED:
        return
    since = now if name is Name.OPEN else now - duration
    opened = Open(OpenReason.FORCED, since, duration, Evidence(), machine.stamp())
    machine.replace(opened if name is Name.OPEN else HalfOpen(opened))
