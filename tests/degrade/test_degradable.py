"""Degradable functions: what a rule does to a call, and that it does so to the very next one (SPEC 3; C046)."""

from __future__ import annotations

import asyncio
import pickle
import threading
from datetime import timedelta

import pytest

from breakerkit import (
    CallDegraded,
    CallRejectedError,
    ConfigError,
    Degradable,
    DegradableConfig,
    Degradation,
    NameConflictError,
    Registry,
    Rule,
    RuleError,
    RuleExpired,
    breaker,
    degradable,
    degradation,
    registry,
)
from breakerkit.testing import reset_all
from tests.degrade.rig import (
    answered_shapes,
    answered_sync_shapes,
    forced_async_shapes,
    forced_shapes,
    length,
)
from tests.shapes import in_thread, raising, returning

DOWN = ConnectionError("down")


def never():
    pytest.fail("it ran")


# -- what a rule does ------------------------------------------------------------


@answered_shapes
def test_no_rule(shape):
    """With no rule in force a call is as it was: its value, or its very error."""
    d = degradable("reviews")
    value = object()
    assert shape.run(d, returning(value)) is value
    with pytest.raises(ConnectionError) as caught:
        shape.run(d, raising(DOWN))
    assert caught.value is DOWN


@forced_shapes
def test_force_return(shape):
    """The function is not run; the caller gets the value."""
    d = degradable("reviews")
    degradation.set("reviews", Rule.force_return("closed"))
    assert shape.run(d, never) == "closed"
    seen = d.snapshot()
    assert (seen.name, seen.forced, seen.rescued, str(seen.rule.rule)) == (
        "reviews", 1, 0, 'force:return "closed"',
    )  # fmt: skip


@answered_shapes
def test_force_raise(shape):
    """The function is not run; the caller gets a new error each time."""
    d, errors = degradable("reviews"), []
    degradation.set("reviews", Rule.force_raise(TimeoutError("closed")))
    for _ in range(3):
        with pytest.raises(TimeoutError, match="closed") as caught:
            shape.run(d, never)
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 3
    assert len({length(error) for error in errors}) == 1
    assert all(error.__context__ is None and error.__cause__ is None for error in errors)


@forced_shapes
def test_force_call(shape):
    """The function is not run, its mock is."""
    d = degradable("reviews", mock=lambda *args: "mock")
    degradation.set("reviews", Rule.force_call())
    assert shape.run(d, never) == "mock"


@forced_async_shapes
def test_an_async_mock(shape):
    """An async function may have an async mock; a rule by force or for failures awaits it."""

    async def mock(*args):
        await asyncio.sleep(0)
        return "mock"

    d = degradable("reviews", mock=mock)
    for rule in (Rule.force_call(), Rule.fail_call()):
        degradation.set("reviews", rule)
        assert shape.run(d, raising(DOWN)) == "mock"


@answered_sync_shapes
def test_an_async_mock_of_a_sync_function(shape):
    """Nobody could await it: refused, at decoration where there is one."""

    async def mock():
        never()

    with pytest.raises(TypeError, match="mock=.* is async, and the function is not"):
        shape.run(degradable("reviews", mock=mock), never)


@answered_shapes
def test_fail_raise(shape):
    """A call that succeeds is left alone; a failure becomes the rule's error, from the first one."""
    d = degradable("reviews")
    degradation.set("reviews", Rule.fail_raise(TimeoutError("closed")))
    assert shape.run(d, returning("value")) == "value"
    with pytest.raises(TimeoutError, match="closed") as caught:
        shape.run(d, raising(DOWN))
    assert caught.value.__cause__ is DOWN
    assert (d.snapshot().forced, d.snapshot().rescued) == (0, 1)


@answered_shapes
def test_fail_call(shape):
    """A call that succeeds is left alone; for a failure the mock answers."""
    d = degradable("reviews", mock=lambda *args: "mock")
    degradation.set("reviews", Rule.fail_call())
    assert shape.run(d, returning("value")) == "value"
    assert shape.run(d, raising(DOWN)) == "mock"


@answered_shapes
def test_the_business_s_own_errors(shape):
    """An error that is not in ``on`` passes a ``fail:`` rule; so do rejections and cancellations."""
    d = degradable("reviews", mock=never, on=(ConnectionError,))
    degradation.set("reviews", Rule.fail_call())
    for error in (
        KeyError("no such"),
        CallRejectedError("b", "full", None),
        asyncio.CancelledError(),
    ):
        with pytest.raises(type(error)) as caught:
            shape.run(d, raising(error))
        assert caught.value is error or type(error) is asyncio.CancelledError
    assert d.snapshot().rescued == 0


