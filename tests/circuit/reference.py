"""The breaker as the SPEC has it, in the plainest form: lists, fractions, no speed, no threads.

Everything happens eagerly here: `Model.advance` makes what is due by time
happen at its own moment, so reading is just looking. The numbers in the
comments are the sections of the SPEC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from breakerkit import Backoff, BreakerConfig, Evidence, Mode, OpenReason, State

SUCCESS, FAILURE, NEUTRAL = "success", "failure", "neutral"
BUCKETS = 10


@dataclass(eq=False)
class Call:
    """A call that was let in."""

    generation: int | None  # None: no result of it is judged
    started: Fraction
    recorded: bool = True
    decided: bool = False
    slow: bool = False


class Refusal(NamedTuple):
    """A call that was not."""

    reason: Any
    retry_after: Fraction | None
    probes: bool


class Opening(NamedTuple):
    """What an opening callback must have been told."""

    reason: Any
    streak: int
    window: tuple[int, int]
    slow: tuple[int, int]
    duration: Fraction
    openings: int
    error: Any


class Kept:
    """Completed calls, oldest first; who is in the window is worked out anew at each look."""

    def __init__(self) -> None:
        self.calls: list[tuple[Fraction, bool]] = []

    def add(self, now: Fraction, bad: bool) -> None:
        """Let a call join."""
        self.calls.append((now, bad))

    def inside(self, config: BreakerConfig, now: Fraction) -> list[tuple[Fraction, bool]]:
        """Return the calls in the window."""
        if config.window_size:
            return self.calls[-config.window_size :]
        if config.window_duration is None:
            return []
        width = Fraction(config.window_duration) / BUCKETS
        oldest = math.floor(now / width) - BUCKETS
        return [(at, bad) for at, bad in self.calls if math.floor(at / width) > oldest]

    def count(self, config: BreakerConfig, now: Fraction) -> tuple[int, int]:
        """Return how many calls are in the window, and how many bad ones."""
        found = self.inside(config, now)
        return len(found), sum(bad for _, bad in found)

    def refit(self, old: BreakerConfig, new: BreakerConfig, now: Fraction) -> None:
        """Shrink and drop the oldest, grow and keep all, change the kind and be empty (1, 10)."""
        kept = self.inside(old, now) if kind(old) == kind(new) else []
        if kept and new.window_duration and new.window_duration != old.window_duration:
            # All that is known of a call is its bucket: it is taken to lie in the middle.
            width = Fraction(old.window_duration) / BUCKETS
            middles = [((math.floor(at / width) + Fraction(1, 2)) * width, bad) for at, bad in kept]
            kept = [(min(at, now), bad) for at, bad in middles]
        self.calls = kept
        self.calls = self.inside(new, now)


def kind(config: BreakerConfig) -> tuple[bool, bool]:
    """Return which kind of window there is."""
    return config.window_size > 0, config.window_duration is not None


class Model:
    """One breaker."""

    def __init__(self, config: BreakerConfig, now: float = 0.0) -> None:
        self.config = config
        self.now = Fraction(now)
        self.counts = dict.fromkeys((SUCCESS, FAILURE, NEUTRAL, "rejected", "openings"), 0)
        self.holds: list[tuple[Mode, Fraction | None]] = []
        self.openings: list[Opening] = []
        self.generation = 0
        self.growth = 0
        self._close(self.now)

    # -- calls -------------------------------------------------------------

    def admit(self) -> Call | Refusal:
        """Let a call in, or not (2, 3, 4, 8)."""
        mode = self.mode
        if mode is Mode.DISABLED:
            return Call(None, self.now, recorded=False)
        if mode is Mode.FORCED_OPEN:
            self.counts["rejected"] += 1
            return Refusal(OpenReason.FORCED, self.retry_after, False)
        self._sweep(judge=True)
        if refusal := self._refusal():
            if mode is Mode.OBSERVE:
                return Call(None, self.now)
            self.counts["rejected"] += 1
            return refusal
        call = Call(self.generation, self.now)
        (self.probes if self.state is State.HALF_OPEN else self.running).append(call)
        return call

    def _refusal(self) -> Refusal | None:
        if self.state is State.OPEN:
            return Refusal(self.reason, self.until - self.now, False)
        if self.state is State.HALF_OPEN and len(self.probes) >= self.config.probe_limit:
            return Refusal(self.reason, self.probes[0].started + self.timeout - self.now, True)
        return None

    def end(self, call: Call, outcome: str, error: Any = None) -> None:
        """Let a call end; one whose outcome was decided before just frees its slot."""
        if not call.decided:
            self.decide(call, outcome, error)
        if not call.recorded:
            return
        self._sweep(judge=True)
        if call in self.running:
            self.running.remove(call)
        had_slot = call in self.probes
        if had_slot:
            self.probes.remove(call)
        if had_slot or call.generation == self.generation:
            self._close_if_done(self.now)

    def decide(self, call: Call, outcome: str, error: Any = None) -> None:
        """Take in what a call means, exactly once (2, 4, 5)."""
        call.decided = True
        if not call.recorded:
            return
        self.counts[outcome] += 1
        if call.generation != self.generation:
            self._sweep(judge=True)
        elif self.state is State.CLOSED:
            self._take(call, outcome, error)
        elif outcome == SUCCESS:
            self.probe_successes += 1
        elif outcome == FAILURE:
            self._open(OpenReason.PROBE_FAILURE, error)

    def _take(self, call: Call, outcome: str, error: Any) -> None:
        self._sweep(judge=outcome == NEUTRAL)
        if outcome == NEUTRAL:
            return
        self.running.remove(call)
        if not call.slow:
            self.slow.add(self.now, bad=False)
        self.streak = self.streak + 1 if outcome == FAILURE else 0
        self.window.add(self.now, bad=outcome == FAILURE)
        if reason := self._verdict(error):
            self._open(reason, error)

    def _sweep(self, *, judge: bool) -> None:
        """Let calls that still run past the limit be slow, once each (1)."""
        limit = self.config.slow_call_duration
        if limit is None:
            return
        late = [call for call in self.running if self.now - call.started >= limit]
        found = [call for call in late if not call.slow]
        for call in found:
            call.slow = True
            self.slow.add(self.now, bad=True)
        if judge and found and self._slow_rule():
            self._open(OpenReason.SLOW_CALL_RATE, None)

    # -- rules -------------------------------------------------------------

    def _verdict(self, error: Any) -> Any:
        config = self.config
        if config.failure_threshold is not None and self.streak >= config.failure_threshold:
            return OpenReason.CONSECUTIVE_FAILURES
        if self._reached(self.window_tally, config.failure_rate_threshold):
            return OpenReason.FAILURE_RATE
        if self._slow_rule():
            return OpenReason.SLOW_CALL_RATE
        evidence = Evidence(self.streak, *self.window_tally, *self.slow_tally, error)
        answers = (rule.judge(evidence) for rule in config.trip_rules)
        return next((answer for answer in answers if answer), None)

    def _slow_rule(self) -> bool:
        return self._reached(self.slow_tally, self.config.slow_call_rate_threshold)

    def _reached(self, tally: tuple[int, int], percent: float) -> bool:
        calls, bad = tally
        return (
            calls >= max(self.config.minimum_calls, 1)
            and bad * 100 >= Fraction(str(percent)) * calls
        )

    @property
    def window_tally(self) -> tuple[int, int]:
        """Calls in the window, and failures among them; their last values while not closed (10)."""
        live = self.state is State.CLOSED
        return self.window.count(self.config, self.now) if live else self.last_window

    @property
    def slow_tally(self) -> tuple[int, int]:
        """Calls in the slow tally, and slow ones among them."""
        if self.state is not State.CLOSED:
            return self.last_slow
        watched = self.config.slow_call_duration is not None
        return self.slow.count(self.config, self.now) if watched else (0, 0)

    # -- moves -------------------------------------------------------------

    def _open(self, reason: Any, error: Any) -> None:
        if self.state is State.CLOSED:
            self.last_window, self.last_slow = self.window_tally, self.slow_tally
            self._cool(self.now - self.closed_since)
        self.state, self.reason, self.generation = State.OPEN, reason, self.generation + 1
        self.running, self.probes = [], []
        self.counts["openings"] += 1
        self.openings_since_closed += 1
        told = Opening(
            reason, self.streak, self.last_window, self.last_slow,
            Fraction(30), self.openings_since_closed, error,
        )  # fmt: skip
        self.pause = self._pause(told)
        self.until = self.now + self.pause
        if self.mode is not Mode.OBSERVE:
            self.openings.append(told._replace(duration=self.pause))

    def _pause(self, told: Opening) -> Fraction:
        plan = self.config.open_duration
        if isinstance(plan, Backoff):
            pause = self._step(plan, self.growth)
            self.growth += pause < plan.maximum
            return pause
        return Fraction(plan(told) if callable(plan) else plan)

    def _step(self, plan: Backoff, growth: int) -> Fraction:
        return min(Fraction(plan.initial) * Fraction(plan.factor) ** growth, Fraction(plan.maximum))

    def _cool(self, healthy: Fraction) -> None:
        """Take growth back, each step after as long a closed time as the pause it added (8)."""
        plan = self.config.open_duration
        while (
            isinstance(plan, Backoff)
            and self.growth
            and healthy >= self._step(plan, self.growth - 1)
        ):
            self.growth -= 1
            healthy -= self._step(plan, self.growth)

    def _close(self, now: Fraction) -> None:
        self.state, self.generation = State.CLOSED, self.generation + 1
        self.streak, self.window, self.slow = 0, Kept(), Kept()
        self.openings_since_closed = 0
        self.closed_since = now
        self.running: list[Call] = []
        self.probes: list[Call] = []
        self.probe_successes = 0

    def _close_if_done(self, now: Fraction) -> None:
        enough = self.probe_successes >= self.config.probe_success_threshold
        if self.state is State.HALF_OPEN and enough and not self.probes:
            self._close(now)

    def advance(self, seconds: float) -> None:
        """Let time pass and what is due happen (3, 4)."""
        self.now += Fraction(seconds)
        if self.state is State.OPEN and self.now >= self.until:
            self.state, self.generation = State.HALF_OPEN, self.generation + 1
            self.probe_successes = 0
        self._lapse()

    @property
    def timeout(self) -> Fraction:
        """How long a probe may hold its slot (4)."""
        limit = self.config.probe_timeout
        return self.pause if limit is None else Fraction(limit)

    def _lapse(self) -> None:
        while self.probes and self.probes[0].started + self.timeout <= self.now:
            moment = self.probes.pop(0).started + self.timeout
            self._close_if_done(moment)

    # -- from outside ------------------------------------------------------

    def reset(self) -> None:
        """Start over (8); switches stay in force."""
        self.growth = 0
        self._close(self.now)

    def reconfigure(self, config: BreakerConfig) -> None:
        """Swap the config, keep the evidence that fits, judge nothing (1)."""
        old, self.config = self.config, config
        if self.state is State.CLOSED:
            self.window.refit(old, config, self.now)
            self.slow.refit(old, config, self.now)
            if old.slow_call_duration is None or config.slow_call_duration is None:
                self.slow = Kept()
        self._lapse()

    def hold(self, mode: Mode, seconds: float | None) -> tuple[Mode, Fraction | None]:
        """Take a switch; where calls stop being judged, what is in flight is dropped (8)."""
        before = self.mode
        held = mode, None if seconds is None else self.now + Fraction(seconds)
        self.holds.append(held)
        if self.mode is not before and self.mode in {Mode.FORCED_OPEN, Mode.DISABLED}:
            self.generation += 1
            self.running = []  # probes keep their slots
        return held

    def release(self, held: tuple[Mode, Fraction | None]) -> None:
        """Give a switch up."""
        self.holds = [one for one in self.holds if one is not held]

    @property
    def held(self) -> list[tuple[Mode, Fraction | None]]:
        """The switches that have not expired."""
        return [(mode, end) for mode, end in self.holds if end is None or self.now < end]

    @property
    def mode(self) -> Mode:
        """Force before disable before observe (10)."""
        modes = [mode for mode, _ in self.held]
        order = (Mode.FORCED_OPEN, Mode.DISABLED, Mode.OBSERVE)
        return next((mode for mode in order if mode in modes), Mode.AUTO)

    # -- reading -----------------------------------------------------------

    @property
    def forced(self) -> bool:
        """Whether a switch holds it open."""
        return self.mode is Mode.FORCED_OPEN

    @property
    def retry_after(self) -> Fraction | None:
        """Seconds until asking again makes sense, where that is known."""
        if self.forced:
            ends = [end for mode, end in self.held if mode is Mode.FORCED_OPEN]
            return None if None in ends else max(ends) - self.now
        refusal = self._refusal()
        return refusal.retry_after if refusal else None

    def snapshot(self) -> dict[str, Any]:
        """Return what a snapshot must say, but for ``name`` and ``opened_at``."""
        calls, bad = self.window_tally
        all_slow, slow = self.slow_tally
        half_open = self.state is State.HALF_OPEN
        reason = None if self.state is State.CLOSED else self.reason
        ended = {name: self.counts[key] for name, key in ENDED.items()}
        return {
            "state": State.OPEN if self.forced else self.state,
            "mode": self.mode,
            "consecutive_failures": self.streak,
            "window_calls": calls,
            "window_failures": bad,
            "window_failure_rate": float(Fraction(100 * bad, calls or 1)),
            "slow_window_calls": all_slow,
            "slow_calls": slow,
            "slow_call_rate": float(Fraction(100 * slow, all_slow or 1)),
            "probes_active": len(self.probes),
            "probe_successes": self.probe_successes if half_open else 0,
            "reason": OpenReason.FORCED if self.forced else reason,
            "retry_after": self.retry_after,
            "calls": sum(ended.values()),
            "openings": self.counts["openings"],
            **ended,
        }


ENDED = {"successes": SUCCESS, "failures": FAILURE, "ignored": NEUTRAL, "rejected": "rejected"}
