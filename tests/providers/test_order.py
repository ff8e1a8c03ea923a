"""Who comes first, who is passed over, and how a provider comes back."""

from __future__ import annotations

import collections
import random
import threading

import pytest

from breakerkit import (
    AllProvidersFailedError,
    BreakerConfig,
    NoProviderError,
    Provider,
    State,
    failover,
)
from breakerkit.testing import ManualClock
from tests.providers.rig import DOWN, Providers, every_shape

FRAIL = BreakerConfig(failure_threshold=1, open_duration=1)


def shares(line, both, times):
    """Make calls and return how many each provider answered."""
    return dict(collections.Counter(line.call(both) for _ in range(times)))


def attempt(line, both):
    """Return what a call gives, or the type of its error."""
    try:
        return line.call(both)
    except Exception as error:
        return type(error)


# -- orders ------------------------------------------------------------------------


@every_shape
def test_round_robin(shape):
    """Each call begins with the next provider."""
    line, all_well = failover(["a", "b", "c"], order="round_robin"), Providers()
    found = [shape.run(line, all_well) for _ in range(7)]
    assert sorted(found[:3]) == ["a", "b", "c"]
    assert found[3:6] == found[:3]


def test_round_robin_is_fair_over_threads():
    """Threads share one turn: each provider gets exactly its part."""
    line = failover(("a", "b", "c", "d"), order="round_robin")
    work = line(lambda provider: provider)
    work()
    threads = [threading.Thread(target=lambda: [work() for _ in range(250)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.successes - 500 for one in line.snapshot().providers] in (
        [1, 0, 0, 0],
        [0, 1, 0, 0],
    )


def test_round_robin_passes_over():
    """The others share the load of one that is skipped; a call that fails goes on with the next in turn."""
    line = failover(["a", "b", "c"], order="round_robin", breaker=FRAIL, clock=ManualClock())
    both = Providers(b=DOWN)
    shares(line, both, 3)
    assert shares(line, both, 30) == {"a": 15, "c": 15}
    assert both.asked.count("b") == 1


def test_random(monkeypatch):
    """Each call begins with any of them, and goes on with the others."""
    line, both = failover(["a", "b", "c"], order="random", breaker=None), Providers()
    generator = random.Random(7)
    monkeypatch.setattr("breakerkit.providers.keeper.random", generator.random)
    monkeypatch.setattr("breakerkit.providers._choice.random", generator)
    assert all(80 < share < 120 for share in shares(line, both, 300).values())
    both.does.update(a=DOWN, b=DOWN)
    assert shares(line, both, 50) == {"c": 50}
    assert {both.asked[at] for at in range(300, len(both.asked))} == {"a", "b", "c"}


def test_least_failures():
    """Those that failed least come first; equals take turns, and old failures fade."""
    clock = ManualClock()
    line = failover(["a", "b", "c"], order="least_failures", clock=clock)
    both = Providers(a=DOWN)
    line.call(both)
    assert shares(line, both, 30) == {"b": 15, "c": 15}
    assert both.asked.count("a") == 1
    clock.advance(9)
    assert shares(line, both, 10) == {"b": 5, "c": 5}
    clock.advance(2)
    del both.does["a"]
    assert shares(line, both, 30) == {"a": 10, "b": 10, "c": 10}


def test_a_failure_during_the_look():
    """What fails while a call looks whether all are well is not overlooked by the next."""

    class Clock(ManualClock):
        meanwhile = None

        def now(self):
            if self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            return super().now()

    clock = Clock()
    line = failover(("a", "b"), order="least_failures", clock=clock, breaker=None)
    keeper = line._guard
    assert line.call(lambda provider: provider)
    keeper.failed(keeper.roster.members[0], DOWN)
    clock.meanwhile = lambda: keeper.failed(keeper.roster.members[1], DOWN)
    keeper.choose(0)
    assert keeper.quick() is None


# -- passing over ------------------------------------------------------------------


@pytest.mark.parametrize("order", ["in_order", "round_robin", "random", "least_failures"])
def test_c048_back_in_rotation(order, monkeypatch):
    """C048: A fails and is skipped, then heals: it is probed soon after its open period and is back in rotation."""
    monkeypatch.setattr("breakerkit.providers.keeper.random", lambda: 0.0)
    monkeypatch.setattr("breakerkit.providers._choice.random", random.Random(7))
    clock = ManualClock()
    line = failover(["a", "b"], order=order, breaker=FRAIL, clock=clock)
    both, answered = Providers(a=DOWN), []
    for number in range(100):
        answered.append((clock.now(), line.call(both)))
        if number == 5:
            del both.does["a"]
        clock.advance(0.1)
    assert {who for at, who in answered if at < 0.95} == {"b"}
    first = min(at for at, who in answered if who == "a")
    assert first <= 1.2 + 1e-9
    late = collections.Counter(who for at, who in answered if at > 1.4)
    assert late["a"] >= 25
    assert line.breaker("a").state is State.CLOSED


def test_a_spare_is_probed_too():
    """A provider that is only the spare is probed when it is due, although the first one is well."""
    clock = ManualClock()
    line = failover(["a", "b"], breaker=FRAIL, clock=clock)
    both = Providers(a=DOWN, b=DOWN)
    with pytest.raises(AllProvidersFailedError):
        line.call(both)
    both.does = {"b": DOWN}
    clock.advance(1)
    assert [line.call(both) for _ in range(3)] == ["a"] * 3
    both.does = {}
    clock.advance(1)
    both.asked.clear()
    assert [line.call(both) for _ in range(3)] == ["b", "a", "a"]
    assert line.breaker("b").state is State.CLOSED


def test_a_probe_that_fails_costs_a_try():
    """A probe that fails sends its call on; the others do not see it."""
    clock = ManualClock()
    line = failover(["a", "b"], breaker=FRAIL, clock=clock)
    both = Providers(a=DOWN)
    for _ in range(3):
        assert [line.call(both) for _ in range(5)] == ["b"] * 5
        clock.advance(1)
    assert both.asked.count("a") == 3


def test_one_probe_at_a_time():
    """While a probe runs the provider is passed over."""
    clock = ManualClock()
    line = failover(["a", "b"], breaker=FRAIL, clock=clock)
    both = Providers(a=DOWN)
    line.call(both)
    clock.advance(1)
    inner = []

    def probe():
        inner.append(line.call(lambda provider: provider))
        return "a"

    both.does["a"] = probe
    assert line.call(both) == "a"
    assert inner == ["b"]


def test_the_probe_was_taken_meanwhile():
    """Should another call take the probe between the look and the asking, the next provider is asked."""
    line = failover(["a", "b"], breaker=FRAIL, clock=ManualClock())
    both = Providers()
    assert line.call(both) == "a"
    watch = line._guard.roster.members[0].slot.watch
    watch.breaker.force_open()
    watch.__class__ = type("Hopeful", (type(watch),), {"__slots__": (), "health": lambda _: "fit"})
    assert line.call(both) == "b"
    both.does["b"] = DOWN
    with pytest.raises(AllProvidersFailedError) as caught:
        line.call(both)
    assert caught.value.providers == ("b", "a")


# -- never too many -------------------------------------------------------------------


def broken(line, both, *names):
    """Let the breakers of these open, one after the other."""
    for name in names:
        both.does = {name: DOWN}
        line.breaker(name).call(lambda: None)
        with pytest.raises(ConnectionError):
            line.breaker(name).call(both, name)
    both.asked.clear()


@every_shape
def test_a_single_provider_is_always_tried(shape):
    """Half of one provider is none: it is never skipped, and what comes of it is no evidence for its breaker."""
    clock = ManualClock()
    line, both = failover(["a"], breaker=FRAIL, clock=clock), Providers(a=DOWN)
    for _ in range(3):
        with pytest.raises(AllProvidersFailedError):
            shape.run(line, both)
    seen = line.snapshot().providers[0]
    assert (seen.failures, seen.bypassed, seen.skipped, seen.breaker.failures) == (3, 2, 0, 1)
    both.does = {}
    assert shape.run(line, both) == "a"
    assert line.breaker("a").state is State.OPEN
    clock.advance(1)
    assert shape.run(line, both) == "a"
    assert line.breaker("a").state is State.CLOSED


@pytest.mark.parametrize(
    ("most", "skipped"), [(1, 0), (24, 0), (25, 1), (50, 2), (74.9, 2), (75, 3), (100, 4)]
)
def test_how_many_are_skipped(most, skipped):
    """At most ``max_ejected`` percent are skipped, rounded down; all others are tried."""
    line = failover(["a", "b", "c", "d"], breaker=FRAIL, clock=ManualClock(), max_ejected=most)
    both = Providers()
    line.call(both)
    broken(line, both, "a", "b", "c", "d")
    both.does = dict.fromkeys("abcd", DOWN)
    found = attempt(line, both)
    assert len(both.asked) == 4 - skipped
    assert found is (NoProviderError if skipped == 4 else AllProvidersFailedError)


def test_the_least_broken_first():
    """Of too many broken ones those are tried that opened least often, then those whose period ends first."""
    clock = ManualClock()
    line = failover(["a", "b", "c", "d"], breaker=FRAIL, clock=clock)
    both = Providers()
    line.call(both)
    broken(line, both, "b")
    clock.advance(1)
    broken(line, both, "b")  # for the second time
    clock.advance(0.1)
    broken(line, both, "c", "a")
    clock.advance(0.1)
    broken(line, both, "d")
    both.does = dict.fromkeys("abcd", DOWN)
    assert attempt(line, both) is AllProvidersFailedError
    assert both.asked == ["a", "c"]


def test_where_the_bypassed_stand():
    """In order they come last; where the load is spread they take their turn, so that the few that are well do not bear it all."""
    for order, expected in [
        ("in_order", {"d": 12}),
        ("least_failures", {"d": 12}),
        ("round_robin", {"a": 6, "d": 6}),
    ]:
        line = failover(["a", "b", "c", "d"], order=order, breaker=FRAIL, clock=ManualClock())
        both = Providers()
        line.call(both)
        broken(line, both, "a", "b", "c")
        line._guard.choose(0)
        both.does = {}
        assert shares(line, both, 12) == expected


def test_held_open_by_an_operator():
    """A breaker that somebody holds open is skipped whatever the share, and never passed by."""
    line, both = failover(["a"], breaker=FRAIL, clock=ManualClock()), Providers()
    line.call(both)
    with line.breaker("a").force_open(by="ops"):
        assert attempt(line, both) is NoProviderError
        assert line.snapshot().providers[0].health == "held open by somebody"
    with line.breaker("a").disable():
        assert line.call(both) == "a"
    assert both.asked == ["a", "a"]


def test_slow_calls_and_listeners():
    """A breaker that must see each call does, and is asked like any other."""
    settings = BreakerConfig(slow_call_duration=1, window_size=10, failure_threshold=None)
    line, both = failover(["a", "b"], breaker=settings, clock=ManualClock()), Providers()
    told = []
    assert line.call(both) == "a"
    line.breaker("a").subscribe(told.append)
    assert line.call(both) == "a"
    assert line.snapshot().providers[0].health == "fit"
    assert len(told) == 1
    assert line.breaker("a").snapshot().successes == 2


def test_health():
    """A snapshot says what each breaker would say to a call."""
    clock = ManualClock()
    line = failover([Provider("x", "a"), "b"], breaker=FRAIL, clock=clock)
    both = Providers(x=DOWN)
    line.call(both)
    assert [one.health for one in line.snapshot().providers] == ["broken", "fit"]
    clock.advance(1)
    assert [one.health for one in line.snapshot().providers] == ["due for a probe", "fit"]
