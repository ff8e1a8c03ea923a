"""``breaker_methods``: a breaker per public method, shared or one per instance, released with it."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
import gc
import inspect
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from breakerkit import (
    CircuitOpenError,
    ConfigError,
    NameConflictError,
    State,
    breaker_methods,
    registry,
)


def _service(name="inventory", **options):
    """Make a decorated class with methods of all sorts."""

    @breaker_methods(name, failure_threshold=1, **options)
    class Inventory:
        """Stock and prices."""

        limit = 7

        def __init__(self, fail=False):
            self.fail = fail

        def stock(self, item="x"):
            """Return how many there are."""
            if self.fail:
                raise ConnectionError
            return item

        async def price(self, item="x"):
            if self.fail:
                raise ConnectionError
            return item

        def items(self):
            yield from "ab"

        @classmethod
        def of(cls, *arguments):
            return cls

        @staticmethod
        def unit():
            return "kg"

        @property
        def size(self):
            return 3

        def _private(self):
            return "private"

        def close(self):
            return "closed"

    return Inventory


GUARDED = ["close", "items", "of", "price", "stock", "unit"]


def _fail(call):
    with pytest.raises(ConnectionError):
        call()


def test_each_public_method_has_a_breaker_of_its_own():
    """``name.method`` is the breaker of each public method; one that opens leaves the others alone."""
    kind = _service()
    assert registry.names() == [f"inventory.{name}" for name in GUARDED]
    bad, good = kind(fail=True), kind()
    _fail(bad.stock)
    _fail(lambda: asyncio.run(bad.price()))
    assert kind.stock.breaker is bad.stock.breaker is registry.get("inventory.stock")
    with pytest.raises(CircuitOpenError):
        good.stock()
    with pytest.raises(CircuitOpenError):
        asyncio.run(good.price("y"))
    assert list(good.items()) == ["a", "b"]
    assert (kind.of(), good.of(), kind.unit(), good.unit()) == (kind, kind, "kg", "kg")
    assert (good.size, good._private(), kind.limit) == (3, "private", 7)
    assert kind.__doc__ == "Stock and prices."


def test_exclude_leaves_out():
    """``exclude=`` names methods that stay bare."""
    kind = _service(exclude=("close", "of"))
    assert not hasattr(kind.close, "breaker")
    assert registry.names() == [
        f"inventory.{name}" for name in GUARDED if name not in ("close", "of")
    ]


def test_include_says_which():
    """``include=`` names just the methods to guard, private and inherited ones too."""

    class Base:
        def inherited(self):
            return "inherited"

    @breaker_methods("api", include=["_own", "inherited"])
    class Service(Base):
        def _own(self):
            return "own"

        def other(self):
            return "other"

    one = Service()
    assert (one._own(), one.inherited(), one.other()) == ("own", "inherited", "other")
    assert registry.names() == ["api._own", "api.inherited"]
    assert not hasattr(Base.inherited, "breaker")
    assert not hasattr(Service.other, "breaker")


def test_subclasses_share_and_override():
    """An inherited method shares its breaker; an overriding one is bare but for what it calls up to."""
    kind = _service()

    class Sub(kind):
        def close(self):
            return f"{super().close()} too"

    assert Sub().close() == "closed too"
    assert not hasattr(Sub.close, "breaker")
    assert registry.get("inventory.close").snapshot().successes == 1
    _fail(Sub(fail=True).stock)
    with pytest.raises(CircuitOpenError):
        kind().stock()


def test_without_a_name():
    """Without a name the class's own is taken, and two classes of the same name share nothing."""

    def make():
        @breaker_methods(failure_threshold=1)
        class Service:
            def work(self):
                raise ConnectionError

        return Service

    one, other = make(), make()
    _fail(one().work)
    assert (
        one.work.breaker.name
        == f"{__name__}.test_without_a_name.<locals>.make.<locals>.Service.work"
    )
    assert (one.work.breaker.state, other.work.breaker.state) == (State.OPEN, State.CLOSED)
    assert registry.names() == []


def test_the_same_name_again():
    """The same name with equal settings shares breakers, with others it is a conflict."""
    one, other = _service(), _service()
    assert one.stock.breaker is other.stock.breaker
    with pytest.raises(NameConflictError, match=r"inventory\.stock"):
        breaker_methods("inventory", failure_threshold=3)(
            type("Other", (), {"stock": lambda self: 1})
        )


