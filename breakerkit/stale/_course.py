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
from breakerkit.stale._nested import check_depth, never_ends, wait_for, waited
from breakerkit.stale._shelf import LOST
from breakerkit.stale._starting import Start
from breakerkit.stale._steps import Answer
from breakerkit.stale._stored import Look
from breakerkit.stale._waiting import STUCK, Stop, Wait, cancel
from breakerkit.stale.disaster import DisasterCall, Raise, Return
from breakerkit.stale.events import Source

if TYPE_CHECKING:
    from types import TracebackType

    from breakerkit.clock import Clock
    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._steps import Course, Work
    from breakerkit.stale._stored import Stored
    from breakerkit.stale.guard import StaleKeeper

__all__ = ["Fetched"]

#: In place of an outcome: there is none yet, and nothing to serve meanwhile.
NOT_YET = "not yet"


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


def fetch(keeper: StaleKeeper, key: str, work: Work, stored: Stored | None) -> Course:
    """Return what one call comes to, which has found ``stored``.

    Raises:
        NoCachedValueError: the origin failed, and there is nothing to serve.
        Exception: what is no failure of the origin.
    """
    until, apart = None, False
    while True:
        now = keeper.clock.now()
        if stored is not None and now < keeper.due(stored):
            if keeper.servable(key, stored, now):
                return keeper.served(key, stored, now)
            if keeper.answers(key, stored):  # it rests
                return (yield from _disaster(keeper, key, work, None))
        until = now + keeper.config.patience if until is None else until
        found = yield from _attempt(keeper, key, work, stored, until, apart=apart)
        try:
            if isinstance(found, Fetched | Passed):
                return found
            apart = found is STUCK
        finally:
            del found  # an error's traceback may lead to this frame: no cycle
        stored = _known((yield Look(keeper.shelf, keeper.clock, key)), None)


def _attempt(
    keeper: StaleKeeper, key: str, work: Work, stored: Stored | None, until: float, *, apart: bool
) -> Course:
    """Take part in an attempt; ``None``: look again; `STUCK`: make one apart."""
    part, attempts, attempt, found = Part(), keeper.attempts, None, None
    try:
        if apart:
            check_depth(keeper.name, keeper.shown(key))
            attempt = attempts.apart(part, key)
        else:
            attempt = attempts.join(part, key, keeper.clock.now(), keeper.config.patience)
        found = yield from _with(keeper, attempt, part.leads, work, stored, until)
    except GeneratorExit:
        raise
    except BaseException:
        task = attempts.leave(part)
        if task is not None:
            yield Stop(task)
        raise
    else:
        return found
    finally:
        task = attempts.leave(part)
        if task is not None:
            cancel(task)
        del part, attempt, task, found  # an error leads to this frame: no cycle


def _with(
    keeper: StaleKeeper, attempt: Attempt, leads: bool, work: Work, stored: Stored | None,
    until: float,
) -> Course:  # fmt: skip
    """Make an attempt, or see what comes of another's; ``None``: look again; `STUCK`: make one apart."""
    config, clock = keeper.config, keeper.clock
    at_hand = _at_hand(keeper, attempt.key, stored)
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
    last = min(until, attempt.ends)
    moment = last
    if detached and config.soft_timeout is not None:
        moment = clock.now() + config.soft_timeout
    while True:
        if (yield from _wait(attempt, clock, moment, leads)) is STUCK:
            return STUCK
        found = yield from _outcome(keeper, attempt, leads, work, stored, until)
        try:
            if found is not NOT_YET:
                return found
        finally:
            del found  # an error's traceback may lead to this frame: no cycle
        moment, stored = last, None  # what was at hand has gone: this is a first load now


def _wait(attempt: Attempt, clock: Clock, moment: float, leads: bool) -> Course:
    """Wait for an attempt, unless that would never end: its origin, by whatever way, waits for this."""
    mine = () if leads else wait_for(attempt)
    try:
        return STUCK if never_ends(mine, attempt) else (yield Wait(attempt, clock, moment))
    finally:
        waited(mine, attempt)


def _outcome(
    keeper: StaleKeeper, attempt: Attempt, leads: bool, work: Work, stored: Stored | None,
    until: float,
) -> Course:  # fmt: skip
    how, error, key = attempt.how, attempt.error, attempt.key
    try:
        if leads and attempt.personal is not None:
            raise attempt.personal
        if how is Ended.VALUE:
            return keeper.loaded(attempt.value, shared=not leads)
        if how is Ended.PASSED:
            assert error is not None
            return Passed(error, attempt.trace)
        # Once more: meanwhile somebody may have put a value, or evicted the one we know.
        stored = _known((yield Look(keeper.shelf, keeper.clock, key)), stored)
        at_hand = _at_hand(keeper, key, stored, error)
        if how is None:
            if at_hand is None and keeper.clock.now() < min(until, attempt.ends):
                return NOT_YET
            attempt.detached = True  # it is late, not unwanted: what it finds is stored
        if at_hand is not None:
            return keeper.served(key, at_hand, keeper.clock.now(), error)
        again = how in {Ended.HANDED_OVER, Ended.ELSEWHERE, Ended.FOUND}
        if again and keeper.clock.now() < until:
            return None
        if error is None:
            error = CallTimeoutError(keeper.name, keeper.config.patience)
        return (yield from _disaster(keeper, key, work, error))
    finally:
        del error, attempt  # the error leads to this frame: no cycle


def _known(found: Any, before: Stored | None) -> Stored | None:
    """Return what a look has found; where the store failed, what is known from before."""
    return before if found is LOST else found


def _at_hand(
    keeper: StaleKeeper, key: str, stored: Stored | None, error: Exception | None = None
) -> Stored | None:
    """Return what may be served now, although it is due."""
    if stored is None or not keeper.servable(key, stored, keeper.clock.now(), error):
        return None
    return stored


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
