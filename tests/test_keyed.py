"""Keyed families: one breaker per key, ``self`` left out, bounded, and what is open is never lost."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import wrapt

from breakerkit import (
    BreakerConfig,
    CircuitOpenError,
    ConfigError,
    KeyedBreakers,
    NameConflictError,
    State,
    breaker,
    registry,
)
from tests.shapes import exhaust, raising, returning


def by_host(url, *_, **__):
    """Return the host of a URL."""
    return urlsplit(url).netloc


@pytest.fixture
def family(circuit):
    """Make families on the manual clock, by the first argument unless told otherwise."""

    def make(name=None, **settings):
        return circuit(
            name, **{"key": lambda key, *_, **__: key, "failure_threshold": 1, **settings}
        )

    return make


def _trip(family, key):
    with pytest.raises(OSError):
        family.get(key).call(raising(OSError()))


def test_one_breaker_per_key(family):
    """Hosts fail on their own: the open one is rejected, the others pass."""

    @family("api", key=by_host)
    def fetch(url, fail=False):
        if fail:
            raise ConnectionError
        return url

    with pytest.raises(ConnectionError):
        fetch("https://a.example/x", fail=True)
    with pytest.raises(CircuitOpenError) as caught:
        fetch("https://a.example/y")
    assert caught.value.name == "api[a.example]"
    assert fetch("https://b.example/y") == "https://b.example/y"
    assert fetch.breaker.keys() == ["a.example", "b.example"]
    assert fetch.breaker.get("a.example").state is State.OPEN
    assert fetch.breaker.snapshot()["a.example"].failures == 1
    assert len(fetch.breaker) == 2
    assert repr(fetch.breaker) == "<KeyedBreakers 'api' of 2 keys>"
    assert list(registry.snapshot()) == ["api[a.example]", "api[b.example]"]


@pytest.mark.parametrize("key", [None, 0, "", (), ("a", 1), frozenset("a"), 1.5])
def test_any_hashable_is_a_key(key, family):
    """A key may be any hashable value, ``None`` and the empty ones too."""
    keyed = family("api")
    assert keyed.get(key) is keyed.get(key)
    name = key if isinstance(key, str) else repr(key)
    assert keyed.get(key).name == f"api[{name}]"


def test_what_is_no_key(family):
    """An unhashable key is a ``TypeError`` that names breaker and value; nothing ran."""

    @family("api", key=lambda value: value)
    def work(value):
        pytest.fail("run")

    with pytest.raises(TypeError, match=r"breaker 'api': key=\[1\]: must be hashable"):
        work([1])
    assert work.breaker.keys() == []


def test_a_type_error_of_the_keys_own(family):
    """A ``TypeError`` from a key's ``__eq__`` passes as it is."""

    class Odd:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise TypeError("not comparable")

    keyed = family()
    keyed.get(Odd())
    with pytest.raises(TypeError, match="not comparable"):
        keyed.get(Odd())


def test_a_key_function_that_raises(family):
    """What the key function raises reaches the caller before admission, in every kind of function."""

    @family(key=lambda value: value.host)
    def work(value):
        pytest.fail("run")

    with pytest.raises(AttributeError, match="host") as caught:
        work("no host")
    assert "raised by key= of breaker" in caught.value.__notes__[0]
    with pytest.raises(AttributeError, match="host"):
        work.breaker.call(returning(), "no host")
    assert work.breaker.keys() == []


# -- self is left out --------------------------------------------------------


class Base:
    """A class whose methods are keyed in all the ways there are."""

    keyed = breaker(key=lambda key, **_: key)

    @keyed
    def method(self, key):
        return self, key

    @classmethod
    @keyed
    def of_class(cls, key):
        return cls, key

    @keyed
    @classmethod
    def of_class_over(cls, key):
        return cls, key

    @staticmethod
    @keyed
    def static(key):
        return key

    @keyed
    @staticmethod
    def static_over(key):
        return key

    alias = method

    @keyed
    async def async_method(self, key):
        return self, key

    @keyed
    def items(self, key):
        yield key

    @functools.lru_cache
    @keyed
    def cached(self, key):
        return self, key


class Derived(Base):
    """A class that inherits and calls up."""

    def method(self, key):
        return super().method(key)


@pytest.mark.parametrize("kind", [Base, Derived])
def test_the_key_function_gets_no_self(kind):
    """Methods, class and static methods, aliased, inherited, through ``super()``: only the arguments."""
    one = kind()
    assert one.method("k") == (one, "k")
    assert kind.method(one, "k") == (one, "k")
    assert one.alias("k") == (one, "k")
    assert one.of_class("k") == kind.of_class("k") == (kind, "k")
    assert one.of_class_over("k") == kind.of_class_over("k") == (kind, "k")
    assert one.static("k") == kind.static("k") == "k"
    assert one.static_over("k") == kind.static_over("k") == "k"
    assert asyncio.run(one.async_method("k")) == (one, "k")
    assert list(one.items("k")) == ["k"]
    assert one.cached("k") == (one, "k")
    assert Base.keyed.keys() == ["k"]