def test_methods_look_as_before():
    """Signature, doc and kind of each method stay, and the class is the class that was given."""
    kind = _service()
    assert str(inspect.signature(kind.stock)) == "(self, item='x')"
    assert kind.stock.__doc__ == "Return how many there are."
    assert inspect.iscoroutinefunction(kind.price)
    assert inspect.isgeneratorfunction(kind.items)
    assert isinstance(vars(kind)["of"], classmethod)
    assert isinstance(vars(kind)["unit"], staticmethod)


def test_an_abstract_method_stays_abstract():
    """Guarding an abstract class keeps it abstract."""

    class Service(abc.ABC):
        @abc.abstractmethod
        def work(self):
            """Work."""

    guarded = breaker_methods("api")(Service)
    assert guarded is Service
    with pytest.raises(TypeError, match="abstract"):
        guarded()


# -- one per instance --------------------------------------------------------


def test_each_instance_has_breakers_of_its_own():
    """With ``scope="instance"`` one instance that fails leaves the others alone; none is listed."""
    kind = _service(scope="instance")
    bad, good = kind(fail=True), kind()
    _fail(bad.stock)
    with pytest.raises(CircuitOpenError) as caught:
        bad.stock()
    assert caught.value.name == "inventory.stock"
    assert good.stock("y") == "y"
    assert bad.stock.breaker is bad.stock.breaker
    assert bad.stock.breaker is not good.stock.breaker
    assert kind.stock(good, "z") == "z"
    assert good.stock.breaker.snapshot().successes == 2
    assert asyncio.run(good.price("y")) == "y"
    assert list(good.items()) == ["a", "b"]
    # Class and static methods belong to no instance: the class's, and listed.
    assert registry.names() == ["inventory.of", "inventory.unit"]


def test_a_method_of_each_instance_looks_as_before():
    """On the class it has the bare function's signature, doc and kind; bound, it is a method."""
    kind = _service(scope="instance")
    assert str(inspect.signature(kind.stock)) == "(self, item='x')"
    assert kind.stock.__doc__ == "Return how many there are."
    assert inspect.iscoroutinefunction(kind.price)
    one = kind()
    assert inspect.ismethod(one.stock)
    assert one.stock.__self__ is one
    assert inspect.iscoroutinefunction(one.price)
    assert str(inspect.signature(one.stock)) == "(item='x')"


def test_called_on_the_class_without_an_instance():
    """Without an instance it is the error of the bare function, and no breaker is made."""
    kind = _service(scope="instance")
    with pytest.raises(TypeError, match="stock.*'self'"):
        kind.stock()
    with pytest.raises(TypeError, match="itm"):
        kind.stock(itm="x")


def test_breakers_go_with_their_instance():
    """An instance is not kept alive by its breakers, and they go with it."""
    kind = _service(scope="instance")
    one = kind()
    one.stock()
    _fail(kind(fail=True).stock)
    b = weakref.ref(one.stock.breaker)
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None
    assert b() is None
    assert len(vars(kind)["stock"]._self_bound) == 0


def test_an_instance_in_a_cycle_is_released():
    """An instance that refers to its own bound method is collected like any other."""
    kind = _service(scope="instance")
    one = kind()
    one.callback = one.stock
    one.stock()
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_a_new_instance_at_an_old_address_is_a_stranger():
    """Instances that come and go, at the same addresses, never inherit a breaker."""
    kind = _service(scope="instance")
    for _ in range(200):
        _fail(kind(fail=True).stock)


def test_a_copy_is_an_instance_of_its_own():
    """A copied instance has breakers of its own."""
    kind = _service(scope="instance")
    one = kind(fail=True)
    _fail(one.stock)
    other = copy.copy(one)
    other.fail = False
    assert other.stock() == "x"