def test_the_mock_gets_the_arguments():
    """It gets what the function would have got, ``self`` first; its own failure is the caller's."""

    class Shop:
        @degradable("shop", mock=lambda self, item, currency="EUR": (self, item, currency))
        def price(self, item, currency="EUR"):
            raise DOWN

    shop = Shop()
    for rule in (Rule.force_call(), Rule.fail_call()):
        degradation.set("shop", rule)
        assert shop.price(3, currency="USD") == (shop, 3, "USD")
    broken = degradable("broken", mock=lambda: {}["key"])(raising(DOWN))
    degradation.set("broken", "fail:call")
    with pytest.raises(KeyError) as caught:
        broken()
    assert caught.value.__cause__ is DOWN
    degradation.set("broken", "force:call")
    with pytest.raises(KeyError) as caught:
        broken()
    assert caught.value.__cause__ is None


def test_values_are_fresh():
    """What JSON knows is a new one for each caller; any other object is the very one."""
    d = degradable("reviews")(never)
    given = [{"stars": 5}]
    degradation.set("reviews", Rule.force_return(given))
    first = d()
    first[0]["stars"] = 1
    given.append("more")
    assert d() == [{"stars": 5}]
    thing = ({},)
    degradation.set("reviews", Rule.force_return(thing))
    assert d() is thing


def test_a_retry_loop_makes_no_chain():
    """C067: errors by force that are raised in each other's handlers make no chain of contexts."""
    d = degradable("reviews")(never)
    degradation.set("reviews", Rule.force_raise(TimeoutError))
    errors = []

    def again(tries):
        try:
            d()
        except TimeoutError as error:
            errors.append(error)
            if tries:
                again(tries - 1)

    again(20)
    assert all(error.__context__ is None for error in errors)


# -- when it does so ---------------------------------------------------------------


@forced_shapes
def test_the_next_call_in_every_thread(shape, clock):
    """C046: set, cleared, and expired rules are seen by the next call of any thread, with no restart."""
    rules = Degradation(clock=clock)
    d = degradable("reviews", rules=rules, registry=Registry())
    call = shape.bind(d, returning("value"))

    def once():
        return asyncio.run(call()) if shape.is_async else call()

    def both():
        return once(), in_thread(once)

    assert both() == ("value", "value")
    rules.set("reviews", Rule.force_return("closed"), by="ops", reason="incident 42")
    assert both() == ("closed", "closed")
    (listed,) = rules.rules()
    assert (listed.by, listed.reason, listed.until) == ("ops", "incident 42", None)
    rules.clear("reviews", by="ops")
    assert both() == ("value", "value")
    rules.set("reviews", Rule.force_return("closed"), until=timedelta(seconds=30))
    clock.advance(29.9)
    assert both() == ("closed", "closed")
    clock.advance(0.1)
    assert both() == ("value", "value")
    assert rules.rules() == []
    assert [type(event).__name__ for event in rules.history()] == [
        "RuleSet", "RuleCleared", "RuleSet", "RuleExpired",
    ]  # fmt: skip
    assert rules.history()[0].rule.by == "ops"


def test_a_thread_that_is_calling_all_the_time():
    """A thread in a loop of calls sees each change at its first call after it."""
    call = degradable("reviews")(returning(0))
    steps, seen = [threading.Event() for _ in range(6)], []

    def loop():
        for wait, done in zip(steps[::2], steps[1::2], strict=True):
            wait.wait(5)
            seen.append(call())
            done.set()

    thread = threading.Thread(target=loop)
    thread.start()
    for number in (1, 2, None):
        degradation.set("reviews", Rule.force_return(number)) if number else degradation.clear()
        index = 2 * len(seen)
        steps[index].set()
        steps[index + 1].wait(5)
    thread.join()
    assert seen == [1, 2, 0]


def test_a_call_under_way():
    """The rule in force when a call began decides it, whatever comes meanwhile."""

    @degradable("reviews", mock=lambda: "mock")
    def reviews():
        degradation.set("reviews", change) if change else degradation.clear()
        raise DOWN

    change = Rule.fail_call()
    with pytest.raises(ConnectionError):
        reviews()
    change = None
    assert reviews() == "mock"
    with pytest.raises(ConnectionError):
        reviews()


