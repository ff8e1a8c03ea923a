"""Several tries of one call at the same time: tasks for a coroutine function, threads for a plain one."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from breakerkit._abandoned import ledger
from breakerkit._ambient import context_of_the_call, limit, live, remaining, steady
from breakerkit._deadline import check_deadline
from breakerkit._shell._shapes import runs_later
from breakerkit._shell._streams import refuse_later
from breakerkit._shell._tries import failed, raised, succeeded
from breakerkit.errors import CallCancelledError, CallTimeoutError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from breakerkit._shell._tries import Plan


# -- tasks -----------------------------------------------------------------------

#: Tasks that have lost and go on in spite of being cancelled; a loop holds its tasks weakly.
_stragglers: set[asyncio.Task[bool]] = set()


async def run_tasks(plan: Any) -> Any:
    """Make all tries at once; what a try ends in that is the caller's ends the call, and so does a winner.

    A call that ends early has cancelled its other tries and waited for them;
    after a winner only for a moment: one that will not stop is dropped.
    """
    import asyncio  # noqa: PLC0415  # only where a loop runs already

    tasks: list[asyncio.Task[bool]] = []
    error = None
    try:
        later: list[Any] = []
        attempts = plan.all(later)
        for notice in later:
            await notice()
        tasks = [asyncio.create_task(_one(plan, attempt)) for attempt in attempts]
        del attempts
        won = await _first(tasks)
        await _stop(tasks, 0 if won else None)
        error, value = plan.end()
        return value if error is None else raised(error)
    except BaseException:
        await _stop(tasks, None)
        raise
    finally:
        for task in tasks:
            _let_go(task)
        del plan, tasks, error  # errors lead to this frame: no cycle


async def _one(plan: Plan, attempt: Any) -> bool:
    """Make one try; tell whether it has won, raise what is the caller's."""
    try:
        try:
            value = await plan.work.begin(attempt.value)
        except BaseException as caught:
            if await failed(plan, attempt, caught):
                return False
            raise
        return await succeeded(plan, attempt, value)
    finally:
        del plan, attempt


async def _first(tasks: list[asyncio.Task[bool]]) -> bool:
    """Wait for a winner or for all; raise what is the caller's, unless one has won by then."""
    import asyncio  # noqa: PLC0415  # only where a loop runs already

    running = set(tasks)
    while running:
        ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        if any(_won(task) for task in ended):
            return True
        for task in tasks:
            if task in ended:
                task.result()
    return False


def _won(task: asyncio.Task[bool]) -> bool:
    return not task.cancelled() and task.exception() is None and task.result()


async def _stop(tasks: Iterable[asyncio.Task[bool]], patience: float | None) -> None:
    """Cancel what still runs, and wait for it: so many seconds, or to its end."""
    import asyncio  # noqa: PLC0415  # only where a loop runs already

    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=patience)


def _let_go(task: asyncio.Task[bool]) -> None:
    """Drop what comes of a task; nobody shall be told that it was never retrieved."""
    _stragglers.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[bool]) -> None:
    _stragglers.discard(task)
    if not task.cancelled():
        task.exception()


# -- threads ---------------------------------------------------------------------

#: A caller looks up after so many seconds where a signal may be set, or time is not that of
#: ``time.monotonic``: neither wakes anybody.
SHORT_NAP = 0.01


def run_threads(plan: Any) -> Any:
    """Make all tries at once, each in a daemon thread with the caller's context variables.

    A thread that has lost cannot be cancelled: what comes of it is dropped.
    """
    error = None
    try:
        if (error := plan.crowded()) is not None:
            raised(error)
        ends: SimpleQueue[tuple[bool, BaseException | None]] = SimpleQueue()
        try:
            _await(ends, _start_all(plan, ends))
        finally:
            plan.over()
        error, value = plan.end()
        return value if error is None else raised(error)
    finally:
        del plan, error  # errors lead to this frame: no cycle


def _start_all(plan: Any, ends: Any) -> int:
    """Begin all tries and tell how many that are; where a thread cannot be started no slot is kept."""
    begun, attempts = 0, plan.all()
    try:
        for attempt in attempts:
            _start(plan, attempt, ends)
            begun += 1
    except BaseException:
        for attempt in attempts[begun:]:
            plan.failed(attempt, GeneratorExit("it is not run"))  # no evidence
        raise
    return begun


def _start(plan: Any, attempt: Any, ends: Any) -> None:
    context = context_of_the_call()
    name = f"breakerkit fork {getattr(attempt.member, 'name', '')}"
    mark = ledger.mark
    try:
        thread = threading.Thread(
            target=context.run, args=(_fork, plan, attempt, ends), name=name, daemon=True
        )
        plan.started(attempt, thread)
        thread.start()
    except BaseException:
        plan.ended(attempt, mark)
        raise


def _fork(plan: Any, attempt: Any, ends: SimpleQueue[tuple[bool, BaseException | None]]) -> None:
    won, error, mark = False, None, ledger.mark
    try:
        try:
            value = plan.work.begin(attempt.value)
        except BaseException as caught:
            error = None if plan.failed(attempt, caught) else caught
        else:
            if runs_later(type(value)):
                refuse_later(plan, attempt, value)
            won = plan.succeeded(attempt, value)
    except BaseException as caught:
        error = caught
    finally:
        plan.ended(attempt, mark)
        ends.put((won, error))
        del plan, attempt, error


def _pause() -> float | None:
    """Return the seconds to wait without looking up, ``None`` if nothing but a fork ends the wait."""
    one, left = live(limit.get()), remaining()
    if one is None or steady(one):
        return left
    return SHORT_NAP if left is None else min(left, SHORT_NAP)


def _look_up() -> None:
    """Leave the forks behind if the time of the calls around is over, or their signal is set.

    Raises:
        CallTimeoutError: the first.
        CallCancelledError: the other.
    """
    try:
        check_deadline()
    except (CallTimeoutError, CallCancelledError) as error:
        error.abandoned = True
        raise


def _await(ends: SimpleQueue[tuple[bool, BaseException | None]], left: int) -> None:
    """Wait for a winner or for all; raise what is the caller's.

    Raises:
        CallTimeoutError: the time of the calls around was over first.
        CallCancelledError: their signal was set first.
    """
    error = None
    try:
        while left:
            try:
                won, error = ends.get(timeout=_pause())
            except Empty:
                _look_up()
                continue
            left -= 1
            if won:
                return
            if error is not None:
                raise error
    finally:
        del error
