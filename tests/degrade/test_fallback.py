"""Fallbacks: what is answered, with what, and what is never answered (SPEC 3; C044, C045)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading

import pytest

from breakerkit import (
    BulkheadFullError,
    CallCancelledError,
    CallRejectedError,
    CallTimeoutError,
    CancelSignal,
    CircuitOpenError,
    ConfigChanged,
    ConfigError,
    DeadlineExceededError,
    Fallback,
    FallbackCall,
    FallbackConfig,
    FallbackFailed,
    FallbackUsed,
    NameConflictError,
    Registry,
    breaker,
    bulkhead,
    fallback,
    pipeline,
    registry,
    timeout,
)
from tests.degrade.rig import (
    answered_async_shapes,
    answered_shapes,
    answered_sync_shapes,
)
from tests.shapes import raising, returning


class NotFound(Exception):
    """A business error."""


class Refused(CallRejectedError):
    """A rejection of some policy."""


DOWN = ConnectionError("down")
REFUSED = Refused("some", "full", None)


# -- what is answered ----------------------------------------------------------


@answered_shapes
def test_business_error_failure_cancellation(shape):
    """C044: an error that is not in ``on`` passes as it is, one that is gets the value, a cancellation passes."""
    f, missing, cancelled = (
        fallback("x", on=(ConnectionError,)),
        NotFound(),
        asyncio.CancelledError(),
    )
    with pytest.raises(NotFound) as caught:
        shape.run(f, raising(missing))
    assert caught.value is missing
    assert shape.run(f, raising(ConnectionError())) == "x"
    with pytest.raises(asyncio.CancelledError):
        shape.run(f, raising(cancelled))
    assert f.snapshot().used == 1


@answered_shapes
def test_a_fallback_that_fails(shape):
    """C045: the caller catches the fallback's own error, with the first one as its cause."""
    seen = []

    def cure(call):
        seen.append(call)
        raise LookupError("no copy")

    f = fallback(cure)
    with pytest.raises(LookupError) as caught:
        shape.run(f, raising(DOWN))
    assert caught.value.__cause__ is DOWN
    assert caught.value.__suppress_context__
    assert (f.snapshot().used, f.snapshot().failed, len(seen)) == (0, 1, 1)


@answered_shapes
def test_a_good_call_is_left_alone(shape):
    """The very object that the function returned comes out, and nothing is counted."""
    f, value = fallback("x"), "a value"
    assert shape.run(f, returning(value)) is value
    assert f.snapshot().used == 0


@answered_shapes
def test_the_value_is_the_very_object(shape):
    """A value is returned as it is, each time: who wants fresh ones gives a callable."""
    value = object()
    f = fallback(value)
    assert shape.run(f, raising(DOWN)) is value
    assert shape.run(f, raising(DOWN)) is value


@answered_shapes
def test_a_callable_gets_one_record(shape):
    """It gets error, args, kwargs and name in one frozen record, and makes the value."""
    calls = []

    def cure(call):
        calls.append(call)
        return "made"

    f = fallback(cure, name="prices")
    assert shape.run(f, raising(DOWN)) == "made"
    (call,) = calls
    assert (type(call), call.error, call.name) == (FallbackCall, DOWN, "prices")
    assert isinstance(call.args, tuple)
    assert call.kwargs == {}
    with pytest.raises(AttributeError):
        call.name = "other"


def test_the_record_has_the_arguments():
    """Arguments are as they were given; of a method ``self`` comes first."""

    class Shop:
        @fallback(lambda call: call)
        def price(self, item, currency="EUR"):
            raise DOWN

    shop = Shop()
    call = shop.price(3, currency="USD")
    assert (call.args, call.kwargs) == ((shop, 3), {"currency": "USD"})


