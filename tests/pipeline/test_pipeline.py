"""Several policies as one: order, shapes, nesting, and that nothing is counted twice."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from breakerkit import (
    AmbiguousKeyError,
    CallCancelledError,
    CancelSignal,
    CircuitOpenError,
    ConfigError,
    NameConflictError,
    Pipeline,
    PolicyLike,
    ProbeLimitError,
    Registry,
    State,
    as_policy,
    breaker,
    check_deadline,
    failover,
    pipeline,
    registry,
    stale_if_error,
    timeout,
)
from breakerkit.events import CallFailed, CallSucceeded, Event, StateChanged
from breakerkit.testing import ManualClock
from tests.shapes import Shape, exhaust, policy_shapes, raising, returning

Circuit = Callable[..., Any]


class Notes:
    """A policy of somebody else's: it writes down what passes, by the same name in each shape."""

    kind = "notes"

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def __call__(self, function: Any, /) -> Any:
        """Decorate one function of any shape."""
        log, name = self.log, self.name
        if inspect.isasyncgenfunction(function):

            async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
                log.append(name)
                async for item in function(*args, **kwargs):
                    yield item

            return stream
        if inspect.iscoroutinefunction(function):

            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                log.append(name)
                return await function(*args, **kwargs)

            return coroutine
        if inspect.isgeneratorfunction(function):

            def generator(*args: Any, **kwargs: Any) -> Iterator[Any]:
                log.append(name)
                return (yield from function(*args, **kwargs))

            return generator

        def plain(*args: Any, **kwargs: Any) -> Any:
            log.append(name)
            return function(*args, **kwargs)

        return plain


@policy_shapes
def test_outermost_first(shape: Shape) -> None:
    """The first policy is the outermost, in every shape."""
    log: list[str] = []
    both = pipeline(Notes("outer", log), Notes("inner", log))
    assert shape.run(both, returning(7)) == 7
    assert log == ["outer", "inner"]


@policy_shapes
def test_an_empty_one_runs_the_function(shape: Shape) -> None:
    """With no policies calls just run, errors just pass."""
    error = OSError()
    assert shape.run(pipeline(), returning(7)) == 7
    with pytest.raises(OSError) as caught:
        shape.run(pipeline(), raising(error))
    assert caught.value is error


@policy_shapes
def test_each_policy_hears_of_each_call_once(shape: Shape, circuit: Circuit) -> None:
    """Breakers in a pipeline count each call once, and a failure on its way out reaches all."""
    outer, inner = circuit("outer"), circuit("inner")
    both = pipeline(outer, inner)
    assert shape.run(both, returning(7)) == 7
    shape.fail(both)
    for one in (outer, inner):
        seen = one.snapshot()
        assert (seen.calls, seen.successes, seen.failures) == (2, 1, 1)


@policy_shapes
def test_a_rejection_inside_is_no_evidence_outside(shape: Shape, circuit: Circuit) -> None:
    """What the inner breaker refuses leaves the outer one as it was (C054)."""
    outer, inner = circuit("outer"), circuit("inner", failure_threshold=1)
    both = pipeline(outer, inner)
    shape.fail(both)
    for _ in range(20):
        with pytest.raises(CircuitOpenError, match="'inner'"):
            shape.run(both, returning())
    seen = outer.snapshot()
    assert (seen.ignored, seen.consecutive_failures, seen.state) == (20, 1, State.CLOSED)


@policy_shapes
def test_a_probe_that_is_refused_inside_gives_its_slot_back(
    shape: Shape, circuit: Circuit, clock: ManualClock
) -> None:
    """A granted probe that an open breaker inside refuses is neither success nor failure (C053)."""
    outer, inner = circuit("outer", open_duration=1), circuit("inner")
    both = pipeline(outer, inner)
    shape.fail(both, 2)
    clock.advance(1)
    for _ in range(3):
        with pytest.raises(CircuitOpenError, match="'inner'"):
            shape.run(both, returning())
        assert (outer.state, outer.snapshot().probes_active) == (State.HALF_OPEN, 0)
    clock.advance(9)
    assert shape.run(both, returning(7)) == 7
    assert (outer.state, inner.state) == (State.CLOSED, State.CLOSED)


