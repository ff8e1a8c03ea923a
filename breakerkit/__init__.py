"""Circuit breakers for functions, methods, generators and asyncio, nearly free while all is well.

The house, from the door down; a room may import those below it, never above:

    testing  cli            outside: the public API only, imported by nobody here
    _decorators  _making    the public verbs: arguments -> config -> breaker
    _keyed  _breaker        what users hold
    _shell/   circuit/      how functions are called | what a breaker decides
    _registry  _hub ...     names, listeners
    errors  events  clock   the public shelf
"""

from breakerkit._breaker import CircuitBreaker
from breakerkit._callbacks import OpenCallback
from breakerkit._decorators import breaker, breaker_methods, protect
from breakerkit._keyed import KeyedBreakers
from breakerkit._registry import Registry, registry
from breakerkit._shell._blocks import GuardBlock
from breakerkit._typing import Guarded, GuardedByKey
from breakerkit.cancel import CancelSignal
from breakerkit.circuit._backoff import Backoff, backoff
from breakerkit.circuit._rules import TripRule
from breakerkit.circuit._switches import ModeHandle
from breakerkit.circuit._view import Snapshot
from breakerkit.circuit.config import BreakerConfig
from breakerkit.clock import Clock, SystemClock, WallClock, system_clock
from breakerkit.errors import (
    BreakerkitError,
    CallCancelledError,
    CallRejectedError,
    CircuitOpenError,
    ConfigError,
    NameConflictError,
    ProbeLimitError,
)
from breakerkit.events import (
    BreakerEvent,
    BreakerReset,
    CallFailed,
    CallIgnored,
    CallRejected,
    CallSucceeded,
    ConfigChanged,
    Evidence,
    Mode,
    OpenContext,
    OpenReason,
    State,
    StateChanged,
)

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "BreakerConfig",
    "BreakerEvent",
    "BreakerReset",
    "BreakerkitError",
    "CallCancelledError",
    "CallFailed",
    "CallIgnored",
    "CallRejected",
    "CallRejectedError",
    "CallSucceeded",
    "CancelSignal",
    "CircuitBreaker",
    "CircuitOpenError",
    "Clock",
    "ConfigChanged",
    "ConfigError",
    "Evidence",
    "GuardBlock",
    "Guarded",
    "GuardedByKey",
    "KeyedBreakers",
    "Mode",
    "ModeHandle",
    "NameConflictError",
    "OpenCallback",
    "OpenContext",
    "OpenReason",
    "ProbeLimitError",
    "Registry",
    "Snapshot",
    "State",
    "StateChanged",
    "SystemClock",
    "TripRule",
    "WallClock",
    "backoff",
    "breaker",
    "breaker_methods",
    "protect",
    "registry",
    "system_clock",
]
