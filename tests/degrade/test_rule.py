"""Rules and their text: parsing and printing are inverse, nothing is evaluated (SPEC 3; C047)."""

from __future__ import annotations

import copy
import enum
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakerkit import NameConflictError, Rule, RuleError, degradation
from breakerkit.degrade import _allowed as allowed
from breakerkit.degrade import _json as exact
from breakerkit.degrade.rule import MOST_TEXT


class Gone(Exception):
    """An exception that a program allows."""


@pytest.fixture(autouse=True)
def _allowed(monkeypatch):
    monkeypatch.setattr(allowed, "_given", {"shop.Gone": Gone})


# -- parsing and printing -----------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip
ERRORS = st.builds(
    lambda kind, args: kind(*args),
    st.sampled_from(
        [TimeoutError, ConnectionError, ValueError, KeyError, OSError, Gone, Exception]
    ),
    st.lists(JSON, max_size=3),
)
RULES = st.one_of(
    st.builds(Rule.force_return, JSON),
    st.builds(Rule.force_raise, ERRORS),
    st.builds(Rule.fail_raise, ERRORS),
    st.just(Rule.force_call()),
    st.just(Rule.fail_call()),
)


def spelt(rule):
    """Return the text of a rule, ``None`` if it has none."""
    try:
        return str(rule)
    except RuleError:
        return None


@given(RULES)
@settings(max_examples=200, deadline=None)
def test_parsing_and_printing_are_inverse(rule):
    """C047: whatever a rule says, its text says it, to the type; and says it the same way again."""
    text = spelt(rule)
    assert text is not None
    again = Rule.parse(text)
    assert again == rule
    assert hash(again) == hash(rule)
    assert str(again) == text
    assert repr(again) == repr(rule)
    assert exact.same(again.value, rule.value)
    assert (again.force, again.action) == (rule.force, rule.action)
    assert type(again.error) is type(rule.error)
    if rule.error is not None:
        assert exact.same(again.error.args, rule.error.args)


@given(st.text() | st.text(alphabet='force:turnail {}[]"\\,0123\n()TimeoutError'))
@settings(max_examples=200, deadline=None)
def test_any_text(text):
    """A text is a rule or a RuleError, and nothing else ever happens; a rule it makes has a text."""
    for whole in (text, f"force:return {text}", f"fail:raise ValueError({text})"):
        try:
            rule = Rule.parse(whole)
        except RuleError:
            continue
        assert Rule.parse(str(rule)) == rule


def test_colons_commas_and_quotes():
    """C047: the value is exactly that dict, and its text is the very one."""
    text = 'force:return {"a": 1, "url": "x=1:y"}'
    rule = Rule.parse(text)
    assert rule.value == {"a": 1, "url": "x=1:y"}
    assert str(rule) == text
    assert repr(rule) == f"<Rule {text}>"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("force:return []", Rule.force_return([])),
        ("  force : return\n null ", Rule.force_return(None)),
        ('force:return "a \\" b"', Rule.force_return('a " b')),
        ("force:return -0.0", Rule.force_return(-0.0)),
        ("force:raise TimeoutError", Rule.force_raise(TimeoutError)),
        ("force:raise TimeoutError()", Rule.force_raise(TimeoutError())),
        ('force:raise TimeoutError ("slow", 3)', Rule.force_raise(TimeoutError("slow", 3))),
        ('force:raise OSError(2, "no", "f")', Rule.force_raise(FileNotFoundError(2, "no", "f"))),
        ("force:raise IOError", Rule.force_raise(OSError)),
        ("fail:raise shop.Gone", Rule.fail_raise(Gone)),
        ("force:call", Rule.force_call()),
        ("fail:call", Rule.fail_call()),
    ],
)
def test_forms(text, rule):
    """Each form means what the class methods make."""
    assert Rule.parse(text) == rule


