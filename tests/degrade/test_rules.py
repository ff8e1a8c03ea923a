"""The rules: who, why, until when, which wins, what is told, what the past was (SPEC 3)."""

from __future__ import annotations

import copy
import gc
import logging
import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from breakerkit import (
    ConfigError,
    Degradation,
    Registry,
    Rule,
    RuleCleared,
    RuleError,
    RuleExpired,
    RuleReplaced,
    RuleSet,
    StandingRule,
    degradable,
    degradation,
)
from tests.shapes import returning

ONE, TWO = Rule.force_return(1), Rule.force_return(2)


@pytest.fixture
def rules(clock):
    return Degradation(clock=clock)


def test_what_is_said_about_a_rule(rules):
    """Who, why, until when, whence, which version and since when is kept with it."""
    before = datetime.now(UTC)
    made = rules.set("reviews", ONE, by="ops", reason="incident", until=timedelta(minutes=5))
    assert isinstance(made, StandingRule)
    assert (made.name, made.rule, made.by, made.reason, made.source, made.version, made.by_hand) == (
        "reviews", ONE, "ops", "incident", "hand", 1, True,
    )  # fmt: skip
    assert before <= made.since <= datetime.now(UTC)
    assert made.until == made.since + timedelta(minutes=5)
    assert rules.rules() == [made]
    assert str(made) == (
        f"reviews: force:return 1 by ops (incident) until {made.until:%Y-%m-%d %H:%M:%S} UTC, source hand"
    )
    assert rules.set("x", "fail:raise TimeoutError").version == 2
    assert str(rules.rule_for("x")) == "x: fail:raise TimeoutError, source hand"


def test_an_aware_datetime(rules, clock):
    """``until`` may be a moment in any time zone; it is kept in UTC."""
    moment = datetime.now(UTC) + timedelta(seconds=50)
    made = rules.set("x", ONE, until=moment.astimezone(None))
    assert made.until == moment
    assert made.until.tzinfo is UTC
    clock.advance(49)
    assert rules.rules() == [made]
    clock.advance(1)
    assert rules.rules() == []


@pytest.mark.parametrize(
    ("args", "extra", "says"),
    [
        (("", ONE), {}, "name='': must be a name or a pattern"),
        ((" x", ONE), {}, "without blanks around it"),
        (("x" * 501, ONE), {}, "must be a name or a pattern"),
        ((3, ONE), {}, "name=3: must be a name"),
        (("x", 3), {}, "rule 3: must be a text"),
        (("x", "force:no"), {}, "is no rule"),
        (("x", ONE), {"by": 3}, "by=3: must be a text"),
        (("x", ONE), {"reason": b"x"}, "reason=b'x': must be a text"),
        (("x", ONE), {"until": 5}, "until=5: must be a timedelta above 0 or an aware datetime"),
        (("x", ONE), {"until": datetime.now()}, "until=.*must be a timedelta"),
        (("x", ONE), {"until": timedelta(0)}, "until=.*must be a timedelta"),
        (("x", ONE), {"until": datetime(2001, 1, 1, tzinfo=UTC)}, "in the future"),
        (("x", ONE), {"until": timedelta(days=100_000)}, "until="),
    ],
    ids=str,
)
def test_wrong_arguments(rules, args, extra, says):
    """What is wrong is told at once, and nothing has changed."""
    with pytest.raises(ConfigError, match=says):
        rules.set(*args, **extra)
    assert (rules.rules(), rules.history()) == ([], [])


