"""The list of providers: how they are named, and what is kept of those that come and go."""

from __future__ import annotations

import gc

import pytest

from breakerkit import BreakerConfig, ConfigError, Provider, State, failover
from breakerkit.providers._provider import name_of
from breakerkit.testing import ManualClock
from tests.providers.rig import DOWN, Providers


class Client:
    """A value whose ``repr`` is what it is told."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text

    def __eq__(self, other):
        return isinstance(other, Client)

    __hash__ = None


def test_names():
    """A text stands for itself, other values for their ``repr``; a `Provider` may say its own."""
    line = failover(["a", 7, Client("<client>"), Provider(7, "seven"), Provider("x")])
    assert line.providers == ("a", "7", "<client>", "seven", "x")
    assert line.breaker("seven").name.endswith("[seven]")


def test_a_long_or_broken_repr():
    """A long ``repr`` is cut and stays unique; one that fails is replaced."""

    class Broken:
        def __repr__(self):
            raise ValueError

    long = name_of(Client("x" * 500))
    assert len(long) < 220
    assert long != name_of(Client("x" * 501))
    assert "Broken" in name_of(Broken())
    assert name_of("") == "''"


def test_two_of_one_name():
    """Two providers of one name are an error that names it and says what to do."""
    with pytest.raises(ConfigError, match=r"two are named 'a'.*Provider\(value, 'name'\)"):
        failover(["a", Provider(1, "a")])
    late = failover(lambda: ["a", "a"])
    with pytest.raises(ConfigError, match="two are named"):
        late.call(lambda provider: provider)


@pytest.mark.parametrize(
    "source", [None, 7, b"ab", {"a"}, {"a": 1}, int, object()], ids=lambda one: type(one).__name__
)
def test_what_is_no_list(source):
    """What is neither a list nor a callable that gives one is refused."""
    with pytest.raises(ConfigError, match="must be a list or tuple"):
        failover(source)


def test_a_callable_that_cannot_be_asked():
    """A coroutine function, or one that wants arguments, is refused; a function is decorated otherwise."""

    async def find():
        return []

    with pytest.raises(ConfigError, match="plain callable"):
        failover(find)
    with pytest.raises(ConfigError, match=r"decorated with @failover\(\[\.\.\.\]\)"):

        @failover
        def work(provider):
            pass


@pytest.mark.parametrize(
    "found", ["ab", None, {"a"}, iter(["a"])], ids=lambda one: type(one).__name__
)
def test_a_callable_that_returns_no_list(found):
    """What a callable returns must be a list, too."""
    with pytest.raises(ConfigError, match="must be a list or tuple"):
        failover(lambda: found).call(lambda provider: provider)


def test_the_last_good_list_stays(caplog):
    """A list that cannot be read, or is wrong, changes nothing and is logged; without a good one it is raised."""
    answers = [["a"], OSError("registry is down"), ["b", "b"], KeyboardInterrupt(), ["c"]]

    def find():
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    line = failover(find, "found")
    assert [line.call(lambda provider: provider) for _ in range(3)] == ["a"] * 3
    assert "list of providers of 'found' raised" in caplog.text
    with pytest.raises(KeyboardInterrupt):
        line.call(lambda provider: provider)
    assert line.call(lambda provider: provider) == "c"

    def broken():
        raise OSError("never was there")

    never = failover(broken)
    with pytest.raises(OSError, match="never"):
        never.call(lambda provider: provider)
    assert never.snapshot().providers == ()

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failover(interrupted).snapshot()


def test_identity_counts():
    """A value is replaced by one that equals it: the new one is used, the breaker of the name stays."""
    old, new = Client("same"), Client("same")
    listed = [old, "b"]
    line = failover(listed, breaker=BreakerConfig(failure_threshold=3))
    assert line.call(lambda provider: provider) is old
    breaker = line.breaker("same")
    listed[0] = new
    assert line.call(lambda provider: provider) is new
    assert line.breaker("same") is breaker
    listed.append("c")
    assert line.providers == ("same", "b", "c")


def test_a_provider_that_comes_back():
    """A provider that was away for a while finds its breaker as it left it."""
    listed = ["a", "b"]
    line = failover(listed, breaker=BreakerConfig(failure_threshold=1), clock=ManualClock())
    line.call(Providers(a=DOWN))
    assert line.breaker("a").state is State.OPEN
    listed.remove("a")
    assert line.call(Providers()) == "b"
    with pytest.raises(KeyError, match="no provider 'a'"):
        line.breaker("a")
    listed.insert(0, "a")
    assert line.call(Providers()) == "b"
    assert line.breaker("a").state is State.OPEN


def test_a_changing_list_of_many_names():
    """A list that is another one each time leaves no more than a hundred behind."""
    number = 0

    def find():
        nonlocal number
        number += 1
        return [f"p{number}", "kept"]

    line = failover(find)
    work = line(lambda provider: provider)
    for _ in range(3000):
        work()
    assert len(line._guard.roster.known()) <= 102
    assert line.snapshot().providers[1].name == "kept"
    gc.collect()


def test_another_thread_was_faster(monkeypatch):
    """Two calls that meet a new name at once share its breaker."""
    line = failover(lambda: ["a", "b"], "race")
    roster, make = line._guard.roster, line._guard.roster._make
    meanwhile = []

    def slow(name, provider):
        if not meanwhile:
            meanwhile.append(None)
            meanwhile[0] = line.call(lambda provider: line.breaker("a"))
        return make(name, provider)

    roster._make = slow
    line.call(lambda provider: provider)
    assert line.breaker("a") is meanwhile[0]


def test_a_tuple_is_read_once():
    """A tuple cannot change, so it is not looked at again."""
    line = failover(("a", "b"))
    line.call(lambda provider: provider)
    assert line._guard.roster.fixed
    assert line._guard.ready.name == "a"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": ""}, "name=''"),
        ({"name": 3}, "name=3"),
        ({"attempts": 0}, "attempts=0"),
        ({"breaker": "on"}, "must be a BreakerConfig"),
        ({"breaker": BreakerConfig}, "must be a BreakerConfig"),
    ],
)
def test_wrong_providers(settings, said):
    """What a provider says of itself is checked when it is made."""
    with pytest.raises(ConfigError, match=said):
        Provider("a", **settings)


def test_a_provider_own_breaker():
    """A provider may bring its breaker's settings, or want none; the failover's word wins."""
    own = BreakerConfig(failure_threshold=7)
    providers = [Provider("a", breaker=own), Provider("b", breaker=None), "c"]
    line = failover(providers)
    assert line.breaker("a").config == own
    assert line.breaker("b") is None
    assert line.breaker("c").config == BreakerConfig()
    theirs = BreakerConfig(failure_threshold=9)
    assert failover(providers, breaker=theirs).breaker("b").config == theirs
    assert failover(providers, breaker=False).breaker("a") is None
