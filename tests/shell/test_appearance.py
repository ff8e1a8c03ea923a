"""A guarded callable looks as it did before: names, signature, annotations, inspect, pickle."""

from __future__ import annotations

import concurrent.futures
import copy
import functools
import inspect
import multiprocessing
import pickle
import types
import typing
from unittest import mock

import pytest
import wrapt

from breakerkit import (
    CircuitOpenError,
    OpenReason,
    Registry,
    State,
    breaker,
    breaker_methods,
    registry,
)
from breakerkit.testing import put_into_state
from tests import importable


def function(a: int, /, b: str = "b", *rest: float, c: bytes, d: int = 4, **more: object) -> str:
    """Do it."""
    return f"{a}{b}{c!r}"


async def coroutine_function(a: int, *, c: bytes) -> str:
    """Do it later."""
    return f"{a}{c!r}"


def generator(a: int):
    """Do it bit by bit."""
    yield a


async def async_generator(a: int):
    """Do it later, bit by bit."""
    yield a


@types.coroutine
def old_coroutine(a: int):
    """Do it as it once was done."""
    yield
    return a


class Caller:
    """An object that is called."""

    limit = 7

    def __call__(self, a: int) -> int:
        """Call it."""
        return a


class AsyncCaller:
    """An object whose call is awaited."""

    async def __call__(self, a: int) -> int:
        return a


@wrapt.decorator
def passing(wrapped, instance, args, kwargs):
    """Pass on: a decorator of another library."""
    return wrapped(*args, **kwargs)


CALLABLES = {
    "function": function,
    "coroutine function": coroutine_function,
    "generator": generator,
    "async generator": async_generator,
    "types.coroutine": old_coroutine,
    "lambda": lambda a, b=2: a + b,
    "builtin": len,
    "method descriptor": str.upper,
    "bound builtin": "text".upper,
    "partial": functools.partial(function, 1, c=b""),
    "partial of a coroutine function": functools.partial(coroutine_function, 1),
    "object": Caller(),
    "async object": AsyncCaller(),
    "partial of an async object": functools.partial(AsyncCaller()),
    "bound method": Caller().__call__,
    "lru_cache": functools.lru_cache(function),
    "wrapt decorated": passing(function),
    "AsyncMock": mock.AsyncMock(),
    "named compiled": importable.compiled.__wrapped__,
}

QUESTIONS = [
    callable,
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    inspect.isfunction,
    inspect.ismethod,
    inspect.isbuiltin,
    inspect.isroutine,
    inspect.ismethoddescriptor,
    inspect.isclass,
    inspect.isabstract,
]

NAMES = ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__dict__"]


def _said(target, name):
    """Return an attribute as it reads, without what a wrapper is bound to add."""
    found = getattr(target, name, None)
    if name != "__dict__":
        return found
    return {
        key: value for key, value in (found or {}).items() if key not in {"breaker", "__wrapped__"}
    }


@pytest.mark.parametrize("target", CALLABLES.values(), ids=CALLABLES)
def test_it_looks_as_before(target):
    """C024: names, doc, annotations, attributes, signature and every answer of ``inspect`` are equal."""
    b = breaker(failure_threshold=2)
    guarded = b(target)
    for name in NAMES:
        assert _said(guarded, name) == _said(target, name), name
    for question in QUESTIONS:
        assert question(guarded) == question(target), question
    assert _signature(guarded) == _signature(target)
    assert guarded.__wrapped__ is target
    assert guarded.breaker is b


ARGUMENTS = {
    "function": ((1,), {"c": b""}),
    "coroutine function": ((1,), {"c": b""}),
    "builtin": (("abc",), {}),
    "method descriptor": (("abc",), {}),
    "bound builtin": ((), {}),
    "partial": ((), {}),
    "partial of a coroutine function": ((), {"c": b""}),
    "lru_cache": ((1,), {"c": b""}),
    "wrapt decorated": ((1,), {"c": b""}),
    "AsyncMock": ((), {}),
}