@answered_async_shapes
def test_an_async_cure(shape):
    """Under an async call the callable may be async, and so may what a plain one returns."""

    async def cure(call):
        await asyncio.sleep(0)
        return repr(call.error)

    if shape.name != "returned-coroutine":
        assert shape.run(fallback(cure), raising(DOWN)) == repr(DOWN)
    assert shape.run(fallback(lambda call: cure(call)), raising(DOWN)) == repr(DOWN)


@answered_sync_shapes
def test_an_async_cure_under_a_sync_call(shape):
    """Nobody could await it, so that is refused, at decoration where there is one."""

    async def cure(call):
        pytest.fail("it ran")

    async def items(call):
        yield pytest.fail("it ran")

    for one in (fallback(cure), fallback("x", for_rejections=cure), fallback(items)):
        with pytest.raises(TypeError, match=r"is async, and the function is not .* give a plain"):
            shape.run(one, raising(DOWN))


def test_types_and_predicates():
    """``on`` takes a type, several, or a predicate; one that raises is logged and means yes."""
    assert fallback(1, on=OSError).call(raising(DOWN)) == 1
    picky = fallback(1, on=lambda error: error.errno == 5)
    assert picky.call(raising(OSError(5, "io"))) == 1
    with pytest.raises(OSError, match="no"):
        picky.call(raising(OSError(6, "no")))
    assert picky.call(raising(KeyError("has no errno"))) == 1


def test_a_broken_predicate_is_logged(caplog):
    """C005 for fallbacks: the predicate's own error is in the log, with the fallback's name."""
    fallback(1, name="prices", on=lambda error: error.nothing).call(raising(DOWN))
    assert "failure filter of 'prices' raised" in caplog.text


# -- rejections ----------------------------------------------------------------


@answered_shapes
def test_one_cure_is_for_both(shape):
    """By default a rejection gets the same answer as a failure, whatever ``on`` lists."""
    f = fallback("x", on=(ConnectionError,))
    assert shape.run(f, raising(REFUSED)) == "x"
    assert (f.snapshot().used, f.snapshot().rejections) == (1, 1)


@answered_shapes
def test_another_cure_for_rejections(shape):
    """``for_rejections`` is for calls that were not run, the other one for those that failed."""
    f = fallback("failed", for_rejections=lambda call: f"refused: {call.error.reason}")
    assert shape.run(f, raising(REFUSED)) == "refused: full"
    assert shape.run(f, raising(DOWN)) == "failed"


def test_listed_rejections():
    """A filter that lists kinds of rejection means just these."""
    f = fallback("x", on=(BulkheadFullError, ConnectionError))
    assert f.call(raising(BulkheadFullError("db", "full", None))) == "x"
    assert f.call(raising(DOWN)) == "x"
    with pytest.raises(Refused):
        f.call(raising(REFUSED))


def test_a_rejection_may_be_passed_on():
    """A cure that raises the very error passes it on: that is no failure of the cure."""

    def pass_on(call):
        raise call.error

    f = fallback("x", for_rejections=pass_on)
    with pytest.raises(Refused) as caught:
        f.call(raising(REFUSED))
    assert caught.value is REFUSED
    assert caught.value.__cause__ is None
    assert f.snapshot().failed == 0


def test_around_an_open_breaker(clock):
    """The usual pair: the breaker is open, and the callers still get an answer."""
    b = breaker(failure_threshold=2, clock=clock)

    @fallback([], on=(ConnectionError,))
    @b
    def reviews():
        raise DOWN

    assert [reviews() for _ in range(5)] == [[]] * 5
    assert b.snapshot().rejected == 3
    assert reviews.fallback.snapshot().rejections == 3


# -- what is never answered ------------------------------------------------------


def begun(value):
    error = CallCancelledError("work")
    error.begun = value
    return error


CANCELLATIONS = [
    asyncio.CancelledError(),
    begun(False),
    begun(True),
    concurrent.futures.CancelledError(),
    GeneratorExit(),
    KeyboardInterrupt(),
    SystemExit(),
]


