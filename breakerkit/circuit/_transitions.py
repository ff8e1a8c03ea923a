"""Where a breaker stands, and how it gets from one state to the next; nothing here decides that it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.circuit._backoff import Backoff
from breakerkit.circuit._moves import (
    FALLBACK_DURATION,
    MOVES,
    NAMES,
    Counts,
    Move,
    without_error,
)
from breakerkit.circuit._rules import SlowCallRule, built_in
from breakerkit.circuit._states import Closed, HalfOpen, Open, State

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from breakerkit.circuit.config import BreakerConfig
    from breakerkit.events import Evidence, OpenReason


class Transitions:
    """The present state, the counters, and every legal move."""

    __slots__ = (
        "config", "counts", "moves", "openings", "rules", "slow_rule", "stamp", "state", "step",
    )  # fmt: skip

    def __init__(self, config: BreakerConfig, now: float, stamp: Callable[[], datetime]) -> None:
        self.stamp = stamp  # the UTC moment an opening is labelled with
        self.counts = Counts()
        self.moves: list[Move] = []
        self.openings = 0  # since the breaker was last closed
        self.step = 0  # growth of the open period
        self.adopt(config)
        self.state: State = Closed(config, now)

    def adopt(self, config: BreakerConfig) -> None:
        """Take over the rules of a config."""
        self.config = config
        self.rules = built_in(config)
        self.slow_rule = tuple(rule for rule in self.rules if isinstance(rule, SlowCallRule))

    def lapse(self, now: float) -> None:
        """Take the slots of probes that held them too long; each lapse acts at its own moment."""
        state = self.state
        if not isinstance(state, HalfOpen):
            return
        timeout = state.timeout(self.config)
        for lease in list(state.active):
            if lease.started - now > timeout:
                lease.started = now  # the clock stepped back; not for a day
            moment = lease.started + timeout
            if moment > now:
                break
            del state.active[lease]
            self.close_if_done(state, moment)

    def close_if_done(self, state: HalfOpen, now: float) -> None:
        """Close it if enough probes have succeeded and none holds a slot."""
        if state.successes >= self.config.probe_success_threshold and not state.active:
            self._enter(state, Closed(self.config, now))

    def _open(
        self,
        old: State,
        reason: OpenReason | str,
        now: float,
        evidence: Evidence,
        error: BaseException | None,
    ) -> None:
        pause = self._pause(now)
        self._enter(old, Open(reason, now, pause, without_error(evidence), self.stamp()), error)

    def _pause(self, now: float) -> float:
        plan = self.config.open_duration
        if isinstance(plan, Backoff):
            if isinstance(self.state, Closed):
                self.step = plan.cooled(self.step, now - self.state.since)
            pause = plan.spread(plan.pause(self.step))
            self.step = plan.grown(self.step)
            return pause
        return plan if isinstance(plan, float) else FALLBACK_DURATION

    def _enter(self, old: State, new: State, error: BaseException | None = None) -> None:
        """Make the move: the new state is whole before anybody can see it."""
        if self.state is not old:
            return  # a signal handler of this very thread has made another move meanwhile
        names = NAMES[type(old)], NAMES[type(new)]
        assert names in MOVES, names
        self.replace(new)
        opened = new if isinstance(new, Open) else None
        if opened:
            self.openings += 1
            self.counts.openings += 1
        elif isinstance(new, Closed):
            self.openings = 0
        self.moves.append(Move(*names, opened, self.openings, error))

    def replace(self, new: State) -> None:
        """Put a new generation in place; successes of the old one are counted from here on."""
        old, self.state = self.state, new
        if isinstance(old, Closed):
            counted = old.retire()
            self.counts.successes += counted
