"""The breaker settings the demo recommends, and where their figures come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit import BreakerConfig, Registry, breaker
from breakerkit.cli._client import CONNECTION_ERRORS, CallerError, ServerError

if TYPE_CHECKING:
    from breakerkit import CircuitBreaker
    from breakerkit.clock import Clock

__all__ = ["RECOMMENDED", "describe", "make_breaker"]


def _is_wrong(answer: object) -> bool:
    return answer is False


# Where the figures come from: every call of the four recordings the project was
# built with, settled in the order in which calls ended, on a manual clock
# (tests/cli/test_settings.py does it again). Failing calls kept away from the
# service, and good calls turned away with them:
#
#                                outage    killed   flapping   healthy
#     failing calls in it         3 531       918        687       109
#     the settings below      3 398/320    671/33        0/0       0/0
#     the same, at 50 %       3 413/353    686/30        0/0       0/0
#     the same, open for 30 s 3 467/455   680/103        0/0       0/0
#     window of 50            3 483/473   754/245  622/3 370       0/0
#     5 in a row, no window   3 493/448   825/342  580/3 232       0/0
#
# - The rate rule alone. A streak rule opens on bursts of errors among hundreds of
#   good calls in flight: at the limit of capacity that turns away five good calls
#   for each bad one it spares. It is for calls that come one by one.
# - A window of 100 at 60 %: the bursts of a service at its limit fill 34 of 50, but
#   only 37 of 100. 50 % would do on paper; played for real, threads that wake up
#   late let two bursts run together to 47. An outage gets there in 60 calls.
# - A minimum of 20: a service that comes back and fails again is judged after 20
#   calls, and with 3 % noise 12 failures among 20 do not happen.
# - Open for 5 seconds: that, and the probes' own time, is what recovery costs the
#   callers. 30 seconds spare 1 % more failing calls, and turn away half as many
#   good ones again, or three times as many.
# - Two probes, one after the other. Even in an outage one call in twenty is
#   answered, and a single lucky probe must not close the breaker. Not side by side:
#   a breaker closes when no probe is out any more, and under steady traffic a slot
#   that becomes free is taken before the last one is; with three slots one run of
#   "killed" stayed half-open for 38 seconds after the service was back.
RECOMMENDED = BreakerConfig(
    failure_threshold=None,
    window_size=100,
    minimum_calls=20,
    failure_rate_threshold=60.0,
    open_duration=5.0,
    probe_limit=1,
    probe_success_threshold=2,
    failure_on=(ServerError, *CONNECTION_ERRORS),
    success_on=(CallerError,),
    failure_if=_is_wrong,
)


def make_breaker(clock: Clock) -> CircuitBreaker:
    """Return a breaker with the recommended settings that lives on the recording's time."""
    return breaker("recorded service", config=RECOMMENDED, clock=clock, registry=Registry())


def describe(config: BreakerConfig) -> str:
    """Say in a line what settings of this kind do: a rate over a count window, then probes."""
    return (
        f"opens when {config.failure_rate_threshold:g} % of the last {config.window_size} calls"
        f" failed (of at least {config.minimum_calls}), for {config.open_duration:g} s;"
        f" closes when {config.probe_success_threshold} probes in a row have succeeded"
    )
