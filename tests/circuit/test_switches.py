"""Switches: who holds them, why, until when, and which one wins (SPEC 8, 10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from breakerkit import (
    ConfigError,
    Mode,
    ModeHandle,
)
from tests.circuit.rig import Rig

SWITCHES = {"force_open": Mode.FORCED_OPEN, "disable": Mode.DISABLED, "observe": Mode.OBSERVE}
each_switch = pytest.mark.parametrize("switch", SWITCHES)


def seconds(number: float) -> timedelta:
    """Return a time from now."""
    return timedelta(seconds=number)


def test_the_mode_is_auto() -> None:
    """With no switch the breaker itself decides."""
    rig = Rig()
    assert (rig.breaker.mode, rig.seen.mode, rig.breaker.handles) == (Mode.AUTO, Mode.AUTO, ())


@each_switch
def test_a_handle_tells_who_and_why(switch: str) -> None:
    """Who, why and since when is readable, on the handle and on the breaker."""
    rig = Rig()
    before = datetime.now(UTC)
    handle = getattr(rig.breaker, switch)(reason="a drill", by="ops")
    assert (handle.mode, handle.reason, handle.by, handle.until) == (
        SWITCHES[switch],
        "a drill",
        "ops",
        None,
    )
    assert before <= handle.since <= datetime.now(UTC)
    assert rig.breaker.handles == (handle,)
    assert rig.breaker.mode is rig.seen.mode is SWITCHES[switch]
    assert f"({SWITCHES[switch].value} by ops: a drill)" in rig.breaker.why()
    assert (
        repr(handle)
        == f"<ModeHandle {SWITCHES[switch].value} by='ops' reason='a drill' until=None>"
    )


def test_nobody_said_who_or_why() -> None:
    """Who and why may be left out."""
    rig = Rig()
    rig.breaker.disable()
    assert "(disabled by somebody: no reason given)" in rig.breaker.why()


@each_switch
def test_a_handle_is_given_up(switch: str) -> None:
    """``release()`` gives it up; doing so twice is no error."""
    rig = Rig()
    handle = getattr(rig.breaker, switch)()
    handle.release()
    handle.release()
    assert (rig.breaker.mode, rig.breaker.handles) == (Mode.AUTO, ())


@each_switch
def test_a_handle_is_a_block(switch: str) -> None:
    """The end of a ``with`` gives it up, an exception included."""
    rig = Rig()
    with pytest.raises(KeyError), getattr(rig.breaker, switch)() as handle:
        assert isinstance(handle, ModeHandle)
        assert rig.breaker.mode is SWITCHES[switch]
        raise KeyError
    assert rig.breaker.mode is Mode.AUTO


def test_handles_do_not_undo_each_other() -> None:
    """While another one is held its mode stays in force; force before disable before observe."""
    rig = Rig()
    observe, forced, disabled = (
        rig.breaker.observe(),
        rig.breaker.force_open(),
        rig.breaker.disable(),
    )
    second = rig.breaker.force_open(by="somebody else")
    for handle, mode in (
        (forced, Mode.FORCED_OPEN),
        (second, Mode.DISABLED),
        (disabled, Mode.OBSERVE),
        (observe, Mode.AUTO),
    ):
        handle.release()
        assert rig.breaker.mode is mode


def test_the_mode_is_read_only() -> None:
    """A mode is taken by a switch, not assigned."""
    rig = Rig()
    with pytest.raises(AttributeError):
        rig.breaker.mode = Mode.DISABLED  # type: ignore[misc]  # that is the test


@each_switch
@pytest.mark.parametrize(("after", "held"), [(4.75, True), (5, False), (500, False)])
def test_a_handle_expires_by_itself(switch: str, after: float, held: bool) -> None:
    """By the breaker's own clock, at its very moment, with no call made."""
    rig = Rig()
    handle = getattr(rig.breaker, switch)(until=seconds(5))
    rig.wait(after)
    assert (rig.breaker.mode is not Mode.AUTO) is held
    assert bool(rig.breaker.handles) is held
    assert handle.until - handle.since == seconds(5)
    handle.release()
    assert rig.breaker.mode is Mode.AUTO


def test_what_expires_uncovers_what_is_held() -> None:
    """When the stronger switch expires, the weaker one is in force, and a call finds it so."""
    rig = Rig()
    rig.breaker.observe()
    rig.breaker.force_open(until=seconds(5))
    rig.rejected()
    rig.wait(5)
    assert rig.breaker.mode is Mode.OBSERVE
    rig.ok()
    assert len(rig.breaker._guard.handles) == 1


def test_expired_handles_are_let_go_of() -> None:
    """The next call, or the next switch, forgets what has expired: memory is bounded."""
    rig = Rig()
    for _ in range(100):
        rig.breaker.observe(until=seconds(1))
        rig.wait(1)
    rig.ok()
    assert rig.breaker._guard.handles == ()


def test_until_may_be_a_moment() -> None:
    """``until`` is a `timedelta` from now or an aware `datetime`."""
    rig = Rig()
    handle = rig.breaker.force_open(until=datetime.now(UTC) + seconds(60))
    wait = rig.rejected().retry_after
    assert wait is not None
    assert 59 < wait <= 60
    assert handle.until is not None


@each_switch
@pytest.mark.parametrize(
    "until",
    [
        5,
        "soon",
        timedelta(0),
        timedelta(-1),
        timedelta.max,
        datetime(2999, 1, 1),
        datetime(1999, 1, 1, tzinfo=UTC),
    ],  # noqa: DTZ001  # that is the test
)
def test_a_wrong_until(switch: str, until: Any) -> None:
    """What is no time in the future is a `ConfigError`, and nothing is held."""
    rig = Rig()
    with pytest.raises(
        ConfigError, match=r"until=.*: must be a timedelta above 0 or an aware datetime"
    ):
        getattr(rig.breaker, switch)(until=until)
    assert rig.breaker.handles == ()
