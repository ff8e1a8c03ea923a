"""What a call through the cache does, step by step: look, serve, load, or say that there is nothing.

Ages and moments are looked at again whenever something had to be waited for, so
that nothing is served that has grown too old meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit._outcome import blame
from breakerkit.errors import CallTimeoutError
from breakerkit.stale._attempts import Ended, Part
from breakerkit.stale._loading import load
from breakerkit.stale._shelf import LOST
from breakerkit.stale._steps import LOOK_AGAIN, Answer, Ask, Start, Wait
from breakerkit.stale._stored import Stored
from breakerkit.stale.disaster import DisasterCall, Raise, Return
from breakerkit.stale.events import Source
from breakerkit.store.commands import NOTHING, Read

if TYPE_CHECKING:
    from types import TracebackType

    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._steps import Course, Work
    from breakerkit.stale.guard import StaleKeeper

__all__ = ["Fetched"]


@attrs.frozen
class Fetched:
    """A value, and where it came from.

    Attributes:
        value: the value.
        source: where it came from.
        age: how old it is, in seconds; ``None`` in a disaster.
        error: how the origin failed just now, if it did.
    """

    value: Any
    source: Source
    age: float | None
    error: Exception | None = None


class Passed:
    """An error for the caller: generators cannot raise every one of them.

    Attributes:
        error: the error, of which there may be one for several callers.
        trace: where it came from, without those callers.
    """

    __slots__ = ("error", "trace")

    def __init__(self, error: Exception, trace: TracebackType | None) -> None:
        self.error = error
        self.trace = trace


#: In place of what was read: it is to be read again.
_UNREAD = object()


def fetch(keeper: StaleKeeper, key: str, work: Work, entry: Any) -> Course:
    """Return what one call comes to, which has read ``entry``.

    Raises:
        NoCachedValueError: the origin failed, and there is nothing to serve.
        Exception: what is no failure of the origin.
    """
    until = None
    while True:
        if entry is _UNREAD:
            entry = yield Ask(keeper.shelf, Read(key))
        now = keeper.clock.now()
        stored = None if entry is None or entry is LOST else Stored(entry, now)
        if stored is not None and now < stored.due:
            if stored.value is NOTHING:
                return (yield from _disaster(keeper, key, work, None))
            if keeper.servable(stored, now):
                return keeper.served(key, stored, now)
            if not isinstance(keeper.config.disaster, Raise):
                return (yield from _disaster(keeper, key, work, None))
        until = now + keeper.config.patience if until is None else until
        part, attempt, found = Part(), None, None
        try:
            attempt = keeper.attempts.join(part, key, now, keeper.config.patience)
            found = yield from _with(keeper, attempt, part.leads, work, stored, until)
            if found is not None:
                return found
            if attempt.how is Ended.ELSEWHERE:
                yield Wait(None, keeper.clock, min(until, keeper.clock.now() + LOOK_AGAIN))
        finally:
            keeper.attempts.leave(part)
            entry = _UNREAD
            del part, attempt, found  # an error leads to this frame: no cycle


def _with(
    keeper: StaleKeeper, attempt: Attempt, leads: bool, work: Work, stored: Stored | None,
    until: float,
) -> Course:  # fmt: skip
    """Make an attempt, or see what comes of another's; ``None``: look again."""
    config, clock = keeper.config, keeper.clock
    at_hand = _at_hand(keeper, stored)
    detached = at_hand is not None and (config.background or config.soft_timeout is not None)
    if leads:
        attempt.detached = detached
        course = load(keeper, attempt, work, stored)
        yield Start(
            attempt, course, lambda: keeper.attempts.settle(attempt, Ended.HANDED_OVER),
            keeper, detached=detached,
        )  # fmt: skip
    if at_hand is not None and (config.background or not leads):
        return keeper.served(attempt.key, at_hand, clock.now())
    soft = config.soft_timeout if detached else None
    moment = attempt.ends if soft is None else clock.now() + soft
    yield Wait(attempt, clock, moment)
    return (yield from _outcome(keeper, attempt, leads, work, stored, until))


def _outcome(
    keeper: StaleKeeper, attempt: Attempt, leads: bool, work: Work, stored: Stored | None,
    until: float,
) -> Course:  # fmt: skip
    how, error = attempt.how, attempt.error
    try:
        if leads and attempt.personal is not None:
            raise attempt.personal
        if how is Ended.VALUE:
            return keeper.loaded(attempt.value)
        if how is Ended.PASSED:
            assert error is not None
            return Passed(error, attempt.trace)
        if how is None:
            attempt.detached = True  # it is late, not unwanted: what it finds is stored
        at_hand = _at_hand(keeper, stored, error)
        if at_hand is not None:
            return keeper.served(attempt.key, at_hand, keeper.clock.now(), error)
        waits = how in {Ended.HANDED_OVER, Ended.ELSEWHERE} and keeper.clock.now() < until
        if waits:
            return None
        if error is None:
            error = CallTimeoutError(keeper.name, keeper.config.patience)
        return (yield from _disaster(keeper, attempt.key, work, error))
    finally:
        del error, attempt  # the error leads to this frame: no cycle


def _at_hand(
    keeper: StaleKeeper, stored: Stored | None, error: Exception | None = None
) -> Stored | None:
    """Return what may be served now, although it is due."""
    if stored is None or stored.value is NOTHING:
        return None
    return stored if keeper.servable(stored, keeper.clock.now(), error) else None


def _disaster(keeper: StaleKeeper, key: str, work: Work, error: Exception | None) -> Course:
    """Do as the disaster strategy says."""
    try:
        strategy = keeper.config.disaster
        keeper.struck(key, error)
        if isinstance(strategy, Raise):
            raise keeper.nothing(key, error) from error
        if isinstance(strategy, Return):
            return Fetched(strategy.value, Source.DISASTER, None, error)
        call = DisasterCall(
            name=keeper.name, key=keeper.shown(key), error=error, args=work.args, kwargs=work.kwargs
        )
        try:
            value = yield Answer(strategy, call)
        except Exception as failure:
            blame(failure, error)
            return Passed(failure, failure.__traceback__)
        return Fetched(value, Source.DISASTER, None, error)
    finally:
        del error
