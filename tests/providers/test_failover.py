"""Strategy ``"failover"``: the next provider on failure, in every way a call can be made."""

from __future__ import annotations

import asyncio
import threading

import pytest

from breakerkit import (
    AllProvidersFailedError,
    BreakerConfig,
    BulkheadFullError,
    CallCancelledError,
    CallRejectedError,
    CallTimeoutError,
    CancelSignal,
    CircuitOpenError,
    DeadlineExceededError,
    FailedOver,
    NoProviderError,
    NoProviderReason,
    Provider,
    ProviderFailed,
    ProvidersExhausted,
    breaker,
    check_deadline,
    failover,
)
from breakerkit.testing import ManualClock
from tests.providers.rig import DOWN, Providers, every_shape, within


def counted(line):
    """Return successes and failures per provider."""
    return [(one.name, one.successes, one.failures) for one in line.snapshot().providers]


@every_shape
def test_the_first_that_is_well(shape):
    """While all is well the first provider gets every call."""
    line, both = failover(["a", "b"]), Providers()
    assert [shape.run(line, both) for _ in range(3)] == ["a"] * 3
    assert counted(line) == [("a", 3, 0), ("b", 0, 0)]


@every_shape
def test_the_next_on_failure(shape):
    """A failure sends the call on; the caller sees only the value."""
    line, both = failover(["a", "b", "c"]), Providers(a=DOWN)
    assert [shape.run(line, both) for _ in range(2)] == ["b"] * 2
    assert both.asked == ["a", "b"] * 2
    assert counted(line) == [("a", 0, 2), ("b", 2, 0), ("c", 0, 0)]
    assert line.snapshot().failed_over == 2


@every_shape
def test_all_fail(shape):
    """When all fail the error lists each provider with its own error, the very objects."""
    first, second = ConnectionError("first"), TimeoutError("second")
    line, both = failover(["a", "b"], "search"), Providers(a=first, b=second)
    with pytest.raises(AllProvidersFailedError, match="'search': all providers failed") as caught:
        shape.run(line, both)
    assert caught.value.exceptions == (first, second)
    assert (caught.value.name, caught.value.providers) == ("search", ("a", "b"))
    assert both.asked == ["a", "b"]
    assert line.snapshot().exhausted == 1


@every_shape
def test_the_business_own(shape):
    """An exception outside ``on`` is never retried elsewhere, and is no evidence against the provider."""
    error = LookupError("no such book")
    line, both = failover(["a", "b"], on=(ConnectionError,)), Providers(a=error)
    with pytest.raises(LookupError) as caught:
        shape.run(line, both)
    assert caught.value is error
    assert both.asked == ["a"]
    assert line.breaker("a").snapshot().ignored == 1
    assert counted(line) == [("a", 0, 0), ("b", 0, 0)]


@every_shape
@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(),
        asyncio.CancelledError(),
        BulkheadFullError("x", "full", None),
    ],
    ids=lambda error: type(error).__name__,
)
def test_neutral_ends(shape, error):
    """A cancellation, an interrupt, a rejection from further inside pass at once: no second provider."""
    line, both = failover(["a", "b"]), Providers(a=error)
    with pytest.raises(type(error)):
        shape.run(line, both)
    assert both.asked == ["a"]
    assert counted(line) == [("a", 0, 0), ("b", 0, 0)]


@every_shape
def test_attempts_are_bounded(shape):
    """``attempts`` is how many tries there are in all."""
    line, both = failover(["a", "b", "c"], attempts=2), Providers(a=DOWN, b=DOWN)
    with pytest.raises(AllProvidersFailedError, match="2 of 3 providers failed"):
        shape.run(line, both)
    assert both.asked == ["a", "b"]


@every_shape
def test_again_when_all_had_a_try(shape):
    """A provider that was tried is tried again only when no other is left."""
    line, both = failover(["a", "b"], attempts=5), Providers(a=DOWN, b=DOWN)
    with pytest.raises(AllProvidersFailedError) as caught:
        shape.run(line, both)
    assert both.asked == ["a", "b", "a", "b", "a"]
    assert caught.value.providers == ("a", "b", "a", "b", "a")


