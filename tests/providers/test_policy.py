"""Failover as a policy: names, registry, pickling, what it decorates, live changes, memory."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import logging
import pickle
import sys
import threading
import types
import weakref

import pytest

from breakerkit import (
    AllProvidersFailedError,
    BreakerConfig,
    CallFailed,
    ConfigChanged,
    ConfigError,
    Failover,
    FailoverConfig,
    NameConflictError,
    NoProviderError,
    Provider,
    Registry,
    State,
    breaker,
    failover,
    pipeline,
    registry,
)
from breakerkit.testing import ManualClock, capture_events
from tests.providers.rig import DOWN, SHAPES, Providers, every_shape

# -- names ------------------------------------------------------------------------------


def test_the_same_name_is_the_same_failover():
    """A name stands for one failover; without settings it is fetched."""
    line = failover(["a", "b"], "search", order="random")
    assert failover(["a", "b"], "search") is line
    assert failover(["a", "b"], name="search", order="random") is line
    assert failover("search") is line
    assert registry.get("search", "failover") is line
    assert registry.snapshot()["failover search"] == line.snapshot()
    other = Registry()
    assert failover(["a"], "search", registry=other) is not line
    assert failover("search", registry=other).providers == ("a",)


def test_a_name_that_is_taken():
    """Another list, other settings or another clock under the same name are refused."""
    failover(["a", "b"], "search", order="random")
    with pytest.raises(NameConflictError, match=r"providers=\['a', 'b'\].*asked.*\['c'\]"):
        failover(["c"], "search")
    with pytest.raises(NameConflictError, match="order"):
        failover(["a", "b"], "search", order="in_order")
    with pytest.raises(NameConflictError, match="clock"):
        failover(["a", "b"], "search", clock=ManualClock())

    class Odd:
        def __eq__(self, other):
            raise ValueError

        __hash__ = None

    listed = [Odd()]
    line = failover(listed, "odd")
    assert failover(listed, "odd") is line
    with pytest.raises(NameConflictError):
        failover([Odd()], "odd")


def test_a_name_that_is_not_there():
    """Fetching a name that nobody made says so and names near ones; a text is no list."""
    failover(["a"], "search")
    with pytest.raises(ConfigError, match="no failover is named 'serch', did you mean 'search'"):
        failover("serch")
    with pytest.raises(ConfigError, match="not a text"):
        failover("abc", order="random")


def test_named_after_the_function():
    """Without a name it takes that of the first function decorated, and so do its breakers."""
    line = failover(["a"])
    assert line.call(lambda provider: provider) == "a"
    assert line.breaker("a").name == "unnamed[a]"

    @line
    def work(provider):
        raise DOWN

    line(lambda provider: None)
    assert work.failover is line
    assert line.name.endswith("test_named_after_the_function.<locals>.work")
    assert line.breaker("a").name == f"{line.name}[a]"
    bare = failover(["a"], breaker=None)
    bare.call(lambda provider: provider)
    bare(lambda provider: provider)
    assert repr(line) == f"<Failover {line.name!r}>"


def test_events_of_the_breakers():
    """The breakers' events reach the listeners of the registry."""
    with capture_events() as log:
        with pytest.raises(AllProvidersFailedError):
            failover(["a"], "told").call(Providers(a=DOWN))
    assert [one.name for one in log.of(CallFailed)] == ["told[a]"]


def test_it_pickles_by_name():
    """A named failover is that of its name over there; others do not pickle; copies are the same."""
    line = failover(["a"], "search")
    assert pickle.loads(pickle.dumps(line)) is line
    assert copy.copy(line) is copy.deepcopy(line) is line
    with pytest.raises(TypeError, match="only a failover named there pickles"):
        pickle.dumps(failover(["a"]))


def test_not_by_its_class():
    """The class is not what makes it."""
    with pytest.raises(TypeError, match="make a Failover with failover"):
        Failover("x")