NOT_ALLOWED = "which is not allowed"
WRONG = [
    (None, "must be a text"),
    (b"force:call", "must be a text"),
    ("", "is no rule; allowed are"),
    ("force", "is no rule"),
    ("force:retrun 1", "is no rule"),
    ("FORCE:call", "is no rule"),
    ("force:returnx", "is no rule"),
    ('force:return"x"', "is no rule"),
    ("fail:return 1", "to return a value for a failure use fail:call"),
    ("force:return", "needs a value in JSON"),
    ("force:return   ", "needs a value in JSON"),
    ("force:return {'a': 1}", "is not JSON"),
    ("force:return [1", r"is not JSON \(Expecting ',' delimiter: line 1 column 3"),
    ("force:return 1 2", "is not JSON"),
    ("force:return None", "is not JSON"),
    ("force:return __import__('os')", "is not JSON"),
    ("force:return NaN", "has NaN, which is not JSON"),
    ("force:return -Infinity", "has -Infinity"),
    ("force:return 1e999", "has the number 1e999, which no float can hold"),
    ('force:return {"a": 1, "a": 2}', "has the key 'a' twice in one dict"),
    (r'force:return "\ud800"', "has a character that no UTF-8 text can hold"),
    (r'force:return {"\udfff": 1}', "has a character that no UTF-8 text can hold"),
    ("force:return " + "9" * 5000, "is not JSON"),
    ("force:return " + "[" * 65 + "]" * 65, "nests lists or dicts more than 64 deep"),
    ("force:return " + '{"a":' * 6000, "nests lists or dicts more than 64 deep"),
    ("force:return " + "[" * 100_000, "has 100013 characters, allowed are 65536"),
    (" " * 60_000 + "force:call x", "nothing may be"),
    ("force:call 3", """has '3' after "call", where nothing may be"""),
    ("force:raise", "needs an exception"),
    ("force:raise 3", "needs an exception"),
    ("force:raise ValueError(", "needs an exception"),
    ("force:raise ValueError)(", "needs an exception"),
    ("force:raise ValueError('a')", "is not JSON"),
    ("force:raise ValueError(]+[)", "is not JSON"),
    ("force:raise TimeoutEror", "not allowed, did you mean 'TimeoutError'"),
    ("force:raise Gone", NOT_ALLOWED),
    ("force:raise KeyboardInterrupt", NOT_ALLOWED),
    ("force:raise SystemExit(1)", NOT_ALLOWED),
    ("force:raise BaseException", NOT_ALLOWED),
    ("force:raise print", NOT_ALLOWED),
    ('force:raise os.system("ls")', NOT_ALLOWED),
    ("force:raise __import__", NOT_ALLOWED),
    ("force:raise ExceptionGroup", "cannot make a ExceptionGroup of these arguments"),
    ("force:raise UnicodeDecodeError(1)", "cannot make a UnicodeDecodeError"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=range(len(WRONG)))
def test_texts_that_are_no_rules(text, says):
    """Whatever is wrong is one RuleError that names the text and says what is allowed."""
    with pytest.raises(RuleError, match=says) as caught:
        Rule.parse(text)
    message = str(caught.value)
    assert message.startswith(("rule '", "rule b'", "rule None", 'rule "'))
    assert len(message) < 1200
    assert caught.value.__cause__ is None


def test_unknown_names_list_what_is_given():
    """Names that a program has allowed are in the message."""
    with pytest.raises(RuleError, match=r"which are \['shop.Gone'\]"):
        Rule.parse("force:raise Nope")


def test_deep_in_the_stack():
    """A text that nests lawfully is a RuleError where the stack has no room left, and no crash."""

    def deep():
        try:
            return deep()
        except RecursionError:
            return call()

    def call():
        try:
            return str(Rule.parse("force:return " + "[" * 60 + "]" * 60))
        except (RuleError, RecursionError) as error:
            return error

    assert deep() is not None


# -- what has no text -----------------------------------------------------------------


class Number(enum.IntEnum):
    ONE = 1


def with_note():
    error = ValueError("a")
    error.add_note("more")
    return error


LOOP: list = []
LOOP.append(LOOP)
WIDE: list = []
for _ in range(60):
    WIDE = [WIDE, WIDE]


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, (1,), {1: 2}, {1}, object(), Number.ONE, b"x", "\ud800", [1j],
        LOOP, WIDE, {"a": (1,)}, {"\ud800": 1},
    ],
    ids=range(14),
)  # fmt: skip
def test_values_that_json_cannot_say(value):
    """Such a value may be returned, as the very object; its rule has no text and says so."""
    rule = Rule.force_return(value)
    assert rule.value is value
    with pytest.raises(RuleError, match="has no text: it is not made of what JSON knows exactly"):
        str(rule)
    assert repr(rule).startswith("<Rule force:return ")
    assert rule == Rule.force_return(value)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError((1, 2)), "is not made of what JSON knows"),
        (with_note(), "which is more than its class and arguments"),
        (ImportError("no", name="x"), "which is more than its class and arguments"),
        (type("Other", (Exception,), {})(), "has no name: give it to degradation.allow"),
        (ExceptionGroup("g", [ValueError()]), "is not made of what JSON knows"),
    ],
    ids=repr,
)
def test_errors_that_no_text_can_say(error, says):
    """Such an error may be raised; its rule has no text and says so."""
    rule = Rule.fail_raise(error)
    assert type(rule.error) is type(error)
    assert rule.error.args == error.args
    with pytest.raises(RuleError, match=says):
        str(rule)
    assert "fail:raise" in repr(rule)
    assert rule == Rule.fail_raise(copy.copy(error)) or error.args[0] == "g"


def test_a_text_that_would_be_too_long():
    """A rule whose text no parser would take has none; its repr is short."""
    rule = Rule.force_return("x" * MOST_TEXT)
    with pytest.raises(RuleError, match="characters, allowed are"):
        str(rule)
    assert len(repr(rule)) < 200
    assert len(repr(Rule.force_return("x" * 1000))) < 300