@every_shape
def test_what_a_provider_says_of_attempts(shape):
    """The provider tried first says how many tries there are, unless the failover does."""
    providers = [Provider("a", attempts=1), Provider("b", attempts=7)]
    both = Providers(a=DOWN, b=DOWN)
    with pytest.raises(AllProvidersFailedError):
        shape.run(failover(providers), both)
    assert both.asked == ["a"]
    with pytest.raises(AllProvidersFailedError):
        shape.run(failover(providers, attempts=3), both)
    assert both.asked == ["a", "a", "b", "a"]


@every_shape
def test_changes_of_the_list_are_seen(shape):
    """The list is read anew before each try: what comes during a call is tried in it."""
    listed = ["a"]

    def grow():
        listed[:] = ["b", "c"]
        raise DOWN

    both = Providers(a=grow, b=DOWN)
    assert shape.run(failover(listed), both) == "c"
    assert both.asked == ["a", "b", "c"]


@every_shape
def test_a_callable_list(shape):
    """A callable is asked before each try."""
    lists = iter([["a"], ["b"], ["c"], ["d"]])
    both = Providers(a=DOWN, b=DOWN)
    line = failover(lambda: next(lists))
    assert shape.run(line, both) == "c"


def test_a_list_that_never_stops():
    """A list that is new at each try does not keep a call for ever: there is a bound."""
    names = (f"p{number}" for number in range(10_000))
    asked = []

    @failover(lambda: [next(names)])
    def work(provider):
        asked.append(provider)
        raise DOWN

    with pytest.raises(AllProvidersFailedError):
        work()
    assert len(asked) == 100


def test_a_long_list():
    """A list that is longer than that bound is tried to its end."""
    asked = []

    @failover([f"p{number}" for number in range(150)], breaker=None)
    def work(provider):
        asked.append(provider)
        raise DOWN

    with pytest.raises(AllProvidersFailedError):
        work()
    assert len(asked) == len(set(asked)) == 150


@every_shape
def test_nobody_listed(shape):
    """With nobody to ask the call is rejected: one ``except CallRejectedError`` says it was not run."""
    line, both = failover([]), Providers()
    with pytest.raises(NoProviderError, match="no provider is listed") as caught:
        shape.run(line, both)
    assert (caught.value.reason, caught.value.retry_after) == (NoProviderReason.NONE_LISTED, None)
    assert isinstance(caught.value, CallRejectedError)
    assert line.snapshot().rejected == 1


@every_shape
def test_all_broken(shape):
    """With every breaker open, and all of them allowed to be skipped, the call is rejected until one may be asked."""
    clock = ManualClock()
    settings = BreakerConfig(failure_threshold=1, open_duration=10)
    line = failover(["a", "b"], clock=clock, breaker=settings, max_ejected=100)
    both = Providers(a=DOWN, b=DOWN)
    with pytest.raises(AllProvidersFailedError):
        shape.run(line, both)
    clock.advance(4)
    with pytest.raises(NoProviderError, match="lets a call through.*retry after 6 s") as caught:
        shape.run(line, both)
    assert caught.value.reason is NoProviderReason.ALL_BROKEN
    assert both.asked == ["a", "b"]


@every_shape
def test_an_open_breaker_is_skipped(shape):
    """A provider whose breaker is open is passed over, and its rejection stands in the error if all else fails."""
    frail = Provider("a", breaker=BreakerConfig(failure_threshold=1))
    line, both = failover([frail, "b"], clock=ManualClock()), Providers(a=DOWN)
    assert [shape.run(line, both) for _ in range(3)] == ["b"] * 3
    assert both.asked == ["a", "b", "b", "b"]
    both.does["b"] = ConnectionError("b is down")
    with pytest.raises(AllProvidersFailedError) as caught:
        shape.run(line, both)
    error, rejection = caught.value.exceptions
    assert (caught.value.providers, str(error)) == (("b", "a"), "b is down")
    assert isinstance(rejection, CircuitOpenError)
    assert line.snapshot().providers[0].skipped == 3


@every_shape
def test_a_rejection_by_the_provider_own_breaker(shape):
    """Where the provider's own breaker rejects further inside, that is a skip: no failure, no try."""
    line = failover(["a", "b"], attempts=1)
    both = Providers()
    assert shape.run(line, both) == "a"
    own = line.breaker("a")
    both.does["a"] = CircuitOpenError(own.name, "open", 1.0, None)
    assert shape.run(line, both) == "b"
    both.does["b"] = CircuitOpenError(line.breaker("b").name, "open", 2.0, None)
    with pytest.raises(NoProviderError) as caught:
        shape.run(line, both)
    assert caught.value.retry_after == 1.0
    assert [failures for _, _, failures in counted(line)] == [0, 0]


