"""Policies that keep a service alive when what it calls is slow, failing or gone; nearly free while all is well.

The house, from the door down; a room may import those below it, never above:

    testing  cli                      outside: the public API only, imported by nobody here
    _pipeline                         several policies as one
    _decorators  _bulkhead  _timeout  the public verbs: arguments -> config -> policy
    _fallback  _degradable  _failover
    _stale
    _making  _keyed  _registry        from settings to a policy; names
    _breaker                          what users hold
    _policy                           what users hold of any policy
    _shell/                           how functions are called
    circuit/  isolation/  deadline/   what each policy decides; no wing knows another
    degrade/  providers/  stale/
    store/                            where a cache keeps values (store/redis: outside)
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
    NoCachedValueError,
    NoProviderError,
    OriginRestingError,
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
    OpenReason,
    State,
    StateChanged,
)

if TYPE_CHECKING:
    from breakerkit._abandoned import AbandonedWork, abandoned_work
    from breakerkit._advice import Finding
    from breakerkit._bulkhead import Bulkhead, bulkhead
    from breakerkit._context import OpenContext
    from breakerkit._deadline import Deadline, check_deadline, current_deadline
    from breakerkit._degradable import Degradable, degradable, degradation
    from breakerkit._failover import Failover, failover
    from breakerkit._fallback import Fallback, fallback
    from breakerkit._layers import PolicyLike, as_policy
    from breakerkit._pipeline import Pipeline, PipelineSnapshot, PipelineWarning, pipeline
    from breakerkit._shell._timed_block import TimeoutBlock
    from breakerkit._stale import StaleCache, stale_if_error
    from breakerkit._timeout import Timeout, timeout
    from breakerkit.circuit._snapshot import Snapshot
    from breakerkit.deadline._view import TimeoutSnapshot
    from breakerkit.deadline.config import TimeoutConfig, TimeoutMode
    from breakerkit.deadline.events import (
        CallEndedLate,
        CallTimedOut,
        TimeoutRejected,
        WorkAbandoned,
        WorkEnded,
    )
    from breakerkit.degrade._answers import FallbackCall
    from breakerkit.degrade._standing import StandingRule
    from breakerkit.degrade.config import DegradableConfig, FallbackConfig
    from breakerkit.degrade.events import (
        CallDegraded,
        FallbackFailed,
        FallbackUsed,
        RuleCleared,
        RuleExpired,
        RuleReplaced,
        RuleSet,
        RulesRefused,
        RulesReloaded,
    )
    from breakerkit.degrade.guard import FallbackSnapshot
    from breakerkit.degrade.rule import Rule
    from breakerkit.degrade.rules import Degradation
    from breakerkit.degrade.switch import DegradableSnapshot
    from breakerkit.degrade.watch import RuleWatch
    from breakerkit.isolation._view import BulkheadSnapshot, ShareSnapshot
    from breakerkit.isolation.config import BulkheadConfig
    from breakerkit.isolation.events import (
        BulkheadRejected,
        CallDequeued,
        CallQueued,
        FullReason,
        WorkerLost,
    )
    from breakerkit.providers._provider import Provider
    from breakerkit.providers._view import FailoverSnapshot, PendingRetry, ProviderSnapshot
    from breakerkit.providers.config import FailoverConfig, Order, Strategy
    from breakerkit.providers.events import (
        FailedOver,
        GiveUpReason,
        NoProviderReason,
        ProviderFailed,
        ProvidersExhausted,
        RetryGivenUp,
        RetryQueued,
        RetrySucceeded,
    )
    from breakerkit.stale._counts import CacheInfo
    from breakerkit.stale._course import Fetched
    from breakerkit.stale.config import StaleConfig
    from breakerkit.stale.disaster import DisasterCall, raise_, return_value
    from breakerkit.stale.events import (
        DisasterStruck,
        LowHitRatio,
        RefreshFailed,
        Source,
        StaleServed,
        StoreLost,
        StoreRestored,
        ValueRefreshed,
    )
    from breakerkit.stale.keys import AmbiguousKeyError
    from breakerkit.store.commands import Store
    from breakerkit.store.memory import MemoryStore
    from breakerkit.store.redis import RedisStore

__version__ = "0.1.0"

#: Where the names live that are imported when first asked for: a program pays for what it uses.
_LATER = {
    "OpenContext": "_context",
    "Snapshot": "circuit._snapshot",
    "AbandonedWork": "_abandoned",
    "AmbiguousKeyError": "stale.keys",
    "Bulkhead": "_bulkhead",
    "BulkheadConfig": "isolation.config",
    "BulkheadRejected": "isolation.events",
    "BulkheadSnapshot": "isolation._view",
    "CacheInfo": "stale._counts",
    "CallDegraded": "degrade.events",
    "CallDequeued": "isolation.events",
    "CallEndedLate": "deadline.events",
    "CallQueued": "isolation.events",
    "CallTimedOut": "deadline.events",
    "Deadline": "_deadline",
    "Degradable": "_degradable",
    "DegradableConfig": "degrade.config",
    "DegradableSnapshot": "degrade.switch",
    "Degradation": "degrade.rules",
    "DisasterCall": "stale.disaster",
    "DisasterStruck": "stale.events",
    "FailedOver": "providers.events",
    "Failover": "_failover",
    "FailoverConfig": "providers.config",
    "FailoverSnapshot": "providers._view",
    "Fallback": "_fallback",
    "FallbackCall": "degrade._answers",
    "FallbackConfig": "degrade.config",
    "FallbackFailed": "degrade.events",
    "FallbackSnapshot": "degrade.guard",
    "FallbackUsed": "degrade.events",
    "Fetched": "stale._course",
    "Finding": "_advice",
    "FullReason": "isolation.events",
    "GiveUpReason": "providers.events",
    "LowHitRatio": "stale.events",
    "MemoryStore": "store.memory",
    "NoProviderReason": "providers.events",
    "Order": "providers.config",
    "PendingRetry": "providers._view",
    "Pipeline": "_pipeline",
    "PipelineSnapshot": "_pipeline",
    "PipelineWarning": "_pipeline",
    "PolicyLike": "_layers",
    "Provider": "providers._provider",
    "ProviderFailed": "providers.events",
    "ProviderSnapshot": "providers._view",
    "ProvidersExhausted": "providers.events",
    "RedisStore": "store.redis",
    "RefreshFailed": "stale.events",
    "RetryGivenUp": "providers.events",
    "RetryQueued": "providers.events",
    "RetrySucceeded": "providers.events",
    "Rule": "degrade.rule",
    "RuleCleared": "degrade.events",
    "RuleExpired": "degrade.events",
    "RuleReplaced": "degrade.events",
    "RuleSet": "degrade.events",
    "RuleWatch": "degrade.watch",
    "RulesRefused": "degrade.events",
    "RulesReloaded": "degrade.events",
    "ShareSnapshot": "isolation._view",
    "Source": "stale.events",
    "StaleCache": "_stale",
    "StaleConfig": "stale.config",
    "StaleServed": "stale.events",
    "StandingRule": "degrade._standing",
    "Store": "store.commands",
    "StoreLost": "stale.events",
    "StoreRestored": "stale.events",
    "Strategy": "providers.config",
    "Timeout": "_timeout",
    "TimeoutBlock": "_shell._timed_block",
    "TimeoutConfig": "deadline.config",
    "TimeoutMode": "deadline.config",
    "TimeoutRejected": "deadline.events",
    "TimeoutSnapshot": "deadline._view",
    "ValueRefreshed": "stale.events",
    "WorkAbandoned": "deadline.events",
    "WorkEnded": "deadline.events",
    "WorkerLost": "isolation.events",
    "abandoned_work": "_abandoned",
    "as_policy": "_layers",
    "bulkhead": "_bulkhead",
    "check_deadline": "_deadline",
    "current_deadline": "_deadline",
    "degradable": "_degradable",
    "degradation": "_degradable",
    "failover": "_failover",
    "fallback": "_fallback",
    "pipeline": "_pipeline",
    "raise_": "stale.disaster",
    "return_value": "stale.disaster",
    "stale_if_error": "_stale",
    "timeout": "_timeout",
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
    "AbandonedWork",
    "AllProvidersFailedError",
    "AmbiguousKeyError",
    "Backoff",
    "BreakerConfig",
    "BreakerEvent",
    "BreakerReset",
    "BreakerkitError",
    "Bulkhead",
    "BulkheadConfig",
    "BulkheadFullError",
    "BulkheadRejected",
    "BulkheadSnapshot",
    "CacheInfo",
    "CallCancelledError",
    "CallDegraded",
    "CallDequeued",
    "CallEndedLate",
    "CallFailed",
    "CallIgnored",
    "CallQueued",
    "CallRejected",
    "CallRejectedError",
    "CallSucceeded",
    "CallTimedOut",
    "CallTimeoutError",
    "CancelSignal",
    "CircuitBreaker",
    "CircuitOpenError",
    "Clock",
    "ConfigChanged",
    "ConfigError",
    "Deadline",
    "DeadlineExceededError",
    "Degradable",
    "DegradableConfig",
    "DegradableSnapshot",
    "Degradation",
    "DisasterCall",
    "DisasterStruck",
    "Event",
    "Evidence",
    "FailedOver",
    "Failover",
    "FailoverConfig",
    "FailoverSnapshot",
    "Fallback",
    "FallbackCall",
    "FallbackConfig",
    "FallbackFailed",
    "FallbackSnapshot",
    "FallbackUsed",
    "Fetched",
    "Finding",
    "FullReason",
    "GiveUpReason",
    "GuardBlock",
    "Guarded",
    "GuardedByKey",
    "KeyedBreakers",
    "LedgerFullError",
    "LowHitRatio",
    "MemoryStore",
    "Mode",
    "ModeHandle",
    "NameConflictError",
    "NoCachedValueError",
    "NoProviderError",
    "NoProviderReason",
    "OpenCallback",
    "OpenContext",
    "OpenReason",
    "Order",
    "OriginRestingError",
    "PendingRetry",
    "Pipeline",
    "PipelineSnapshot",
    "PipelineWarning",
    "PolicyLike",
    "ProbeLimitError",
    "Provider",
    "ProviderFailed",
    "ProviderSnapshot",
    "ProvidersExhausted",
    "RedisStore",
    "RefreshFailed",
    "Registry",
    "RetryGivenUp",
    "RetryQueued",
    "RetrySucceeded",
    "Rule",
    "RuleCleared",
    "RuleError",
    "RuleExpired",
    "RuleReplaced",
    "RuleSet",
    "RuleWatch",
    "RulesRefused",
    "RulesReloaded",
    "ShareSnapshot",
    "Snapshot",
    "Source",
    "StaleCache",
    "StaleConfig",
    "StaleServed",
    "StandingRule",
    "State",
    "StateChanged",
    "Store",
    "StoreLost",
    "StoreRestored",
    "Strategy",
    "SystemClock",
    "Timeout",
    "TimeoutBlock",
    "TimeoutConfig",
    "TimeoutMode",
    "TimeoutRejected",
    "TimeoutSnapshot",
    "TripRule",
    "ValueRefreshed",
    "WallClock",
    "WorkAbandoned",
    "WorkEnded",
    "WorkerLost",
    "WorkerLostError",
    "abandoned_work",
    "as_policy",
    "backoff",
    "breaker",
    "breaker_methods",
    "bulkhead",
    "check_deadline",
    "current_deadline",
    "degradable",
    "degradation",
    "failover",
    "fallback",
    "pipeline",
    "protect",
    "raise_",
    "registry",
    "return_value",
    "stale_if_error",
    "system_clock",
    "timeout",
]