async def _ended(value):
    if inspect.isawaitable(value):
        return await value
    if inspect.isasyncgen(value):
        return [item async for item in value]
    return list(value) if inspect.isgenerator(value) else value


@pytest.mark.parametrize("name", CALLABLES)
async def test_it_does_as_before(name):
    """Called with the same arguments it answers the same, as one success."""
    args, kwargs = ARGUMENTS.get(name, ((1,), {}))
    b, target = breaker(failure_threshold=2), CALLABLES[name]
    expected = await _ended(target(*args, **kwargs))
    assert await _ended(b(target)(*args, **kwargs)) == expected
    assert b.snapshot().successes == 1


async def test_what_stands_in_a_module_works_there():
    """The functions and methods that the tests of pickling send around do their work here too."""
    one = importable.Service()
    assert await importable.work_async() == "done"
    assert (importable.compiled(7), importable.by_key("a")) == (7, "a")
    assert (one.method(1), one.class_method(2), one.static_method(3)) == (1, (type(one), 2), 3)
    assert type("Host", (), {"compiled": importable.compiled})().compiled.breaker
    with pytest.raises(ConnectionError):
        importable.work.__wrapped__(fail=True)


def _signature(target):
    try:
        return inspect.signature(target)
    except ValueError as error:  # some builtins have none
        return str(error)[:10]


@pytest.mark.parametrize("target", CALLABLES.values(), ids=CALLABLES)
def test_it_is_named_after_what_it_guards(target):
    """An unnamed breaker is called ``module.qualname`` of what it guards first."""
    b = breaker(failure_threshold=2)
    b(target)
    b(function)
    bare = target
    while isinstance(bare, functools.partial):
        bare = bare.func
    name = getattr(bare, "__qualname__", None) or type(bare).__qualname__
    assert b.name.endswith("." + name)
    assert not b.name.startswith("None")


def test_attributes_of_an_object_are_its_own():
    """A guarded object is that object in all else: attributes are read and set through it."""
    caller = Caller()
    guarded = breaker(caller)
    guarded.limit = 8
    assert (caller.limit, guarded.limit) == (8, 8)
    assert isinstance(guarded, Caller)
    assert guarded == caller
    assert guarded(3) == 3


def test_an_attribute_of_a_function_is_kept():
    """What a function carries is on the guarded one: a router's or a marker's attributes."""

    def work():
        """Work."""

    work.route = "/work"
    assert breaker(work).route == "/work"


@pytest.mark.parametrize(
    "name",
    [
        "work", "work_async", "compiled", "by_key", "Each.method", "Service.method",
        "Service.class_method", "Service.static_method",
    ],
)  # fmt: skip
def test_it_pickles_by_reference(name):
    """What has a place in a module pickles as that place and comes back as the same object."""
    guarded = functools.reduce(getattr, name.split("."), importable)
    again = pickle.loads(pickle.dumps(guarded))
    assert again == guarded
    assert again.__wrapped__ is guarded.__wrapped__


def test_a_bound_method_pickles():
    """A bound guarded method pickles with its instance."""
    bound = pickle.loads(pickle.dumps(importable.Service().method))
    assert bound(3) == 3
    each = pickle.loads(pickle.dumps(importable.Each().method))
    assert each(3) == 3


def test_an_object_without_a_place_pickles_with_its_breaker():
    """A guarded partial pickles as breaker and partial, if that breaker has a name."""
    guarded = breaker("payments")(functools.partial(pow, 2))
    again = pickle.loads(pickle.dumps(guarded))
    assert again(5) == 32
    assert again.breaker is guarded.breaker
    nameless = breaker(functools.partial(pow, 2))
    with pytest.raises(TypeError, match="only a breaker named there pickles"):
        pickle.dumps(nameless)


