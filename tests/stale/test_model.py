"""The cache against a small model: whatever happens in whatever order, what is served is what may be served."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from breakerkit import MemoryStore, NoCachedValueError, Registry, return_value, stale_if_error
from breakerkit.testing import ManualClock
from tests.stale.rig import Down, FarStore

KEYS = st.sampled_from(["a", "b", "ab"])
REFRESH, STALE = 2, 7


class Kept:
    """What the model knows of one key: value, birth and refresh time, or a refresh time alone."""

    def __init__(self, value, born, due):
        self.value, self.born, self.due = value, born, due
        self.rests = False  # whether a failure has set the refresh time


NOTHING = object()


class Against(RuleBasedStateMachine):
    """Calls, failures, time and commands, through a cache and through its model."""

    far = False
    is_async = False
    disaster = None

    @initialize()
    def start(self):
        self.clock = ManualClock()
        self.runs = 0
        self.down = False
        self.foreign = False
        self.model = {}
        self.counts = dict.fromkeys(("cached", "stale", "fresh", "disaster"), 0)
        store = FarStore(self.clock) if self.far else MemoryStore(clock=self.clock)
        more = {} if self.disaster is None else {"disaster": return_value(self.disaster)}
        self.cache = stale_if_error(
            "model", refresh_after=REFRESH, max_stale=STALE, jitter=0, clock=self.clock, store=store,
            registry=Registry(), on=(Down,), **more,
        )  # fmt: skip
        if self.is_async:

            async def load(key):
                return self._origin()

        else:

            def load(key):
                return self._origin()

        self.load = self.cache(load)

    def _origin(self):
        self.runs += 1
        if self.foreign:
            raise KeyError(self.runs)
        if self.down:
            raise Down(self.runs)
        return self.runs

    @rule(seconds=st.sampled_from([0.25, 0.5, 1, 2, 3, 7, 20]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(down=st.booleans(), foreign=st.sampled_from([False, False, False, True]))
    def the_origin(self, down, foreign):
        self.down, self.foreign = down, foreign

    @rule(key=KEYS, value=st.sampled_from([None, 0, "put"]))
    def put(self, key, value):
        assert self.cache.put(key, value) is True
        now = self.clock.now()
        self.model[key] = Kept(value, now, now + REFRESH)

    @rule(key=KEYS)
    def invalidate(self, key):
        assert self.cache.invalidate(key)
        self._due(key)

    @rule(prefix=st.sampled_from(["", "a", "ab", "x"]))
    def invalidate_all(self, prefix):
        assert self.cache.invalidate_all(prefix)
        for key in [key for key in self.model if key.startswith(prefix)]:
            self._due(key)

    def _due(self, key):
        kept = self.model.get(key)
        if kept is None:
            return
        if kept.value is NOTHING or self.clock.now() - kept.born >= STALE:
            del self.model[key]
        else:
            kept.due = self.clock.now()

    @rule(key=KEYS)
    def evict(self, key):
        assert self.cache.evict(key)
        self.model.pop(key, None)

    @rule(prefix=st.sampled_from(["", "a", "ab", "x"]))
    def evict_all(self, prefix):
        assert self.cache.evict_all(prefix)
        self.model = {key: kept for key, kept in self.model.items() if not key.startswith(prefix)}

    @rule(key=KEYS)
    def call(self, key):
        before, expected = self.runs, self._expected(key)
        try:
            found = self.cache.fetch(key)
            found = asyncio.run(found) if self.is_async else found
        except NoCachedValueError as error:
            seen = ("disaster", "raised", None)
            assert isinstance(error.__cause__, Down)
        except KeyError:
            seen = ("foreign", None, None)
        else:
            seen = (str(found.source), found.value, found.age)
            assert found.age is None or found.age < STALE
            if found.error is not None:
                assert found.error.args == (self.runs,)
        asked, source, value, age = expected
        assert seen == (source, value, age)
        assert self.runs - before == asked
        if source != "foreign":
            self.counts[source] += 1

    def _expected(self, key):
        """Return whether the origin is asked, and what the call comes to; move the model on."""
        now, kept = self.clock.now(), self.model.get(key)
        young = kept is not None and kept.value is not NOTHING and now - kept.born < STALE
        resting = kept is not None and now < kept.due
        if resting and young:
            age = now - kept.born
            return 0, "stale" if kept.rests else "cached", kept.value, age
        if resting and self.disaster is not None:
            return 0, "disaster", self.disaster, None
        if self.foreign:
            return 1, "foreign", None, None
        if not self.down:
            self.model[key] = Kept(self.runs + 1, now, now + REFRESH)
            return 1, "fresh", self.runs + 1, 0
        if young:
            kept.due, kept.rests = now + REFRESH, True
            return 1, "stale", kept.value, now - kept.born
        if self.disaster is None:
            return 1, "disaster", "raised", None
        self.model[key] = Kept(NOTHING, -1e9, now + REFRESH)
        return 1, "disaster", self.disaster, None

    @invariant()
    def the_numbers_agree(self):
        if not hasattr(self, "cache"):
            return
        info = self.cache.info()
        assert self.counts == {
            "cached": info.hits, "stale": info.stale, "fresh": info.misses, "disaster": info.disasters,
        }  # fmt: skip
        assert (info.running, info.background) == (0, 0)


KINDS = [
    (far, is_async, disaster)
    for far in (False, True)
    for is_async in (False, True)
    for disaster in (None, "x")
]


@pytest.mark.parametrize(("far", "is_async", "disaster"), KINDS)
def test_against_the_model(far, is_async, disaster):
    """Never older than max_stale, never asked before its refresh time, source and age are right."""
    kind = type("Kind", (Against,), {"far": far, "is_async": is_async, "disaster": disaster})
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=10 if is_async else 40,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),  # fmt: skip
    )
