"""The breaker settings the demo recommends, and where their figures come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit import BreakerConfig, Registry, breaker
from breakerkit.cli._client import CONNECTION_ERRORS, CallerError, ServerError

if TYPE_CHECKING:
    from breakerkit import CircuitBreaker
    from breakerkit.clock import Clock

__all__ = ["RECOMMENDED", "make_breaker"]


def _is_wrong(answer: bool) -> bool:
    return not answer


# Where the figures come from: every call of the four recordings the project was
# built with, settled in the order in which calls ended, on a manual clock
# (tests/cli/test_settings.py does it again). Failing calls kept away from the
# service, and good ones turned away with them:
#
#                              outage   killed    flapping    healthy
#     failing calls in it       3 531      918         687        109
#     the settings below      3 410/292  685/22     0/0         0/0
#     window of 50            3 457/233  772/329  624/3 366     0/0
#     5 in a row, no window   3 476/438  832/327  644/3 374     0/0
#
# - The rate rule alone. A streak rule opens on bursts of errors among hundreds of
#   good calls in flight: at the limit of capacity that turns away five good calls
#   for each bad one it spares. It is worth it only where calls come one by one.
# - A window of 100: the bursts of a service at its limit reach 36 of 50, but never
#   half of 100. An outage fills half of it in the time 50 calls take.
# - A minimum of 20, so that a service that comes back and fails again is judged
#   after 20 calls; with 3 % noise the chance of 10 failures in 20 is nil.
# - Open for 5 seconds: that, and the probes' own time, is what recovery costs. A
#   shorter pause probes a service more often than it helps anybody.
# - Three probes, all of which must succeed: in each outage one call in twenty was
#   answered all the same, and a single lucky probe must not close the breaker.
RECOMMENDED = BreakerConfig(
    failure_threshold=None,
    window_size=100,
    minimum_calls=20,
    failure_rate_threshold=50.0,
    open_duration=5.0,
    probe_limit=3,
    probe_success_threshold=3,
    failure_on=(ServerError, *CONNECTION_ERRORS),
    success_on=(CallerError,),
    failure_if=_is_wrong,
)


def make_breaker(clock: Clock) -> CircuitBreaker:
    """Return a breaker with the recommended settings that lives on the recording's time."""
    return breaker("recorded service", config=RECOMMENDED, clock=clock, registry=Registry())