def test_an_argument_of_ones_own_kind_is_no_self(family):
    """An instance that is passed as an argument, to a function or a bound method, is one."""
    keyed = family()

    class Node:
        @keyed
        def link(self, other):
            return other

        def plain(self, other):
            return other

        @staticmethod
        @keyed
        def static(other):
            return other

    one, other = Node(), Node()
    assert one.link(other) is other
    assert Node.static(other) is other
    assert keyed(one.plain)(other) is other
    assert keyed.keys() == [other]


def test_a_class_as_an_argument_is_no_cls(family):
    """A class passed to a function is its first argument; to a class method it comes after ``cls``."""
    keyed = family()

    class Host:
        @classmethod
        @keyed
        def of_class(cls, kind):
            return kind

    @keyed
    def function(kind):
        return kind

    assert function(Host) is Host
    assert Host.of_class(int) is int
    assert keyed.keys() == [Host, int]


def test_keyed_under_other_decorators(family):
    """Under a partialmethod or another library's decorator a method's ``self`` is still left out."""
    keyed = family()

    @wrapt.decorator
    def passing(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs)

    @keyed
    def outside(self, key, more=None):
        return self, key

    class Host:
        by_partial = functools.partialmethod(outside, more=1)

        @passing
        @keyed
        def over(self, key):
            return self, key

        @keyed
        @passing
        def under(self, key):
            return self, key

    one = Host()
    assert one.by_partial("k") == one.over("k") == one.under("k") == (one, "k")
    assert keyed.keys() == ["k"]


def test_a_class_with_lazy_attributes(family):
    """Looking for the method in the class wakes up nothing else that lives there."""

    class Lazy:
        def __getattr__(self, name):
            pytest.fail("woken")

    class Host:
        lazy = Lazy()

        @family()
        def work(self, key):
            return key

    assert Host().work("k") == "k"


def test_a_chain_without_end_in_a_class(family):
    """Something in the class that claims to wrap itself is looked at for a while, no longer."""

    class Endless:
        def __call__(self):
            """Do nothing."""

    class Host:
        endless = Endless()
        endless.__wrapped__ = endless

        @family()
        def work(self, key):
            return key

    assert Host().work("k") == "k"


# -- every kind of function --------------------------------------------------


def test_generators_and_async_functions_by_key(family):
    """The key is found when the call first runs; each kind of function is judged at its end."""
    keyed = family(failure_threshold=1)

    @keyed
    def items(key):
        yield key
        raise ConnectionError

    @keyed
    async def later(key):
        raise ConnectionError

    @keyed
    async def stream(key):
        yield key
        raise ConnectionError

    @keyed
    def deferred(key):
        return later.__wrapped__(key)

    async def read(key):
        return [item async for item in stream(key)]

    for call in (
        lambda: exhaust(items("generator")),
        lambda: asyncio.run(later("async")),
        lambda: asyncio.run(read("async generator")),
        lambda: asyncio.run(deferred("deferred")),
    ):
        with pytest.raises(ConnectionError):
            call()
        with pytest.raises(CircuitOpenError):
            call()
    assert keyed.keys() == ["generator", "async", "async generator", "deferred"]


def test_call_by_key(family):
    """``call`` finds the key in the arguments; what the family guards already counts once."""
    keyed = family()

    @keyed
    def work(key):
        return key

    assert keyed.call(work, "k") == "k"
    assert keyed.call(lambda key: key, "k") == "k"
    assert keyed.get("k").snapshot().successes == 2
    assert keyed(work) is work


def test_a_coroutine_callback_is_refused_for_sync_functions(family):
    """As with one breaker: a sync function cannot await an opening callback."""

    async def callback(context):
        """Hear of an opening."""

    keyed = family("api", on_open=callback)
    with pytest.raises(TypeError, match="'api' has a coroutine opening callback"):
        keyed(lambda key: key)

    @keyed
    async def work(key):
        return key

    assert asyncio.run(work("k")) == "k"


def test_a_coroutine_callback_of_one_key(family):
    """One key's coroutine callback is found too, whichever comes first, it or the sync function."""

    async def callback(context):
        """Hear of an opening."""

    keyed = family("api")
    keyed.get("k").on_open(callback)
    with pytest.raises(TypeError, match=r"'api\[k\]' has a coroutine opening callback"):
        keyed(lambda key: key)
    other = family("other")
    other(lambda key: key)
    with pytest.raises(TypeError, match="sync functions"):
        other.get("k").on_open(callback)
    keyed = family("third")
    one = keyed.get("k")
    keyed(lambda key: key)
    with pytest.raises(TypeError, match="sync functions"):
        one.on_open(callback)