@pytest.mark.parametrize("error", CANCELLATIONS, ids=repr)
@pytest.mark.parametrize("on", [(Exception,), lambda error: True], ids=["types", "predicate"])
def test_a_cancellation_is_never_answered(error, on):
    """Whoever ended the call gets no value instead, whatever the filter says; the very object passes."""
    f = fallback("x", on=on, for_rejections="y")
    with pytest.raises(type(error)) as caught:
        f.call(raising(error))
    assert caught.value is error
    assert f.snapshot().used == 0


@answered_async_shapes
def test_a_limit_around_it(shape):
    """C032: a limit around an async call is the limit's error: no value, one run, nothing counted."""
    b = breaker()
    f = fallback("x")
    runs = []

    async def behave():
        runs.append(1)
        await asyncio.sleep(30)

    @b
    async def guarded():
        await behave()

    call = shape.bind(f, guarded)

    async def limited():
        async with asyncio.timeout(0.02):
            await call()

    with pytest.raises(TimeoutError):
        asyncio.run(limited())
    assert (len(runs), f.snapshot().used, b.snapshot().failures) == (1, 0, 0)


def test_a_limit_around_all_of_them():
    """C032: limit, fallback, breaker and bulkhead together: the limit's error, one run, nothing counted."""
    b, slots, f, runs = breaker(), bulkhead(max_concurrent=1), fallback("x"), []

    @timeout(0.02)
    @f
    @b
    @slots
    async def work():
        runs.append(1)
        await asyncio.sleep(30)

    with pytest.raises(CallTimeoutError):
        asyncio.run(work())
    assert (len(runs), f.snapshot().used, b.snapshot().failures) == (1, 0, 0)


def test_a_group_is_judged_by_its_leaves():
    """A group is answered for a leaf that is a failure; never with a cancellation in it."""
    f = fallback("x", on=(ConnectionError,), for_rejections="refused")
    assert f.call(raising(ExceptionGroup("g", [KeyError(), DOWN]))) == "x"
    assert f.call(raising(ExceptionGroup("g", [REFUSED, REFUSED]))) == "refused"
    assert f.call(raising(ExceptionGroup("g", [REFUSED, DOWN]))) == "x"
    for leaves in ([KeyError()], [DOWN, begun(False)], [REFUSED, begun(True)]):
        with pytest.raises(ExceptionGroup):
            f.call(raising(ExceptionGroup("g", leaves)))
    with pytest.raises(BaseExceptionGroup):
        f.call(raising(BaseExceptionGroup("g", [DOWN, asyncio.CancelledError()])))


def test_a_deep_group():
    """A group that nests deeper than the stack is judged all the same."""
    group = ExceptionGroup("g", [DOWN])
    for _ in range(50_000):
        group = ExceptionGroup("g", [group])
    assert fallback("x", on=(ConnectionError,)).call(raising(group)) == "x"
    while isinstance(group, ExceptionGroup):  # taken apart by hand: the destructor would recurse
        group = group.exceptions[0]


@pytest.mark.parametrize("kind", [CallTimeoutError, DeadlineExceededError])
def test_the_time_around_is_over(kind, clock):
    """An error of a limit around the fallback passes: nobody waits for an answer any more."""
    error = kind("outer", 1.0) if kind is CallTimeoutError else kind("outer", "no time left", None)
    f = fallback("x")
    assert (
        f.call(raising(error)) == "x"
    )  # with time left, or no limit, it is a failure like any other

    def work():
        clock.advance(2)
        raise error

    limited = timeout(1.0, mode="cooperative", clock=clock)
    with pytest.raises(kind):
        limited.call(f.call, work)
    assert f.snapshot().used == 1


def test_a_signal_set_before_it_begins():
    """A call whose signal is set is not run, and gets no answer."""
    signal = CancelSignal()
    signal.cancel("hung up")
    with pytest.raises(CallCancelledError):
        fallback("x").apply(pytest.fail, ["it ran"], cancel=signal)
    assert fallback("x").apply(pow, (2, 3), cancel=CancelSignal()) == 8


