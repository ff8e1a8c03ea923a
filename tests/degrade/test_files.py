"""Files of rules: taken whole or not at all, and what is wrong is told with its line (SPEC 3)."""

from __future__ import annotations

import json
import os
import textwrap
from datetime import UTC, datetime, timedelta

import pytest

from breakerkit import (
    Degradation,
    Registry,
    Rule,
    RuleCleared,
    RuleError,
    RuleReplaced,
    RuleSet,
    RulesReloaded,
    degradable,
)
from tests.shapes import returning

ONE, TWO = Rule.force_return(1), Rule.force_return(2)
GOOD = """
    # what is off today
    [[rules]]
    name = "reviews"
    rule = 'force:return {"a": 1, "url": "x=1:y"}'
    by = "ops"
    reason = "incident 42"
    until = 2099-01-01T00:00:00+01:00

    [[rules]]
    name = "shop.*"
    rule = "fail:call"
"""


@pytest.fixture
def rules(clock):
    return Degradation(clock=clock)


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path; a text is cut to its own margin."""

    def write(content, name="rules.toml"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, indent=2)
            path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return write


def rule(name, text="force:return 1", **more):
    return {"name": name, "rule": text, **more}


# -- good files --------------------------------------------------------------------------


def test_a_toml_file(rules, write):
    """Names, rules, who, why and until when come from the file, the file is their source."""
    path = write(GOOD)
    reviews, shop = rules.load(path)
    assert (reviews.name, reviews.by, reviews.reason, reviews.source) == (
        "reviews", "ops", "incident 42", str(path),
    )  # fmt: skip
    assert reviews.rule.value == {"a": 1, "url": "x=1:y"}
    assert reviews.until == datetime(2098, 12, 31, 23, tzinfo=UTC)
    assert (shop.name, shop.rule, shop.by, shop.until) == ("shop.*", Rule.fail_call(), None, None)
    assert rules.rules() == [reviews, shop]
    assert not reviews.by_hand


def test_a_json_file(rules, write, clock):
    """The same in JSON, where a moment is a text; in TOML it may be one too."""
    until = (datetime.now(UTC) + timedelta(seconds=100)).isoformat()
    for name, content in (
        ("rules.json", {"rules": [rule("x", until=until), rule("y")]}),
        ("rules.JSON", {"rules": [rule("x", until=until.replace("+00:00", "Z")), rule("y")]}),
        ("rules.toml", f'rules = [{{name="x", rule="force:return 1", until="{until}"}}, {{name="y", rule="force:return 1"}}]'),
    ):  # fmt: skip
        loaded = rules.load(str(write(content, name)))
        assert [(one.name, one.rule) for one in loaded] == [("x", ONE), ("y", ONE)]
        assert loaded[0].until == datetime.fromisoformat(until)
    clock.advance(101)
    assert [one.name for one in rules.rules()] == ["y"] * 3


def test_what_is_over_already(rules, write):
    """A rule whose end has passed is no error in a file, for files stay; it is just not in force."""
    content = {"rules": [rule("x", until="2001-01-01T00:00:00Z"), rule("y")]}
    assert [one.name for one in rules.load(write(content, "rules.json"))] == ["y"]
    assert rules.rule_for("x") is None


def test_a_bom_and_blank_lines(rules, write):
    """What Windows editors write is read."""
    path = write(b"\xef\xbb\xbf" + textwrap.dedent(GOOD).replace("\n", "\r\n").encode())
    assert [one.name for one in rules.load(path)] == ["reviews", "shop.*"]


def test_no_rules(rules, write):
    """An empty list takes all rules of the file away."""
    path = write(GOOD)
    rules.load(path)
    assert rules.load(write("rules = []")) == []
    assert rules.rules() == []


# -- reloading -----------------------------------------------------------------------------


def test_a_reload_replaces_only_its_own(rules, write):
    """Rules set by hand, and those of other files, stay; what says what it said keeps its version."""
    path = write({"rules": [rule("a"), rule("b"), rule("c")]}, "one.json")
    other = rules.load(write({"rules": [rule("a", "force:return 7")]}, "two.json"))
    hand = rules.set("a", TWO)
    a, b, _ = rules.load(path)
    before = len(rules.history())
    write({"rules": [rule("b", "force:return 2"), rule("a"), rule("d")]}, "one.json")
    loaded = rules.load(path)
    assert [one.name for one in loaded] == ["b", "a", "d"]
    assert (loaded[1], loaded[0].version > b.version) == (a, True)
    assert rules.rules() == [hand, a, *other, loaded[0], loaded[2]]
    events = rules.history()[before:]
    assert [(type(event), event.name) for event in events] == [
        (RuleReplaced, "b"), (RuleSet, "d"), (RuleCleared, "c"), (RulesReloaded, str(path)),
    ]  # fmt: skip
    assert (events[2].by, events[3].rules) == (str(path), 3)


def test_hand_wins_over_a_file(rules, write, clock):
    """Whatever the patterns: even ``*`` by hand before the exact name in a file, and until it ends."""
    call = degradable("a.b", rules=rules, registry=Registry())(returning("value"))
    rules.load(write({"rules": [rule("a.b")]}, "one.json"))
    assert call() == 1
    rules.set("*", TWO, until=timedelta(seconds=5))
    assert call() == 2
    rules.load(write({"rules": [rule("a.b"), rule("a.*")]}, "one.json"))
    assert call() == 2
    clock.advance(5)
    assert call() == 1


def test_of_two_files(rules, write):
    """The exact name before a pattern, and of two alike the newer rule."""
    rules.load(write({"rules": [rule("a"), rule("b*", "force:return 1")]}, "one.json"))
    rules.load(
        write({"rules": [rule("a", "force:return 2"), rule("b", "force:return 2")]}, "two.json")
    )
    assert rules.rule_for("a").rule == rules.rule_for("b").rule == TWO
    assert rules.rule_for("bc").rule == ONE


def test_clearing_a_file_s_rules(rules, write):
    """By its path, one or all; they come back when the file is loaded again."""
    path = write({"rules": [rule("a"), rule("b")]}, "one.json")
    a, b = rules.load(path)
    assert rules.clear("a") == []
    assert rules.clear("a", source=path) == [a]
    assert rules.clear(source=str(path)) == [b]
    assert len(rules.load(path)) == 2


def test_a_path_is_one_whatever_it_looks_like(rules, write, monkeypatch):
    """A relative path, a Path and a text of the same file are one source."""
    path = write({"rules": [rule("a")]}, "one.json")
    monkeypatch.chdir(path.parent)
    for spelling in (path, "one.json", "./sub/../one.json"):
        rules.load(spelling)
    assert [one.source for one in rules.rules()] == [str(path)]


# -- files that cannot be taken --------------------------------------------------------------

TOML = [
    ("", 'has no list "rules"'),
    ("rules = 3", 'has no list "rules"'),
    ("[rules]\nname='x'", 'has no list "rules"'),
    ("[[rules]\nname = 1", r"is not TOML: .*line 1"),
    ("[[rules]]\nname = 'x'\nrule = 'force:ca", r"is not TOML: .*"),
    ("[[rules]]\nname = 'x'\nname = 'y'\nrule = 1", r"is not TOML: .*line 3"),
    ("rules = []\nother = 1", "has 'other'"),
    ("rule = []\nrules = []", "has 'rule', did you mean 'rules'"),
    ("rules = [3]", "rule 1: 3 is no table"),
    ("#\n\n[[rules]]\nname = 'x'", r"line 3 \(rule 1\): has no rule"),
    ("[[rules]]\nrule = 'force:call'", r"line 1 \(rule 1\): has no name"),
    ("[[rules]]\nname = 'x'\nrule = 'force:nothing'", r"line 3 \(rule 1\): rule 'force:nothing': is no rule"),
    ("[[rules]]\nname = 'x'\nrule = 3", r"line 3 \(rule 1\): rule 3: must be a text"),
    ("[[rules]]\nname = 3\nrule = 'force:call'", r"line 2 \(rule 1\): name=3"),
    ("[[rules]]\nname = 'x'\nrule = 'force:raise Nope'", r"line 3 .*names 'Nope', which is not allowed"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\n\nby = 3", r"line 5 \(rule 1\): by=3: must be a text"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nreason = []", r"line 4 \(rule 1\): reason=\[\]"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nuntill = 1", r"line 4 .*no such key 'untill', did you mean 'until'"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nuntil = 2026-01-01T00:00:00", "line 4 .*must be a date and time with an offset"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nuntil = 2026-01-01", "line 4 .*with an offset"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nuntil = 60", "line 4 .*with an offset"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nuntil = 'soon'", "line 4 .*with an offset"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\nuntil = 9999-12-31T00:00:00Z", "line 4 .*within a hundred years"),
    ("[[rules]]\nname = 'x'\nrule = 'force:call'\n[[rules]]\nname = 'x'\nrule = 'force:call'", r"line 5 \(rule 2\): name 'x' is in rule 1 already"),
    ("rules = [{name = 'x', rule = 'force:call'}, {name = 'x'}]", "rule 2: has no rule"),
    ("x = " + "[" * 5000, "nests too deeply"),
    ("x = " + "9" * 5000, ": Exceeds the limit"),
]  # fmt: skip
JSON = [
    ("", "line 1: is not JSON"),
    ("[]", 'has no list "rules"'),
    ('{"rules": [\n{"name": "x"', "line 2: is not JSON"),
    ('{"rules": [], "rules": []}', "has the key 'rules' twice"),
    ('{"rules": [\n  {"name": "x", "rule": "force:call"},\n  {"name": "y",\n   "rule": "no"}]}', r"line 4 \(rule 2\): rule 'no'"),
    ('{"rules": [\n  {"n\\u0061me": 3, "rule": "force:call"}]}', r"line 2 \(rule 1\): name=3"),
    ('{"rules": [ 3 ]}', r"line 1 \(rule 1\): 3 is no table"),
    ('{"rules": [' + "[" * 100, "nests lists or dicts more than 64 deep"),
    ('{"rules": [{"name": "x", "rule": "force:return 1e999"}]}', "which no float can hold"),
    ('{"rules": [{"name": "\\ud800", "rule": "force:call"}]}', "no UTF-8 text can hold"),
    ('{"rules": NaN}', "has NaN"),
]  # fmt: skip


def check_refused(rules, path, says):
    """Load what cannot be taken: one RuleError that names the file, and nothing has changed."""
    hand, past = rules.rules(), rules.history()
    with pytest.raises(RuleError, match=says) as caught:
        rules.load(path)
    assert str(caught.value).startswith(f"{path}")
    assert len(str(caught.value)) < 1500
    assert (rules.rules(), rules.history()) == (hand, past)


@pytest.mark.parametrize(("text", "says"), TOML, ids=range(len(TOML)))
def test_broken_toml(rules, write, text, says):
    """Whatever is wrong with it, the last good rules stay."""
    rules.load(write(GOOD))
    check_refused(rules, write(text), says)


@pytest.mark.parametrize(("text", "says"), JSON, ids=range(len(JSON)))
def test_broken_json(rules, write, text, says):
    """The same in JSON."""
    rules.load(write({"rules": [rule("a")]}, "rules.json"))
    check_refused(rules, write(text, "rules.json"), says)


def test_not_utf8(rules, write):
    """The line with the first wrong byte is named."""
    check_refused(rules, write(b"# fine\n# \xff\n"), "line 2: is not UTF-8")


def test_too_large(rules, write):
    """A file is read up to a bound."""
    check_refused(rules, write(b"#\n" * 600_000), "is larger than 1048576 bytes")


def test_no_file(rules, tmp_path):
    """It is missing, a directory, a pipe that nobody writes to, a link that leads to itself, or not ours."""
    check_refused(rules, tmp_path / "no.toml", "cannot be read: No such file")
    (tmp_path / "dir.toml").mkdir()
    check_refused(rules, tmp_path / "dir.toml", "is no regular file|cannot be read")
    os.mkfifo(tmp_path / "pipe.toml")
    check_refused(rules, tmp_path / "pipe.toml", "is no regular file")
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    check_refused(rules, tmp_path / "loop.toml", "cannot be read: Too many levels")


@pytest.mark.parametrize("path", ["rules.yaml", "rules", "", 3, b"rules.toml", "a\0.toml", None])
def test_no_such_path(rules, path):
    """A path ends in .toml or .json."""
    for use in (rules.load, rules.watch):
        with pytest.raises(RuleError, match=r"path=.*: must be the path of a .toml or .json file"):
            use(path)


def test_a_device(rules, tmp_path):
    """A device is not read for ever."""
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    check_refused(rules, tmp_path / "zero.toml", "is no regular file")


@pytest.mark.parametrize("part", ["a", "'a'", '"a b"', "a ", "-_9"])
def test_a_hostile_key(rules, write, part):
    """A dotted key that has no end is refused before the parser gets slow; dots elsewhere are no keys."""
    key = ".".join([part] * 30_000)
    check_refused(rules, write(f"{key} = 1"), "has a dotted key of more than 64 parts")
    check_refused(rules, write(f"[{key}]"), "has a dotted key of more than 64 parts")
    dots = "a." * 100
    path = write(f"# {dots}\nrules = [{{name = '{dots[:-1]}', rule = 'force:return 1'}}]")
    assert [one.name for one in rules.load(path)] == [dots[:-1]]
    check_refused(rules, write("a" * 500_000 + " = 1"), 'has no list "rules"')


@pytest.mark.parametrize("size", [200_000])
def test_hostile_texts(rules, write, size):
    """What is wrong in a way that a parser may look for again and again is found in one go."""
    unclosed = '"' + '\\"' * size
    check_refused(rules, write(unclosed), "Unterminated string")
    check_refused(rules, write(unclosed, "rules.json"), "is not JSON: Unterminated string")
    keys = ",".join(f'"{number}":0' for number in range(size // 4))
    check_refused(rules, write(f'{{{keys},"z":0,"z":0}}', "rules.json"), "the key 'z' twice")
    lines = '[[rules]]\nname = "x"\n"r\\u0075le" = "bad"\n' + "\n" * size
    check_refused(rules, write(lines), "rule 'bad': is no rule")
    with pytest.raises(RuleError, match="is not JSON"):
        Rule.parse('force:return "' + '\\"' * 32_000)


@pytest.mark.parametrize(
    "before",
    ['x = """a"""" # \\\n', "x = '''a'''' # \n", 'x = """"""" # \\\n', 'y = "\\"" # "\\\n'],
)
def test_a_hostile_key_behind_a_text(rules, write, before):
    """No text, however it ends, hides a dotted key that has no end."""
    key = ".".join(["a"] * 30_000)
    check_refused(rules, write(f'{before}{key} = "x"'), "has a dotted key of more than 64 parts")