def test_reset_and_reconfigure_a_family(family):
    """Both reach the breaker of every key there is; new settings every key there will be."""
    keyed = family("api")
    _trip(keyed, "a")
    assert keyed.reset() is keyed
    assert keyed.get("a").state is State.CLOSED
    assert keyed.reconfigure(failure_threshold=7).failure_threshold == 7
    assert keyed.reconfigure(BreakerConfig(failure_threshold=8)) == BreakerConfig(
        failure_threshold=8
    )
    assert [keyed.get(key).config.failure_threshold for key in "ab"] == [8, 8]
    with pytest.raises(ConfigError, match="failure_threshold=0"):
        keyed.reconfigure(failure_threshold=0)
    assert keyed.config.failure_threshold == keyed.get("a").config.failure_threshold == 8


# -- names -------------------------------------------------------------------


def test_the_name_of_a_long_key(family):
    """A long key is cut in the name, and still told from others; one without a ``repr`` has a name too."""

    class Shy:
        def __repr__(self):
            raise RuntimeError

    keyed = family("api")
    one, other = keyed.get("x" * 10_000 + "1").name, keyed.get("x" * 10_000 + "2").name
    assert one != other
    assert len(one) < 250
    assert "Shy" in keyed.get(Shy()).name


def test_keys_that_look_alike_in_a_name(family):
    """A text and a number that read alike both have a place in the registry's snapshot."""
    keyed = family("api")
    keyed.get("1")
    keyed.get(1)
    assert list(registry.snapshot()) == ["api[1]", "api[int 1]"]


def test_the_same_name_is_the_same_family(family):
    """A family is fetched by its name and key function; other settings are a conflict."""
    keyed = breaker("api", key=by_host)
    assert breaker("api", key=by_host) is keyed
    assert registry.get("api") is keyed
    assert isinstance(keyed, KeyedBreakers)
    for other in (
        {"key": len},
        {"key": by_host, "max_keys": 5},
        {"key": by_host, "failure_threshold": 3},
        {"key": by_host, "config": BreakerConfig(failure_threshold=3)},
    ):
        with pytest.raises(NameConflictError, match="'api' is taken"):
            breaker("api", **other)


def test_an_unnamed_family_takes_the_name_of_its_function(family):
    """An unnamed family is called after the first function it guards, and is not listed."""

    @family()
    def work(key):
        return key

    work("k")
    assert work.breaker.get("k").name.endswith("work[k]")
    assert registry.names() == []


# -- the bound ---------------------------------------------------------------


def test_the_longest_idle_key_without_evidence_goes_first(family):
    """At the bound the longest idle clean key goes; a use makes a key young again."""
    keyed = family(max_keys=3, failure_threshold=2)
    for key in "abc":
        keyed.get(key)
    keyed.get("a")
    keyed.get("d")
    assert keyed.keys() == ["a", "c", "d"]


def test_evidence_is_worth_more_than_youth(family):
    """A key with failures stays while there are clean ones, then the longest idle of those goes."""
    keyed = family(max_keys=3, failure_threshold=2)
    for key in "ab":
        _trip(keyed, key)
    keyed.get("c")
    keyed.get("d")
    assert keyed.keys() == ["a", "b", "d"]
    _trip(keyed, "d")
    keyed.get("e")
    assert keyed.keys() == ["b", "d", "e"]


def test_what_a_success_has_cleared_is_no_evidence(family):
    """A streak that has ended is nothing to keep."""
    keyed = family(max_keys=2, failure_threshold=2)
    _trip(keyed, "a")
    keyed.get("a").call(returning())
    _trip(keyed, "b")
    keyed.get("c")
    assert keyed.keys() == ["b", "c"]


@pytest.mark.parametrize("held", ["open", "half-open", "forced"])
def test_what_is_held_stays(held, family, clock, caplog):
    """Open, half-open and forced keys are never forgotten: the family grows past its bound, warning once."""
    keyed = family("api", max_keys=2)
    for key in "ab":
        if held == "forced":
            keyed.get(key).force_open()
        else:
            _trip(keyed, key)
    if held == "half-open":
        clock.advance(10)
    for key in "cdef":
        _trip(keyed, key)
    assert set(keyed.keys()) == set("abcdef")
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "'api'" in warnings[0].getMessage()


def test_what_was_held_can_go_once_it_is_closed(family, clock):
    """A key that has closed again is forgotten like any other."""
    keyed = family(max_keys=2)
    for key in "ab":
        _trip(keyed, key)
    clock.advance(10)
    keyed.get("a").call(returning())
    keyed.get("c")
    assert set(keyed.keys()) == {"b", "c"}