def test_errors_survive_the_trip():
    """Both errors pickle and copy, with all they hold."""
    for error in (
        AllProvidersFailedError("x", [("a", KeyError(1)), ("b", ValueError("no"))], 3),
        NoProviderError("x", "why", 1.5),
    ):
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(same), str(same)) == (type(error), str(error))
    group = pickle.loads(pickle.dumps(AllProvidersFailedError("x", [("a", KeyError(1))], 2)))
    assert (group.name, group.providers, group.of) == ("x", ("a",), 2)
    matched, rest = AllProvidersFailedError("x", [("a", KeyError(1)), ("b", OSError())]).split(
        OSError
    )
    assert type(matched) is type(rest) is ExceptionGroup


def test_an_error_whose_repr_fails():
    """A message is made whatever the providers' errors do, and stays short."""

    class Broken(Exception):
        def __repr__(self):
            raise ValueError

    assert "Broken whose repr fails" in str(AllProvidersFailedError("x", [("a", Broken())]))
    assert len(str(AllProvidersFailedError("x", [("a", OSError("x" * 9999))]))) < 400


# -- what it decorates --------------------------------------------------------------------


def test_the_signature_that_callers_see():
    """The provider is not in the signature; name, docstring and kind stay."""
    line = failover(["a"])

    @line
    def work(provider: str, one: int, *, two: int = 2) -> int:
        """Say it."""
        return one + two

    class Service:
        @line
        async def method(self, provider: str, one: int) -> int:
            return one

        @classmethod
        @line
        def of_class(cls, provider: str, one: int) -> int:
            return one

        @line
        @staticmethod
        def static(provider: str, one: int) -> int:
            return one

    assert str(inspect.signature(work)) == "(one: 'int', *, two: 'int' = 2) -> 'int'"
    assert (work.__name__, work.__doc__) == ("work", "Say it.")
    assert inspect.iscoroutinefunction(Service.method)
    for one in (Service().method, Service.of_class, Service.static):
        assert str(inspect.signature(one)) == "(one: 'int') -> 'int'"
    assert work(1, two=3) == 4


def test_any_positional_argument_will_do():
    """``*args`` can take the provider; a function without arguments cannot, and a builtin may."""
    line = failover(["a"])
    assert line(lambda *args: args)(1) == ("a", 1)
    assert str(inspect.signature(line(lambda *args: args))) == "(*args)"
    with pytest.raises(TypeError, match="first argument"):
        line(lambda: None)
    with pytest.raises(TypeError, match="first argument"):
        line(lambda **kwargs: None)
    assert line(str.upper)() == "A"
    assert line(print)() is None
    assert line(getattr)("upper")() == "A"  # nobody knows its signature


@pytest.mark.parametrize("target", [7, None, Providers, "text"], ids=repr)
def test_what_cannot_be_decorated(target):
    """What is no function is refused, never silently passed on."""
    with pytest.raises(TypeError):
        failover(["a"])(target)


def test_decorated_twice():
    """What it guards already is returned as it is, and called once."""
    line = failover(["a"])

    @line
    def work(provider):
        return provider

    assert line(work) is work
    assert line.call(work) == "a"


def test_a_function_that_becomes_a_method():
    """A function that is put into a class later is called as its method."""

    @failover(["a"])
    def work(self, provider, other):
        return type(self).__name__, provider, other

    class Service:
        method = work

    class Other(Service):
        pass

    assert Service().method(1) == ("Service", "a", 1)
    assert Other().method(1) == ("Other", "a", 1)
    assert Service.method(Other(), 1) == ("Other", "a", 1)


def test_the_first_argument_may_be_of_any_kind():
    """An argument that is an instance, or a class, is no ``self`` because it comes first."""

    class Plain:
        pass

    @failover(["a"])
    def work(provider, *rest):
        return (provider, *rest)

    @failover(["a"])
    async def async_work(provider, *rest):
        return (provider, *rest)

    one = Plain()
    for first in (one, Plain, int, 1, one, Plain):
        assert work(first) == ("a", first)
        assert asyncio.run(async_work(first)) == ("a", first)