def test_what_is_beneath_an_expired_rule(clock):
    """When a rule ends, the next one beneath it decides at once."""
    rules = Degradation(clock=clock)
    d = degradable("reviews", rules=rules, registry=Registry())(returning("value"))
    rules.set("reviews", Rule.force_return(1), until=timedelta(seconds=1))
    rules.set("rev*", Rule.force_return(2), until=timedelta(seconds=2))
    rules.set("*", Rule.force_return(3), until=timedelta(seconds=3))
    seen = []
    for _ in range(4):
        seen.append(d())
        clock.advance(1)
    assert seen == [1, 2, 3, "value"]
    assert [event.rule.name for event in rules.history()[3:]] == ["reviews", "rev*", "*"]


def test_decorated_later():
    """A function that is decorated when the rules are there already is under them, patterns included."""
    degradation.set("shop.*", Rule.force_return("closed"))
    assert degradable("shop.cart")(never)() == "closed"
    assert degradable("shop")(returning("open"))() == "open"


def test_two_functions_of_one_name():
    """Both are under its rules, each with its own mock, sync or async."""

    async def mock_async():
        return "async mock"

    @degradable("reviews", mock=lambda: "mock")
    def one():
        never()

    @degradable("reviews", mock=mock_async)
    async def other():
        never()

    degradation.set("reviews", Rule.force_call())
    assert one() == "mock"
    assert asyncio.run(other()) == "async mock"
    assert one.degradable.snapshot().forced == other.degradable.snapshot().forced == 2


# -- mocks that are not there --------------------------------------------------------


def test_a_mock_that_is_missing_is_told_when_the_rule_is_set():
    """A rule for the very name of a function without a mock is refused, and nothing changes."""
    kept = degradable("reviews")(returning("value"))
    for rule in ("force:call", "fail:call"):
        with pytest.raises(RuleError, match=r"returning.*under 'reviews' has not: give mock="):
            degradation.set("reviews", rule)
    assert degradation.rules() == []
    del kept
    degradation.set("reviews", "force:call")  # who is gone asks for nothing


def test_a_mock_that_is_missing_later(caplog):
    """By pattern: force is an error that says so, and a failure stays the caller's own."""
    d = degradable("reviews")
    call = d(raising(DOWN))
    degradation.set("rev*", "force:call")
    with pytest.raises(RuleError, match="asks for the mock of 'reviews', which has none"):
        call()
    degradation.set("rev*", "fail:call")
    with pytest.raises(ConnectionError) as caught:
        call()
    assert caught.value is DOWN
    assert "mock of 'reviews' raised" in caplog.text


# -- settings and names ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mock": 3}, "mock=3: must be a function"),
        ({"mock": list}, "mock=<class 'list'>: must be a function"),
        ({"on": "ConnectionError"}, "on='ConnectionError': must be Exception types"),
        ({"rules": 3}, "rules=3: must be a Degradation"),
        ({"registry": 3}, "registry=3: must be a Registry"),
        ({"config": 3}, "config=3: must be a DegradableConfig"),
    ],
    ids=str,
)
def test_wrong_settings(settings, says):
    """A wrong setting is refused with its value and what is allowed."""
    with pytest.raises(ConfigError, match=says):
        degradable("reviews", **settings)


def test_the_name_is_needed():
    """Without a name no rule could say what it is for."""
    for wrong in (returning(), None):
        with pytest.raises(ConfigError, match=r'must be a text: @degradable\("name"\)'):
            degradable(wrong)
    with pytest.raises(ConfigError, match="not empty"):
        degradable("")


def test_names():
    """A name gives the same policy, other settings are a conflict; other mocks are not."""
    d = degradable("reviews", mock=never, on=(ConnectionError,))
    assert degradable("reviews") is degradable("reviews", mock=never) is d
    assert registry.get("reviews", "degradable") is d
    assert d.mock is never
    with pytest.raises(NameConflictError, match="asked was DegradableConfig"):
        degradable("reviews", on=(KeyError,))
    with pytest.raises(NameConflictError, match="under other rules"):
        degradable("reviews", rules=Degradation())
    other = degradable("reviews", mock=returning("mock"))
    assert other is not d
    assert other.mock is not never
    assert isinstance(other, Degradable)
    assert repr(other) == "<Degradable 'reviews'>"