# -- chains of errors ------------------------------------------------------------


def test_a_cure_that_raises_from_something_else():
    """The first error is the cause all the same; the other one is its context."""

    def cure(call):
        try:
            {}["key"]
        except KeyError as error:
            raise LookupError from error

    with pytest.raises(LookupError) as caught:
        fallback(cure).call(raising(ConnectionError("first")))
    assert type(caught.value.__cause__) is ConnectionError
    assert type(caught.value.__context__) is KeyError


def test_a_cure_that_raises_out_of_the_chain():
    """An error out of the first one's own chain makes no circle of causes."""
    inner = OSError("inner")

    def work():
        raise ConnectionError("outer") from inner

    def cure(call):
        raise call.error.__cause__

    with pytest.raises(OSError, match="inner") as caught:
        fallback(cure).call(work)
    assert caught.value is inner
    assert inner.__cause__ is None


def test_a_cure_that_ends_the_program():
    """What ends the program passes from a cure too, unchanged."""
    for error in (KeyboardInterrupt(), asyncio.CancelledError()):
        f = fallback(lambda call, error=error: raising(error)())
        with pytest.raises(type(error)) as caught:
            f.call(raising(DOWN))
        assert caught.value is error
        assert error.__cause__ is None
        assert f.snapshot().failed == 0


def test_errors_pass_untouched():
    """An error that is not answered keeps cause, context and a traceback of its own length."""
    error = KeyError("mine")
    f = fallback("x", on=(OSError,))
    with pytest.raises(KeyError):
        f.call(raising(error))
    assert (error.__cause__, error.__context__) == (None, None)


# -- bulkheads of its own ----------------------------------------------------------


@answered_shapes
def test_a_bulkhead_of_its_own(shape):
    """A callable cure goes through it; when it refuses, the caller gets that rejection from the first error."""
    own = bulkhead("cures", max_concurrent=1)
    f = fallback(lambda call: "made", bulkhead=own)
    assert shape.run(f, raising(DOWN)) == "made"
    with own.guard(), pytest.raises(BulkheadFullError) as caught:
        shape.run(f, raising(DOWN))
    assert caught.value.__cause__ is DOWN
    assert shape.run(f, raising(DOWN)) == "made"
    assert (f.snapshot().used, f.snapshot().failed) == (2, 1)


@answered_shapes
def test_a_value_needs_no_bulkhead(shape):
    """A value starves nobody: it is given though the bulkhead is full."""
    own = bulkhead("cures", max_concurrent=1)
    with own.guard():
        assert shape.run(fallback("x", bulkhead=own), raising(DOWN)) == "x"


@answered_shapes
def test_a_bulkhead_with_workers(shape):
    """A plain cure runs in its workers, off the event loop of an async caller."""
    own = bulkhead("workers", max_concurrent=1, isolation="thread")
    threads = []
    f = fallback(lambda call: threads.append(threading.current_thread()) or "made", bulkhead=own)
    assert shape.run(f, raising(DOWN)) == "made"
    assert threads[0] is not threading.current_thread()


def test_an_async_cure_needs_no_workers():
    """Workers cannot await: that is said when the settings are made."""

    async def cure(call):
        return 1

    own = bulkhead("workers", max_concurrent=1, isolation="thread")
    with pytest.raises(ConfigError, match="workers cannot run an async cure"):
        fallback(cure, bulkhead=own)


# -- settings and names --------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cure": list}, "cure=<class 'list'>: is a class"),
        ({"cure": lambda: 1}, "or a callable of one FallbackCall"),
        ({"for_rejections": lambda one, two: 1}, "for_rejections=.*or a callable of one"),
        ({"on": "ConnectionError"}, "on='ConnectionError': must be Exception types"),
        ({"on": (KeyboardInterrupt,)}, "must be Exception types"),
        ({"bulkhead": "db"}, "bulkhead='db': must be a policy with call"),
        ({"bulkhead": Fallback}, "must be a policy with call"),
        ({"cure": (one for one in ())}, "can be used once"),
        ({"curr": 1}, "no such setting, did you mean 'cure'"),
    ],
    ids=str,
)
def test_wrong_settings(settings, says):
    """A wrong setting is refused when the config is made, with field, value and what is allowed."""
    from breakerkit._fields import build

    with pytest.raises(ConfigError, match=says):
        build(FallbackConfig, settings)