@policy_shapes
def test_one_breaker_in_two_pipelines_is_one_state(shape: Shape, circuit: Circuit) -> None:
    """What opens through one pipeline is open through the other."""
    shared = circuit("shared")
    one, two = pipeline(shared), pipeline(Notes("x", []), shared)
    shape.fail(one, 2)
    with pytest.raises(CircuitOpenError):
        shape.run(two, returning())


@policy_shapes
def test_pipelines_nest(shape: Shape, circuit: Circuit) -> None:
    """A pipeline is a policy: inside another one it is its policies in that place."""
    log: list[str] = []
    inner = pipeline(Notes("b", log), circuit("c"), name="inner")
    whole = pipeline(Notes("a", log), inner, Notes("d", log))
    shape.fail(whole, 2)
    with pytest.raises(CircuitOpenError):
        shape.run(whole, returning())
    assert log == ["a", "b", "d", "a", "b", "d", "a", "b"]


# -- what is decorated --------------------------------------------------------


def test_a_decorated_function_leads_to_its_policies(circuit: Circuit) -> None:
    """Each kind of policy is an attribute, and the function looks as before."""
    db, whole = circuit("db"), pipeline(circuit("other"), name="whole")
    both = pipeline(Notes("x", []), db, whole)

    @both
    def work(number: int) -> int:
        """Do it."""
        return number

    guarded: Any = work
    assert guarded.breaker is db
    assert guarded.pipeline is both
    assert guarded.notes.name == "x"
    assert (work.__name__, work.__doc__) == ("work", "Do it.")
    assert inspect.signature(work) == inspect.signature(guarded.__wrapped__)
    assert both.name.endswith("work")


def test_an_object_leads_to_its_policies(circuit: Circuit) -> None:
    """The stand-in of a callable object finds them too."""
    db = circuit("db")
    both = pipeline(db, Notes("x", []))
    guarded: Any = both(functools.partial(pow, 2))
    assert (guarded.breaker, guarded.pipeline) == (db, both)
    with pytest.raises(AttributeError):
        _ = guarded.bulkhead


def test_what_it_guards_already_is_counted_once(circuit: Circuit) -> None:
    """A guarded function is not guarded again, by the pipeline or by a policy that is in it."""
    db, outer = circuit("db"), circuit("outer")
    both = pipeline(outer, db)

    @both
    def work() -> int:
        return 1

    assert both(work) is work
    assert (both.call(work), both.apply(work), db.call(work), db(work)()) == (1, 1, 1, 1)
    assert both.apply(work, cancel=CancelSignal()) == 1
    assert db.snapshot().successes == 5

    @both
    @db
    def guarded_inside() -> int:
        return 2

    assert guarded_inside() == 2
    assert (db.snapshot().successes, outer.snapshot().successes) == (6, 6)


def test_keyed_breakers_find_their_key(circuit: Circuit) -> None:
    """A family of breakers in a pipeline gets the arguments of the call, without self."""
    hosts = circuit("hosts", key=lambda host: host, failure_threshold=1)
    both = pipeline(Notes("x", []), hosts)

    class Client:
        @both
        def get(self, host: str) -> str:
            if host == "bad":
                raise OSError
            return host

    assert Client().get("good") == "good"
    with pytest.raises(OSError):
        Client().get("bad")
    with pytest.raises(CircuitOpenError, match=r"hosts\[bad\]"):
        Client().get("bad")
    assert hosts.keys() == ["good", "bad"]


async def test_a_plain_function_that_returns_a_coroutine(circuit: Circuit) -> None:
    """Deferred work goes through all layers when it is awaited."""
    outer, inner = circuit("outer"), circuit("inner")

    async def work() -> int:
        raise OSError

    @pipeline(outer, inner)
    def make() -> Any:
        return work()

    for _ in range(2):
        with pytest.raises(OSError):
            await make()
    assert (outer.state, inner.state) == (State.OPEN, State.OPEN)


