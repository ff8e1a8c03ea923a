"""Methods, class and static methods, partials, objects: right arguments, one breaker, or refused."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import gc
import types
import weakref
from unittest import mock

import pytest
import wrapt

from breakerkit import CircuitOpenError, State, breaker
from tests.shapes import raising

# -- class and static methods: the decorator on either side ------------------


def _classes(b):
    """Return the same class made four ways: the decorator over or under, sync and async."""

    class Under:
        @classmethod
        @b
        def of_class(cls, *args, **kwargs):
            return cls, args, kwargs

        @staticmethod
        @b
        def static(*args, **kwargs):
            return args, kwargs

        @b
        def method(self, *args, **kwargs):
            return self, args, kwargs

    class Over:
        @b
        @classmethod
        def of_class(cls, *args, **kwargs):
            return cls, args, kwargs

        @b
        @staticmethod
        def static(*args, **kwargs):
            return args, kwargs

        @b
        def method(self, *args, **kwargs):
            return self, args, kwargs

    class AsyncUnder:
        @classmethod
        @b
        async def of_class(cls, *args, **kwargs):
            return cls, args, kwargs

        @staticmethod
        @b
        async def static(*args, **kwargs):
            return args, kwargs

        @b
        async def method(self, *args, **kwargs):
            return self, args, kwargs

    class AsyncOver:
        @b
        @classmethod
        async def of_class(cls, *args, **kwargs):
            return cls, args, kwargs

        @b
        @staticmethod
        async def static(*args, **kwargs):
            return args, kwargs

        @b
        async def method(self, *args, **kwargs):
            return self, args, kwargs

    return [Under, Over, AsyncUnder, AsyncOver]


def _settled(value):
    return asyncio.run(value) if isinstance(value, types.CoroutineType) else value


@pytest.mark.parametrize("which", range(4), ids=["under", "over", "async under", "async over"])
def test_arguments_arrive_whatever_the_route(which, circuit):
    """C023: on class, instance, subclass and through ``super()`` the right arguments arrive."""
    b = circuit()
    base = _classes(b)[which]

    class Sub(base):
        def up(self, *args, **kwargs):
            return super().method(*args, **kwargs), super().static(*args), super().of_class(*args)

    one = Sub()
    for route in (base, base()):
        assert _settled(route.of_class(1, x=2)) == (base, (1,), {"x": 2})
        assert _settled(route.static(1, x=2)) == ((1,), {"x": 2})
    assert _settled(Sub.of_class(1)) == (Sub, (1,), {})
    assert _settled(one.method(1, x=2)) == (one, (1,), {"x": 2})
    assert _settled(base.method(one, 1)) == (one, (1,), {})
    assert [_settled(value) for value in one.up(1)] == [
        (one, (1,), {}),
        ((1,), {}),
        (Sub, (1,), {}),
    ]
    for bound in (one.method, one.static, Sub.of_class, base.static, base.method):
        assert bound.breaker is b
    seen = b.snapshot()
    assert (seen.successes, seen.failures) == (10, 0)


def test_what_stands_in_the_class_keeps_its_kind(circuit):
    """Over a class or static method, what stands in the class is one still."""
    over = _classes(circuit())[1]
    assert isinstance(vars(over)["of_class"], classmethod)
    assert isinstance(vars(over)["static"], staticmethod)


def test_an_instance_keeps_its_name_and_hash(circuit):
    """A bound guarded method is a bound method: equal to itself, hashable, with its function's name."""

    class Service:
        @circuit()
        def work(self):
            """Work."""

    one = Service()
    assert one.work == one.work
    assert hash(one.work) == hash(one.work)
    assert one.work.__self__ is one
    assert (one.work.__name__, one.work.__doc__) == ("work", "Work.")


def test_a_decorator_of_wrapt_still_gets_the_instance(circuit):
    """Under ours, another library's decorator is bound as before: it sees the instance, or the class."""
    seen = []

    @wrapt.decorator
    def noting(wrapped, instance, args, kwargs):
        seen.append((instance, args))
        return wrapped(*args, **kwargs)

    b = circuit()

    class Service:
        @b
        @noting
        def method(self, value):
            return value

        @b
        @noting
        @classmethod
        def of_class(cls, value):
            return value

        @b
        @noting
        @staticmethod
        def static(value):
            return value

    one = Service()
    assert [one.method(1), one.of_class(2), Service.of_class(3), one.static(4)] == [1, 2, 3, 4]
    assert seen == [(one, (1,)), (Service, (2,)), (Service, (3,)), (None, (4,))]
    assert one.method.breaker is b
    assert Service.method.breaker is b
    assert b.snapshot().successes == 4


def test_a_compiled_method_binds(circuit):
    """What binds to instances though it is no Python function is guarded bound and unbound."""
    b = circuit()

    class Text(str):  # noqa: FURB189, SLOT000  # it must be a real text
        shout = b(str.upper)

    assert Text("a").shout() == "A"
    assert Text.shout("b") == "B"
    assert Text("a").shout.breaker is b
    assert b.snapshot().successes == 2


def test_a_cached_method_keeps_its_cache(circuit):
    """Over ``lru_cache`` the cache's own methods stay; a cached answer is a call like any other."""

    @circuit()
    @functools.lru_cache
    def square(value):
        return value * value

    assert [square(3), square(3)] == [9, 9]
    assert square.cache_info().hits == 1
    assert square.breaker.snapshot().successes == 2