def test_async_class_methods():
    """The class is passed on first, whichever it is."""

    class Service:
        @classmethod
        @failover(["a"])
        async def work(cls, provider, *, two=2):
            return cls, provider, two

        @failover(["a"])
        async def method(self, provider, *, two=2):
            return self, provider, two

    class Other(Service):
        pass

    assert asyncio.run(Service.work()) == (Service, "a", 2)
    assert asyncio.run(Other.work(two=3)) == (Other, "a", 3)
    one = Other()
    for _ in range(2):
        assert asyncio.run(one.method(two=3)) == (one, "a", 3)


def test_under_and_over_a_breaker():
    """A breaker may stand under it, nearer to the function, and over it."""
    inner, outer = breaker("inner"), breaker("outer")

    class Service:
        @outer
        @failover(["a", "b"])
        @inner
        def work(self, provider, one):
            if provider == "a":
                raise DOWN
            return provider, one

    assert Service().work(1) == ("b", 1)
    assert (inner.snapshot().failures, outer.snapshot().failures) == (1, 0)


def test_properties_and_their_kin():
    """What lives in a class as a property, a cached one or a dispatcher finds ``self`` as well."""
    line = failover(["a"])

    class Service:
        @property
        @line
        def read(self, provider):
            return self, provider

        @read.setter
        @line
        def read(self, provider, value):
            self.written = provider, value

        @functools.cached_property
        @line
        def cached(self, provider):
            return self, provider

        @functools.singledispatchmethod
        @line
        def send(self, provider, value):
            return self, provider, value

        @send.register
        @line
        def _(self, provider, value: int):
            return self, provider, str(value)

    one = Service()
    one.read = 7
    assert one.written == ("a", 7)
    assert one.read == one.cached == (one, "a")
    assert (one.send(None), one.send(1)) == ((one, "a", None), (one, "a", "1"))


def test_in_a_pipeline():
    """In a pipeline it finds ``self`` as well, whatever stands above and beneath it."""
    line = pipeline(breaker("around"), failover(["a", "b"]), breaker("beneath"))

    class Service:
        @line
        def method(self, provider, one):
            if provider == "a":
                raise DOWN
            return type(self).__name__, provider, one

        @line
        async def coroutine(self, provider, one):
            return type(self).__name__, provider, one

        @line
        @staticmethod
        def static(provider, one):
            return provider, one

    assert Service().method(1) == ("Service", "b", 1)
    assert asyncio.run(Service().coroutine(1)) == ("Service", "a", 1)
    assert Service.static(Service())[0] == "a"
    assert line.call(lambda provider, one: (provider, one), 1) == ("a", 1)


def test_a_chain_without_an_end():
    """What pretends to be wrapped for ever is taken as it is."""

    class Endless:
        def __call__(self, provider):
            return provider

        @property
        def __wrapped__(self):
            return self

    assert failover(["a"]).call(Endless()) == "a"


# -- live changes ---------------------------------------------------------------------------


@every_shape
def test_reconfigure(shape):
    """New settings hold for the next call; breakers keep their state."""
    line = failover(["a", "b"], breaker=BreakerConfig(failure_threshold=1), clock=ManualClock())
    both, told = Providers(a=DOWN), []
    line.subscribe(told.append, ConfigChanged)
    assert shape.run(line, both) == "b"
    line.reconfigure(order="round_robin", breaker=BreakerConfig(failure_threshold=3))
    assert line.config.order == "round_robin"
    assert line.breaker("a").state is State.OPEN
    assert line.breaker("a").config.failure_threshold == 3
    assert told[0].new == line.config
    line.reconfigure(breaker=None)
    assert line.breaker("a") is None
    assert shape.run(line, both) == "b"
    line.reconfigure(breaker=True, on=(ConnectionError,))
    assert line.breaker("a").config.failure_on == (ConnectionError,)
    line.reconfigure(FailoverConfig(attempts=1, order="in_order"))
    with pytest.raises(AllProvidersFailedError):
        shape.run(line, both)