def test_equal_to_the_type():
    """``1``, ``1.0`` and ``True`` are three values, and so are ``0.0`` and ``-0.0``."""
    values = [1, 1.0, True, 0.0, -0.0, 0, False, None, "1", [1], [True], {"a": 1}, {"a": 1.0}, []]
    rules = [Rule.force_return(value) for value in values]
    for one in rules:
        assert [one == other for other in rules].count(True) == 1
    assert Rule.force_return({"a": 1, "b": 2}) == Rule.force_return({"b": 2, "a": 1})
    assert Rule.force_raise(ValueError(1)) != Rule.force_raise(ValueError(True))
    assert Rule.force_raise(ValueError) != Rule.fail_raise(ValueError)
    assert Rule.force_call() != "force:call"
    assert exact.Exact(1) != 1


class Odd:
    """Something that cannot be compared."""

    def __eq__(self, other):
        raise ValueError("ambiguous")

    __hash__ = None

    def __repr__(self):
        raise ValueError("no")


def test_values_with_a_mind_of_their_own():
    """Values that cannot be compared or shown harm nobody."""
    rule = Rule.force_return(Odd())
    assert rule == rule  # noqa: PLR0124  # that is the test
    assert rule != Rule.force_return(Odd())
    assert "Odd" in repr(rule)


# -- errors -----------------------------------------------------------------------------


class Stubborn(Exception):
    """An exception whose arguments are not those of its class."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyboardInterrupt, "must be an Exception"),
        (KeyboardInterrupt(), "must be an Exception"),
        ("TimeoutError", "must be an Exception"),
        (int, "must be an Exception"),
        (Stubborn(1, 2), "cannot be made anew for each call"),
        (Stubborn, "cannot be made anew for each call"),
        (
            type("Self", (Exception,), {"__copy__": lambda self: self})(),
            "a copy of it is something else",
        ),
        (type("Half", (Exception,), {"__copy__": lambda self: Exception()})(), "is something else"),
    ],
    ids=repr,
)
def test_errors_that_cannot_be_raised(error, says):
    """Only an ``Exception`` that can be made anew for each call can be raised by a rule."""
    for make in (Rule.force_raise, Rule.fail_raise):
        with pytest.raises(RuleError, match=says):
            make(error)


def test_a_rule_keeps_no_frame():
    """C066: a rule made of an exception that was raised keeps no traceback, cause or context of it."""
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ConnectionError("outer") from ValueError()
    except ConnectionError as error:
        rule = Rule.force_raise(error)
    template = rule._action.error
    assert (template.__traceback__, template.__cause__, template.__context__) == (None, None, None)
    assert rule.error is not rule.error


def test_a_rule_is_made_by_its_class_methods():
    """Its own constructor takes only what they make of it."""
    from breakerkit.degrade._actions import Return

    for args in ((True, "call"), (1, Return(1)), (False, Return(1))):
        with pytest.raises(RuleError, match="make a rule with"):
            Rule(*args)


def test_rules_pickle():
    """A rule arrives in another process as an equal one."""
    for rule in (Rule.force_return({"a": [1]}), Rule.fail_raise(TimeoutError("slow"))):
        assert pickle.loads(pickle.dumps(rule)) == rule


# -- the list of allowed exceptions --------------------------------------------------------


def test_allowing_an_exception():
    """It can be named in a text from then on, and is printed by that name."""

    class Mine(Exception):
        pass

    with pytest.raises(RuleError, match="has no name"):
        str(Rule.force_raise(Mine))
    degradation.allow("mine.Mine", Mine)
    degradation.allow("mine.Mine", Mine)
    rule = Rule.parse('force:raise mine.Mine("x")')
    assert type(rule.error) is Mine
    assert str(rule) == 'force:raise mine.Mine("x")'


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("my-error", Gone, "must be a name such as"),
        ("", Gone, "must be a name such as"),
        ("a..b", Gone, "must be a name such as"),
        (3, Gone, "must be a name such as"),
        ("Stop", KeyboardInterrupt, "must be a class of Exception"),
        ("Stop", Gone(), "must be a class of Exception"),
        ("Stop", None, "must be a class of Exception"),
    ],
)
def test_what_cannot_be_allowed(name, kind, says):
    """The name is a dotted one, the kind a class of Exception."""
    with pytest.raises(RuleError, match=says):
        degradation.allow(name, kind)


def test_names_that_are_taken():
    """A name means one exception; a class that is defined anew takes the place of its former self."""
    with pytest.raises(NameConflictError, match="means builtins.TimeoutError"):
        degradation.allow("TimeoutError", Gone)
    with pytest.raises(NameConflictError, match="take another name"):
        degradation.allow("shop.Gone", RuleError)
    anew = type("Gone", (Exception,), {"__module__": Gone.__module__})
    degradation.allow("shop.Gone", anew)
    assert type(Rule.parse("force:raise shop.Gone").error) is anew
    degradation.allow("TimeoutError", TimeoutError)
