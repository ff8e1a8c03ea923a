"""What the end of a call means, whose result counts, and that it counts once (SPEC 5)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from breakerkit import OpenReason, State
from tests.circuit.rig import Rig, probing


@pytest.mark.parametrize(
    "shape", ["closed", "after a reset", "later closed period", "open", "half-open"]
)
@pytest.mark.parametrize("error", [None, ConnectionError(), KeyboardInterrupt()])
def test_a_result_of_another_generation_is_dropped(shape: str, error: BaseException | None) -> None:
    """A closed call that ends in another period changes nothing; its counter counts."""
    rig = Rig(failure_threshold=2, window_size=10, minimum_calls=10)
    call = rig.start()
    if shape in {"after a reset", "later closed period"}:
        rig.breaker.reset()
    if shape in {"open", "half-open", "later closed period"}:
        rig.open()
    if shape in {"half-open", "later closed period"}:
        rig.wait(30)
    if shape == "later closed period":
        rig.ok()
    if shape == "half-open":
        rig.hang()
    before, failures, ignored = rig.seen, rig.seen.failures, rig.seen.ignored
    rig.end(call, error)
    after = rig.seen
    if shape == "closed":
        assert (rig.window != (0, 0)) is not isinstance(error, KeyboardInterrupt)
        return
    for field in (
        "state",
        "consecutive_failures",
        "window_calls",
        "probes_active",
        "probe_successes",
        "retry_after",
    ):
        assert getattr(after, field) == getattr(before, field)
    assert (after.failures + after.ignored + after.successes) - (
        before.successes + failures + ignored
    ) == 1


def test_cancelled_calls_are_neutral() -> None:
    """After two failures five users hang up and one presses Ctrl-C: streak 2, six ignored (C018)."""
    rig = Rig(failure_threshold=3)
    rig.fail(2)
    for _ in range(5):
        rig.raises(GeneratorExit())
    rig.raises(KeyboardInterrupt())
    assert (rig.state, rig.seen.consecutive_failures, rig.seen.ignored) == (State.CLOSED, 2, 6)
    rig.fail()
    assert rig.state is State.OPEN


def test_ignored_types_win() -> None:
    """What is ignored, and what is in no list, never adds a failure (C015)."""
    rig = Rig(failure_on=ConnectionError, ignore_on=ConnectionRefusedError)
    for _ in range(10):
        rig.raises(ConnectionRefusedError())
        rig.raises(NameError())
    assert (rig.seen.consecutive_failures, rig.seen.ignored) == (0, 20)
    rig.fail(4)
    assert rig.state is State.CLOSED
    rig.fail()
    assert rig.state is State.OPEN


def test_success_on_proves_an_answer() -> None:
    """An exception that proves the dependency answered ends the streak and closes as a probe."""
    rig = Rig(failure_threshold=2, success_on=LookupError)
    rig.fail()
    rig.raises(KeyError())
    assert (rig.seen.consecutive_failures, rig.seen.successes) == (0, 1)
    rig.half_open()
    rig.raises(KeyError())
    assert rig.state is State.CLOSED


def test_errors_as_values() -> None:
    """A value that is a failure opens on the third; every caller gets the very object (C016)."""
    rig = Rig(failure_threshold=3, failure_if=lambda reply: reply.code != 0)
    replies = [SimpleNamespace(code=1) for _ in range(3)]
    for reply in replies:
        assert rig.breaker.call(lambda: reply) is reply  # noqa: B023  # called at once
    assert rig.contexts[0].error is None
    assert rig.state is State.OPEN


def test_a_failure_if_that_raises_is_neutral(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, the value is delivered and is no evidence, and a probe's slot is free (C016)."""
    rig = Rig(failure_threshold=1, failure_if=lambda reply: reply.code != 0)
    reply = object()
    assert rig.breaker.call(lambda: reply) is reply
    assert (rig.seen.ignored, rig.seen.successes) == (1, 0)
    assert "failure_if of 'rig' raised" in caplog.text
    rig.fail()
    rig.wait(30)
    assert rig.breaker.call(lambda: reply) is reply
    assert (rig.state, rig.seen.probes_active) == (State.HALF_OPEN, 0)


@pytest.mark.parametrize("early", [ConnectionError(), None])
def test_a_block_decides_once(early: Exception | None) -> None:
    """``lease.fail()`` and ``lease.ignore()`` decide at once, and nothing that follows changes it."""
    rig = Rig(failure_threshold=2)
    rig.fail()
    with rig.breaker.guard() as lease:
        lease.fail(early) if early else lease.ignore()
        assert rig.state is (State.OPEN if early else State.CLOSED)
        lease.fail(), lease.ignore(), lease.fail()
    assert (rig.seen.failures, rig.seen.ignored, rig.seen.successes) == (
        (2, 0, 0) if early else (1, 1, 0)
    )
    assert [context.error for context in rig.contexts] == ([early] if early else [])


def test_an_early_failure_of_a_probe_opens_at_once() -> None:
    """The verdict is at once; what the block does afterwards is of an earlier period."""
    rig = probing()
    with rig.breaker.guard() as lease:
        lease.fail()
        assert rig.seen.reason is OpenReason.PROBE_FAILURE
        rig.wait(1)
        rig.hang()
    assert rig.seen.probes_active == 1


def test_a_lease_is_settled_once() -> None:
    """A dropped block that was decided before is not counted again."""
    for settings in ({}, {"trip_rules": Quiet()}):
        rig = Rig(**settings)
        call = rig.start()
        call.ignore()
        del call
        assert (rig.seen.calls, rig.seen.ignored) == (1, 1)


class Quiet:
    """A rule that never fires, and takes calls off the lock-free path."""

    def judge(self, _: object) -> None:
        """Return nothing."""