def test_reconfigure_refuses():
    """A wrong setting or another strategy is refused, and nothing has changed."""
    line = failover(["a"])
    with pytest.raises(ConfigError, match="attempts=0"):
        line.reconfigure(attempts=0)
    with pytest.raises(ConfigError, match="cannot change while the failover lives"):
        line.reconfigure(strategy="failfast")
    with pytest.raises(TypeError, match="must be a FailoverConfig"):
        line.reconfigure(BreakerConfig())
    assert line.config == FailoverConfig()


def test_what_the_breakers_count():
    """A breaker whose ``failure_on`` is left open counts what the failover counts; one that says keeps its word."""
    assert failover(["a"], on=(OSError,)).breaker("a").config.failure_on == (OSError,)
    said = BreakerConfig(failure_on=(KeyError,))
    line = failover(["a"], on=(OSError,), breaker=said)
    assert line.breaker("a").config == said


# -- memory and threads -------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
@pytest.mark.parametrize("ending", ["well", "badly", "passing"])
def test_no_cycles(shape, ending):
    """What a call leaves behind is freed at once: no error leads to a frame that leads to it."""

    class Big(Exception):
        pass

    def fails():
        error = Big()
        seen.append(weakref.ref(error))
        return error

    seen = []
    line = failover(["a", "b"])
    does = {"a": fails, "b": "b" if ending == "well" else fails}
    if ending == "passing":
        line, does = failover(["a", "b"], on=lambda error: len(seen) < 2), {"a": fails, "b": fails}
    call = shape.bind(line, Providers(**does))
    runner = asyncio.Runner()
    try:
        gc.collect()
        gc.disable()
        runner.run(_forgetting_async(call)) if shape.is_async else _forgetting(call)
        left = [one() for one in seen if one() is not None]
    finally:
        gc.enable()
        runner.close()
    assert len(seen) == (1 if ending == "well" else 2)
    assert not left


def _forgetting(call):
    try:
        call()
    except Exception:
        pass


async def _forgetting_async(call):
    # Inside: asyncio itself makes a cycle of an error that a task ends in.
    try:
        await call()
    except Exception:
        pass


def test_a_dropped_failover_is_freed():
    """Nothing in the library keeps an unnamed failover alive."""
    line = failover(["a"])
    line.call(lambda provider: provider)
    keeper = weakref.ref(line._guard)
    del line
    gc.collect()
    assert keeper() is None


def test_every_lock_held_at_a_fork():
    """A fork finds every lock fresh in the child, though they were held."""
    line = failover(["a"])
    line.call(lambda provider: provider)
    held = line._guard.lock
    line._guard.after_fork()
    assert line._guard.lock is not held
    assert line.call(lambda provider: provider) == "a"


def test_asking_while_calls_run():
    """A call reads the snapshot and the providers of its own failover without a deadlock."""

    @failover(["a"], "asked")
    def work(provider):
        line = work.failover
        found = []
        thread = threading.Thread(target=lambda: found.append(line.snapshot()))
        thread.start()
        thread.join()
        return found[0].name, line.providers

    assert work() == ("asked", ("a",))


def test_it_is_imported_when_asked_for():
    """The names lead to the wing, which is imported with the first of them."""
    assert isinstance(sys.modules["breakerkit"].Provider("a"), Provider)
    assert isinstance(failover(["a"])(lambda provider: None), types.FunctionType)
    assert not isinstance(failover(["a"])(functools.partial(print)), types.FunctionType)


def test_logging_is_quiet_while_all_is_well(caplog):
    """Calls that end well, or are rescued, write no line."""
    with caplog.at_level(logging.DEBUG, "breakerkit"):
        failover(["a", "b"]).call(Providers(a=DOWN))
    assert not caplog.records
