"""Policies that keep a service alive when what it calls is slow, failing or gone; nearly free while all is well.

The house, from the door down; a room may import those below it, never above:

    testing  cli                      outside: the public API only, imported by nobody here
    _pipeline                         several policies as one
    _decorators  _bulkhead  _timeout  the public verbs: arguments -> config -> policy
    _fallback  _degradable  _failover
    _making  _keyed  _registry        from settings to a policy; names
    _breaker                          what users hold
    _policy                           what users hold of any policy
    _shell/                           how functions are called
    circuit/  isolation/  deadline/   what each policy decides; no wing knows another
    degrade/  providers/
    _keeper  _hub                     name, clock, lock, listeners of any policy
    _ambient  _outcome  _fields ...   deadlines in force, what an end means, checked settings
    errors  events  clock  cancel     the public shelf

The breaker is imported with the package; the other policies when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    AllProvidersFailedError,
    BreakerkitError,
    BulkheadFullError,
    CallCancelledError,
    CallRejectedError,
    CallTimeoutError,
    CircuitOpenError,
    ConfigError,
    DeadlineExceededError,
    LedgerFullError,
    NameConflictError,
    ProbeLimitError,
    RuleError,
    WorkerLostError,
)
from breakerkit.events import (
    BreakerEvent,
    BreakerReset,
    CallFailed,
    CallIgnored,
    CallRejected,
    CallSucceeded,
    ConfigChanged,
    Event,
    Evidence,
    Mode,
    OpenContext,
    OpenReason,
    State,
    StateChanged,
)

if TYPE_CHECKING:
    from breakerkit._advice import Finding
    from breakerkit._ambient import Deadline, check_deadline, current_deadline
    from breakerkit._layers import PolicyLike, as_policy
    from breakerkit._pipeline import Pipeline, PipelineSnapshot, PipelineWarning, pipeline

__version__ = "0.1.0"

#: Where the names live that are imported when first asked for: a program pays for what it uses.
_LATER = {
    "Deadline": "_ambient",
    "Finding": "_advice",
    "Pipeline": "_pipeline",
    "PipelineSnapshot": "_pipeline",
    "PipelineWarning": "_pipeline",
    "PolicyLike": "_layers",
    "as_policy": "_layers",
    "check_deadline": "_ambient",
    "current_deadline": "_ambient",
    "pipeline": "_pipeline",
}


def __getattr__(name: str) -> Any:
    """Import a policy that is first asked for (PEP 562)."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "AllProvidersFailedError",
    "Backoff",
    "BreakerConfig",
    "BreakerEvent",
    "BreakerReset",
    "BreakerkitError",
    "BulkheadFullError",
    "CallCancelledError",
    "CallFailed",
    "CallIgnored",
    "CallRejected",
    "CallRejectedError",
    "CallSucceeded",
    "CallTimeoutError",
    "CancelSignal",
    "CircuitBreaker",
    "CircuitOpenError",
    "Clock",
    "ConfigChanged",
    "ConfigError",
    "Deadline",
    "DeadlineExceededError",
    "Event",
    "Evidence",
    "Finding",
    "GuardBlock",
    "Guarded",
    "GuardedByKey",
    "KeyedBreakers",
    "LedgerFullError",
    "Mode",
    "ModeHandle",
    "NameConflictError",
    "OpenCallback",
    "OpenContext",
    "OpenReason",
    "Pipeline",
    "PipelineSnapshot",
    "PipelineWarning",
    "PolicyLike",
    "ProbeLimitError",
    "Registry",
    "RuleError",
    "Snapshot",
    "State",
    "StateChanged",
    "SystemClock",
    "TripRule",
    "WallClock",
    "WorkerLostError",
    "as_policy",
    "backoff",
    "breaker",
    "breaker_methods",
    "check_deadline",
    "current_deadline",
    "pipeline",
    "protect",
    "registry",
    "system_clock",
]
