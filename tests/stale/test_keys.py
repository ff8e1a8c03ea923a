"""Keys: two different calls never share one, the same call always does; what has no text is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import functools
import gc
import io
import pathlib
import pickle
import struct
import uuid
import weakref
import xmlrpc.client
from array import array
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from unittest.mock import AsyncMock, MagicMock, Mock, create_autospec
from zoneinfo import ZoneInfo

import pytest

from breakerkit import AmbiguousKeyError, MemoryStore, NoCachedValueError, pipeline
from breakerkit.stale._instances import Instances
from breakerkit.stale._origin import Origin as Around
from breakerkit.stale.keys import KeyMaker, is_method, text
from breakerkit.testing import ManualClock
from tests.stale.rig import Down, FarStore


class Colour(enum.Enum):
    RED = 1
    CRIMSON = RED
    BLUE = 2


class Level(enum.IntEnum):
    ONE = 1


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Zone(dt.tzinfo):
    """A zone that looks like any other."""

    def __init__(self, hours):
        self.hours = hours

    def utcoffset(self, _):
        return dt.timedelta(hours=self.hours)

    def tzname(self, _):
        return "Z"

    def dst(self, _):
        return None

    def __repr__(self):
        return "<zone>"


NOON = dt.datetime(2024, 5, 1, 12)

#: All of these are different.
VALUES = [
    1, 1.0, True, "1", "True", b"1", None, "None", 2, "2", -1, 0, -0.0, 0.0, False, 1 + 0j, "", b"", ...,
    (), (1,), (1, 2), ((1, 2),), ("1",), "(1,)", "<1>", "<'1'>", "<(1,)>", "<", ("<1>",), "é", "\udcff",
    frozenset(), frozenset({1}), frozenset({"a", "b"}), frozenset({("a", "b")}),
    Decimal(1), Decimal("1.0"), Fraction(1), uuid.UUID(int=1), Colour.RED, Colour.BLUE, Level.ONE,
    Rights.READ, Rights.WRITE, Rights.READ | Rights.WRITE, Rights(0), Rights(8), Rights(16), Point(1), Point(1, 2),
    pathlib.PurePosixPath("1"), pathlib.PureWindowsPath("1"), int, float, Colour, NOON, NOON.date(), NOON.time(),
    NOON.replace(fold=1), NOON.replace(tzinfo=dt.UTC), NOON.replace(tzinfo=Zone(1)),
    NOON.replace(tzinfo=Zone(2)), NOON.replace(tzinfo=ZoneInfo("UTC")), dt.timedelta(1), dt.UTC,
    dt.time(1, tzinfo=dt.UTC), 10**30, float("nan"), float("inf"), "a:b", "a", "%",
]  # fmt: skip


def one(key):
    """Return its argument."""
    return key


def keys_of(function, **settings):
    return KeyMaker(function, settings.get("key"), Instances())


def test_different_values_never_share_an_entry(cached):
    """C062: by type and by value, whatever they look like."""
    assert len({text(value) for value in VALUES}) == len(VALUES)
    c = cached()
    call = c(one)
    assert all(call(value) is value for value in VALUES)
    assert all(call(value) is value for value in VALUES)
    assert c.info().misses == len(VALUES)


def test_every_key_can_be_sent():
    """Half of a surrogate pair is no reason for a store to fail."""
    for value in VALUES:
        assert text(value).encode().decode() == text(value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_key_may_be_given_back(value, cached):
    """What ``key_of``, an event or an error says is what ``put``, ``invalidate`` and ``evict`` take."""
    c = cached()
    call = c(one)
    key = c.key_of(value)
    assert c.put(key, "put")
    assert call(value) == "put"
    c.evict(value)
    assert call(value) is value
    c.put(value, "again")
    assert call(value) == "again"
    seen = []
    c.subscribe(lambda event: seen.append(event.key))
    c.evict(key)
    call(value)
    c.put(seen.pop(), "told")
    assert call(value) == "told"
    assert pickle.loads(pickle.dumps(key)) == key


def test_a_key_of_an_error_may_be_given_back(cached, origin):
    """And it says nothing of the cache's own prefix."""
    origin.error = Down()
    c = cached("a:b%")
    call = c(lambda key: origin(key))
    with pytest.raises(NoCachedValueError) as caught:
        call(1)
    assert caught.value.key == "<1>"
    c.put(caught.value.key, "put")
    assert call(1) == "put"


def test_one_call_in_many_spellings(cached):
    """C062: positional, by name, defaults given or not, in any order."""

    def f(a, b=2, *more, c=3, **names):
        return object()

    c = cached()
    call = c(f)
    same = [call(1), call(a=1), call(1, 2), call(b=2, a=1), call(1, c=3), call(1, 2, c=3)]
    assert len(set(map(id, same))) == 1
    assert call(1, x=1, y=2) is call(1, y=2, x=1)
    others = [
        call(2),
        call("1"),
        call(1, 3),
        call(1, 2, 4),
        call(1, 2, (4,)),
        call(1, c=4),
        call(1, x=1),
    ]
    assert len({*map(id, others), id(same[0])}) == 8


