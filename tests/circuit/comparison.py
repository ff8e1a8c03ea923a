"""What drives a real breaker and the reference model side by side, one step at a time, and compares them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from breakerkit import (
    CallSucceeded,
    CircuitOpenError,
    ConfigError,
    Mode,
    OpenContext,
    ProbeLimitError,
    Registry,
    State,
    StateChanged,
    breaker,
)
from breakerkit.testing import ManualClock
from tests.circuit.reference import FAILURE, NEUTRAL, SUCCESS, Call, Model, Opening, Refusal

#: Every moment is a multiple of this, so that floats are as exact as the model's fractions.
QUARTER = 0.25
moments = st.integers(0, 12).map(lambda n: n * QUARTER)
periods = st.integers(1, 24).map(lambda n: n * QUARTER)
neutral_errors = st.sampled_from([KeyboardInterrupt, InterruptedError])
#: How long after the last thing the next one happens: most often at the same moment.
gaps = st.sampled_from([0, 0, 0, QUARTER, QUARTER, 2 * QUARTER, 1.0])


class CountingClock(ManualClock):
    """A clock that knows how often it was read."""

    readings = 0

    def now(self) -> float:
        """Return the present reading."""
        self.readings += 1
        return super().now()


@dataclass(frozen=True)
class EverySecond:
    """A rule of a user's: open at an even streak."""

    def judge(self, evidence: Any) -> str | None:
        """Return the user's own reason."""
        streak = evidence.consecutive_failures
        return "even streak" if streak and streak % 2 == 0 else None


@dataclass(eq=False)
class InFlight:
    """One call that is running: the real one and its twin."""

    real: Any
    twin: Call
    route: str


def broken(*_: Any) -> None:
    """Raise, as a user's hook may."""
    raise LookupError("a hook of the user's")


