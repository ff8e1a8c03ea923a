"""What crosses the border: enums that read as text, frozen records, and who is told what."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import pickle
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
import time_machine

from breakerkit import (
    BreakerConfig,
    BreakerReset,
    CallFailed,
    CallIgnored,
    CallRejected,
    CallSucceeded,
    ConfigChanged,
    Evidence,
    Mode,
    OpenContext,
    OpenReason,
    State,
    StateChanged,
    breaker,
)
from breakerkit.events import EVENT_KINDS
from tests.circuit.rig import Rig

NOW = 1_750_000_000.0
CONFIG = BreakerConfig()
EVENTS = [
    StateChanged("api", NOW, State.CLOSED, State.OPEN, OpenReason.FAILURE_RATE, Mode.AUTO),
    CallSucceeded("api", NOW, 0.5),
    CallFailed("api", NOW, 0.5, None),
    CallIgnored("api", NOW, 0.5, None),
    CallRejected("api", NOW, OpenReason.FORCED, None, Mode.FORCED_OPEN),
    BreakerReset("api", NOW, State.OPEN),
    ConfigChanged("api", NOW, CONFIG, CONFIG),
]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (State, ["closed", "open", "half-open"]),
        (Mode, ["auto", "forced-open", "disabled", "observe"]),
        (
            OpenReason,
            ["consecutive failures", "failure rate", "slow call rate", "probe failure", "forced"],
        ),
    ],
)
def test_enums_read_as_text(kind: Any, texts: list[str]) -> None:
    """States, modes and reasons are texts, so that they print, compare and serialise plainly."""
    assert [str(one) for one in kind] == [one.value for one in kind] == texts
    assert [kind(text) for text in texts] == list(kind)


def test_every_kind_is_known() -> None:
    """A subscription to everything gets each kind there is."""
    assert {type(event) for event in EVENTS} == set(EVENT_KINDS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_frozen_records(event: Any) -> None:
    """Equal records are equal and hash alike; none can be changed; all pickle and copy."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.name = "other"
    for same in (copy.copy(event), pickle.loads(pickle.dumps(event))):
        assert same == event
        assert hash(same) == hash(event)
    assert event != attrs.evolve(event, name="other")


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_say_when(event: Any) -> None:
    """The moment is kept as seconds, and read as an aware UTC ``datetime`` too."""
    assert event.at == datetime.fromtimestamp(NOW, UTC)
    assert event.at.tzinfo is UTC


def test_evidence_is_frozen_and_starts_empty() -> None:
    """With nothing said there is nothing to judge."""
    assert Evidence() == Evidence(0, 0, 0, 0, 0, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Evidence().window_calls = 1  # type: ignore[misc]  # that is the test


def test_one_record_per_event_in_order() -> None:
    """Calls, rejections, moves, changes and resets are told, each once, in order."""
    rig = Rig(failure_threshold=1, ignore_on=ValueError)
    error = ConnectionError()
    with rig.events() as log, time_machine.travel(NOW, tick=False):
        rig.ok()
        rig.raises(ValueError())
        rig.fail(error=error)
        rig.rejected()
        rig.breaker.reconfigure(failure_threshold=2)
        rig.breaker.reset()
    assert [type(event) for event in log] == [
        CallSucceeded,
        CallIgnored,
        CallFailed,
        StateChanged,
        CallRejected,
        ConfigChanged,
        StateChanged,
        BreakerReset,
    ]
    assert {event.name for event in log} == {"rig"}
    assert {event.timestamp for event in log} == {NOW}
    assert log.of(CallFailed)[0].error is error
    assert log.of(CallRejected)[0] == CallRejected(
        "rig", NOW, OpenReason.CONSECUTIVE_FAILURES, 30.0, Mode.AUTO
    )


def test_durations_are_those_of_the_clock() -> None:
    """How long a call took is by the breaker's own clock, whichever way it ended."""
    rig = Rig()
    with rig.events() as log:
        for error in (None, OSError(), KeyboardInterrupt()):
            call = rig.start()
            rig.wait(0.25)
            rig.end(call, error)
    assert [event.duration for event in log] == [0.25, 0.25, 0.25]  # type: ignore[union-attr]  # all are calls


def test_a_value_judged_a_failure_has_no_error() -> None:
    """`CallFailed` then carries no exception."""
    rig = Rig(failure_if=lambda value: value == "value")
    with rig.events() as log:
        rig.ok()
    assert [event.error for event in log.of(CallFailed)] == [None]


@pytest.mark.parametrize("kind", EVENT_KINDS, ids=lambda kind: kind.__name__)
def test_only_what_is_asked_for(kind: type[Any]) -> None:
    """A listener gets the kinds it asked for and no other."""
    rig = Rig(failure_threshold=1, ignore_on=ValueError)
    told: list[Any] = []
    rig.breaker.subscribe(told.append, kind)
    rig.ok()
    rig.raises(ValueError())
    rig.fail()
    rig.rejected()
    rig.breaker.reconfigure(failure_threshold=2)
    rig.breaker.reset()
    assert told
    assert {type(event) for event in told} == {kind}


def test_who_asks_for_nothing_known() -> None:
    """Something that is no kind of event is refused, with those that are."""
    with pytest.raises(
        TypeError, match=r"kind=<class 'int'>: must be one of StateChanged, CallSucceeded"
    ):
        breaker().subscribe(print, int)


def test_the_shelf_has_what_is_imported_late() -> None:
    """`OpenContext` is on the public shelf too, though it is imported when first asked for."""
    fresh = importlib.util.module_from_spec(importlib.util.find_spec("breakerkit.events"))  # type: ignore[arg-type]  # it is there
    fresh.__spec__.loader.exec_module(fresh)  # type: ignore[union-attr]  # it has one
    assert "OpenContext" not in vars(fresh)
    assert fresh.OpenContext is OpenContext is vars(fresh)["OpenContext"]
    with pytest.raises(AttributeError, match=r"'breakerkit\.events' has no attribute 'Stat'"):
        fresh.Stat  # noqa: B018  # asking for it is the test