def test_no_arguments(cached):
    """They are one call."""
    call = cached()(lambda: object())
    assert call() is call()


@pytest.mark.parametrize(
    "value",
    [[1], {1: 2}, {1}, bytearray(b"1"), object(), ([1],), frozenset({object}) and (object(),), 10**5000,
     Fraction(1, 10**5000), type("Local", (), {}).__call__, lambda: 1, str.__new__(type("S", (str,), {}), "x"),
     list[int]],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_has_no_text_is_refused(value, cached):
    """C062: a clear error that says what to do, and the origin is not asked."""
    call = cached()(lambda key: pytest.fail("run"))
    with pytest.raises(AmbiguousKeyError, match="give key=|give key"):
        call(value)
    with pytest.raises(AmbiguousKeyError):
        call.stale_if_error.put(value, 1)


def test_local_types_share_their_names_and_are_refused():
    """Two of them may look alike."""

    class Local(enum.Enum):
        A = 1

    class Pair(NamedTuple):
        a: int

    for value in (Local.A, Local, Pair(1)):
        with pytest.raises(AmbiguousKeyError):
            text(value)


def test_the_order_of_a_frozenset_does_not_matter():
    """Equal sets are one key."""
    names = [f"n{number}" for number in range(50)]
    assert text(frozenset(names)) == text(frozenset(reversed(names)))


def test_an_alias_of_an_enum_is_the_same_member():
    """It is the very object."""
    assert text(Colour.RED) == text(Colour.CRIMSON)


def test_a_wrong_call_is_the_callers(cached):
    """A TypeError as without the cache; nothing is counted."""
    call = cached()(lambda a: 1)
    with pytest.raises(TypeError):
        call()
    with pytest.raises(TypeError):
        call(1, b=2)
    assert call.stale_if_error.info().calls == 0


def test_a_key_of_the_users_gets_the_same_arguments(cached, origin):
    """It may leave out what does not matter; what it raises is its own."""
    c = cached(key=lambda request, **_: request["user"])
    call = c(lambda request, trace=None: origin())
    assert call({"user": 1}) == call({"user": 1, "at": 2}, trace=3) == 1
    with pytest.raises(KeyError):
        call({})


class Service:
    """Its methods are cached by instance."""

    def __init__(self, value):
        self.value = value

    def read(self, key="k"):
        return self.value, key


def test_ten_thousand_short_lived_instances(cached):
    """C062: a new instance at an old address gets no stranger's value; nothing is kept of it."""
    c = cached()

    class Here(Service):
        read = c(Service.read)

    for number in range(10_000):
        assert Here(number).read() == (number, "k")
    assert len(c._guard.instances) == 0
    one, other = Here(1), Here(2)
    assert [each.read("k") for each in (one, other, one)] == [(1, "k"), (2, "k"), (1, "k")]
    assert c.info().hits == 1


def test_bound_methods_through_call(cached):
    """They are told by their instance, which is not kept."""
    c = cached()
    for number in range(100):
        one = Service(number)
        assert (
            c.call(one.read) == c.call(one.read, "k") == c.apply(one.read, ["k"]) == (number, "k")
        )
    del one
    assert len(c._guard.instances) == 0


def test_instances_that_cannot_be_referred_to_weakly(cached):
    """A clear error, and ``key=`` as the way out."""

    class Slotted:
        __slots__ = ()

        def read(self):
            return 1

    with pytest.raises(AmbiguousKeyError, match="__weakref__"):
        cached().call(Slotted().read)
    assert cached(key=lambda self: 1).call(Slotted().read) == 1
    with pytest.raises(AmbiguousKeyError, match="__weakref__"):
        cached().call([1].count, 1)


def test_builtin_methods(cached):
    """By their object, too."""
    c = cached()
    both = [array("i", [1]), array("i")]
    assert [c.call(one.count, 1) for one in both * 2] == [1, 0, 1, 0]
    assert c.info().hits == 2


def test_builtin_functions(cached):
    """A module is no instance; one whose parameters nobody knows is refused."""
    import math

    c = cached()
    assert c.call(math.sqrt, 4) == c.call(math.sqrt, 4) == 2
    with pytest.raises(AmbiguousKeyError, match="parameters are not known"):
        cached().call(max, 1, 2)
    assert cached(key=lambda *args: args).call(max, 1, 2) == 2


def test_an_instance_that_dies_meanwhile():
    """A number is used once, and the reference of another at the same address is left alone."""
    numbers = Instances()

    class Thing:
        pass

    one = Thing()
    first = numbers.number(one)
    assert numbers.number(one) == first
    ref, _ = numbers._numbers[id(one)]
    numbers._numbers[id(one)] = (ref.__class__(Service), 99)
    del one
    gc.collect()
    assert len(numbers) == 1
    numbers.after_fork()
    numbers._numbers.clear()
    gc.collect()


def test_an_instance_that_another_thread_has_numbered():
    """Whoever is first has said it."""
    numbers = Instances()
    one = Service(1)

    class Early:
        def __enter__(self):
            numbers._lock = threading_lock
            numbers.number(one)

        def __exit__(self, *_):
            pass

    threading_lock = numbers._lock
    numbers._lock = Early()
    assert numbers.number(one) == 1


def test_two_functions_on_one_cache_are_refused(cached):
    """Keys made of the arguments alone would mix their values."""
    c = cached("both")
    c(lambda key: 1)
    with pytest.raises(AmbiguousKeyError, match="is around"):
        c(lambda key: 2)
    with pytest.raises(AmbiguousKeyError, match="is around"):
        c.call(one, 1)
    named = cached(key=lambda key: key)
    assert named(lambda key: 1)(5) == 1
    assert named(lambda key: 2)(5) == 1


def test_the_same_function_made_again(cached):
    """A module that is loaded again makes it anew."""
    c = cached()
    assert c(one)(1) == c(one)(1) == 1
    c.evict_all()
    again = {"__name__": one.__module__}
    exec("def one(key): return 'again'", again)
    assert c(again["one"])(1) == "again"
    assert c.fetch(2).value == "again"


def test_partials_and_lambdas(cached):
    """A partial's own arguments are not in the key, so another partial is another function."""
    c = cached()
    first = functools.partial(lambda a, b: (a, b), 1)
    assert c.call(first, 2) == c.call(first, b=2) == (1, 2)
    with pytest.raises(AmbiguousKeyError):
        c.call(functools.partial(lambda a, b: (a, b), 3), 2)
    c = cached()
    c.call(lambda: 1)
    with pytest.raises(AmbiguousKeyError):
        c.call(lambda: 2)


def make(c, value):
    @c
    def work(key):
        return value

    return work


@pytest.mark.parametrize("far", [False, True])
def test_one_store_for_many_caches(far, cached, clock):
    """Names keep them apart; where several functions have one name, that is an error."""
    store = FarStore(clock) if far else MemoryStore(clock=clock)
    first = make(cached("a", store=store), 1)
    second = make(cached("a:b", store=store), 2)
    assert [first("b:k"), second("k"), first("k")] == [1, 2, 1]
    first.stale_if_error.evict_all()
    assert second.stale_if_error.fetch("k").source == "cached"
    unnamed = make(cached(store=store), 3)
    with pytest.raises(AmbiguousKeyError, match="share a store"):
        make(cached(store=store), 4)
    assert unnamed("k") == 3
    del unnamed
    assert make(cached(store=store), 4)("k") == 3  # the same name, and nobody else has it
    kept = cached(store=store)
    kept.call(one, 1)
    with pytest.raises(AmbiguousKeyError, match="share a store"):
        cached(store=store).call(one, 2)


def test_a_store_without_weak_references(cached):
    """One of the user's may have slots."""

    class Odd:
        __slots__ = ()
        local = False

        def do(self, command):
            return 1 if type(command).__name__ == "Begin" else None

        do_async = do

    assert make(cached(store=Odd()), 4)("k") == 4


def test_methods_and_a_store_that_is_shared(cached, clock):
    """What an instance holds is known to this process only."""
    with pytest.raises(AmbiguousKeyError, match="shared store"):
        cached(store=FarStore(clock))(Service.read)


def test_what_is_a_method():
    """By its name, and by what its first parameter is called."""

    class Meta:
        def f(self): ...
        @staticmethod
        def g(key): ...

    def outer(self):
        def inner(self): ...

        return inner

    assert is_method(Meta.f)
    assert is_method(functools.wraps(Meta.f)(lambda *args: 1))
    assert not any(map(is_method, [Meta.g, outer, outer(1), Meta().f, len, functools.partial(one)]))


def test_the_instance_of_a_class_method(cached, clock):
    """A class is told by its name; so it may be in a shared store with ``key=``, and in memory without."""
    c = cached()
    function = c(Service.read)
    assert function(Service(3)) == (3, "k")
    maker = keys_of(Service.read)
    assert maker((Service, "k"), {}) == text((Service, "k"))


def test_fetch_and_key_of_need_one_function(cached):
    """Around none, or several, there is none to call."""
    c = cached(key=lambda key: key)
    for ask in (c.fetch, c.key_of):
        with pytest.raises(TypeError, match="no function"):
            ask(1)
    first = c(lambda key: 1)
    assert c.fetch(1).value == 1
    second = c(lambda key: 2)
    with pytest.raises(TypeError, match="several functions"):
        c.fetch(1)
    with pytest.raises(TypeError, match="prefix=7"):
        c.evict_all(7)
    assert first(1) == second(1) == 1
    assert isinstance(c._origin, Around)


def test_a_clock_of_the_stores_own(cached, clock):
    """Times are relative: two clocks need not agree."""
    other = ManualClock(1e6)
    call = cached(store=MemoryStore(clock=other))(one)
    assert call(1) == call(1) == 1
    other.advance(2)
    assert call.stale_if_error.fetch(1).source == "fresh"


class Locals:
    """A class whose functions have locals that look like parameters."""

    @staticmethod
    def nothing():
        self = 7
        return self

    @staticmethod
    def one(key):
        cls = key
        return cls


def test_a_local_variable_makes_no_method(cached):
    """It is the first parameter that tells."""
    assert cached()(Locals.nothing)() == 7
    assert cached()(Locals.one)(3) == 3


class Proxy:
    """A stand-in for something remote: whatever attribute is asked for is another one."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if name.startswith("_breakerkit") or name == "__wrapped__":
            return Proxy(f"{self.name}.{name}")
        raise AttributeError(name)

    def __call__(self, *args):
        return self.name, args


@pytest.mark.parametrize("make", [
    lambda: Mock(return_value=7), lambda: Mock(spec=Proxy, return_value=7), lambda: MagicMock(return_value=7),
    lambda: create_autospec(one, return_value=7),
], ids=["mock", "spec", "magic", "autospec"])  # fmt: skip
def test_a_mock_is_an_origin(make, cached):
    """By itself, with a key of the user's, and in a pipeline."""
    for around in (cached(), cached(key=lambda key: key), pipeline(cached())):
        origin = make()
        call = around(origin)
        assert [call(1), call(1)] == [7, 7]
        assert origin.call_count == 1


def test_so_is_an_async_mock(cached):
    """Awaited."""
    origin = AsyncMock(return_value=7)
    call = cached()(origin)
    assert [asyncio.run(call(1)), asyncio.run(call(1))] == [7, 7]
    assert origin.await_count == 1


def test_a_proxy_that_has_every_attribute_is_an_origin(cached):
    """Nobody follows what it pretends to be wrapped around for ever, nor takes it for a bound method."""
    c = cached(key=lambda *args: args)
    assert c.call(Proxy("add"), 1, 2) == ("add", (1, 2))
    assert c.call(xmlrpc.client._Method(lambda name, args: (name, args), "add"), 3) == ("add", (3,))


class Bound:
    """A method as some binding to another language makes it: bound, and of a type of its own."""

    def __init__(self, owner):
        self.__self__ = owner
        self.__name__, self.__qualname__ = "balance", "Account.balance"

    def __call__(self, key):
        return self.__self__, key


def test_what_is_bound_has_the_values_of_its_object(cached):
    """C062: of whatever type it is."""
    c, owners = cached(), [Service(1), Service(2)]
    assert [c.call(Bound(one), "k") for one in owners * 2] == [(one, "k") for one in owners * 2]
    assert c.info().misses == 2


class Unnamed(dt.tzinfo):
    """A zone without a text of its own."""

    def utcoffset(self, _):
        return dt.timedelta(hours=1)


def test_two_time_zones_are_two_keys():
    """Also where their offsets are the same at that moment; one that has no text is refused."""

    class Named(Zone):
        def __init__(self, name):
            super().__init__(1)
            self.name = name

        def __repr__(self):
            return f"Named({self.name!r})"

    assert text(NOON.replace(tzinfo=Named("Rome"))) != text(NOON.replace(tzinfo=Named("Berlin")))
    with pytest.raises(AmbiguousKeyError, match="a Unnamed, has no text that tells it from others"):
        text(NOON.replace(tzinfo=Unnamed()))
    head = b"TZif".ljust(20, b"\0") + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    read = ZoneInfo.from_file(io.BytesIO(head + struct.pack(">lbb", 3600, 0, 0) + b"ROM\0"))
    with pytest.raises(AmbiguousKeyError, match="a ZoneInfo, has no text"):
        text(NOON.replace(tzinfo=read))


def test_a_number_is_not_lost_to_a_newcomer_at_the_old_address():
    """An object's end may be seen when its address is somebody else's already."""
    instances = Instances()

    class Thing:
        pass

    thing = Thing()
    number = instances.number(thing)
    ref, _ = instances._numbers[id(thing)]
    instances._numbers[id(thing)] = (weakref.ref(thing), number + 1)  # that of the newcomer
    ref.__callback__(ref)
    assert len(instances) == 1
