"""Rules that change while calls run, preempted at any opcode: a call has the old rule or the new one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from breakerkit import Registry, Rule, degradable
from breakerkit._shell import _proxies, _relief_streams  # noqa: F401  # so that its opcodes are told too
from breakerkit.degrade import _files as files
from breakerkit.degrade.board import Board
from breakerkit.degrade.rules import Degradation
from breakerkit.testing import ManualClock
from tests.concurrency.scheduling import Interleaving, Preempt, TurnLock
from tests.concurrency.tracing import instrumented, whole


@pytest.fixture(scope="module", autouse=True)
def _told_of_opcodes() -> Iterator[None]:
    with instrumented():
        yield


# Read once: what reads a text shares nothing, and is not what is searched here.
ONE, TWO = Rule.parse("force:return 1"), Rule.parse("force:return 2")
LINES = files.parse("rules.json", b'{"rules": [{"name": "work", "rule": "force:return 3"}]}')


class World:
    """Rules, a function under them, and what its calls gave."""

    def __init__(self, locks: Sequence[TurnLock], before: Body) -> None:
        self.clock = ManualClock()
        self.rules, registry = Degradation(clock=self.clock), Registry()
        self.verb = degradable("work", rules=self.rules, registry=registry)
        self.work = self.verb(lambda: "own")
        self.got: list[Any] = []
        before(self)
        self.rules._board.lock, self.verb._guard.lock = locks[0], locks[1]


Body = Callable[[World], None]


def call(world: World) -> None:
    """A call."""
    world.got.append(world.work())


def set_one(world: World) -> None:
    """A rule is set."""
    world.rules.set("work", ONE)


def set_two(world: World) -> None:
    """Another one is set."""
    world.rules.set("work", TWO)


def clear(world: World) -> None:
    """The rule is cleared."""
    world.rules.clear("work")


def load(world: World) -> None:
    """A file is loaded."""
    world.rules._board.replace("rules.json", LINES)


def look(world: World) -> None:
    """Somebody looks, and so takes away what is over."""
    world.rules.rules()


def nothing(world: World) -> None:
    """No rule."""


def over_pattern(world: World) -> None:
    """A rule of the very name, and one of a pattern behind it."""
    set_one(world)
    world.rules.set("w*", TWO)


def expired(world: World) -> None:
    """A rule that is over, which nobody has noticed, before one of a pattern."""
    world.rules.set("work", ONE, until=timedelta(seconds=5))
    world.rules.set("w*", TWO)
    world.clock.advance(5)


def wrong(world: World, expected: Sequence[Any]) -> str | None:
    """Say what is wrong in the end, if anything is."""
    if any(value not in expected for value in world.got):
        return f"calls gave {world.got}"
    rule = world.rules.rule_for("work")
    if world.verb._guard.sign.up is not (rule is not None):
        return f"the sign says {world.verb._guard.sign.up}, the rule is {rule}"
    final = world.work()
    if final != ("own" if rule is None else rule.rule._action.value):
        return f"the next call gives {final}, the rule is {rule}"
    kinds = [type(event).__name__ for event in world.rules.history()]
    if kinds.count("RuleExpired") > 1 or kinds.count("RuleCleared") > 1:
        return f"told twice: {kinds}"
    return None


def faults(before: Body, bodies: Sequence[Body], expected: Sequence[Any]) -> Any:
    """Preempt each thread at every third opcode in turn."""
    for who in range(len(bodies)):
        for step in itertools.count(1, 3):
            locks, plan = [TurnLock(), TurnLock()], Preempt(who, step)
            world = World(locks, before)
            turns = Interleaving([lambda b=body, w=world: b(w) for body in bodies], plan)
            for lock in locks:
                lock.turns = turns
            errors = [one for one in turns.run(locks[0]) if one is not None]
            for lock in locks:
                lock.turns = None
            fault = f"raised {errors}" if errors else wrong(world, expected)
            if fault:
                yield who, step, fault
            if not plan.happened:
                break


SCENES = [
    (nothing, (set_one, call), ("own", 1)),
    (set_one, (clear, call), ("own", 1)),
    (set_one, (set_two, call), (1, 2)),
    (set_one, (set_two, clear), ()),
    (over_pattern, (clear, call), (1, 2)),
    (expired, (call, call), (2,)),
    (expired, (call, look), (2,)),
    (expired, (clear, call), (2,)),
    (nothing, (load, call), ("own", 3)),
    (set_one, (load, clear), ()),
]


@pytest.mark.parametrize(
    ("before", "bodies", "expected"),
    SCENES,
    ids=["-".join(one.__name__ for one in (scene[0], *scene[1])) for scene in SCENES],
)
def test_a_call_has_the_old_rule_or_the_new(
    before: Body, bodies: Sequence[Body], expected: Sequence[Any]
) -> None:
    """Wherever a thread is preempted, a call has one whole rule, and signs and book agree afterwards."""
    assert list(faults(before, bodies, expected)) == []


@whole
def test_a_twin_that_publishes_in_the_wrong_order_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same check finds a board whose lock does nothing between the look and the change."""

    def turn(self: Board, move: Any) -> None:
        book, _ = move(self._state.book)
        self._publish(book)

    monkeypatch.setattr(Board, "_turn", turn)
    assert any(faults(set_one, (set_two, clear), ()))
