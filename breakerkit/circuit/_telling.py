"""What happens after the lock is released: user rules, open durations, opening callbacks, the log."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit._log import fault_in, hook_name, logger, write
from breakerkit.circuit import _view as views
from breakerkit.circuit._backoff import Backoff
from breakerkit.circuit._moves import FALLBACK_DURATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from breakerkit._callbacks import Later, OpenCallback
    from breakerkit.circuit._moves import Move
    from breakerkit.circuit._states import Open
    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.events import Evidence, OpenContext


def user_verdict(name: str, config: BreakerConfig, evidence: Evidence) -> str | None:
    """Ask the user's trip rules in order; one that raises or answers nonsense is logged and skipped."""
    for rule in config.trip_rules:
        try:
            reason = rule.judge(evidence)
            if reason is not None and not isinstance(reason, str):
                raise TypeError(f"judge() returned {fields.show(reason)}, not a text or None")
        except Exception as error:
            fault_in(f"trip rule {hook_name(type(rule))}", name, error)
            continue
        if reason:
            return reason
    return None


def user_duration(config: BreakerConfig, context: OpenContext) -> float | None:
    """Return what a callable ``open_duration`` says, in seconds; ``None`` if the config has none."""
    plan: Any = config.open_duration
    if isinstance(plan, float | Backoff):
        return None
    try:
        answer = plan(context)
        seconds = answer.total_seconds() if isinstance(answer, timedelta) else answer
        if not fields.is_number(seconds) or seconds <= 0:
            raise ValueError(f"returned {fields.show(answer)}, not seconds above 0")
        return float(seconds)
    except Exception as error:
        fault_in(f"open_duration {hook_name(plan)}", context.name, error)
        return FALLBACK_DURATION


def log_move(name: str, move: Move) -> None:
    """Write one line for a move: a handful of lines per outage, whatever the traffic."""
    if not logger.isEnabledFor(logging.INFO):
        return
    if move.opened is not None:
        write(logging.INFO, "circuit breaker %r opened: %s", name, move.opened.reason)
    else:
        write(logging.INFO, "circuit breaker %r is %s", name, move.new.value)


def tell_opening(
    name: str,
    config: BreakerConfig,
    move: Move,
    callbacks: Iterable[OpenCallback],
    settle_duration: Callable[[Open, float], None],
    later: Later | None,
) -> None:
    """Find out how long it stays open, where a callable decides that, then call the callbacks."""
    opened = move.opened
    if opened is None:
        return
    seconds = user_duration(config, views.context(name, config, move, opened))
    if seconds is not None:
        settle_duration(opened, seconds)
    told = list(callbacks)
    context = views.context(name, config, move, opened) if told else None
    for callback in told:
        callback.tell(context, later)
