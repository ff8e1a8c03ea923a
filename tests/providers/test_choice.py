"""Properties of the choice, against what the settings promise."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from breakerkit import FailoverConfig, Provider
from breakerkit.providers._choice import choose
from breakerkit.providers._slots import Health, Member, Slot

ORDERS = ["in_order", "round_robin", "random", "least_failures"]


class Watch:
    """A breaker that reads as it is told."""

    breaker = None

    def __init__(self, health: Health, badness: int) -> None:
        self.gate = SimpleNamespace(fast=object() if health is Health.FIT else None)
        self.health = lambda: health
        self.badness = lambda: (badness,)


def members(states: list[tuple[Health, int, int]]) -> list[Member]:
    """Return providers with a breaker of this health and badness, and so many failures."""
    found = []
    for number, (health, badness, failures) in enumerate(states):
        slot = Slot(f"p{number}", Watch(health, badness))
        for _ in range(failures):
            slot.mark(0.0)
        found.append(Member(Provider(number), slot))
    return found


STATES = st.lists(
    st.tuples(st.sampled_from(list(Health)), st.integers(0, 3), st.integers(0, 2)), max_size=8
)


@settings(deadline=None)
@given(STATES, st.sampled_from(ORDERS), st.integers(0, 99), st.integers(1, 100))
def test_what_is_promised(states, order, turn, most):
    """Everybody is in exactly one place; no more are skipped than may be, but those held open; the worst go first."""
    listed = members(states)
    config = FailoverConfig(order=order, max_ejected=most)
    choice = choose(listed, config, turn, 0.0)
    placed = [*choice.due, *choice.ready, *choice.skipped]
    assert sorted(one.name for one in placed) == sorted(one.name for one in listed)
    healths = {one.name: state for one, (state, _, _) in zip(listed, states, strict=True)}
    assert [one.name for one in choice.due] == [
        name for name, health in healths.items() if health is Health.DUE
    ]
    held = [one for one in choice.skipped if healths[one.name] is Health.BARRED]
    broken = [one for one in choice.skipped if healths[one.name] is Health.BROKEN]
    allowed = len(listed) * most // 100
    assert len(held) == sum(1 for state in healths.values() if state is Health.BARRED)
    assert len(held) + len(broken) <= max(allowed, len(held))
    if choice.bypassed:
        assert len(held) + len(broken) == max(allowed, len(held))
        worst = max(one.slot.watch.badness() for one in choice.bypassed)
        assert all(one.slot.watch.badness() >= worst for one in broken)
    fit = [one for one in choice.ready if healths[one.name] is Health.FIT]
    if order == "in_order":
        assert choice.ready == [*sorted(fit, key=listed.index), *choice.ready[len(fit) :]]
    if order == "least_failures":
        weights = [one.slot.weight(0.0) for one in fit]
        assert choice.ready[: len(fit)] == fit
        assert weights == sorted(weights)


@settings(deadline=None, max_examples=25)
@given(STATES, st.sampled_from(["round_robin", "least_failures"]))
def test_equals_share(states, order):
    """Of providers that are equally good each comes first equally often."""
    listed = members(states)
    config = FailoverConfig(order=order)
    # As many turns as every number of providers divides.
    rounds = [choose(listed, config, turn, 0.0).ready for turn in range(840)]
    first = [line[0].name for line in rounds if line]
    assert len({first.count(name) for name in set(first)}) <= 1
