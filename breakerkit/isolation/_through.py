"""Calls that are run by a worker: the three ways to wait for one, in a thread, in a task, by a future."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._abandoned import ledger
from breakerkit.errors import CallCancelledError, CallRejectedError
from breakerkit.isolation._waiters import SHORT_NAP, Patience

if TYPE_CHECKING:
    from breakerkit.isolation._callers import Awaited, Call, Submitted
    from breakerkit.isolation._work import Work
    from breakerkit.isolation.guard import BulkheadGuard


def post(guard: BulkheadGuard, work: Work, patience: Patience) -> CallRejectedError | None:
    """Send work to a worker, or let it wait for a slot; or return the rejection."""
    entry = guard.ask(work.share)
    if entry is None:
        entry = guard.join(work, patience)
    if isinstance(entry, CallRejectedError):
        return entry
    if entry is None:
        guard.tell()
    else:
        work.slot = entry
        patience.admitted()
        work.start()
    return None


def run(work: Call) -> Any:
    """Run a call in a worker and wait for it: what it returns, or raises."""
    guard = work.guard
    patience = Patience(guard.clock, guard.config.max_wait)
    try:
        rejection = post(guard, work, patience)
        while rejection is None and not work.concluded:
            pause = patience.pause() or (work.over and SHORT_NAP)
            if pause:
                work.nap(pause)
            else:
                rejection = _late(guard, work, patience)
    except BaseException as error:
        _leave(work, error)
        raise
    return _result(work, rejection)


async def run_async(work: Awaited) -> Any:
    """Do the same without blocking the event loop."""
    guard = work.guard
    patience = Patience(guard.clock, guard.config.max_wait)
    try:
        rejection = post(guard, work, patience)
        while rejection is None and not work.concluded:
            pause = patience.pause_async() or (work.over and SHORT_NAP)
            if pause:
                await work.nap(pause)
            else:
                rejection = _late(guard, work, patience)
    except BaseException as error:
        _leave(work, error)
        raise
    return _result(work, rejection)


def _leave(work: Work, error: BaseException) -> None:
    """Go away because of an error, which says it if the work goes on."""
    if work.leave() and isinstance(error, CallCancelledError):
        error.abandoned = True


def submit(work: Submitted) -> Any:
    """Send a call to a worker and return its future."""
    guard = work.guard
    patience = Patience(guard.clock, guard.config.max_wait)
    rejection = post(guard, work, patience)
    if rejection is None and not work.decided and patience.ends:
        guard.watch.add(guard, work, patience)
    return work.future if rejection is None else _result(work, rejection)


def _late(guard: BulkheadGuard, work: Work, patience: Patience) -> CallRejectedError | None:
    """Return the rejection of a call that has waited for too long; ``None``: it goes on.

    Raises:
        CallTimeoutError: it has begun, and goes on as abandoned work.
    """
    rejection = guard.give_up(work, patience)
    if rejection is not None:
        return rejection
    patience.admitted()  # it has its slot
    if patience.pause() or work.over:
        return None
    if work.leave():
        raise patience.deadline()
    return None if work.over else guard.refuse(work, patience.reason, patience)


def _result(work: Work, rejection: CallRejectedError | None) -> Any:
    if work.inherited:
        ledger.add(*work.inherited)  # its caller is answerable for them now
    error: BaseException | None = rejection or work.error
    try:
        if error is None:
            return work.value
        context = error.__context__
        try:
            raise error
        finally:
            # What the caller is handling has nothing to do with it.
            error.__context__ = context
    finally:
        del error, rejection  # their traceback leads here: no cycle
        work.error = work.value = None