def test_without_breakers():
    """With ``breaker=None`` a provider is tried however often it fails."""
    line, both = failover(["a", "b"], breaker=None), Providers(a=DOWN)
    assert [line.call(both) for _ in range(20)] == ["b"] * 20
    assert both.asked.count("a") == 20
    assert line.breaker("a") is None
    assert line.snapshot().providers[0].breaker is None
    both.does["a"] = CircuitOpenError("", "open", None, None)
    with pytest.raises(CircuitOpenError):
        line.call(both)


@every_shape
def test_a_try_that_cannot_begin_in_time(shape):
    """Once the time of the calls around is over no further try begins."""
    clock = ManualClock()

    def late():
        clock.advance(2)
        raise DOWN

    line, both = failover(["a", "b"]), Providers(a=late)
    with within(1.0, clock):
        with pytest.raises(AllProvidersFailedError, match="1 of 2 providers failed") as caught:
            shape.run(line, both)
        assert isinstance(caught.value.__cause__, DeadlineExceededError)
        with pytest.raises(DeadlineExceededError):
            shape.run(line, both)
    assert both.asked == ["a"]
    assert line.snapshot().rejected == 1


def test_within_a_deadline():
    """While there is time left a deadline changes nothing."""
    with within(5.0, ManualClock()):
        line, both = failover(["a", "b"]), Providers()
        assert [line.call(both) for _ in range(2)] == ["a", "a"]


def test_c032_a_limit_around():
    """C032: a limit around a slow async call: no second provider, no failure counted."""
    line, asked = failover(["a", "b"], "slow"), []

    @line
    async def work(provider):
        asked.append(provider)
        await asyncio.Event().wait()

    async def main():
        async with asyncio.timeout(0.01):
            await work()

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert asked == ["a"]
    assert counted(line) == [("a", 0, 0), ("b", 0, 0)]
    assert line.breaker("a").snapshot().ignored == 1


@every_shape
def test_c032_the_error_of_a_limit_around(shape):
    """C032: where the call itself says that the limit around it has passed, that is the caller's: no failure."""
    clock = ManualClock()

    def slow():
        clock.advance(2)
        check_deadline()

    for strategy in ("failover", "failfast", "failsafe"):
        line = failover(["a", "b"], strategy=strategy, breaker=None)
        both = Providers(a=slow)
        with within(1.0, clock), pytest.raises(CallTimeoutError, match="around"):
            shape.run(line, both)
        assert both.asked == ["a"]
        assert counted(line) == [("a", 0, 0), ("b", 0, 0)]
    further_inside = CallTimeoutError("inner", 1.0)
    assert shape.run(failover(["a", "b"]), Providers(a=further_inside)) == "b"


def test_cancel():
    """A signal that is set ends the call before its next try, neutral."""
    line, signal = failover(["a", "b"]), CancelSignal()
    signal.cancel("gone")
    with pytest.raises(CallCancelledError, match="gone"):
        line.apply(Providers(), cancel=signal)

    later = CancelSignal()

    def work(provider):
        later.cancel()
        raise DOWN

    with pytest.raises(CallCancelledError):
        line.apply(work, cancel=later)
    assert counted(line)[0] == ("a", 0, 1)


def test_an_outer_breaker():
    """An outer breaker counts a call that all failed as a failure, and one nobody was asked for as neutral."""
    outer = breaker("outer")

    @outer
    @failover(["a"])
    def work(provider):
        raise DOWN

    with pytest.raises(AllProvidersFailedError):
        work()

    @outer
    @failover([])
    def nobody(provider):
        raise DOWN

    with pytest.raises(NoProviderError):
        nobody()
    seen = outer.snapshot()
    assert (seen.failures, seen.ignored) == (1, 1)