def test_a_provider_is_not_in_the_signature() -> None:
    """Around a failover the function shows what its callers give, in a nested pipeline too."""

    @pipeline(pipeline(failover(("one", "two"), name="two")), breaker("db"))
    def work(provider: str, number: int) -> str:
        return provider * number

    call: Any = work
    assert str(inspect.signature(work)) == "(number: 'int') -> 'str'"
    assert call(2) == "oneone"


def test_a_generator_keeps_its_protocol(circuit: Circuit) -> None:
    """Items, what is sent, and the return value go through all layers."""

    @pipeline(circuit("outer"), circuit("inner"))
    def echo() -> Iterator[Any]:
        got = yield "ready"
        return got

    stream: Any = echo()
    assert next(stream) == "ready"
    with pytest.raises(StopIteration) as stop:
        stream.send(7)
    assert stop.value.value == 7
    assert exhaust(echo()) is None


# -- policies of others --------------------------------------------------------


async def test_a_decorator_that_does_not_know_async(circuit: Circuit) -> None:
    """Where another's decorator makes a plain function of a coroutine function, it stays one here."""

    def naive(function: Any) -> Any:
        def plain(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return plain

    db = circuit("db")

    @pipeline(as_policy(naive, name="naive"), db)
    async def work() -> int:
        return 7

    assert inspect.iscoroutinefunction(work)
    assert await work() == 7
    assert db.snapshot().successes == 1


def test_a_builtin_wrapper() -> None:
    """What another's policy returns may be any callable object, too."""

    class Wrapper:
        __slots__ = ("function",)

        def __init__(self, function: Any) -> None:
            self.function = function

        def __call__(self, *args: Any) -> Any:
            return self.function(*args)

    assert pipeline(as_policy(Wrapper, name="slots")).call(abs, -3) == 3


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        (lambda _: None, "notes 'odd' returned None for a function"),
        (lambda function: None if function is None else later, "notes 'odd' made a coroutine"),
    ],
)
def test_a_policy_that_breaks_its_word(decorator: Any, message: str) -> None:
    """A policy that returns no function of the same shape is told by name, at decoration."""
    odd = as_policy(decorator, name="odd", kind="notes")
    with pytest.raises(TypeError, match=message):
        pipeline(odd)(work_of_one)


async def later() -> None:
    """Stand in for what is called another way."""


def work_of_one() -> int:
    """Be a plain function."""
    return 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"decorator": 5, "name": "x"}), "decorator=5: must be callable"),
        (({"decorator": abs, "name": ""}), "name='': must be a text"),
        (({"decorator": abs, "name": "x", "kind": 5}), "kind=5: must be a text"),
    ],
)
def test_as_policy_checks_its_arguments(arguments: dict[str, Any], message: str) -> None:
    """A wrong argument is named, with what is allowed."""
    decorator = arguments.pop("decorator")
    with pytest.raises(TypeError, match=message):
        as_policy(decorator, **arguments)


def test_as_policy() -> None:
    """It has what the protocol asks for, and says what it is."""
    one = as_policy(lambda function: function, name="x", kind="retry")
    assert isinstance(one, PolicyLike)
    assert repr(one) == "<retry 'x'>"


# -- bad input -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ((5,), "policies=5: must be a policy"),
        ((breaker,), "has no name"),
        ((int,), "must be a policy"),
        ((lambda function: function,), "has no name: .* as_policy"),
        (("api",), "policies='api': must be a policy"),
    ],
)
def test_what_is_no_policy(policies: tuple[Any, ...], message: str) -> None:
    """What is no policy is refused when the pipeline is made, and named."""
    with pytest.raises(ConfigError, match=message):
        pipeline(*policies)


