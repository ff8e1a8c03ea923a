"""One attempt to load a key: ask the origin, and put away what comes of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from breakerkit._outcome import is_refusal, of_the_time_around, part_from
from breakerkit.errors import CallCancelledError, CircuitOpenError
from breakerkit.stale._attempts import Ended
from breakerkit.stale._shelf import LOST
from breakerkit.stale._steps import Ask
from breakerkit.stale._stored import Look, Stored
from breakerkit.stale._waiting import LOOK_AGAIN, Wait
from breakerkit.stale.disaster import Raise
from breakerkit.store.commands import Begin, Postpone, Release, Write

if TYPE_CHECKING:
    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._steps import Course, Work
    from breakerkit.stale.guard import StaleKeeper


class Lease:
    """The right to write that an attempt has from the store, until it is given back.

    Attributes:
        ticket: the store's, ``None`` while there is none.
        asked: whether the store may have given one: its answer may be lost.
    """

    __slots__ = ("asked", "ticket")

    def __init__(self) -> None:
        self.ticket: int | None = None
        self.asked = False

    def spend(self) -> None:
        """Hear that the command that ends it was sent."""
        self.ticket, self.asked = None, False


def load(keeper: StaleKeeper, attempt: Attempt, work: Work, stored: Stored | None) -> Course:
    """Make the attempt; whoever waits hears of its end once the store has.

    Raises:
        BaseException: what ends a thread or a task.
    """
    lease, around = Lease(), sys.exception()
    try:
        yield from _load(keeper, attempt, work, stored, lease, around)
    except BaseException as error:
        # Cancelled, or interrupted: nothing is learned, and somebody else may try. What is
        # being closed may take no further step: then the lease runs out.
        attempt.belongs(error)
        if lease.asked:
            release = Release(attempt.key, lease.ticket, keeper.owner)
            if not isinstance(error, GeneratorExit):
                yield Ask(keeper.shelf, release)
            elif keeper.shelf.store.local:
                keeper.shelf.do(release)
        raise
    finally:
        del around, attempt  # an error leads to this frame: no cycle


def _load(
    keeper: StaleKeeper, attempt: Attempt, work: Work, stored: Stored | None, lease: Lease,
    around: BaseException | None,
) -> Course:  # fmt: skip
    key, clock, config = attempt.key, keeper.clock, keeper.config
    if not attempt.apart:
        yield from _begin(keeper, attempt, stored, lease)
        if attempt.how is not None:
            if lease.ticket is not None:  # a put came in between
                yield Ask(keeper.shelf, Release(key, lease.ticket))
                lease.spend()
            return
    began = clock.now()
    try:
        value = yield work
    except Exception as error:
        part_from(error, around)
        if error is work.refused:
            work.refused = None  # it leads to a frame that leads to it
            how = Ended.PASSED
        else:
            how = _verdict(keeper, error)
        yield from _failed(keeper, attempt, error, how, lease, stored)
        return
    finally:
        del around
    took, kept = clock.now() - began, False
    if lease.ticket is not None:
        write = Write(key, lease.ticket, value, keeper.next_due(config), config.keep)
        kept = yield Ask(keeper.shelf, write)
        lease.spend()
    yield from _forgotten(keeper, key, lease)
    keeper.refreshed(key, took, stored=kept is True)
    keeper.attempts.settle(attempt, Ended.VALUE, value=value)


def _begin(keeper: StaleKeeper, attempt: Attempt, stored: Stored | None, lease: Lease) -> Course:
    """Draw a ticket for an attempt, unless the store gives none; or end the attempt.

    While another process has the lease, those who have a value at hand need not
    wait; for all others in this process one looks whether the value has come.
    """
    key, clock, shelf = attempt.key, keeper.clock, keeper.shelf
    lease.asked = True
    while (ticket := (yield Ask(shelf, Begin(key, keeper.lease, keeper.owner)))) is None:
        now = clock.now()
        if now >= attempt.ends or (stored and _servable(keeper, key, stored)):
            break
        yield Wait(None, clock, min(attempt.ends, now + LOOK_AGAIN))
        found = yield Look(shelf, clock, key)
        if isinstance(found, Stored) and keeper.answers(key, found):
            lease.spend()
            keeper.attempts.settle(attempt, Ended.FOUND)
            return
    if ticket is None:
        lease.spend()
        keeper.attempts.settle(attempt, Ended.ELSEWHERE)
    if ticket is None or ticket is LOST:
        return
    lease.ticket = ticket
    # Another attempt may have ended between our look and our turn.
    found = yield Look(shelf, clock, key)
    if isinstance(found, Stored) and keeper.answers(key, found):
        keeper.attempts.settle(attempt, Ended.FOUND)


def _failed(
    keeper: StaleKeeper, attempt: Attempt, error: Exception, how: Ended, lease: Lease, stored: Any
) -> Course:
    """End an attempt that raised; the refresh time moves if the origin failed."""
    try:
        due = _due(keeper, attempt.key, error, stored) if how is Ended.FAILED else None
        if lease.ticket is not None:
            key = attempt.key
            if due is None:
                yield Ask(keeper.shelf, Release(key, lease.ticket))
            else:
                empty = not isinstance(keeper.config.disaster, Raise)
                yield Ask(keeper.shelf, Postpone(key, lease.ticket, due, empty))
            lease.spend()
        yield from _forgotten(keeper, attempt.key, lease)
        if how is Ended.FAILED:
            keeper.failed(attempt.key, error, served=_servable(keeper, attempt.key, stored, error))
        if how is Ended.HANDED_OVER:
            attempt.belongs(error)
        if (
            how is Ended.PASSED
            and attempt.detached
            and (keeper.config.background or not attempt.callers)
        ):
            keeper.unheard(error)
        keeper.attempts.settle(attempt, how, error=error)
    finally:
        del error, attempt  # the error leads to this frame: no cycle


def _forgotten(keeper: StaleKeeper, key: str, lease: Lease) -> Course:
    """Give back a lease of which nobody here knows, for the reply was lost: others need not wait for it."""
    if lease.asked:
        yield Ask(keeper.shelf, Release(key, lease.ticket, keeper.owner))
        lease.spend()


def _verdict(keeper: StaleKeeper, error: Exception) -> Ended:
    """Return what an error means to those who wait for the attempt."""
    if isinstance(error, CallCancelledError) or of_the_time_around(error):
        return Ended.HANDED_OVER  # the caller's own: the others go on
    if is_refusal(error) or keeper.is_failure(error):
        return Ended.FAILED
    return Ended.PASSED


def _due(keeper: StaleKeeper, key: str, error: Exception, stored: Any) -> float | None:
    """Return in how many seconds the origin may be asked again, ``None`` if at once."""
    config = keeper.config
    if not _servable(keeper, key, stored, error) and isinstance(config.disaster, Raise):
        return None
    if not is_refusal(error):
        return keeper.next_due(config)
    if not isinstance(error, CircuitOpenError):
        return None  # it was not asked, and may be as soon as there is a place
    # Attempts are the breaker's probes: none shall come late.
    wait = error.retry_after
    return config.refresh_after if wait is None else min(config.refresh_after, wait)


def _servable(
    keeper: StaleKeeper, key: str, stored: Stored | None, error: Exception | None = None
) -> bool:
    return stored is not None and keeper.servable(key, stored, keeper.clock.now(), error)