class Comparison(RuleBasedStateMachine):
    """What all machines share; `begin` and `reconfigure` are added per kind of config."""

    calls: Bundle[InFlight] = Bundle("calls")
    steps = 0

    def start(self, config: dict[str, Any]) -> None:
        """Make the real breaker and the model."""
        self.clock = CountingClock()
        self.real = breaker("real", clock=self.clock, registry=Registry(), **config)
        self.model = Model(self.real.config)
        self.contexts: list[OpenContext] = []
        self.moves: list[StateChanged] = []
        self.opened_at: dict[int, Any] = {}
        self.unlisten: Any = None
        self.streams: list[Any] = []
        self.real.on_open(broken)
        self.real.on_open(self.contexts.append)
        self.real.subscribe(broken, StateChanged)
        self.real.subscribe(self.moves.append, StateChanged)

    def teardown(self) -> None:
        """Leave no generator half read."""
        for stream in self.streams:
            stream.close()

    def decide_once(self, act: Any) -> Any:
        """Do one thing that decides, and see that the clock was read at most once for it."""
        before = self.clock.readings
        try:
            return act()
        finally:
            assert self.clock.readings - before <= 1, "one clock reading per decision"

    # -- calls -------------------------------------------------------------

    @rule(target=calls, gap=gaps)
    def enter_a_block(self, gap: float) -> Any:
        """A block begins and, if it is let in, runs on."""
        self.move(gap)
        return self.admit("block", lambda: self.real.guard().__enter__())

    @rule(target=calls, gap=gaps)
    def start_a_generator(self, gap: float) -> Any:
        """A generator is read and, if it is let in, waits at its first item."""
        self.move(gap)

        @self.real
        def stream() -> Any:
            yield "an item"
            return "its value"

        running = stream()
        self.streams.append(running)
        return self.admit("generator", lambda: (next(running), running)[1])

    def admit(self, route: str, enter: Any) -> Any:
        """A call comes, to both."""
        before = self.real.snapshot()
        twin = self.model.admit()
        try:
            real = self.decide_once(enter)
        except CircuitOpenError as error:
            self.same_refusal(error, twin)
            return multiple()
        assert isinstance(twin, Call), f"let in, but {twin}"
        if twin in self.model.probes:
            assert before.probes_active < self.real.config.probe_limit
        return InFlight(real, twin, route)

    def same_refusal(self, error: CircuitOpenError, twin: Any) -> None:
        """Both refused, for the same reason and as long."""
        assert isinstance(twin, Refusal), f"refused ({error}), the model let it in"
        assert (error.reason, error.retry_after) == (twin.reason, twin.retry_after)
        assert isinstance(error, ProbeLimitError) is twin.probes
        assert error.__context__ is None

    @rule(call=consumes(calls), gap=gaps)
    def succeed(self, call: InFlight, gap: float) -> None:
        """A running call ends well."""
        self.move(gap)
        self.end(call, SUCCESS, None)

    @rule(call=consumes(calls), gap=gaps)
    def fail(self, call: InFlight, gap: float) -> None:
        """A running call fails."""
        self.move(gap)
        self.end(call, FAILURE, ConnectionError())

    @rule(call=consumes(calls), gap=gaps, error=neutral_errors)
    def cancel(self, call: InFlight, gap: float, error: type[BaseException]) -> None:
        """A running call ends in a way that is no evidence."""
        self.move(gap)
        self.end(call, NEUTRAL, error())

    def end(self, call: InFlight, outcome: str, error: BaseException | None) -> None:
        """If the call belongs to the past, nothing but a counter moves."""
        holds_slot = call.twin in self.model.probes
        late = call.twin.generation != self.model.generation and not holds_slot
        before = self.real.snapshot()
        self.decide_once(lambda: self.leave(call, error))
        self.model.end(call.twin, outcome, error)
        after = self.real.snapshot()
        swept = (before.slow_window_calls, before.slow_calls) != (
            after.slow_window_calls,
            after.slow_calls,
        )
        if late and not swept:
            assert evidence_of(after) == evidence_of(before)

    def leave(self, call: InFlight, error: BaseException | None) -> None:
        """Bring a real call to its end; an exception passes as the very object it is."""
        real, call.real = call.real, None
        if call.route == "block":
            real.__exit__(type(error) if error else None, error, None)
        elif error is None:
            assert next(real, "the end") == "the end"
        else:
            with pytest.raises(type(error)) as caught:
                real.throw(error)
            assert caught.value is error

    @rule(call=calls, gap=gaps, fails=st.booleans())
    def decide(self, call: InFlight, gap: float, fails: bool) -> None:
        """A block says what it means and runs on; saying it twice changes nothing."""
        self.move(gap)
        if call.route != "block" or call.real is None:
            return
        error = ConnectionError() if fails else None
        self.decide_once(lambda: call.real.fail(error) if fails else call.real.ignore())
        if not call.twin.decided:
            self.model.decide(call.twin, FAILURE if fails else NEUTRAL, error)

    @rule(call=consumes(calls))
    def drop(self, call: InFlight) -> None:
        """Somebody lets go of a running call without ending it."""
        if call.real in self.streams:
            self.streams.remove(call.real)
        call.real = None
        self.model.end(call.twin, NEUTRAL)

    @rule(gap=gaps)
    def call_that_succeeds(self, gap: float) -> None:
        """A call comes, runs and ends well at once."""
        self.move(gap)
        self.call(SUCCESS, None)

    @rule(gap=gaps)
    def call_that_fails(self, gap: float) -> None:
        """A call comes, runs and fails at once."""
        self.move(gap)
        self.call(FAILURE, ConnectionError())

    @rule(bad_value=st.booleans())
    def call_that_ends_otherwise(self, bad_value: bool) -> None:
        """A call comes and returns what may be a failure, or raises what is none."""
        self.call(*(("bad value", None) if bad_value else (NEUTRAL, InterruptedError())))

    def call(self, outcome: str, error: BaseException | None) -> None:
        """A call comes, runs and ends at once."""
        twin = self.model.admit()
        try:
            value = self.real.call(behave, error, outcome)
        except CircuitOpenError as refused:
            self.same_refusal(refused, twin)
            return
        except OSError as caught:
            assert caught is error
        else:
            assert value == outcome
        assert isinstance(twin, Call)
        bad = outcome == "bad value"
        judged = FAILURE if self.real.config.failure_if else SUCCESS
        self.model.end(twin, judged if bad else outcome, error)

    # -- time --------------------------------------------------------------

    @rule(seconds=st.one_of(moments, moments, st.sampled_from([10.0, 60.0, 3600.0])))
    def advance(self, seconds: float) -> None:
        """Time passes: a little, or long."""
        self.move(seconds)

    @rule(short=st.booleans())
    @precondition(lambda self: self.coming())
    def advance_to_the_next_boundary(self, short: bool) -> None:
        """Time passes to the very moment something ends, or to just before."""
        self.move(max(min(self.coming()) - short * QUARTER, 0))

    def coming(self) -> list[float]:
        """Return in how many seconds something will end by itself."""
        model, config = self.model, self.real.config
        ends = [end for _, end in model.held if end is not None]
        if model.state is State.OPEN:
            ends.append(model.until)
        ends += [probe.started + model.timeout for probe in model.probes]
        if config.slow_call_duration is not None:
            ends += [call.started + config.slow_call_duration for call in model.running]
        return [float(end - model.now) for end in ends if end > model.now]

    def move(self, seconds: float) -> None:
        """Move both clocks."""
        self.clock.advance(seconds)
        self.model.advance(seconds)

    # -- from outside ------------------------------------------------------

    @rule(reset=st.booleans())
    def reset_or_listen(self, reset: bool) -> None:
        """Somebody resets it; or a listener comes or goes, and nothing else changes by that."""
        if reset:
            assert self.real.reset() is self.real
            self.model.reset()
        elif self.unlisten is None:
            self.unlisten = self.real.subscribe(broken, CallSucceeded)
        else:
            self.unlisten = self.unlisten()

    def change(self, changes: dict[str, Any]) -> None:
        """Somebody swaps the config; a wrong one changes nothing."""
        before = self.real.config
        try:
            config = before.evolve(**changes)
        except ConfigError:
            with pytest.raises(ConfigError):
                self.real.reconfigure(**changes)
            assert self.real.config is before
            return
        assert self.real.reconfigure(**changes) == config
        self.model.reconfigure(config)

    # -- what must hold ----------------------------------------------------

    @invariant()
    def reads_as_the_model(self) -> None:
        """State, mode, evidence, probes, waits and counters are those of the model."""
        type(self).steps += 1
        expected = self.model.snapshot()
        assert self.real.state is expected["state"]
        assert self.real.mode is expected["mode"]
        seen = self.real.snapshot()
        pairs = {name: (getattr(seen, name), want) for name, want in expected.items()}
        different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        assert not different, f"(real, model): {different}"
        assert self.real.state is expected["state"], "reading changes nothing"

    @invariant()
    def tells_openings_as_the_model(self) -> None:
        """The callbacks are called once per opening, with the numbers of that moment."""
        told = [
            Opening(
                one.reason,
                one.consecutive_failures,
                (one.window_calls, one.window_failures),
                (slow_calls(one), one.slow_calls),
                one.open_duration,
                one.openings,
                one.error,
            )
            for one in self.contexts
        ]
        expected = [
            one._replace(slow=(slow_rate(*one.slow), one.slow[1])) for one in self.model.openings
        ]
        assert told == expected
        self.contexts.clear()
        self.model.openings.clear()

    @invariant()
    def moves_make_a_chain(self) -> None:
        """Each change of state that is told begins where the last one ended."""
        chain = [State.CLOSED, *(move.new for move in self.moves)]
        assert [move.old for move in self.moves] == chain[:-1]
        assert all(move.old is not move.new for move in self.moves)

    @invariant()
    def opened_at_is_set_once_per_opening(self) -> None:
        """No moment of opening ever moves."""
        seen = self.real.snapshot()
        if seen.opened_at is not None and seen.mode is not Mode.FORCED_OPEN:
            assert self.opened_at.setdefault(seen.openings, seen.opened_at) is seen.opened_at

    @invariant()
    def never_half_open_for_ever(self) -> None:
        """With every slot taken there is a moment at which the next one lapses."""
        seen = self.real.snapshot()
        if seen.state is State.HALF_OPEN and seen.probes_active >= self.real.config.probe_limit:
            assert seen.retry_after is not None
            assert 0 < seen.retry_after

    @invariant()
    @precondition(lambda self: self.real.config.window_size)
    def memory_is_bounded(self) -> None:
        """No more failures are remembered than calls are in the window."""
        period = self.real._guard.machine.state
        if getattr(period, "window", None) is not None:
            assert len(period.window.marks) <= self.real.config.window_size


