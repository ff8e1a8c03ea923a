"""The other circuit breakers, and caches, each used the way its own README shows.

All of them decorate, since that is what every one of them documents first, and
keep their own defaults except where a group is about a setting. A group that a
library cannot do is left out here and shown as "-": no count or time window,
no native coroutines, generators that would be judged when they are made and
not when they end, listeners that hear nothing of a successful call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from benchmarks import policies
from benchmarks.shapes import Refused
from benchmarks.subjects import AN_HOUR, subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Subject

NOT_INSTALLED = "not installed"
#: What a reader must know of a figure, by peer and group.
NOTES = {
    ("resilix", "time-window"): "resilix: counts the failures of the last 60 s and knows no rate,"
    " so a success costs it nothing",
    (
        "nopanic",
        "pipeline",
    ): "the three libraries run a plain function under a time limit in another thread;"
    " ours sets a deadline for it to look at",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """What one library brings.

    Attributes:
        error: what it raises while it is open.
        decorators: one for each group it can do.
        before: runs untimed before each batch of a group.
    """

    error: type[Exception]
    decorators: dict[str, Callable[[Any], Any]]
    before: dict[str, Callable[[], None]] = field(default_factory=dict)


def _pybreaker() -> Offer:
    lib = import_module("pybreaker")

    def new(**settings: Any) -> Any:
        return lib.CircuitBreaker(reset_timeout=AN_HOUR, **settings)

    def heard() -> Any:
        return new(listeners=[lib.CircuitBreakerListener()])

    return Offer(
        lib.CircuitBreakerError,
        {key: new() for key in ("function", "method", "generator", "open")}
        | {"listener": heard(), "state-listener": heard()},
    )


def _circuitbreaker() -> Offer:
    lib = import_module("circuitbreaker")
    shapes = ("function", "method", "async", "generator", "async-generator", "open")
    return Offer(
        lib.CircuitBreakerError,
        {key: lib.circuit(recovery_timeout=AN_HOUR, name=f"benchmark-{key}") for key in shapes},
    )


def _aiobreaker() -> Offer:
    lib = import_module("aiobreaker")

    def new(**settings: Any) -> Any:
        return lib.CircuitBreaker(timeout_duration=timedelta(seconds=AN_HOUR), **settings)

    def heard() -> Any:
        return new(listeners=[lib.CircuitBreakerListener()])

    return Offer(
        lib.CircuitBreakerError,
        {key: new() for key in ("function", "method", "async", "generator", "open")}
        | {"listener": heard(), "state-listener": heard()},
    )


def _purgatory() -> Offer:
    lib = import_module("purgatory")
    model = import_module("purgatory.domain.model")
    plain = lib.SyncCircuitBreakerFactory(default_ttl=AN_HOUR)
    heard = lib.SyncCircuitBreakerFactory(default_ttl=AN_HOUR)
    heard.add_listener(lambda _name, _kind, _event: None)
    coroutines = lib.AsyncCircuitBreakerFactory(default_ttl=AN_HOUR)

    def forget() -> None:
        # It raises one exception object for as long as it is open, and that
        # collects the traceback of every caller it was ever raised to.
        state = plain.get_breaker("open").context._state  # noqa: SLF001 - no public way
        if isinstance(state, Exception):
            state.__traceback__ = None

    return Offer(
        model.OpenedState,
        {key: plain(key) for key in ("function", "method", "open")}
        | {"async": coroutines("async"), "state-listener": heard("state-listener")},
        {"open": forget},
    )


def _resilix() -> Offer:
    lib = import_module("resilix")

    def new(**settings: Any) -> Any:
        return lib.protect.circuit(reset_timeout=AN_HOUR, **settings)

    return Offer(
        lib.CircuitOpenError,
        {key: new() for key in ("function", "method", "async", "open")}
        | {
            "time-window": new(window=60.0),
            "state-listener": new(on_state_change=lambda _old, _new: None),
        }
        | policies.resilix(),
    )


def _nopanic() -> Offer:
    lib = import_module("nopanic")

    def new(**settings: Any) -> Any:
        return lib.circuit_breaker(reset_timeout=AN_HOUR, **settings)

    return Offer(
        lib.CircuitOpen,
        {
            key: new()
            for key in ("function", "method", "async", "generator", "async-generator", "open")
        }
        | {
            "time-window": new(window=60.0),
            "slow-call": new(window=60.0, slow_call_duration=1.0, slow_call_threshold=0.5),
            "state-listener": new(on_state_change=lambda _breaker, _old, _new: None),
        }
        | policies.nopanic(),
    )


def _interlock() -> Offer:
    lib = import_module("interlock")

    class OnCall:
        def on_call(self, *, name: str, outcome: object, duration: float) -> None:
            """Hear of it, and do nothing."""

    class OnChange:
        def on_state_change(self, *, name: str, old: object, new: object) -> None:
            """Hear of it, and do nothing."""

    def new(listener: Any = None, **settings: Any) -> Any:
        config = lib.Config(wait_duration_in_open=AN_HOUR, **settings)
        return lib.CircuitBreaker(name="benchmark", config=config, listener=listener)

    timed = {"window_type": lib.WindowType.TIME_BASED, "window_size": 60}
    slow = {"slow_call_duration_threshold": 1.0, "slow_call_rate_threshold": 0.5}
    return Offer(
        lib.CircuitOpenError,
        {key: new() for key in ("function", "method", "async", "open")}
        | {
            "count-window": new(window_size=100),
            "time-window": new(**timed),
            "slow-call": new(window_size=100, **slow),
            "listener": new(OnCall()),
            "state-listener": new(OnChange()),
        },
    )


def _pyresilience() -> Offer:
    lib = import_module("pyresilience")

    def new(listeners: Any = None, **settings: Any) -> Any:
        config = lib.CircuitBreakerConfig(recovery_timeout=AN_HOUR, **settings)
        return lib.resilient(circuit_breaker=config, listeners=listeners)

    window = {"sliding_window_size": 100, "minimum_calls": 10}
    return Offer(
        lib.CircuitOpenError,
        {key: new() for key in ("function", "method", "async", "open")}
        | {
            "count-window": new(**window),
            "slow-call": new(**window, slow_call_duration=1.0, slow_call_rate_threshold=0.5),
            "listener": new([lambda _event: None]),
            "state-listener": new([lambda _event: None]),
        }
        | policies.pyresilience(),
    )


def _fluxgate() -> Offer:
    lib = import_module("fluxgate")
    rules = import_module("fluxgate.trippers")
    windows = import_module("fluxgate.windows")
    wait = import_module("fluxgate.retries").Cooldown(AN_HOUR)
    slow = rules.MinRequests(10) & (rules.FailureRate(0.5) | rules.SlowRate(0.5, threshold=1.0))

    def new(**settings: Any) -> Any:
        return lib.CircuitBreaker(retry=wait, **settings)

    return Offer(
        lib.CallNotPermittedError,
        {key: new() for key in ("function", "method", "open")}
        | {
            "async": lib.AsyncCircuitBreaker(retry=wait),
            "count-window": new(window=windows.CountWindow(100)),
            "time-window": new(window=windows.TimeWindow(60)),
            "slow-call": new(window=windows.CountWindow(100), tripper=slow),
            "state-listener": new(listeners=[lambda _signal: None]),
        },
    )


def _cashews() -> Offer:
    cache = import_module("cashews").Cache()
    cache.setup("mem://")
    return Offer(Refused, {"async-stale-hit": cache(ttl=AN_HOUR)})


def _dogpile() -> Offer:
    region = import_module("dogpile.cache").make_region()
    region.configure("dogpile.cache.memory", expiration_time=AN_HOUR)
    return Offer(Refused, {"stale-hit": region.cache_on_arguments()})


def _aiocache() -> Offer:
    lib = import_module("aiocache")
    return Offer(Refused, {"async-stale-hit": lib.cached(ttl=AN_HOUR)})


#: Every peer by the name it has on the package index.
PEERS: dict[str, Callable[[], Offer]] = {
    "pybreaker": _pybreaker,
    "circuitbreaker": _circuitbreaker,
    "aiobreaker": _aiobreaker,
    "purgatory": _purgatory,
    "resilix": _resilix,
    "nopanic": _nopanic,
    "interlock-cb": _interlock,
    "pyresilience": _pyresilience,
    "fluxgate": _fluxgate,
    "cashews": _cashews,
    "dogpile.cache": _dogpile,
    "aiocache": _aiocache,
}


def peer_subjects(name: str, groups: list[str]) -> tuple[list[Subject], str]:
    """Return a peer's subjects, and its version or why it has none."""
    try:
        offer = PEERS[name]()
        made = [
            subject(
                key, name, offer.decorators[key], error=offer.error, before=offer.before.get(key)
            )
            for key in groups
            if key in offer.decorators
        ]
    except ImportError:
        return [], NOT_INSTALLED
    except Exception as error:  # noqa: BLE001 - whatever a peer does, the others are measured
        return [], f"failed: {type(error).__name__}: {error}"
    return made, metadata.version(name)
