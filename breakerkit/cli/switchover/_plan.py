"""What is played: three providers, of which one dies and comes back, and two clients that call all the time."""

from __future__ import annotations

from dataclasses import dataclass

from breakerkit import BreakerConfig
from breakerkit.cli._client import CONNECTION_ERRORS, ServerError
from breakerkit.cli._display import Panel
from breakerkit.cli._service import Reply, Script

__all__ = ["KILLED", "PROVIDERS", "SETTINGS", "Plan", "describe"]

#: The providers, and the one that is killed.
PROVIDERS = ("alpha", "beta", "gamma")
KILLED = "beta"

# Each provider has a breaker with these settings. Three in a row: with one client at
# a dead provider more tries teach nothing. One second open: that, and at most the
# time between two calls, is how long a revived provider waits for its turn.
SETTINGS = BreakerConfig(
    failure_threshold=3,
    open_duration=1.0,
    failure_on=(ServerError, *CONNECTION_ERRORS),
)

_CLIENTS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The play; times in seconds of the play, which may go faster than real time.

    Attributes:
        speed: seconds of the play per second of real time.
        span: how long it is.
        killed_at: when the process is killed.
        revived_at: when it is started again.
        rate: calls per second of real time, of each client.
        takes: seconds of real time a provider takes.
        patience: seconds of real time after which a client gives up.
    """

    speed: float = 1.0
    span: float = 12.0
    killed_at: float = 3.0
    revived_at: float = 7.0
    rate: float = 30.0
    takes: float = 0.03
    patience: float = 5.0

    @property
    def panels(self) -> dict[str, Panel]:
        """The one panel: a lane for the bound client, and one for each provider of the other."""
        title = f"one client bound to {KILLED}, one with failover"
        return {"failover": Panel(title, 1 + len(PROVIDERS))}

    @property
    def threads(self) -> int:
        """Client threads: as many as calls can be under way, and some more."""
        return int(_CLIENTS * self.rate * self.takes) + 12

    def script(self, port: int = 0) -> Script:
        """Return what a provider does, on that port or on any."""
        return Script([Reply(self.takes, "right", 200)], [], port=port)


def describe(settings: BreakerConfig) -> str:
    """Say in a line what a provider's breaker does."""
    return (
        f"A provider is skipped for {settings.open_duration:g} s after"
        f" {settings.failure_threshold} failures in a row; then one call tries it."
    )
