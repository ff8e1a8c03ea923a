"""What an operator does to a guard, and what anybody may read of it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from breakerkit._until import seconds_until
from breakerkit.circuit import _changes as changes
from breakerkit.circuit import _switches as switches
from breakerkit.circuit import _view as views
from breakerkit.circuit._states import Closed
from breakerkit.circuit._switches import ModeHandle
from breakerkit.events import Mode, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._callbacks import OpenCallback
    from breakerkit.circuit._snapshot import Snapshot
    from breakerkit.circuit._view import View
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.circuit.guard import Guard


def state(guard: Guard) -> State:
    """Return the state as it reads now."""
    now = guard.clock.now()
    if guard.dropped:
        settle_dropped(guard, now)
    present = guard.machine.state
    if not guard.handles and isinstance(present, Closed):
        return State.CLOSED
    with guard.lock:
        view = _look(guard, now)
    guard.catch_up()
    return view.state


def snapshot(guard: Guard) -> Snapshot:
    """Return all numbers as they belong together now."""
    now = guard.clock.now()
    if guard.dropped:
        settle_dropped(guard, now)
    with guard.lock:
        mode = _mode(guard, now)
        seen = views.snapshot(guard.name, guard.machine, _look(guard, now), mode)
    guard.catch_up()
    return seen


def settle_dropped(guard: Guard, now: float) -> None:
    """Settle what destructors have left, and tell what comes of it."""
    if guard.between():
        return
    with guard.lock:
        guard.settle_dropped(now)
        moves, mode = guard.changed()
    guard.tell(moves, mode)


def why(guard: Guard) -> str:
    """Return the snapshot as one sentence."""
    held = switches.in_force(guard.handles, guard.clock.now())
    by = ""
    if held is not None:
        by = f" ({held.mode.value} by {held.by or 'somebody'}: {held.reason or 'no reason given'})"
    return views.sentence(snapshot(guard), guard.config, by)


def mode(guard: Guard) -> Mode:
    """Return the mode in force now."""
    return _mode(guard, guard.clock.now())


def held(guard: Guard) -> tuple[ModeHandle, ...]:
    """Return the switches that are held now."""
    now = guard.clock.now()
    return tuple(handle for handle in guard.handles if not handle.expired(now))


def _mode(guard: Guard, now: float) -> Mode:
    """Read the mode without letting go of what has expired: reading changes nothing."""
    one = switches.in_force(guard.handles, now)
    return one.mode if one else Mode.AUTO


def _look(guard: Guard, now: float) -> View:
    view = views.look(guard.machine, now)
    if _mode(guard, now) is not Mode.FORCED_OPEN:
        return view
    since = min(one.since for one in guard.handles if one.mode is Mode.FORCED_OPEN)
    return views.forced(view, switches.forced_for(guard.handles, now), since)


def reset(guard: Guard) -> None:
    """Close it, clear all evidence, drop what is in flight; switches stay in force."""
    if guard.postpone(lambda: reset(guard)):
        return
    now = guard.clock.now()
    with guard.lock:
        guard.mode_now(now)
        guard.settle_dropped(now)
        moves, mode = guard.changed()  # what came before the reset is reported before it
        old = guard.reads()
        changes.reset(guard.machine, now)
        if old is not guard.reads():
            guard.reports.changed(old, State.CLOSED, None, guard.mode)
        guard.reports.reset(old)
        guard.place_fast()
    guard.tell(moves, mode)


def reconfigure(guard: Guard, config: BreakerConfig) -> None:
    """Swap the settings of a live guard.

    Raises:
        TypeError: a coroutine callback came, and sync functions are guarded.
    """
    _check_callbacks(guard, config.on_open)
    if guard.postpone(lambda: reconfigure(guard, config)):
        return
    now = guard.clock.now()
    with guard.lock:
        guard.machine.lapse(now)
        moves, mode = guard.changed()  # what came before the change is reported before it
        old = guard.config
        changes.reconfigure(guard.machine, config, now)
        guard.reports.reconfigured(old, config)
        guard.retune()
    guard.tell(moves, mode)


def hold(guard: Guard, mode: Mode, reason: str | None, by: str | None, until: Any) -> ModeHandle:
    """Take a switch and return its handle."""
    lasts = seconds_until(until)
    now = guard.clock.now()

    def release(handle: ModeHandle) -> None:
        let_go(guard, handle)

    handle = ModeHandle(mode, reason, by, lasts, now, release)
    _set(guard, lambda handles: (*handles, handle), now)
    return handle


def let_go(guard: Guard, handle: ModeHandle | None = None) -> None:
    """Give up one switch, or all of them."""

    def left(handles: tuple[ModeHandle, ...]) -> tuple[ModeHandle, ...]:
        return tuple(one for one in handles if handle is not None and one is not handle)

    _set(guard, left, guard.clock.now())


def _set(
    guard: Guard,
    change: Callable[[tuple[ModeHandle, ...]], tuple[ModeHandle, ...]],
    now: float,
) -> None:
    if guard.postpone(lambda: _set(guard, change, now)):
        return
    with guard.lock:
        guard.mode_now(now)
        guard.machine.lapse(now)
        moves, mode = guard.changed()  # what came before the switch is reported before it
        guard.set_handles(change(guard.handles), now)
    guard.tell(moves, mode)


def add_callback(guard: Guard, callback: OpenCallback) -> None:
    """Add an opening callback.

    Raises:
        TypeError: it is a coroutine function without a loop, and sync functions are guarded.
    """
    _check_callbacks(guard, (callback,))
    with guard.lock:
        guard.callbacks = (*guard.callbacks, callback)
        guard.retune()


def _check_callbacks(guard: Guard, callbacks: tuple[OpenCallback, ...]) -> None:
    if guard.sync_used and any(one.awaits for one in callbacks):
        raise TypeError(
            f"breaker {guard.name!r} guards sync functions, which cannot await a coroutine"
            " callback: give a plain callable, or OpenCallback(..., loop=loop)"
        )


class Standing(enum.Enum):
    """What would be lost with a breaker that is forgotten."""

    CLEAN = "nothing"
    MARKED = "evidence"
    HELD = "an opening"


def standing(guard: Guard, now: float) -> Standing:
    """Return what forgetting this breaker would lose."""
    with guard.lock:
        period, switched = guard.machine.state, switches.in_force(guard.handles, now)
        if switched or _look(guard, now).state is not State.CLOSED:
            return Standing.HELD
        if not isinstance(period, Closed):
            return Standing.CLEAN
        seen = period.evidence(now)
    marked = seen.consecutive_failures or seen.window_failures or seen.slow_calls
    return Standing.MARKED if marked else Standing.CLEAN