@pytest.mark.parametrize("oddity", ["unhashable", "equal to all", "no truth", "raising eq"])
def test_instances_are_told_apart_by_identity(oddity):
    """Instances need be neither hashable nor comparable."""

    def refuse(self, *_):
        pytest.fail("asked")

    oddities = {
        "unhashable": {"__eq__": lambda self, other: False, "__hash__": None},
        "equal to all": {"__eq__": lambda self, other: True, "__hash__": lambda self: 1},
        "no truth": {"__bool__": refuse, "__len__": refuse},
        "raising eq": {"__eq__": refuse, "__hash__": refuse},
    }

    def work(self, fail):
        if fail:
            raise ConnectionError

    body = {"work": work, **oddities[oddity]}
    kind = breaker_methods(failure_threshold=1, scope="instance")(type("Odd", (), body))
    one, other = kind(), kind()
    _fail(lambda: one.work(True))
    with pytest.raises(CircuitOpenError):
        one.work(False)
    other.work(False)


def test_slots_must_allow_weak_references():
    """A class whose instances allow no weak references is refused, and told what to add."""

    class Slotted:
        __slots__ = ("a",)

        def work(self):
            return 1

    with pytest.raises(TypeError, match="Slotted: add '__weakref__' to __slots__"):
        breaker_methods(scope="instance")(Slotted)
    assert breaker_methods()(Slotted)().work() == 1


def test_slots_with_weak_references():
    """With ``__weakref__`` among the slots it works."""

    @breaker_methods(scope="instance", failure_threshold=1)
    class Slotted:
        __slots__ = ("__weakref__",)

        def work(self):
            raise ConnectionError

    one = Slotted()
    _fail(one.work)
    with pytest.raises(CircuitOpenError):
        one.work()
    _fail(Slotted().work)


def test_threads_that_call_first_get_one_breaker():
    """Threads that call a new instance for the first time at once share its one breaker."""
    kind = _service(scope="instance")
    for _ in range(20):
        one, start = kind(), threading.Barrier(8)

        def get(_, one=one, start=start):
            start.wait(30)
            return one.stock.breaker

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(get, range(8)))) == 1


# -- refused -----------------------------------------------------------------


def test_used_without_parentheses():
    """``@breaker_methods`` bare is refused with the way to write it."""
    with pytest.raises(TypeError, match=r"use @breaker_methods\(\.\.\.\), with parentheses"):

        @breaker_methods
        class Service:
            """A class."""


@pytest.mark.parametrize("target", [len, 42, lambda: 1])
def test_it_decorates_a_class(target):
    """On anything but a class it is refused."""
    with pytest.raises(TypeError, match="breaker_methods decorates a class"):
        breaker_methods("api")(target)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"name": ""}, ConfigError, "name='': must be a text that is not empty, or left out"),
        ({"scope": "object"}, ConfigError, "scope='object': must be 'class' or 'instance'"),
        ({"include": ["stok"]}, TypeError, "include='stok': .* has no such method, did you mean 'stock'"),
        ({"exclude": ["stok"]}, TypeError, "exclude='stok': .* has no such method, did you mean 'stock'"),
        ({"include": ["limit"]}, TypeError, "include='limit'"),
        ({"include": "stock"}, TypeError, "must be a list or tuple of method names"),
        ({"exclude": "stock"}, TypeError, "must be a list or tuple of method names"),
        ({"include": []}, TypeError, "has no public method of its own to guard"),
        ({"exclude": GUARDED}, TypeError, "has no public method of its own to guard"),
        ({"failure_rate_threshold": 0.5}, ConfigError, "failure_rate_threshold=0.5"),
    ],
)  # fmt: skip
def test_wrong_options(options, error, message):
    """Each wrong option is one clear error that names it and what is near."""
    with pytest.raises(error, match=message):
        _service(**options)
    assert registry.names() == []


@pytest.mark.parametrize("scope", ["class", "instance"])
def test_a_method_that_cannot_be_guarded(scope):
    """A managing method is refused when the class is decorated, not at its first call."""

    class Service:
        def work(self):
            """Work."""

        @contextlib.contextmanager
        def managed(self):
            yield  # pragma: no cover  # it is refused

    with pytest.raises(TypeError, match="under @contextmanager"):
        breaker_methods("api", scope=scope)(Service)
    assert registry.names() == []
    assert not hasattr(Service.work, "breaker")


@pytest.mark.parametrize("scope", ["class", "instance"])
def test_a_coroutine_callback_is_refused_with_the_class(scope):
    """A coroutine callback and a sync method: refused when the class is decorated."""

    async def callback(context):
        """Hear of an opening."""

    with pytest.raises(TypeError, match="coroutine opening callback"):
        breaker_methods(scope=scope, on_open=callback)(type("S", (), {"work": lambda self: 1}))