def test_a_guarded_function_is_no_policy(circuit: Circuit) -> None:
    """Whoever gives ``f`` instead of ``f.breaker`` is told so."""
    with pytest.raises(ConfigError, match=r"give the policy itself, such as f\.breaker"):
        pipeline(circuit()(work_of_one))


def test_the_same_policy_twice(circuit: Circuit) -> None:
    """A policy that is in it twice, in a nested pipeline too, is refused."""
    db = circuit("db")
    with pytest.raises(ConfigError, match="'db' closed>: is in it twice"):
        pipeline(db, db)
    with pytest.raises(ConfigError, match="'db' closed>: is in it twice, breaker= included"):
        pipeline(stale_if_error("asks", breaker=db), db)
    with pytest.raises(ConfigError, match="is in it twice"):
        pipeline(db, pipeline(Notes("x", []), pipeline(db)))


def test_what_a_policy_cannot_guard(circuit: Circuit) -> None:
    """A layer that cannot guard the function says so at decoration."""

    async def tell(_: Any) -> None:
        pass

    with pytest.raises(TypeError, match="coroutine opening callback"):
        pipeline(circuit(on_open=tell))(work_of_one)


# -- names ---------------------------------------------------------------------


def test_names(circuit: Circuit) -> None:
    """The same name and policies are the same pipeline; other policies are a conflict."""
    db, other = circuit("db"), circuit("other")
    whole = pipeline(db, name="whole")
    assert pipeline(name="whole") is whole
    assert pipeline(db, name="whole") is whole
    assert registry.get("whole") is whole
    with pytest.raises(NameConflictError, match="'whole' is taken"):
        pipeline(other, name="whole")
    assert pipeline(db, name="whole", registry=Registry()) is not whole


def test_it_pickles_by_name(circuit: Circuit) -> None:
    """A named pipeline pickles; an unnamed one says why not."""
    whole = pipeline(breaker("db"), name="whole")
    assert pickle.loads(pickle.dumps(whole)) is whole
    assert copy.deepcopy(whole) is whole
    with pytest.raises(TypeError, match="only a pipeline named there pickles"):
        pickle.dumps(pipeline(breaker("db")))


def test_the_class_makes_none() -> None:
    """The verb makes it; its class says so."""
    with pytest.raises(TypeError, match=r"make a Pipeline with pipeline\(name"):
        Pipeline("x")


# -- looking and listening ---------------------------------------------------------


def test_snapshot(circuit: Circuit) -> None:
    """It shows each policy's snapshot, and nothing for one that has none."""
    db = circuit("db")
    seen = pipeline(Notes("x", []), db, name="whole").snapshot()
    assert seen.name == "whole"
    assert seen.layers == (("notes", "x", None), ("breaker", "db", db.snapshot()))
    assert registry.snapshot()["pipeline whole"] == seen


def test_events_of_all_its_policies(circuit: Circuit) -> None:
    """A listener hears all policies, or the kinds it wants, until it is taken away."""
    both = pipeline(circuit("a"), Notes("x", []), circuit("b"))
    heard: list[Event] = []
    failures: list[Event] = []
    ends = both.subscribe(heard.append), both.subscribe(failures.append, CallFailed, StateChanged)
    both.call(work_of_one)
    with pytest.raises(OSError):
        both.call(raising(OSError()))
    assert [(event.name, type(event)) for event in heard] == [
        ("b", CallSucceeded), ("a", CallSucceeded), ("b", CallFailed), ("a", CallFailed),
    ]  # fmt: skip
    assert [event.name for event in failures] == ["b", "a"]
    for end in ends:
        end()
    both.call(work_of_one)
    assert (len(heard), len(failures)) == (4, 2)


def test_wrong_listeners(circuit: Circuit) -> None:
    """A kind that none of them tells, and a listener that is none, are refused; nobody listens then."""
    both = pipeline(circuit("a"))
    heard: list[Event] = []
    with pytest.raises(TypeError, match="no policy of .* tells such an event"):
        both.subscribe(heard.append, CallFailed, int)
    with pytest.raises(TypeError, match="listener=5"):
        both.subscribe(5)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(OSError):
        both.call(raising(OSError()))
    assert heard == []