# -- objects and partials ----------------------------------------------------


class AsyncCaller:
    """An object whose call is awaited and fails."""

    async def __call__(self, *_):
        raise ConnectionError("down")


async def down():
    """Fail when awaited."""
    raise ConnectionError("down")


def a_future():
    """Return a future of the running loop that fails later."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_exception, ConnectionError("down"))
    return future


class Awaitable:
    """An awaitable object that fails."""

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        raise ConnectionError("down")


@pytest.mark.parametrize(
    "target",
    [
        functools.partial(AsyncCaller(), 1),
        AsyncCaller(),
        lambda: down(),
        lambda: asyncio.ensure_future(down()),
        a_future,
        Awaitable,
        mock.AsyncMock(side_effect=ConnectionError("down")),
        AsyncCaller().__call__,
    ],
    ids=[
        "partial of an async object", "async object", "lambda", "task", "future", "awaitable",
        "AsyncMock", "bound async call",
    ],
)  # fmt: skip
async def test_it_is_judged_when_awaited(target, circuit):
    """C022: whatever makes it, it is judged when awaited, opens after two, and its making is no success."""
    b = circuit()
    guarded = b(functools.partial(target) if isinstance(target, type) else target)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await guarded()
    assert b.state is State.OPEN
    with pytest.raises(CircuitOpenError):
        await guarded()
    seen = b.snapshot()
    assert (seen.successes, seen.failures, seen.rejected) == (0, 2, 1)


def test_one_partial_can_be_used_from_two_breakers(circuit):
    """Two breakers may guard the same object; each leads to its own."""
    target = functools.partial(pow, 2)
    a, b = circuit(), circuit()
    assert a(target).breaker is a
    assert b(target).breaker is b
    assert b(a(target)).breaker is b
    assert b(a(target))(5) == 32
    assert (a.snapshot().successes, b.snapshot().successes) == (1, 1)


# -- what cannot be guarded --------------------------------------------------


class Colour(enum.Enum):
    """An enum: a class."""

    RED = 1


@contextlib.contextmanager
def managed():
    """Manage."""
    yield  # pragma: no cover  # it is refused


@contextlib.asynccontextmanager
async def managed_async():
    """Manage, async."""
    yield  # pragma: no cover  # it is refused


class Manages:
    """A class with a managing method."""

    managed = managed


NOT_GUARDED = {
    "class": (Manages, "breaker_methods"),
    "enum": (Colour, "breaker_methods"),
    "builtin class": (int, "breaker_methods"),
    "int": (42, "42 cannot be guarded"),
    "a constant": (NotImplemented, "cannot be guarded"),
    "bytes": (b"payments", "cannot be guarded"),
    "property": (property(lambda self: 1), "cannot be guarded"),
    "cached_property": (functools.cached_property(lambda self: 1), "cannot be guarded"),
    "partialmethod": (functools.partialmethod(len), "cannot be guarded"),
    "singledispatchmethod": (functools.singledispatchmethod(len), "cannot be guarded"),
    "contextmanager": (managed, "under @contextmanager"),
    "asynccontextmanager": (managed_async, "under @contextmanager"),
    "method of a contextmanager": (Manages().managed, "under @contextmanager"),
    "partial of a contextmanager": (functools.partial(managed), "under @contextmanager"),
    "class method of a property": (classmethod(property(lambda cls: 1)), "cannot be guarded"),
    "static method of a class": (staticmethod(int), "breaker_methods"),
}


@pytest.mark.parametrize(("target", "message"), NOT_GUARDED.values(), ids=NOT_GUARDED)
def test_what_cannot_be_guarded_is_refused(target, message, circuit):
    """It is a ``TypeError`` at decoration that says what to do instead, never a silent no-op."""
    b = circuit()
    for decorate in (b, breaker, breaker(key=lambda: 1)):
        with pytest.raises(TypeError, match=message):
            decorate(target)
    assert b.name == "unnamed"


def test_a_text_is_no_callable(circuit):
    """A text given to a breaker as a function is refused; it is never looked up or evaluated."""
    with pytest.raises(TypeError, match="'os.getcwd' cannot be guarded"):
        circuit()("os.getcwd")


# -- no reference is kept ----------------------------------------------------


def test_guarded_methods_keep_no_instance_alive(circuit):
    """Neither a guarded method nor its breaker holds on to an instance or its errors."""
    b = circuit()

    class Service:
        @b
        def work(self, fail):
            if fail:
                raise ConnectionError("down")

    one = Service()
    one.work(False)
    with contextlib.suppress(ConnectionError):
        one.work(True)
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_a_guarded_function_dies_with_its_last_name(circuit):
    """A breaker does not keep what it guards alive."""
    b = circuit()

    def work():
        """Work."""

    gone = weakref.ref(work)
    b(work)()
    del work
    gc.collect()
    assert gone() is None


def test_decorating_twice_changes_nothing(circuit):
    """What a breaker guards already is returned as it is, also under other decorators."""
    b = circuit()

    @b
    def work():
        return 7

    @functools.wraps(work)
    def outer():
        return work()

    assert b(work) is work
    assert b(outer) is outer
    assert outer() == 7
    with pytest.raises(ConnectionError):
        b(raising(ConnectionError()))()
    assert b.snapshot().calls == 2