def test_a_method_of_each_instance_needs_a_place_to_pickle():
    """A per-instance method that no module leads to refuses to pickle."""

    @breaker_methods(scope="instance")
    class Local:
        def method(self):
            """Do it."""

    with pytest.raises((pickle.PicklingError, AttributeError), match="method"):
        pickle.dumps(Local.method)


def test_through_a_process_pool():
    """C027: the function goes by its name, and the rejection comes back with equal fields."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        assert pool.submit(importable.work).result(60) == "done"
        with pytest.raises(ConnectionError):
            pool.submit(importable.work, fail=True).result(60)
        with pytest.raises(CircuitOpenError) as caught:
            pool.submit(importable.work).result(60)
    error = caught.value
    assert type(error) is CircuitOpenError
    assert (error.name, error.reason) == ("tests.importable.work", OpenReason.CONSECUTIVE_FAILURES)
    assert 0 < error.retry_after <= 60
    assert error.opened_at.tzinfo is not None
    assert importable.work() == "done"


def test_a_breaker_pickles_by_its_name():
    """A named breaker pickles as its name and config, and comes back as the shared one."""
    b = breaker("payments", failure_threshold=3)
    data = pickle.dumps(b)
    assert pickle.loads(data) is b
    registry.exchange({}, ())
    there = pickle.loads(data)
    assert there is registry.get("payments")
    assert there.config == b.config


def test_a_breaker_of_another_registry_does_not_pickle(circuit):
    """A breaker that its name does not lead to refuses to pickle, rather than turn into another."""
    with pytest.raises(TypeError, match="only a breaker named there pickles"):
        pickle.dumps(circuit())
    with pytest.raises(TypeError, match="only a breaker named there pickles"):
        pickle.dumps(circuit("payments", registry=Registry()))


def test_a_copy_is_the_breaker_itself(circuit):
    """Copying what holds a breaker keeps the one breaker: its state is not a value."""
    b = circuit()
    assert copy.copy(b) is b
    assert copy.deepcopy({"b": b})["b"] is b
    guarded = b(function)
    assert copy.deepcopy(guarded) is guarded


def test_a_copied_object_is_guarded_too(circuit):
    """A copy of a guarded object is a copy of that object, behind the same breaker."""

    class Box:
        def __init__(self):
            self.items = []

        def __call__(self):
            return self.items

    b = circuit()
    guarded = b(Box())
    shallow, deep = copy.copy(guarded), copy.deepcopy(guarded)
    assert shallow() is guarded()
    assert deep() is not guarded()
    assert shallow.breaker is deep.breaker is b
    assert b.snapshot().successes == 4


def test_type_hints_are_found(circuit):
    """Annotations that are texts are looked up where the function was written."""
    for target in (function, coroutine_function, Caller().__call__):
        assert typing.get_type_hints(circuit()(target)) == typing.get_type_hints(target)
    assert typing.get_type_hints(circuit()(function))["a"] is int


def test_repr_says_name_and_state(circuit):
    """``repr`` of a breaker shows its name and how its state reads."""
    b = circuit("payments")
    assert repr(b) == "<CircuitBreaker 'payments' closed>"
    put_into_state(b, State.HALF_OPEN)
    assert repr(b) == "<CircuitBreaker 'payments' half-open>"


KINDS = [inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction]


class Generating:
    """An object whose call makes a generator."""

    def __call__(self):
        yield from ()


class AsyncGenerating:
    """An object whose call makes an async generator."""

    async def __call__(self):
        for item in ():
            yield item  # pragma: no cover  # there is none


@pytest.mark.parametrize("kind", [Caller, AsyncCaller, Generating, AsyncGenerating])
async def test_a_framework_that_asks_the_call_of_an_object(kind):
    """C024: what asks ``obj.__call__`` whether it is async, or a generator, is answered as before."""
    target = kind()
    guarded = breaker(target)
    for question in KINDS:
        assert question(guarded.__call__) == question(target.__call__)
    if kind in {Generating, AsyncGenerating}:
        assert await _ended(guarded()) == []
