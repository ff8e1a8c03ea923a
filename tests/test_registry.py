"""The registry: the same name is the same object, near names are told, nothing unnamed is kept."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from breakerkit import (
    CallSucceeded,
    ConfigError,
    NameConflictError,
    Registry,
    Snapshot,
    State,
    StateChanged,
    breaker,
    registry,
)
from breakerkit._hub import subscription
from breakerkit.events import EVENT_KINDS
from tests.shapes import raising, returning


@pytest.fixture
def own():
    """A registry of its own."""
    return Registry()


def test_get_names_and_the_rest(own):
    """``get``, ``names``, ``in``, ``len``, iteration and ``repr`` agree."""
    b = breaker("payments", registry=own)
    breaker("api", registry=own)
    assert own.get("payments") is b
    assert own.names() == list(own) == ["api", "payments"]
    assert "api" in own
    assert "apy" not in own
    assert len(own) == 2
    assert repr(own) == "<Registry of 2>"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("paymnts", "no policy is named 'paymnts', did you mean 'payments' or 'payments-eu'?"),
        ("xyz", "no policy is named 'xyz'"),
        (42, "no policy is named 42"),
        ([], r"no policy is named \[\]"),
    ],
)
def test_an_unknown_name_lists_near_ones(own, asked, message):
    """An unknown name is a ``KeyError`` that lists the names that look like it."""
    for name in ("payments", "payments-eu", "inventory"):
        breaker(name, registry=own)
    with pytest.raises(KeyError, match=message) as caught:
        own.get(asked)
    assert caught.value.__suppress_context__


def test_snapshots_by_name(own):
    """``snapshot()`` has one frozen record per breaker, those of a family by ``name[key]``."""
    breaker("api", registry=own).call(returning())
    breaker("hosts", key=len, registry=own).call(len, "abc")
    found = own.snapshot()
    assert list(found) == ["api", "hosts[3]"]
    assert all(isinstance(one, Snapshot) for one in found.values())
    assert (found["api"].successes, found["hosts[3]"].state) == (1, State.CLOSED)


def test_a_name_that_goes_while_a_snapshot_is_taken(own, monkeypatch):
    """A name that has gone between being listed and being looked at is left out."""
    monkeypatch.setattr(own, "names", lambda: ["gone"])
    assert own.snapshot() == {}


def test_the_unnamed_are_held_weakly(own):
    """An unnamed breaker is not listed, and goes with the last reference to it."""
    b = breaker(registry=own)
    gone = weakref.ref(b)
    assert own.names() == []
    assert len(own._keepers.of(object)) == 1
    del b
    gc.collect()
    assert gone() is None
    assert len(own._keepers.of(object)) == 0


def test_the_forgotten_keys_of_a_family_are_let_go(own):
    """C065: what a family forgets is in no list of the registry's either."""
    keyed = breaker("hosts", key=len, max_keys=10, registry=own)
    for key in range(1000):
        keyed.get(key)
    gc.collect()
    assert len(own._keepers.of(object)) == 10


def test_listeners_hear_every_breaker(own):
    """A listener of the registry hears named, unnamed and keyed breakers, made before or after."""
    before = breaker("before", registry=own)
    heard = []
    unsubscribe = own.subscribe(heard.append, CallSucceeded)
    after = breaker("after", registry=own)
    nameless = breaker(registry=own)
    keyed = breaker("hosts", key=len, registry=own)
    for b in (before, after, nameless, keyed.get("k")):
        b.call(returning())
    names = ["before", "after", "unnamed", "hosts[k]"]
    assert [event.name for event in heard] == names
    unsubscribe()
    unsubscribe()
    before.call(returning())
    assert len(heard) == 4


def test_a_listener_that_comes_while_a_breaker_is_made(own, monkeypatch):
    """It is heard by a breaker whose making had begun before: none falls between."""
    heard = []
    adopt = own.adopt

    def late(guard):
        own._hub.add(subscription(heard.append, (StateChanged,), EVENT_KINDS))
        adopt(guard)

    monkeypatch.setattr(own, "adopt", late)
    b = breaker(failure_threshold=1, registry=own)
    with pytest.raises(OSError):
        b.call(raising(OSError()))
    assert [type(event) for event in heard] == [StateChanged]


def test_threads_that_ask_for_a_new_name_get_one_breaker(own):
    """Sixteen threads that make the same name at once share one breaker."""
    start = threading.Barrier(16)

    def get(_):
        start.wait(30)
        return breaker("api", failure_threshold=3, registry=own)

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(get, range(16)))) == 1


def test_other_policies_may_have_names_too(own):
    """``get_or_add`` keeps any policy; a conflict is told with what differs."""
    policy = object()
    assert own.get_or_add("limit", "limit", lambda: policy, lambda found: None) is policy
    assert own.get_or_add("limit", "limit", list, lambda found: None) is policy
    with pytest.raises(NameConflictError, match="the name 'limit' is taken: it differs"):
        own.get_or_add("limit", "limit", list, lambda found: "it differs")
    with pytest.raises(ConfigError, match="name=42: must be a text"):
        own.get_or_add("limit", 42, list, lambda found: None)


def test_a_name_that_is_taken_while_its_policy_is_made(own):
    """Whoever comes second gets what the first has made, or the conflict with it."""
    first = object()

    def slower():
        own.get_or_add("limit", "api", lambda: first, lambda found: None)
        return object()

    assert own.get_or_add("limit", "api", slower, lambda found: None) is first
    del own._policies["limit", "api"]
    with pytest.raises(NameConflictError, match="it differs"):
        own.get_or_add("limit", "api", slower, lambda found: "it differs")


def test_a_maker_that_fails_takes_no_name(own):
    """If making a policy fails, its name is still free."""
    with pytest.raises(OSError):
        own.get_or_add("limit", "api", raising(OSError()), lambda found: None)
    assert own.names() == []


def test_a_fresh_lock_after_a_fork(own):
    """In a forked child the lock is a new one, whoever held the old one."""
    own._lock.acquire()
    held = own._lock
    own.after_fork()
    assert own._lock is not held
    held.release()


def test_the_shared_one():
    """``registry`` is the registry of whoever names none."""
    assert breaker("api") is registry.get("api")


def test_two_kinds_may_share_a_name(own):
    """A name means the breaker of that name, else the only policy that has it, else a kind is needed."""
    api = breaker("api", registry=own)
    limit, quota = object(), object()
    own.get_or_add("limit", "api", lambda: limit, lambda found: None)
    assert own.get("api") is api
    assert own.get("api", "limit") is limit
    own.get_or_add("limit", "db", lambda: limit, lambda found: None)
    assert own.get("db") is limit
    own.get_or_add("quota", "db", lambda: quota, lambda found: None)
    with pytest.raises(KeyError, match=r"several .* named 'db': give kind=, one of .*limit.*quota"):
        own.get("db")
    with pytest.raises(KeyError, match="no breaker is named 'db'"):
        own.get("db", "breaker")
    assert own.names() == ["api", "db"]
    assert own.names("breaker") == ["api"]
    assert (len(own), "db" in own, "other" in own) == (4, True, False)
