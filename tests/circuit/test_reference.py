"""The real guard against the reference model, step by step, in whatever order hypothesis finds."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from breakerkit import backoff
from tests.circuit.comparison import Comparison, EverySecond, Held, is_bad, periods

EXAMPLES, STEPS = 60, 50
#: Under mutation testing it is enough to know that something fails.
PHASES = (Phase.generate,) if "MUTANT_UNDER_TEST" in os.environ else tuple(Phase)

small = st.integers(1, 4)


def longer(context: Any) -> float:
    """Stay open for as many seconds as it has opened in a row."""
    return 1.0 * context.openings


pauses = st.sampled_from(
    [1.0, 2.5, timedelta(seconds=1), longer, backoff(2, factor=2, maximum=8), backoff(1, factor=3)]
)
everywhere = {
    "open_duration": pauses,
    "ignore_on": st.just(InterruptedError),
    "failure_if": st.sampled_from([None, is_bad]),
}
probes = {
    "probe_limit": st.integers(1, 3),
    "probe_success_threshold": small,
    "probe_timeout": st.none() | periods,
}
rates = {
    "minimum_calls": st.integers(0, 4),
    "failure_rate_threshold": st.sampled_from([20, 33.3, 50, 58, 60.0, 100]),
}
streaks = {"failure_threshold": small}
count_window = {"window_size": st.integers(4, 8)}
time_window = {"window_duration": st.sampled_from([2.5, 5.0, 10.0, timedelta(seconds=20)])}
gentle = {"failure_threshold": st.just(6)}
slow = {
    "slow_call_duration": st.sampled_from([0.5, 0.75, 1.0]),
    "slow_call_rate_threshold": st.sampled_from([33.3, 50, 75, 100]),
    "failure_rate_threshold": st.just(100),
    "minimum_calls": st.integers(3, 4),
}
own_rule = {"trip_rules": st.sampled_from([(), EverySecond(), (EverySecond(), EverySecond())])}
either_window = st.fixed_dictionaries({"window_duration": st.none(), **count_window}) | (
    st.fixed_dictionaries({"window_size": st.just(0), **time_window})
)
no_window = st.just({"window_size": 0, "window_duration": None})
rarely_off = {"failure_threshold": st.none() | st.integers(2, 6)}


def either(*parts: Any) -> Any:
    """Return a strategy for the union of dicts."""
    return st.tuples(*parts).map(lambda dicts: {k: v for one in dicts for k, v in one.items()})


def changing(*groups: dict[str, Any]) -> Any:
    """Return a strategy for a few changes."""
    return st.fixed_dictionaries({}, optional={k: v for one in groups for k, v in one.items()})


def kind_of(
    name: str, configs: Any, changes: Any = None, base: type[Comparison] = Comparison
) -> type[Comparison]:
    """Return a machine that starts with one of ``configs`` and is changed by ``changes``."""

    class Machine(base):  # type: ignore[misc, valid-type]  # a base that is a parameter
        @initialize(config=configs)
        def begin(self, config: dict[str, Any]) -> None:
            self.start(config)

    made: Any = Machine
    if changes is not None:

        class Changing(Machine):
            @rule(changes=changes)
            def reconfigure(self, changes: dict[str, Any]) -> None:
                self.change(changes)

        made = Changing
    made.__name__ = made.__qualname__ = name
    return made


def settled(*groups: dict[str, Any]) -> Any:
    """Return a strategy for a whole config."""
    return st.fixed_dictionaries({k: v for one in (everywhere, *groups) for k, v in one.items()})


one_failure = {"failure_threshold": st.just(1)}
three_probes = {"probe_limit": st.just(3), "probe_success_threshold": small}
three_probes["probe_timeout"] = st.none() | periods
any_size = {"window_size": st.integers(0, 8)}

KINDS = [
    kind_of("Streak", settled(streaks, probes)),
    kind_of("CountWindow", settled(rarely_off, count_window, rates)),
    kind_of("TimeWindow", settled(rarely_off, time_window, rates)),
    kind_of("SlowCalls", either(settled(gentle, slow), either_window)),
    kind_of("Probes", settled(one_failure, three_probes), changing(probes)),
    kind_of("OwnRules", either(settled(rarely_off, rates, own_rule), either_window)),
    kind_of("Switches", settled(streaks, three_probes, count_window, rates), base=Held),
    kind_of(
        "ChangingWindow",
        either(settled(rarely_off, rates), either_window),
        either(changing(rarely_off, rates), either_window | no_window | changing(any_size)),
    ),
    kind_of(
        "ChangingSlowCalls",
        either(settled(gentle, slow), either_window),
        either(changing(slow), either_window | st.just({})),
    ),
    kind_of(
        "Everything",
        either(settled(rarely_off, slow, probes, own_rule), either_window),
        either(
            changing(everywhere, rarely_off, slow, probes, own_rule), either_window | st.just({})
        ),
        base=Held,
    ),
]

CI = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=PHASES,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the log of hooks that raise on purpose short."""
    logger = logging.getLogger("breakerkit")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_guard_does_what_the_reference_model_does(kind: type[Comparison]) -> None:
    """In whatever order things happen, the real guard and the plain model of the SPEC agree."""
    kind.steps = 0
    run_state_machine_as_test(kind, settings=CI)
    assert kind.steps >= 10_000 / len(KINDS)
