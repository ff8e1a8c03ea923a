"""The bulkhead against a small model: whatever comes, waits, is cancelled, times out, ends or is resized."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from breakerkit import BulkheadFullError, FullReason, Registry, bulkhead
from breakerkit.isolation import _waiters as waiters
from breakerkit.testing import ManualClock
from tests.isolation.reference import Reference
from tests.isolation.rig import idle

SHARES = {"gold": 0.5, "small": 0.25}
classes = st.sampled_from(["gold", "small", "other", None])
sizes = st.sampled_from([4, 2, 1, 3, 5])
places = st.sampled_from([6, 2, 0, 1, 4])


class Machine(RuleBasedStateMachine):
    """Calls of tasks in one event loop, each ended by hand."""

    @initialize(
        limit=sizes, places=places, order=st.sampled_from(["fifo", "lifo"]), shares=st.booleans()
    )
    def begin(self, limit: int, places: int, order: Any, shares: bool) -> None:
        """Make both."""
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        given: Any = {"shares": SHARES, "share_of": lambda _, share: share} if shares else {}
        self.bulkhead = bulkhead(
            max_concurrent=limit, max_waiting=places, max_wait=10, order=order,
            clock=self.clock, registry=Registry(), **given,
        )  # fmt: skip
        self.model = Reference(limit, places, order == "lifo", self.guaranteed())
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        self.ends: dict[int, asyncio.Event] = {}
        self.came: dict[int, float] = {}
        self.inside: set[int] = set()
        self.number = 0

    def guaranteed(self) -> Any:
        """Return what each class is guaranteed, if there are shares."""
        config = self.bulkhead.config
        return config.guaranteed if config.shares else None

    def spin(self) -> None:
        """Let all tasks go as far as they can."""

        async def spin() -> None:
            for _ in range(8):
                await asyncio.sleep(0)

        self.loop.run_until_complete(spin())

    async def work(self, number: int, share: Any) -> None:
        """Run until told to end."""
        self.inside.add(number)
        try:
            await self.ends[number].wait()
        finally:
            self.inside.discard(number)

    @rule(shares=st.lists(classes, min_size=2, max_size=6))
    def crowd(self, shares: Any) -> None:
        """Several calls come at once."""
        for share in shares:
            self.come(share)

    @rule(share=classes)
    def come(self, share: Any) -> None:
        """A call comes."""
        number = self.number = self.number + 1
        self.ends[number] = asyncio.Event()
        self.came[number] = self.clock.now()
        made = self.bulkhead.call(self.work, number, share)
        self.tasks[number] = self.loop.create_task(made)
        self.model.come(number, share if self.model.guaranteed and share in SHARES else None)
        self.spin()

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def end(self, data: Any) -> None:
        """A call that runs ends."""
        number = data.draw(st.sampled_from(sorted(self.model.running)))
        self.ends[number].set()
        self.model.go(number)
        self.spin()

    @precondition(lambda self: self.model.running or self.model.queue)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        """A call that runs or waits is cancelled."""
        number = data.draw(st.sampled_from(sorted(self.model.running | self.model.queue)))
        self.tasks[number].cancel()
        self.model.go(number)
        self.spin()

    @precondition(lambda self: self.model.running and self.model.queue)
    @rule(data=st.data())
    def cancel_in_the_instant(self, data: Any) -> None:
        """A call ends, and whoever is handed its slot is cancelled before it wakes."""
        number = data.draw(st.sampled_from(sorted(self.model.running)))
        before = set(self.model.queue)
        self.ends[number].set()
        self.model.go(number)
        handed = before - set(self.model.queue)
        self.loop.run_until_complete(asyncio.sleep(0))  # it has ended, nobody has woken
        for one in handed:
            self.tasks[one].cancel()
            self.model.go(one)
        self.spin()

    @rule(seconds=st.sampled_from([1, 2, 5]))
    def time_passes(self, seconds: int) -> None:
        """Who has waited for ten seconds goes."""
        now = self.clock.advance(seconds)
        for number in [one for one in self.model.queue if now - self.came[one] >= 10]:
            del self.model.queue[number]
            self.model.rejected.add(number)
        self.spin()

    @rule(limit=sizes, places=places)
    def resize(self, limit: int, places: int) -> None:
        """The limits change while it is live."""
        self.bulkhead.reconfigure(max_concurrent=limit, max_waiting=places)
        self.model.resize(limit, places, self.guaranteed())
        self.spin()

    @rule()
    def share(self) -> None:
        """A block of another kind comes and goes, if it is let in at once."""
        if not self.model.queue and len(self.model.running) < self.model.limit:
            with self.bulkhead.guard():
                assert self.bulkhead.snapshot().running == len(self.model.running) + 1
        elif len(self.model.queue) >= self.model.places and not self.model.guaranteed:
            with pytest.raises(BulkheadFullError), self.bulkhead.guard():
                pass

    @invariant()
    def agree(self) -> None:
        """The same calls run, as many wait, and the same were rejected."""
        if not hasattr(self, "loop"):
            return
        assert self.inside == set(self.model.running)
        seen = self.bulkhead.snapshot()
        assert (seen.running, seen.waiting) == (
            len(self.model.running),
            len(self.model.queue),
        ), (seen, self.model)
        rejected = {
            number
            for number, task in self.tasks.items()
            if task.done() and not task.cancelled() and task.exception() is not None
        }
        assert rejected == self.model.rejected
        for number in rejected:
            assert self.tasks[number].exception().reason in FullReason

    def teardown(self) -> None:
        """When all are gone every slot is free."""
        if not hasattr(self, "loop"):
            return
        for task in self.tasks.values():
            task.cancel()
        self.spin()
        self.bulkhead.reconfigure(shares=None, share_of=None)
        idle(self.bulkhead)
        self.loop.close()


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a task that waits look at the manual clock at each turn of the loop."""
    monkeypatch.setattr(waiters, "SHORT_NAP", 1e-9)


def test_it_agrees_with_the_model() -> None:
    """Whatever comes in whatever order, the bulkhead does what the model does."""
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=120, stateful_step_count=40, deadline=None)
    )