def test_config_and_reconfigure():
    """The settings are swapped at once for all functions of the name."""
    d = degradable("reviews", mock=lambda: "mock")
    call = d(raising(DOWN))
    degradation.set("reviews", "fail:call")
    assert call() == "mock"
    assert d.reconfigure(on=(KeyError,)) == DegradableConfig(on=(KeyError,)) == d.config
    with pytest.raises(ConnectionError):
        call()
    assert DegradableConfig().evolve(on=(KeyError,)).changed() == (
        "DegradableConfig(on=(<class 'KeyError'>,))"
    )


def test_a_world_of_its_own():
    """Functions under rules of one's own do not hear of those that are shared."""
    mine = Degradation()
    call = degradable("reviews", rules=mine, registry=Registry())(returning("value"))
    degradation.set("reviews", Rule.force_return("shared"))
    assert call() == "value"
    mine.set("reviews", Rule.force_return("mine"))
    assert call() == "mine"


def mocked():
    """Stand in, by a name that other processes know."""
    return "mock"


def test_pickling():
    """It pickles by name, with its mock; what is not shared says so."""
    d = degradable("reviews", on=(ConnectionError,))
    assert pickle.loads(pickle.dumps(d)) is d
    twin = pickle.loads(pickle.dumps(degradable("reviews", mock=mocked)))
    assert (twin.mock, twin.snapshot()) == (mocked, d.snapshot())
    text = pickle.dumps(d)
    reset_all()
    from breakerkit.testing import fresh_registry

    with fresh_registry():
        again = pickle.loads(text)
        assert again.config.on == (ConnectionError,)
    with pytest.raises(TypeError, match="only what is under degradation"):
        pickle.dumps(degradable("mine", rules=Degradation(), registry=Registry()))
    assert pickle.loads(pickle.dumps(degradation)) is degradation
    with pytest.raises(TypeError, match="only the shared degradation pickles"):
        pickle.dumps(Degradation())


# -- what is told -------------------------------------------------------------------------


def test_events():
    """Each call that a rule decided is told, with the rule and the failure it was for."""
    d, told = degradable("reviews", mock=lambda: "mock"), []
    call = d(raising(DOWN))
    d.subscribe(told.append)
    degradation.set("rev*", "force:return 1", by="ops")
    call()
    degradation.set("rev*", "fail:call")
    call()
    forced, failed = told
    assert (type(forced), forced.name, forced.error, forced.rule.by) == (
        CallDegraded, "reviews", None, "ops",
    )  # fmt: skip
    assert (failed.error, failed.rule.name) == (DOWN, "rev*")


def test_listeners_that_raise(caplog):
    """C071: a listener that raises is logged, and the caller gets what the rule says."""
    d = degradable("reviews")
    d.subscribe(lambda event: {}["key"])
    degradation.set("reviews", "force:return 1")
    assert d(never)() == 1
    assert "of 'reviews' raised" in caplog.text


def test_around_a_breaker(clock):
    """By force nothing reaches the breaker inside; a failure inside is counted and then answered."""
    b = breaker(clock=clock)
    call = degradable("reviews", mock=lambda: "mock")(b(raising(DOWN)))
    degradation.set("reviews", "force:return 1")
    assert (call(), b.snapshot().calls) == (1, 0)
    degradation.set("reviews", "fail:call")
    assert (call(), b.snapshot().failures) == ("mock", 1)


def test_reset_all():
    """The tools for tests take all rules away, and the past with them."""
    call = degradable("reviews")(returning("value"))
    degradation.set("reviews", "force:return 1", until=timedelta(seconds=1))
    reset_all()
    assert call() == "value"
    assert (degradation.rules(), degradation.history()) == ([], [])


def test_expiry_is_told_once(clock):
    """Threads that find an expired rule together tell it once, and all run the function."""
    rules = Degradation(clock=clock)
    call = degradable("reviews", rules=rules, registry=Registry())(returning("value"))
    rules.set("reviews", Rule.force_return("closed"), until=timedelta(seconds=1))
    clock.advance(1)
    start, seen = threading.Barrier(8), []

    def work():
        start.wait()
        seen.append(call())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["value"] * 8
    assert sum(type(event) is RuleExpired for event in rules.history()) == 1