def test_all_faults_at_once():
    """One error names every wrong field."""
    with pytest.raises(ConfigError, match=r"cure=.*; on=.*; bulkhead="):
        FallbackConfig(cure=list, on=3, bulkhead=3)


def test_a_coroutine_is_no_cure():
    """A coroutine object can be awaited once: the function that makes it is meant."""

    async def load():
        return 1

    made = load()
    with pytest.raises(ConfigError, match="give the function that makes it"):
        fallback(made)
    made.close()


def test_without_parentheses():
    """``@fallback`` alone takes the function for a cure, which its arguments give away."""
    with pytest.raises(ConfigError, match="or a callable of one FallbackCall"):

        @fallback
        def reviews():
            """Need no argument."""


def test_configs_compare_by_type():
    """Equal cures are equal to the type, and what cannot be compared is another one."""

    class Odd:
        def __ne__(self, other):
            raise ValueError("ambiguous")

        __eq__ = __ne__
        __hash__ = None

    odd = Odd()
    assert FallbackConfig(cure=[1]) == FallbackConfig(cure=[1])
    assert hash(FallbackConfig(cure=[1])) == hash(FallbackConfig(cure=[2]))
    assert FallbackConfig(cure=1) != FallbackConfig(cure=True)
    assert FallbackConfig(cure=odd) == FallbackConfig(cure=odd)
    assert FallbackConfig(cure=odd) != FallbackConfig(cure=Odd())
    assert "cure=" in FallbackConfig(cure=odd).changed()
    assert FallbackConfig(cure=1).evolve(cure=2).cure == 2
    fallback(odd, name="odd")
    with pytest.raises(NameConflictError, match="it has FallbackConfig"):
        fallback(Odd(), name="odd")


def test_names():
    """A name gives the same fallback everywhere; other settings are a conflict; a text is a cure."""
    f = fallback("nothing", name="reviews")
    assert fallback("nothing", name="reviews") is fallback(name="reviews") is f
    assert registry.get("reviews", "fallback") is f
    assert f.config.cure == "nothing"
    with pytest.raises(NameConflictError, match="asked was FallbackConfig"):
        fallback("something", name="reviews")
    assert fallback("nothing", name="reviews", registry=Registry()) is not f
    assert repr(f) == "<Fallback 'reviews'>"
    assert registry.snapshot()["fallback reviews"] == f.snapshot()


def test_no_cure():
    """``None`` is a cure, and none at all is an error, unless a name or a config says which."""
    assert fallback(None).call(raising(DOWN)) is None
    assert fallback(config=FallbackConfig(cure=3)).call(raising(DOWN)) == 3
    with pytest.raises(ConfigError, match="cure: is missing"):
        fallback()
    with pytest.raises(ConfigError, match="cure: is missing"):
        fallback(name="unheard of")


def test_it_never_answers_in_place_of_a_call():
    """A fallback lets every call run: in its stead it has no answer, and says so in its signature."""
    f = fallback(1)
    assert not f._guard.forces
    with pytest.raises(NotImplementedError):
        f._guard.begin((), {})
    assert "(cure: 'Any' = ..., /" in str(inspect.signature(fallback))


def test_values_of_one_kind():
    """A second value of the same type is passed on as fast as can be, and is as good as the first."""
    work = fallback(1)(lambda value: value)
    assert [work(one) for one in (2, 3, "x", "y", None)] == [2, 3, "x", "y", None]


