"""The rules against a small model: set, clear, expire, load, reload and patterns in any order (SPEC 3)."""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from breakerkit import Degradation, Registry, Rule, RuleError, degradable
from breakerkit.testing import ManualClock

NAMES = ["a", "a.b", "a.c", "b", "a*"]
TARGETS = st.sampled_from([*NAMES, "*", "a.*", "a?b", "[ab]", "*.b", "never"])
VALUES = st.integers(0, 5)
LASTING = st.none() | st.integers(1, 10)
FILES = st.sampled_from(["one.json", "two.json"])


class Rules(RuleBasedStateMachine):
    """Each step changes both; after each, every function does what the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.rules = Degradation(clock=self.clock, history=50)
        self.folder = tempfile.TemporaryDirectory()
        self.calls = {}
        self.model: dict[tuple[str, str], tuple[int, float, int]] = {}
        self.now, self.version, self.changes = 0.0, 0, 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def path(self, file: str) -> Path:
        return Path(self.folder.name, file)

    @rule(goal=TARGETS, value=VALUES, lasts=LASTING)
    def set(self, goal, value, lasts):
        """Set a rule by hand, for a while or for good."""
        until = None if lasts is None else timedelta(seconds=lasts)
        made = self.rules.set(goal, Rule.force_return(value), until=until)
        self.version += 1
        assert made.version >= self.version
        self.version = made.version
        self.model["hand", goal] = (value, self.now + (lasts or 1e9), made.version)

    @rule(goal=st.none() | TARGETS)
    def clear(self, goal):
        """Clear one rule, or all that were set by hand."""
        gone = [key for key in self.living() if key[0] == "hand" and goal in (None, key[1])]
        taken = self.rules.clear(goal)
        assert {one.name for one in taken} == {name for _, name in gone}
        for key in gone:
            del self.model[key]

    @rule(file=FILES, lines=st.dictionaries(TARGETS, VALUES, max_size=4))
    def load(self, file, lines):
        """Write a file and load it: its rules are just these."""
        entries = [{"name": name, "rule": f"force:return {value}"} for name, value in lines.items()]
        self.path(file).write_text(json.dumps({"rules": entries}))
        loaded = self.rules.load(self.path(file))
        source = str(self.path(file))
        kept = {key: said for key, said in self.model.items() if key[0] == source}
        for key in kept:
            del self.model[key]
        for one in loaded:
            value, key = lines[one.name], (source, one.name)
            old = kept.get(key)
            assert (old is not None and old[0] == value) == (
                old is not None and old[2] == one.version
            )
            self.model[key] = (value, 1e9, one.version)
            self.version = max(self.version, one.version)

    @rule(file=FILES, text=st.sampled_from(["", "[", '{"rules": [{"name": "a", "rule": "no"}]}']))
    def load_broken(self, file, text):
        """Load what cannot be taken: nothing changes."""
        self.path(file).write_text(text)
        past = self.rules.history()
        try:
            self.rules.load(self.path(file))
        except RuleError:
            assert self.rules.history() == past
        else:
            raise AssertionError("it was taken")

    @rule(file=FILES)
    def clear_file(self, file):
        """Clear all rules of a file."""
        source = str(self.path(file))
        self.rules.clear(source=source)
        for key in [key for key in self.model if key[0] == source]:
            del self.model[key]

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds):
        """Let time pass."""
        self.now = self.clock.advance(seconds)

    @rule(name=st.sampled_from(NAMES))
    @precondition(lambda self: len(self.calls) < len(NAMES))
    def decorate(self, name):
        """Decorate a function of a name, under the rules that are there."""

        @degradable(name, rules=self.rules, registry=Registry())
        def call():
            return None

        self.calls.setdefault(name, call)

    def living(self):
        return {key: said for key, said in self.model.items() if self.now < said[1]}

    def expected(self, name):
        """Return the value that the rule for ``name`` gives, by the words of the specification."""
        found = []
        for (source, target), (value, _, version) in self.living().items():
            if target == name or fnmatchcase(name, target):
                literal = len(target.split("*")[0].split("?")[0].split("[")[0])
                others = sum(target.count(one) for one in set(target) - set("*?[]"))
                exact = target == name
                rank = (
                    source == "hand",
                    exact,
                    0 if exact else literal,
                    0 if exact else others,
                    version,
                )
                found.append((rank, value))
        return max(found)[1] if found else None

    @invariant()
    def every_call_does_what_the_model_says(self):
        """The next call, and whoever asks, finds the rule that should decide."""
        for name, call in self.calls.items():
            assert call() == self.expected(name), name
        for name in NAMES:
            found = self.rules.rule_for(name)
            assert (found and found.rule.value) == self.expected(name)

    @invariant()
    def the_list_is_that_of_the_model(self):
        """All rules that have not ended are listed, and nothing else."""
        listed = {(one.source, one.name): one.rule.value for one in self.rules.rules()}
        assert listed == {key: said[0] for key, said in self.living().items()}
        assert len(self.rules.history()) <= 50


TestRules = Rules.TestCase
TestRules.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