@pytest.mark.parametrize("settings", [{"clock": 3}, {"history": 0}, {"history": True}], ids=str)
def test_wrong_settings(settings):
    """Rules of one's own need a clock and some room for the past."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Degradation(**settings)


# -- which wins ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "asked", "winner"),
    [
        (["reviews.*", "reviews.get"], "reviews.get", "reviews.get"),
        (["*", "reviews.*", "r*"], "reviews.get", "reviews.*"),
        (["*.get", "reviews.*"], "reviews.get", "reviews.*"),
        (["re*s.get", "re*"], "reviews.get", "re*s.get"),
        (["reviews.?et", "reviews.[g]et"], "reviews.get", "reviews.[g]et"),
        (["reviews.*"], "reviews", None),
        (["reviews.*"], "reviews.a.b", "reviews.*"),
        (["Reviews"], "reviews", None),
        (["review?"], "reviews", "review?"),
        (["[!a]b"], "cb", "[!a]b"),
        (["a[0]"], "a[0]", "a[0]"),
        (["a[0]"], "a0", "a[0]"),
        (["*"], "a\nb", "*"),
        (["a[", "*"], "a[", "a["),
    ],
)
def test_which_of_several_wins(rules, names, asked, winner):
    """The exact name, then the longest text before the first special character, then the most other text."""
    for order in (names, names[::-1]):
        rules.clear()
        for name in order:
            rules.set(name, ONE)
        found = rules.rule_for(asked)
        assert (found and found.name) == winner


def test_the_newer_of_two_alike(rules):
    """Patterns that are equally special: the newer one."""
    for name in ("a?", "a*", "a?"):
        rules.set(name, ONE)
        assert rules.rule_for("ab").name == name


def test_a_hostile_pattern(rules):
    """A pattern with many stars is soon done with."""
    rules.set("*a" * 100 + "b", ONE)
    assert rules.rule_for("a" * 400) is None


# -- clearing ----------------------------------------------------------------------------


def test_clearing(rules):
    """Just the rule set for that very name goes; what was taken is returned; twice is no error."""
    one, pattern = rules.set("reviews", ONE), rules.set("rev*", TWO)
    assert rules.clear("reviews", by="ops", reason="over") == [one]
    assert rules.clear("reviews") == []
    assert rules.rules() == [pattern]
    assert rules.clear() == [pattern]
    assert rules.clear() == []
    cleared = rules.history()[2]
    assert (type(cleared), cleared.rule, cleared.by, cleared.reason) == (
        RuleCleared, one, "ops", "over",
    )  # fmt: skip
    with pytest.raises(RuleError):
        rules.clear(3)
    with pytest.raises(RuleError):
        rules.clear("x", by=3)
    with pytest.raises(RuleError, match="must be the path"):
        rules.clear(source="hand")


# -- the past ----------------------------------------------------------------------------


def test_the_history(rules, clock):
    """Set, replaced, cleared and expired, oldest first, each with its rule."""
    first = rules.set("x", ONE)
    second = rules.set("x", TWO, until=timedelta(seconds=10))
    third = rules.set("y", ONE)
    rules.clear("y")
    clock.advance(10)
    events = rules.history()
    assert [type(event) for event in events] == [
        RuleSet,
        RuleReplaced,
        RuleSet,
        RuleCleared,
        RuleExpired,
    ]
    assert [event.rule for event in events] == [first, second, third, third, second]
    assert events[1].old == first
    assert events[-1].at == second.until
    assert {event.name for event in events} == {"x", "y"}


def test_the_history_is_bounded():
    """So many changes are kept as was said."""
    rules = Degradation(history=3)
    for number in range(10):
        rules.set("x", Rule.force_return(number))
    assert [event.rule.version for event in rules.history()] == [8, 9, 10]


def test_expiry_without_calls(rules, clock):
    """Nobody need call: whoever looks finds that it is over, and the past says when."""
    made = rules.set("x", ONE, until=timedelta(seconds=1))
    clock.advance(100)
    assert rules.rule_for("x") is None
    assert rules.history()[-1].at == made.until


def test_ends_in_order(rules, clock):
    """Rules that ended while nobody looked are told in the order of their ends."""
    for name, seconds in (("c", 3), ("a", 1), ("b", 2)):
        rules.set(name, ONE, until=timedelta(seconds=seconds))
    clock.advance(10)
    assert [event.name for event in rules.history()[3:]] == ["a", "b", "c"]


# -- what is told --------------------------------------------------------------------------


def test_events(rules):
    """Listeners hear each change, or those of the kinds they want."""
    every, cleared = [], []
    stop = rules.subscribe(every.append)
    rules.subscribe(cleared.append, RuleCleared)
    rules.set("x", ONE)
    rules.clear("x")
    stop()
    rules.set("x", ONE)
    assert [type(event) for event in every] == [RuleSet, RuleCleared]
    assert cleared == every[1:]
    with pytest.raises(TypeError):
        rules.subscribe(3)


def test_listeners_that_raise_and_those_that_change(rules, caplog):
    """C071, C072: one that raises is logged; one may set and clear rules itself."""

    def change(event):
        if event.name == "x":
            rules.set("y", TWO)

    rules.subscribe(lambda event: {}["key"])
    rules.subscribe(change)
    rules.set("x", ONE)
    assert [rule.name for rule in rules.rules()] == ["x", "y"]
    assert "of 'x' raised" in caplog.text


def test_log_lines(rules, clock, caplog):
    """One INFO line per change, and none where that level is off."""
    caplog.set_level(logging.INFO, "breakerkit")
    rules.set("x", ONE, by="ops", until=timedelta(seconds=1))
    clock.advance(1)
    rules.rules()
    assert [record.getMessage().split(" by ")[0] for record in caplog.records] == [
        "degradation rule set: x: force:return 1",
        "degradation rule expired: x: force:return 1",
    ]


# -- threads, signals, destructors ------------------------------------------------------------


def test_threads(rules):
    """Threads that set and clear together lose nothing, and versions are never given twice."""
    start = threading.Barrier(8)

    def work(number):
        start.wait()
        for turn in range(50):
            rules.set(f"{number}.{turn % 5}", ONE)
            rules.rules()
        rules.clear(f"{number}.0")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rules.rules()) == 32
    versions = [
        event.rule.version for event in rules.history() if not isinstance(event, RuleCleared)
    ]
    assert len(versions) == len(set(versions)) == 400


def test_a_change_in_the_middle_of_a_change(rules, monkeypatch):
    """A signal handler may change rules while the same thread is changing some: both are made."""
    board = rules._board
    call = degradable("x", rules=rules, registry=Registry())(returning("value"))
    publish, seen = board._publish, []

    def interrupted(book):
        if not seen:
            seen.append("handler")
            rules.set("y", TWO)
            assert rules.clear("never set") == []
            assert degradable("z", rules=rules, registry=Registry())(returning(3))() == 3
        publish(book)

    monkeypatch.setattr(type(board), "_publish", lambda self, book: interrupted(book), raising=True)
    rules.set("x", ONE)
    assert call() == 1
    assert [rule.name for rule in rules.rules()] == ["x", "y"]
    assert rules.names() == ["x", "z"]


def test_an_expired_rule_in_the_middle_of_a_change(rules, clock, monkeypatch):
    """A call from there finds that a rule is over, though nobody could take it away yet."""
    board = rules._board
    call = degradable("x", rules=rules, registry=Registry())(returning("value"))
    rules.set("x", ONE, until=timedelta(seconds=1))
    publish, seen = board._publish, []

    def interrupted(self, book):
        if not seen:
            clock.advance(1)
            seen.append(call())
            seen.append(rules.rules())
        publish(book)

    monkeypatch.setattr(type(board), "_publish", interrupted)
    rules.set("other", TWO)
    assert seen == ["value", []]
    assert [type(event) for event in rules.history()] == [RuleSet, RuleSet, RuleExpired]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_signal_handler(rules):
    """A handler that sets rules while the main thread does so all the time harms neither."""
    before = signal.signal(signal.SIGALRM, lambda *_: rules.set("handler", TWO))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for number in range(1500):
            rules.set(f"name {number % 7}", ONE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    rules.clear("handler")
    assert len(rules.rules()) == 7


def test_interrupted_anywhere(rules):
    """KeyboardInterrupt in a listener passes; the rule is in force and the lock is free."""

    def interrupt(event):
        raise KeyboardInterrupt

    stop = rules.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        rules.set("x", ONE)
    stop()
    assert rules.rule_for("x").rule == ONE
    assert not rules._board.between()


def test_a_change_is_one_step(rules):
    """Of a change of many rules no call sees a part: signs go up before, and down after."""
    board = rules._board
    names = ["a", "b", "c"]
    calls = {
        name: degradable(name, rules=rules, registry=Registry())(returning("value"))
        for name in names
    }
    for name in names:
        rules.set(name, ONE)
    seen = []

    # A look from each place where another thread could look in the middle of clearing all three.
    state = type(board)._state

    class Slot:
        def __get__(self, one, kind=None):
            return state.__get__(one, kind)

        def __set__(self, one, value):
            seen.append([call() for call in calls.values()])
            state.__set__(one, value)
            seen.append([call() for call in calls.values()])

    try:
        type(board)._state = Slot()
        rules.clear()
        assert seen == [[1, 1, 1], ["value"] * 3]
    finally:
        type(board)._state = state


# -- identity -----------------------------------------------------------------------------------


def test_names_and_repr(rules):
    """It knows the names under it, and says how many there are."""
    degradable("b", rules=rules, registry=Registry())
    degradable("a", rules=rules, registry=Registry())
    rules.set("a", ONE)
    assert rules.names() == ["a", "b"]
    assert repr(rules) == "<Degradation of 2 names, 1 rules>"


def test_a_copy_is_the_same(rules):
    """Like every policy it is one thing: copies are itself."""
    assert copy.copy(rules) is copy.deepcopy(rules) is rules


def test_what_is_gone_is_gone():
    """Rules of one's own that nobody holds any more are free."""
    from breakerkit import _fork

    one = Degradation()
    one.set("x", ONE)
    assert one in _fork.alive(Degradation)
    number = len(_fork.alive(Degradation))
    del one
    gc.collect()
    assert len(_fork.alive(Degradation)) < number


def test_after_a_fork(rules):
    """Locks are fresh, rules are kept, signs and book belong together."""
    call = degradable("x", rules=rules, registry=Registry())(returning("value"))
    rules.set("x", ONE)
    lock = rules._board.lock
    rules._board._waiting.append(lambda book: pytest.fail("the parent's"))
    rules._board.sign("x").up = False  # as if another thread had been in the middle of a change
    rules._board.after_fork()
    rules.after_fork()
    assert rules._board.lock is not lock
    assert call() == 1


def test_the_shared_rules():
    """``degradation`` is the one that functions are under by default."""
    assert isinstance(degradation, Degradation)
    assert degradable("x").snapshot().rule is None
    made = degradation.set("x", ONE)
    assert degradable("x").snapshot().rule == made