def test_the_function_looks_as_before():
    """It keeps its name, leads to its fallback, and is guarded once by it."""
    f = fallback(1)

    @f
    def work(x: int) -> int:
        """Work."""
        return x

    assert (work.__name__, work.__doc__, work.fallback) == ("work", "Work.", f)
    assert f.name.endswith("work")
    assert f(work) is work
    assert f.call(work, 3) == 3


def test_reconfigure():
    """The settings are swapped at once and told; an async cure is refused where sync functions are guarded."""
    f, told = fallback("old"), []
    f.subscribe(told.append, ConfigChanged)
    work = f(raising(DOWN))
    assert work() == "old"
    f.reconfigure(cure="new", on=(ConnectionError,))
    assert work() == "new"
    assert told[0].new.cure == "new"

    async def cure(call):
        return 1

    with pytest.raises(TypeError, match="is async"):
        f.reconfigure(cure=cure)
    with pytest.raises(ConfigError):
        f.reconfigure(on=3)
    assert work() == "new"
    assert f.reconfigure(FallbackConfig(cure=7)).cure == 7


# -- what is told ----------------------------------------------------------------------


def test_events():
    """Each answer is told with what it is for, each failure of the cure with both errors."""
    f, told = fallback("x", for_rejections=lambda call: {}["key"], name="prices"), []
    stop = f.subscribe(told.append)
    f.call(raising(DOWN))
    with pytest.raises(KeyError):
        f.call(raising(REFUSED))
    stop()
    f.call(raising(DOWN))
    used, failed = told
    assert (type(used), used.name, used.error, used.rejected) == (
        FallbackUsed,
        "prices",
        DOWN,
        False,
    )
    assert (type(failed), failed.error, type(failed.failure)) == (FallbackFailed, REFUSED, KeyError)


def test_listeners_that_raise(caplog):
    """A listener that raises is logged with its name; the caller gets the answer."""
    f = fallback("x", name="prices")
    f.subscribe(lambda event: {}["key"])
    assert f.call(raising(DOWN)) == "x"
    assert "of 'prices' raised" in caplog.text


def test_a_listener_may_call_through_it():
    """Listeners and cures run outside every lock: they may use the fallback itself."""
    f = fallback(lambda call: f.snapshot().used)
    f.subscribe(lambda event: f.snapshot())
    assert f.call(raising(DOWN)) == 0
    assert f.call(raising(DOWN)) == 1


def test_threads_count_exactly():
    """Eight threads that fail together are counted exactly."""
    f = fallback(1)
    work, start = f(raising(DOWN)), threading.Barrier(8)

    def many():
        start.wait()
        for _ in range(500):
            work()

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert f.snapshot().used == 4000


def test_a_nested_pair():
    """The outer fallback answers what the inner one could not."""
    outer, inner = fallback("outer"), fallback(lambda call: {}["key"])
    assert outer(inner(raising(DOWN)))() == "outer"


def test_circuit_open_is_a_rejection(clock):
    """A forced-open breaker inside: its rejection is answered by the cure for rejections."""
    b = breaker(clock=clock)
    b.force_open()
    f = fallback(pytest.fail, for_rejections=lambda call: type(call.error))
    assert f(b(returning(1)))() is CircuitOpenError


def test_workers_inside_of_a_pipeline():
    """An async call cannot get at workers inside of a pipeline: refused where it is decorated, not in the outage."""
    pool = bulkhead(max_concurrent=1, isolation="thread")
    through = fallback(lambda call: "from disk", bulkhead=pipeline(pipeline(pool)))
    assert through(raising(DOWN))() == "from disk"

    async def fetch():
        raise DOWN

    with pytest.raises(TypeError, match="has workers inside of a pipeline"):
        through(fetch)
    fine = fallback(lambda call: "from disk", bulkhead=pipeline(bulkhead(max_concurrent=1)))
    assert asyncio.run(fine(fetch)()) == "from disk"
    with pytest.raises(TypeError, match="has workers inside of a pipeline"):
        fine.reconfigure(bulkhead=pipeline(pool))
