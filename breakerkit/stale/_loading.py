"""One attempt to load a key: ask the origin, and put away what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._outcome import is_refusal, of_the_time_around
from breakerkit.errors import CallCancelledError, CircuitOpenError
from breakerkit.stale._attempts import Ended
from breakerkit.stale._shelf import LOST
from breakerkit.stale._steps import LOOK_AGAIN, Ask, Wait
from breakerkit.stale._stored import Stored
from breakerkit.stale.disaster import Raise
from breakerkit.store.commands import NOTHING, Begin, Entry, Postpone, Read, Release, Write

if TYPE_CHECKING:
    from breakerkit.stale._attempts import Attempt
    from breakerkit.stale._steps import Course, Work
    from breakerkit.stale.guard import StaleKeeper


def load(keeper: StaleKeeper, attempt: Attempt, work: Work, stored: Stored | None) -> Course:
    """Make the attempt; whoever waits hears of its end once the store has.

    Raises:
        BaseException: what ends a thread or a task.
    """
    key, clock, config = attempt.key, keeper.clock, keeper.config
    began = clock.now()
    ticket = yield from _ticket(keeper, attempt, stored)
    if attempt.how is not None:
        return
    try:
        value = yield work
    except Exception as error:
        if error is work.refused:
            work.refused = None  # it leads to a frame that leads to it
            how = Ended.PASSED
        else:
            how = _verdict(keeper, error)
        yield from _failed(keeper, attempt, error, how, ticket, stored)
        return
    except BaseException as error:
        # Cancelled, or interrupted: nothing is learned, and somebody else may try. What is
        # being closed may take no further step: then the lease runs out.
        attempt.personal = error
        if ticket is not None:
            release = Release(key, ticket)
            if not isinstance(error, GeneratorExit):
                yield Ask(keeper.shelf, release)
            elif keeper.shelf.store.local:
                keeper.shelf.do(release)
        raise
    kept = False
    if ticket is not None:
        kept = yield Ask(
            keeper.shelf, Write(key, ticket, value, keeper.next_due(config), config.keep)
        )
    keeper.refreshed(key, clock.now() - began, stored=kept is True)
    keeper.attempts.settle(attempt, Ended.VALUE, value=value)


def _ticket(keeper: StaleKeeper, attempt: Attempt, stored: Stored | None) -> Course:
    """Return the ticket for an attempt, ``None`` where the store has none; or end the attempt.

    While another process has the lease, those who have a value at hand need not
    wait; for all others in this process one looks whether the value has come.
    """
    key, clock, shelf = attempt.key, keeper.clock, keeper.shelf
    while (ticket := (yield Ask(shelf, Begin(key, keeper.lease)))) is None:
        now = clock.now()
        if now >= attempt.ends or (stored and _young(keeper, stored, now)):
            break
        yield Wait(None, clock, min(attempt.ends, now + LOOK_AGAIN))
        entry = yield Ask(shelf, Read(key))
        if isinstance(entry, Entry) and entry.due > 0:
            now = clock.now()
            found = Stored(entry, now)
            if not _young(keeper, found, now):
                break  # it failed over there
            keeper.attempts.settle(attempt, Ended.VALUE, value=found.value)
            return None
    if ticket is None:
        keeper.attempts.settle(attempt, Ended.ELSEWHERE)
    if ticket is None or ticket is LOST:
        return None
    # Another attempt may have ended between our look and our turn.
    entry = yield Ask(shelf, Read(key))
    if isinstance(entry, Entry) and entry.due > 0:
        found = Stored(entry, clock.now())
        if _young(keeper, found, clock.now()):
            yield Ask(shelf, Release(key, ticket))
            keeper.attempts.settle(attempt, Ended.VALUE, value=found.value)
            return None
    return ticket


def _young(keeper: StaleKeeper, stored: Stored, now: float) -> bool:
    return stored.value is not NOTHING and keeper.servable(stored, now)


def _failed(
    keeper: StaleKeeper, attempt: Attempt, error: Exception, how: Ended, ticket: int | None,
    stored: Any,
) -> Course:  # fmt: skip
    """End an attempt that raised; the refresh time moves if the origin failed."""
    try:
        due = _due(keeper, error, stored) if how is Ended.FAILED else None
        if ticket is not None:
            key = attempt.key
            if due is None:
                yield Ask(keeper.shelf, Release(key, ticket))
            else:
                empty = not isinstance(keeper.config.disaster, Raise)
                yield Ask(keeper.shelf, Postpone(key, ticket, due, empty))
        if how is Ended.FAILED:
            keeper.failed(attempt.key, error, served=_servable(keeper, stored, error))
        if how is Ended.HANDED_OVER:
            attempt.personal = error
        keeper.attempts.settle(attempt, how, error=error)
    finally:
        del error, attempt  # the error leads to this frame: no cycle


def _verdict(keeper: StaleKeeper, error: Exception) -> Ended:
    """Return what an error means to those who wait for the attempt."""
    if isinstance(error, CallCancelledError) or of_the_time_around(error):
        return Ended.HANDED_OVER  # the caller's own: the others go on
    if is_refusal(error) or keeper.is_failure(error):
        return Ended.FAILED
    return Ended.PASSED


def _due(keeper: StaleKeeper, error: Exception, stored: Any) -> float | None:
    """Return in how many seconds the origin may be asked again, ``None`` if at once."""
    config = keeper.config
    if not _servable(keeper, stored, error) and isinstance(config.disaster, Raise):
        return None
    if not is_refusal(error):
        return keeper.next_due(config)
    if not isinstance(error, CircuitOpenError):
        return None  # it was not asked, and may be as soon as there is a place
    # Attempts are the breaker's probes: none shall come late.
    wait = error.retry_after
    return config.refresh_after if wait is None else min(config.refresh_after, wait)


def _servable(keeper: StaleKeeper, stored: Any, error: Exception) -> bool:
    return (
        stored is not None
        and stored.value is not NOTHING
        and keeper.servable(stored, keeper.clock.now(), error)
    )