def test_a_group_is_judged_by_its_leaves():
    """A group that holds a failure is one; one with an interrupt in it is nobody's failure."""
    line = failover(["a", "b"])
    both = Providers(a=ExceptionGroup("two", [DOWN, ValueError()]))
    assert line.call(both) == "b"
    both.does["a"] = BaseExceptionGroup("mixed", [DOWN, KeyboardInterrupt()])
    with pytest.raises(BaseExceptionGroup, match="mixed"):
        line.call(both)


def test_events():
    """Each failure, each rescue and each end is told, in order."""
    line, told = failover(["a", "b"], "told"), []
    line.subscribe(told.append)
    both = Providers(a=DOWN)
    line.call(both)
    both.does["b"] = TimeoutError("b")
    with pytest.raises(AllProvidersFailedError) as caught:
        line.call(both)
    assert [type(one) for one in told] == [
        ProviderFailed, FailedOver, ProviderFailed, ProviderFailed, ProvidersExhausted,
    ]  # fmt: skip
    assert (told[0].name, told[0].provider, told[0].error) == ("told", "a", DOWN)
    assert (told[1].provider, told[1].failed) == ("b", ("a",))
    assert told[4].error is caught.value


def test_async_callbacks_of_a_breaker():
    """A coroutine opening callback of a provider's breaker is awaited, whichever try opens it."""
    opened = []

    async def tell(context):
        await asyncio.sleep(0)
        opened.append(context.name)

    settings = BreakerConfig(failure_threshold=1, on_open=tell)
    line = failover(["a", "b"], "cb", breaker=settings)

    @line
    async def work(provider):
        raise DOWN

    with pytest.raises(AllProvidersFailedError):
        asyncio.run(work())
    assert opened == ["cb[a]", "cb[b]"]
    with pytest.raises(TypeError, match="coroutine opening callback"):
        line(lambda provider: None)


def test_async_callbacks_in_the_usual_case():
    """The same where nothing had to be looked at before the call, and where a success opens the breaker."""
    opened = []

    async def tell(context):
        await asyncio.sleep(0)
        opened.append(context.error)

    settings = BreakerConfig(
        failure_threshold=2,
        window_size=4,
        minimum_calls=4,
        failure_rate_threshold=25,
        on_open=tell,
    )
    line = failover(("a",), breaker=settings, attempts=1, clock=ManualClock())

    @line
    async def work(provider, error=None):
        if error is not None:
            raise error
        return provider

    async def main(*ends):
        for end in ends:
            if end is None:
                assert await work() == "a"
            else:
                with pytest.raises(AllProvidersFailedError):
                    await work(end)

    asyncio.run(main(None, DOWN, None, None))
    assert opened == [None]
    line.breaker("a").reset()
    asyncio.run(main(None, DOWN, DOWN))
    assert opened == [None, DOWN]
    line.breaker("a").reset()
    settings = settings.evolve(failure_threshold=1)
    line.reconfigure(breaker=settings)
    asyncio.run(main(None, DOWN))
    assert opened == [None, DOWN, DOWN]


def test_a_try_is_settled_once():
    """What ends a try is told once, whatever comes after it."""
    line = failover(["a"])
    plan = line._guard.begin(None)
    attempt = plan.next()
    attempt.failed(DOWN)
    attempt.failed(DOWN)
    attempt.succeeded(1)
    seen = line.breaker("a").snapshot()
    assert (seen.failures, seen.successes) == (1, 0)


def test_threads_at_once():
    """Calls from many threads lose no count."""
    line, both = failover(("a", "b")), Providers(a=DOWN)
    line.reconfigure(breaker=None)
    work = line(lambda provider: both(provider))
    threads = [threading.Thread(target=lambda: [work() for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted(line) == [("a", 0, 400), ("b", 400, 0)]
    assert line.snapshot().failed_over == 400


def test_two_loops():
    """One failover serves two event loops, one after the other and at the same time."""

    @failover(["a", "b"])
    async def work(provider):
        await asyncio.sleep(0)
        if provider == "a":
            raise DOWN
        return provider

    async def many():
        return set(await asyncio.gather(*(work() for _ in range(20))))

    assert asyncio.run(many()) == {"b"}
    found = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(many()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"b"}, {"b"}]


def test_nested():
    """A function that calls itself through the same failover does not wait for itself."""

    @failover(["a", "b"])
    def work(provider, depth):
        return [provider, *work(depth - 1)] if depth else [provider]

    assert work(3) == ["a"] * 4