class Held(Comparison):
    """The same with switches that somebody takes and gives up."""

    handles: Bundle[Any] = Bundle("handles")

    @rule(
        target=handles,
        mode=st.sampled_from(["force_open", "disable", "observe"]),
        until=st.one_of(periods, periods, st.none()),
    )
    def hold(self, mode: str, until: float | None) -> Any:
        """Somebody takes a switch, for good or for a while."""
        lasts = None if until is None else timedelta(seconds=until)
        handle = getattr(self.real, mode)(reason="a drill", by="us", until=lasts)
        return handle, self.model.hold(handle.mode, until)

    @rule(handle=consumes(handles))
    def release(self, handle: Any) -> None:
        """Somebody gives a switch up."""
        handle[0].release()
        self.model.release(handle[1])


def behave(error: BaseException | None, value: Any) -> Any:
    """Return or raise."""
    if error is not None:
        raise error
    return value


def is_bad(value: Any) -> bool:
    """Tell which returned value is a failure."""
    return value == "bad value"


def evidence_of(seen: Any) -> Any:
    """Return a snapshot without its counters."""
    counters = {"calls", "successes", "failures", "ignored", "rejected"}
    names = [field for field in type(seen).__slots__ if field not in counters]
    return [getattr(seen, name) for name in names if not name.startswith("__")]


def slow_rate(calls: int, slow: int) -> float:
    """Return percent."""
    return 100 * slow / calls if calls else 0.0


def slow_calls(context: OpenContext) -> float:
    """Return what the context says about how many calls the slow ones are a share of."""
    return context.slow_call_rate
