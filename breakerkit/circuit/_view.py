"""How a breaker looks from outside at a moment: the snapshot, the context of an opening, one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from breakerkit._counters import drawn
from breakerkit.circuit._moves import NAMES
from breakerkit.circuit._states import Closed, HalfOpen, Open
from breakerkit.events import Evidence, OpenReason, State

if TYPE_CHECKING:
    from datetime import datetime

    from breakerkit._context import OpenContext
    from breakerkit.circuit._machine import Machine
    from breakerkit.circuit._moves import Move
    from breakerkit.circuit._snapshot import Snapshot
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.events import Mode


class View(NamedTuple):
    """The machine as it reads at a moment, with lapses and an ended open period seen through."""

    state: State
    opened: Open | None
    probes: int
    successes: int
    evidence: Evidence
    retry_after: float | None
    counted: int = 0  # successes that the present closed period has counted itself


def look(machine: Machine, now: float) -> View:
    """Read the machine as of ``now``; nothing is changed by reading."""
    state = machine.state
    if isinstance(state, Closed):
        last = state.last()  # once, so that the window and the counters show the same calls
        evidence = state.evidence(now, last=last)
        return View(State.CLOSED, None, 0, 0, evidence, None, state.successes(last))
    if isinstance(state, Open):
        return _look_open(state, now)
    return _look_half_open(machine, state, now)


def _look_open(state: Open, now: float) -> View:
    if now >= state.until:
        return View(State.HALF_OPEN, state, 0, 0, state.evidence, None)
    return View(State.OPEN, state, 0, 0, state.evidence, state.remaining(now))


def _look_half_open(machine: Machine, state: HalfOpen, now: float) -> View:
    config, timeout = machine.config, state.timeout(machine.config)
    holding = [lease for lease in state.active if lease.started + timeout > now]
    if state.active and not holding and state.successes >= config.probe_success_threshold:
        return View(State.CLOSED, None, 0, 0, Evidence(), None)
    wait = None
    if len(holding) >= config.probe_limit:
        wait = min(max(holding[0].started + timeout - now, 0.0), timeout)
    opened = state.after
    return View(State.HALF_OPEN, opened, len(holding), state.successes, opened.evidence, wait)


def name_of(machine: Machine) -> State:
    """Return the name of the state the machine is in, an ended open period not seen through."""
    return NAMES[type(machine.state)]


def snapshot(name: str, machine: Machine, view: View, mode: Mode) -> Snapshot:
    """Put a view and the counters together."""
    from breakerkit.circuit._snapshot import Snapshot  # noqa: PLC0415  # many programs never look

    counts, seen, opened = machine.counts, view.evidence, view.opened
    successes = counts.successes + view.counted
    rejected = counts.rejected
    ignored = counts.ignored + drawn(counts.forgotten)
    return Snapshot(
        name=name,
        state=view.state,
        mode=mode,
        consecutive_failures=seen.consecutive_failures,
        window_calls=seen.window_calls,
        window_failures=seen.window_failures,
        window_failure_rate=_percent(seen.window_failures, seen.window_calls),
        slow_window_calls=seen.slow_window_calls,
        slow_calls=seen.slow_calls,
        slow_call_rate=_percent(seen.slow_calls, seen.slow_window_calls),
        probes_active=view.probes,
        probe_successes=view.successes,
        reason=opened.reason if opened else None,
        opened_at=opened.opened_at if opened else None,
        retry_after=view.retry_after,
        calls=successes + counts.failures + ignored + rejected,
        successes=successes,
        failures=counts.failures,
        ignored=ignored,
        rejected=rejected,
        openings=counts.openings,
    )


def context(name: str, config: BreakerConfig, move: Move, opened: Open) -> OpenContext:
    """Return what the callbacks of an opening are told."""
    from breakerkit._context import OpenContext  # noqa: PLC0415  # many programs have no callbacks

    seen = opened.evidence
    return OpenContext(
        name=name,
        reason=opened.reason,
        state=State.OPEN,
        failure_threshold=config.failure_threshold,
        window_size=config.window_size,
        window_duration=config.window_duration,
        minimum_calls=config.minimum_calls,
        failure_rate_threshold=config.failure_rate_threshold,
        slow_call_duration=config.slow_call_duration,
        slow_call_rate_threshold=config.slow_call_rate_threshold,
        probe_limit=config.probe_limit,
        probe_success_threshold=config.probe_success_threshold,
        consecutive_failures=seen.consecutive_failures,
        window_calls=seen.window_calls,
        window_failures=seen.window_failures,
        window_failure_rate=_percent(seen.window_failures, seen.window_calls),
        slow_calls=seen.slow_calls,
        slow_call_rate=_percent(seen.slow_calls, seen.slow_window_calls),
        open_duration=opened.duration,
        opened_at=opened.opened_at,
        openings=move.openings,
        error=move.error,
    )


def forced(view: View, retry_after: float | None, since: datetime) -> View:
    """Return how the view reads while a switch holds the breaker open."""
    held = Open(OpenReason.FORCED, 0.0, 0.0, view.evidence, since)
    return view._replace(state=State.OPEN, opened=held, retry_after=retry_after)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def sentence(seen: Snapshot, config: BreakerConfig, by: str) -> str:
    """Return the snapshot as one readable sentence; ``by`` says who holds a switch."""
    return f"{seen.name} {_stands(seen, config)}{by}; {_evidence(seen, config)}."


def _stands(seen: Snapshot, config: BreakerConfig) -> str:
    wait = "" if seen.retry_after is None else f" for another {seen.retry_after:.3g} s"
    since = f" since {seen.opened_at:%Y-%m-%d %H:%M:%S} UTC" if seen.opened_at else ""
    told = seen.reason not in {None, OpenReason.FORCED}  # who forced it is said elsewhere
    because = f" because of {seen.reason}" if told else ""
    if seen.state is State.OPEN:
        return f"is open{since}{because}{wait}"
    if seen.state is State.HALF_OPEN:
        probes = f"{seen.probes_active} of {config.probe_limit} probes running"
        needed = f"{seen.probe_successes} of {config.probe_success_threshold} successes"
        return f"is half-open after opening{since}{because}: {probes}, {needed}"
    return "is closed"


def _evidence(seen: Snapshot, config: BreakerConfig) -> str:
    streak = seen.consecutive_failures
    parts = [f"{streak} {'failure' if streak == 1 else 'failures'} in a row"]
    if config.failure_threshold is not None:
        parts[0] += f" (opens at {config.failure_threshold})"
    if config.has_window:
        parts.append(
            f"{seen.window_failures} of {seen.window_calls} calls in the window failed"
            f" (opens at {config.failure_rate_threshold:g} %"
            f" of at least {max(config.minimum_calls, 1)})"
        )
    if config.slow_call_duration is not None:
        parts.append(f"{seen.slow_calls} of {seen.slow_window_calls} were slow")
    return ", ".join(parts)