# -- the signal --------------------------------------------------------------------


@policy_shapes
def test_a_cancelled_call_is_counted_by_nobody(shape: Shape, circuit: Circuit) -> None:
    """All policies let it in, the signal stops it, and no policy takes that for evidence."""
    outer, inner = circuit("outer"), circuit("inner")
    both = pipeline(outer, inner)
    signal = CancelSignal()
    signal.cancel("gone")
    guarded = shape.bind(_Applying(both, signal), returning())
    with pytest.raises(CallCancelledError, match="gone") as caught:
        asyncio.run(guarded()) if shape.is_async else guarded()
    assert caught.value.begun is False
    for one in (outer, inner):
        assert (one.snapshot().ignored, one.snapshot().consecutive_failures) == (1, 0)


class _Applying:
    """Calls through ``apply`` with a signal, in whatever shape it is asked for a decorator."""

    def __init__(self, policy: Any, signal: CancelSignal) -> None:
        self._policy = policy
        self._signal = signal

    def __call__(self, function: Any) -> Any:
        if isinstance(function, staticmethod):
            return staticmethod(self(function.__func__))
        if inspect.isasyncgenfunction(function):

            async def stream(*args: Any) -> AsyncIterator[Any]:
                async for item in self.apply(function, args):
                    yield item

            return stream
        if inspect.iscoroutinefunction(function):

            async def coroutine(*args: Any) -> Any:
                return await self.apply(function, args)

            return coroutine
        return lambda *args: self.apply(function, args)

    def call(self, function: Any) -> Any:
        return self.apply(function)

    def apply(self, function: Any, args: Any = ()) -> Any:
        return self._policy.apply(function, args, cancel=self._signal)


def test_the_signal_is_seen_inside(circuit: Circuit) -> None:
    """`check_deadline` in the operation, or in a policy inside, sees the signal of ``apply``."""
    both = pipeline(circuit("db"))
    signal = CancelSignal()

    def work() -> None:
        check_deadline()
        signal.cancel("enough")
        check_deadline()

    with pytest.raises(CallCancelledError, match="enough"):
        both.apply(work, cancel=signal)
    check_deadline()

    async def awork() -> int:
        check_deadline()
        return 7

    assert asyncio.run(both.apply(awork, cancel=CancelSignal())) == 7
    assert list(both.apply(lambda: iter("ab"), cancel=CancelSignal())) == ["a", "b"]

    def stream() -> Iterator[int]:
        yield 1

    assert list(both.apply(stream, cancel=CancelSignal())) == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x",), "operation='x': must be callable"),
        ((abs, "x"), "args='x': must be a list"),
        ((abs, (), 5), "kwargs=5: must be a dict"),
    ],
)
def test_apply_checks_its_arguments(arguments: Any, message: str) -> None:
    """A wrong argument is a TypeError before anything runs, with and without a signal."""
    for cancel in (None, CancelSignal()):
        with pytest.raises(TypeError, match=message):
            pipeline().apply(*arguments, cancel=cancel)
    with pytest.raises(TypeError, match="cancel=5: must be a CancelSignal"):
        pipeline().apply(abs, (1,), cancel=5)  # type: ignore[arg-type]  # that is the test


def test_a_probe_limit_holds_over_pipelines(circuit: Circuit, clock: ManualClock) -> None:
    """While a probe runs through one pipeline, another route is turned away (C002)."""
    db = circuit("db")
    both = pipeline(Notes("x", []), db)
    with pytest.raises(OSError):
        both.call(raising(OSError()))
    with pytest.raises(OSError):
        both.call(raising(OSError()))
    clock.advance(10)

    def probe() -> None:
        with pytest.raises(ProbeLimitError):
            db.call(work_of_one)
        with pytest.raises(ProbeLimitError):
            pipeline(db).call(work_of_one)

    both.call(probe)
    assert db.state is State.CLOSED


