"""Every pair of policies: refusals are no evidence, cancellation passes all, nothing stays taken."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from breakerkit import (
    AllProvidersFailedError,
    CallRejectedError,
    PipelineWarning,
    Rule,
    State,
    breaker,
    bulkhead,
    degradable,
    degradation,
    failover,
    fallback,
    pipeline,
    stale_if_error,
    timeout,
)
from breakerkit.testing import ManualClock
from tests.shapes import Behave, acting, raising, returning

pytestmark = pytest.mark.filterwarnings("ignore::breakerkit.PipelineWarning")
assert PipelineWarning


@dataclass
class Kind:
    """One kind of policy as it stands in a pair.

    Attributes:
        name: for the test's id.
        make: makes a fresh one.
        free: says whether nothing is taken or counted in it.
        extra: whether the function gets an argument of its own from it.
    """

    name: str
    make: Callable[[ManualClock], Any]
    free: Callable[[Any], bool]
    extra: bool = False
    cures: list[Any] = field(default_factory=list)


def _no_failures(policy: Any) -> bool:
    seen = policy.snapshot()
    return bool(seen.failures == 0 and seen.consecutive_failures == 0)


def _no_running(policy: Any) -> bool:
    seen = policy.snapshot()
    return bool(seen.running == 0 and seen.waiting == 0)


KINDS = [
    Kind("breaker", lambda clock: breaker("a breaker", clock=clock), _no_failures),
    Kind("bulkhead", lambda clock: bulkhead("a bulkhead", max_concurrent=2), _no_running),
    Kind("timeout", lambda clock: timeout(60.0, name="a timeout"), lambda policy: True),
    Kind("fallback", lambda clock: fallback("cured", name="a fallback"), lambda policy: True),
    Kind("degradable", lambda clock: degradable("a function"), lambda policy: True),
    Kind(
        "failover",
        lambda clock: failover(("one", "two"), name="a failover", clock=clock),
        lambda policy: True,
        extra=True,
    ),
    Kind(
        "stale_if_error",
        lambda clock: stale_if_error("a cache", clock=clock),
        lambda policy: bool(policy.info().running == 0 and policy.info().failures == 0),
    ),
]
_pairs = pytest.mark.parametrize(
    ("outer", "inner"),
    [(a, b) for a, b in itertools.product(KINDS, KINDS) if a is not b],
    ids=lambda kind: kind.name,
)


@pytest.fixture(autouse=True)
def _no_rules() -> Iterator[None]:
    """Let no degradation rule outlive its test."""
    yield
    degradation.clear()


class Guarded:
    """One function of one shape behind two policies; it counts its runs."""

    def __init__(self, outer: Any, inner: Any, behave: Behave, *, is_async: bool) -> None:
        self.runs = 0

        async def acoroutine(*_: Any) -> Any:
            self.runs += 1
            return await acting(behave)

        def plain(*_: Any) -> Any:
            self.runs += 1
            return behave()

        made: Any = pipeline(outer, inner)(acoroutine if is_async else plain)
        self.call: Callable[[], Any] = (lambda: asyncio.run(made())) if is_async else made


_both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@_both_ways
@_pairs
def test_a_value_passes(outer: Kind, inner: Kind, clock: ManualClock, is_async: bool) -> None:
    """Any two policies around a function that is well: one run, its value, nothing stays taken."""
    a, b = outer.make(clock), inner.make(clock)
    guarded = Guarded(a, b, returning(7), is_async=is_async)
    assert (guarded.call(), guarded.runs) == (7, 1)
    assert outer.free(a)
    assert inner.free(b)


@_pairs
@pytest.mark.parametrize(
    ("error", "is_async"),
    [
        (KeyboardInterrupt(), False),
        (SystemExit(3), False),
        (asyncio.CancelledError(), False),
        (asyncio.CancelledError(), True),  # the others no event loop ends quietly
    ],
    ids=repr,
)
def test_an_interrupt_passes_any_two(
    outer: Kind, inner: Kind, clock: ManualClock, is_async: bool, error: BaseException
) -> None:
    """It reaches the caller as it is, after one run: not degraded, retried or counted (C032)."""
    a, b = outer.make(clock), inner.make(clock)
    if "degradable" in {outer.name, inner.name}:
        degradation.set("a function", Rule.fail_raise(OSError("degraded")))
    guarded = Guarded(a, b, raising(error), is_async=is_async)
    with pytest.raises(type(error)):
        guarded.call()
    assert guarded.runs == 1
    assert outer.free(a)
    assert inner.free(b)


def _hold(policy: Any) -> Any:
    block = policy.guard()
    block.__enter__()
    return block


#: Policies that refuse, as the innermost of a pair.
REFUSING: dict[str, Callable[[ManualClock], Any]] = {}


def _refusing(make: Callable[[ManualClock], Any]) -> Any:
    REFUSING[make.__name__.strip("_")] = make
    return make


@_refusing
def _open_breaker(clock: ManualClock) -> Any:
    refusing = breaker("refusing", clock=clock)
    refusing.force_open()
    return refusing, lambda: [handle.release() for handle in refusing.handles]


@_refusing
def _full_bulkhead(clock: ManualClock) -> Any:
    refusing = bulkhead("refusing", max_concurrent=1)
    block = _hold(refusing)
    return refusing, lambda: block.__exit__(None, None, None)


@_refusing
def _failover_without_providers(clock: ManualClock) -> Any:
    refusing = failover(("one",), name="refusing", clock=clock, max_ejected=100)
    taken = refusing.breaker("one").force_open()
    return refusing, taken.release


@_refusing
def _resting_cache(clock: ManualClock) -> Any:
    broken = breaker("behind a cache", clock=clock)
    taken = broken.force_open()
    return stale_if_error("refusing", breaker=broken, clock=clock), taken.release


_refusers = pytest.mark.parametrize("refuser", REFUSING.values(), ids=REFUSING.keys())


@_both_ways
@_refusers
def test_a_refusal_never_opens_a_breaker(
    refuser: Callable[[ManualClock], Any], clock: ManualClock, is_async: bool
) -> None:
    """A hundred refusals inside: a hundred ignored, no streak, closed (C054)."""
    refusing, relent = refuser(clock)
    db = breaker("db", failure_threshold=2, clock=clock)
    guarded = Guarded(db, refusing, returning(7), is_async=is_async)
    for _ in range(20 if is_async else 100):
        with pytest.raises((CallRejectedError, AllProvidersFailedError)):
            guarded.call()
    seen = db.snapshot()
    assert (seen.consecutive_failures, seen.failures, seen.state) == (0, 0, State.CLOSED)
    assert (guarded.runs, seen.ignored) == (0, 20 if is_async else 100)
    relent()


@_both_ways
@_refusers
def test_a_refused_probe_gives_its_slot_back(
    refuser: Callable[[ManualClock], Any], clock: ManualClock, is_async: bool
) -> None:
    """Half-open, the probe is refused inside; once that is over the next call is the probe (C053)."""
    refusing, relent = refuser(clock)
    db = breaker("db", failure_threshold=1, open_duration=1, clock=clock)
    with pytest.raises(OSError):
        db.call(raising(OSError()))
    clock.advance(1)
    guarded = Guarded(db, refusing, returning(7), is_async=is_async)
    for _ in range(3):
        with pytest.raises((CallRejectedError, AllProvidersFailedError)):
            guarded.call()
        assert (db.state, db.snapshot().probes_active) == (State.HALF_OPEN, 0)
    relent()
    assert guarded.call() == 7
    assert db.state is State.CLOSED


async def test_a_limit_around_all_of_them(clock: ManualClock) -> None:
    """A limit outside of all policies ends the call: one run, no cure, no second provider (C032)."""
    runs = []
    whole = pipeline(
        fallback("cured", name="a fallback"),
        degradable("a function"),
        breaker("db"),
        bulkhead("db", max_concurrent=2),
        failover(("one", "two"), name="two"),
        stale_if_error("prices"),
    )
    degradation.set("a function", Rule.fail_raise(OSError("degraded")))

    @whole
    async def work(provider: str) -> str:
        runs.append(provider)
        await asyncio.Event().wait()
        return provider

    call: Any = work
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call()
    assert runs == ["one"]
    assert _no_failures(breaker("db"))
    assert _no_running(bulkhead("db"))
    assert stale_if_error("prices").info().failures == 0
