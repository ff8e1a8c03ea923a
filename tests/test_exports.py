"""What is public: the export list, and that importing it stays light."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import breakerkit
from breakerkit import testing

ROOT = Path(__file__).parent.parent

PUBLIC = [
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
]  # fmt: skip

TESTING = [
    "EventLog", "ManualClock", "capture_events", "fresh_registry", "put_into_state", "reset_all",
    "wall_clock",
]  # fmt: skip


def test_the_export_list():
    """A name that appears or goes is a decision: this list says so."""
    assert sorted(breakerkit.__all__) == sorted(PUBLIC)
    assert sorted(testing.__all__) == sorted(TESTING)


@pytest.mark.parametrize("module", [breakerkit, testing], ids=lambda module: module.__name__)
def test_each_export_is_there_and_documented(module):
    """Each public name exists and has a docstring of its own, or a type's."""
    for name in module.__all__:
        found = getattr(module, name)
        assert found.__doc__, name


def test_nothing_else_is_public():
    """What a module shows without an underscore is exported, or a module."""
    used = {"Any", "TYPE_CHECKING", "import_module"}
    shown = {
        name
        for name in dir(breakerkit)
        if not name.startswith("_") and type(getattr(breakerkit, name)) is not type(sys)
    }
    assert shown - used == set(PUBLIC)


def test_a_name_that_is_not_there():
    """A misspelt name is an AttributeError like that of any module."""
    with pytest.raises(AttributeError, match="module 'breakerkit' has no attribute 'braker'"):
        breakerkit.braker  # noqa: B018  # asking for it is the test


def test_the_version():
    """The version in the package is that of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert breakerkit.__version__ == project["project"]["version"]


def test_typed():
    """The package says that it is typed."""
    assert (Path(breakerkit.__file__).parent / "py.typed").exists()


def test_importing_stays_light():
    """``import breakerkit`` imports neither asyncio, nor wrapt, nor any extra."""
    code = "import breakerkit, sys; print(*sorted(sys.modules))"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "breakerkit.circuit.guard" in loaded
    for heavy in ("asyncio", "wrapt", "pytest", "rich", "logging.handlers", "breakerkit.testing"):
        assert heavy not in loaded


def test_core_dependencies():
    """The core needs wrapt and attrs, and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [one.split(">")[0] for one in project["project"]["dependencies"]]
    assert needed == ["wrapt", "attrs"]
    assert importlib.metadata.version("attrs")