def test_policies_in_a_pipeline_inside(circuit: Circuit) -> None:
    """A function leads to the policies of pipelines inside, the outermost of a kind first."""
    outer, inner = circuit("outer"), circuit("inner")
    limit = timeout(5)
    whole = pipeline(pipeline(outer, limit), pipeline(inner))

    @whole
    def guarded() -> str:
        return str(limit.name)

    assert guarded.breaker is outer
    assert guarded.timeout is limit
    assert guarded.pipeline is whole
    assert whole(functools.partial(len, "tea")).timeout is limit
    assert guarded() == limit.name == whole.name
    assert limit.name.endswith("test_policies_in_a_pipeline_inside.<locals>.guarded")


async def _ask_async(guarded: Any, *args: Any) -> Any:
    return await guarded(*args)


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("between", [(), ("breaker",), ("nested",)], ids=str)
def test_a_method_put_into_its_class_later(kind: str, between: tuple[str, ...]) -> None:
    """A failover in a pipeline tells ``self`` from the provider, wherever the function came from."""
    line = failover(["a", "b"], breaker=None)
    inside = (breaker(),) if between == ("breaker",) else ()
    whole = pipeline(*inside, pipeline(line) if between == ("nested",) else line)

    def plain(self: Any, provider: str, x: int) -> Any:
        return type(self).__name__, provider, x

    async def later(self: Any, provider: str, x: int) -> Any:
        return type(self).__name__, provider, x

    class Service:
        pass

    Service.ask = whole(plain if kind == "plain" else later)  # type: ignore[attr-defined]  # put there later
    asked: Any = Service().ask  # type: ignore[attr-defined]  # likewise
    got = asked(1) if kind == "plain" else asyncio.run(_ask_async(asked, 1))
    assert got == ("Service", "a", 1)


@pytest.mark.parametrize("between", [(), ("breaker",), ("nested",)], ids=str)
def test_a_cache_outside_of_a_failover(between: tuple[str, ...]) -> None:
    """C032: keys are made of what callers give, and a hit asks no provider."""
    asked: list[Any] = []

    def work(provider: str, x: int, lang: str = "en") -> str:
        asked.append((provider, x, lang))
        return f"{provider}{x}{lang}"

    def stack() -> tuple[Any, Pipeline]:
        cache, line = stale_if_error(refresh_after=60), failover(["a", "b"], breaker=None)
        inside = (breaker(),) if between == ("breaker",) else ()
        return cache, pipeline(cache, *inside, pipeline(line) if between == ("nested",) else line)

    cache, whole = stack()
    assert [whole.call(work, 1), whole.call(work, 1), whole.call(work, x=1)] == ["a1en"] * 3
    twice = pipeline(stale_if_error("b", refresh_after=60), failover(["c"]), failover(["d"]))
    assert twice.call(lambda second, first, x: f"{second}{first}{x}", 1) == "dc1"
    assert asked == [("a", 1, "en")]
    with pytest.raises(AmbiguousKeyError, match="is around <function"):
        whole.call(lambda provider, x: x, 1)
    asked.clear()
    cache, whole = stack()
    guarded: Any = whole(work)
    assert list(inspect.signature(guarded).parameters) == ["x", "lang"]
    assert [guarded(1), guarded(x=1), guarded(1, "de")] == ["a1en", "a1en", "a1de"]
    assert cache.fetch(2).value == "a2en"
    assert guarded(2) == "a2en"
    assert [x for _, x, _ in asked] == [1, 1, 2]
    assert cache.key_of(2) == cache.key_of(x=2)


def test_a_fetch_goes_through_the_policies_inside() -> None:
    """What a cache in a pipeline fetches is called as a call is."""
    cache, inner = stale_if_error(refresh_after=60), breaker()
    guarded = pipeline(cache, inner)(lambda x: x)
    assert cache.fetch(1).value == 1
    assert inner.snapshot().successes == 1
    assert guarded(1) == 1
    assert inner.snapshot().successes == 1