def test_a_key_that_closed_unseen_goes_before_the_family_grows(family, clock):
    """One that was put aside as open, and closed since without a use of its key, makes room."""
    keyed = family(max_keys=2)
    one = keyed.get("a")
    for key in "ab":
        _trip(keyed, key)
    keyed.get("c")  # grows: both are open
    _trip(keyed, "c")
    clock.advance(10)
    one.call(returning())
    keyed.get("d")
    assert set(keyed.keys()) == {"b", "c", "d"}


def test_a_family_that_grew_comes_back_to_its_bound(family, clock):
    """Once what was open has closed, new keys bring the family down to its bound again."""
    keyed = family(max_keys=2)
    for key in range(10):
        _trip(keyed, key)
    clock.advance(10)
    for key in range(10):
        keyed.get(key).call(returning())
    assert len(keyed) == 10
    for key in range(100, 120):
        keyed.get(key)
    assert keyed.keys() == [118, 119]


def test_a_marked_key_that_opened_since_stays(family):
    """One that was put aside with evidence, and opened since, is not forgotten."""
    keyed = family(max_keys=2, failure_threshold=2)
    one = keyed.get("a")
    _trip(keyed, "a")
    keyed.get("b")
    keyed.get("c")
    assert keyed.keys() == ["a", "c"]
    with pytest.raises(OSError):
        one.call(raising(OSError()))
    _trip(keyed, "c")
    keyed.get("d")
    assert set(keyed.keys()) == {"a", "d"}


def test_a_key_that_is_used_while_it_goes(family):
    """A use between being found and being moved to the end of the order is no error."""
    keyed = family(max_keys=1)
    keyed.get("a")
    keyed._family._recent.clear()
    keyed.get("a")
    assert list(keyed._family._recent) == ["a"]
    keyed._family._recent.clear()
    del keyed._family._all["a"]
    keyed._family._bring_back("a")
    assert keyed.keys() == []


def test_many_keys_in_bounded_memory_and_time(family):
    """C065: the first 100 keys open, then 50 000 that succeed: never more than the bound, none lost."""
    keyed = family(max_keys=1000)

    @keyed
    def work(key, fail=False):
        if fail:
            raise ConnectionError

    for key in range(100):
        with pytest.raises(ConnectionError):
            work(key, fail=True)
    most = 0
    begin = time.perf_counter()
    for key in range(100, 50_100):
        work(key)
        most = max(most, len(keyed))
    took = time.perf_counter() - begin
    assert most == 1000
    assert all(keyed.get(key).state is State.OPEN for key in range(100))
    assert took < 30  # far above what it takes: a cost that grows with the keys would be minutes


def test_a_key_that_closed_by_a_lapse_may_be_forgotten(family, clock):
    """A half-open breaker whose last hung probe has lost its slot is closed, and has no evidence."""
    keyed = family(max_keys=1, open_duration=1, probe_limit=2, probe_timeout=1)
    _trip(keyed, "old")
    clock.advance(1)
    hung = keyed.get("old").guard()
    hung.__enter__()
    keyed.get("old").call(returning())
    assert keyed.get("old").state is State.HALF_OPEN
    clock.advance(1)
    keyed.get("new")
    assert [key for key, _ in keyed._family.items()] == ["new"]
    hung.__exit__(None, None, None)


def test_all_keys_open_does_not_cost_more_and_more(family):
    """A family in which everything is open grows without looking at every key for each new one."""
    keyed = family(max_keys=100)
    looks = []
    standing = keyed._family._standing
    keyed._family._standing = lambda *one: looks.append(one) or standing(*one)
    for key in range(2000):
        _trip(keyed, key)
    assert len(keyed) == 2000
    assert len(looks) < 2000 * 12


def test_two_threads_get_the_same_breaker(family):
    """Many threads that ask for a new key at once get one breaker."""
    keyed = family()
    start = threading.Barrier(16)

    def get(_):
        start.wait(30)
        return keyed.get("k")

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(get, range(16)))) == 1
    # And the one that comes second through the lock finds what the first has made.
    assert keyed._family._add("k") is keyed.get("k")


def test_a_family_takes_a_fresh_lock_after_a_fork(family):
    """In a forked child the lock is a new one."""
    keyed = family()
    keyed._family._lock.acquire()
    before = keyed._family._lock
    keyed._family.after_fork()
    assert keyed._family._lock is not before
    before.release()


def test_a_guarded_object_leads_to_its_family(family):
    """A partial behind a family shows it under ``breaker``, and nothing else under other names."""
    keyed = family()
    guarded = keyed(functools.partial(pow, 2))
    assert (guarded(3), guarded.breaker) == (8, keyed)
    with pytest.raises(AttributeError):
        _ = guarded.bulkhead
