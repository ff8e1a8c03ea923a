"""The strategies that give one call to several providers: to all of them, or to a few that race."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from breakerkit._abandoned import Work as Abandoned
from breakerkit._abandoned import ledger
from breakerkit._log import hook_name
from breakerkit.errors import AllProvidersFailedError, NoProviderError
from breakerkit.providers._tries import MOST_TRIES, Tries
from breakerkit.providers.events import NoProviderReason

if TYPE_CHECKING:
    from threading import Thread

    from breakerkit.providers._slots import Attempt, Member
    from breakerkit.providers.keeper import FailoverKeeper


class Broadcast(Tries):
    """All of them; too many failures are an error, else the last value in the order of the list is it."""

    __slots__ = ("_begun_all", "_values")

    carries = False

    def __init__(self, keeper: FailoverKeeper, work: Any) -> None:
        super().__init__(keeper, work)
        self._begun_all: list[Attempt] = []
        self._values: dict[int, Any] = {}

    def _limit(self, first: Member) -> int:  # noqa: ARG002  # all of them, whatever one says
        return max(MOST_TRIES, self._listed)

    def next(self, later: Any = None) -> Attempt | None:
        """Return the next try, whoever comes next in the list."""
        attempt = super().next(later)
        if attempt is not None:
            self._begun_all.append(attempt)
        return attempt

    def all(self, later: Any = None) -> list[Attempt]:
        """Return all tries at once."""
        return list(iter(lambda: self.next(later), None))

    def _candidates(self) -> tuple[list[Member], list[Member]]:
        candidates, bypassed = super()._candidates()
        place = {one.name: at for at, one in enumerate(self._keeper.roster.members)}
        candidates.sort(key=lambda one: place.get(one.name, 0))
        return candidates, bypassed

    def succeeded(self, attempt: Attempt, value: object, later: Any = None) -> bool:
        """Hear a value: one of many."""
        attempt.succeeded(value, later)
        self._well(attempt)
        self._values[self._begun_all.index(attempt)] = value
        return False

    def end(self) -> tuple[BaseException | None, Any]:
        """Return an error if as many failed as make one, else the value."""
        failures = [*self._failures, *self._refusals(), *self._unbegun()]
        total, percent = len(failures) + len(self._values), self._keeper.config.fail_percent
        if not self._values and not self._failures:
            return super().end()
        if failures and (percent is None or len(failures) * 100 >= percent * total):
            of = total if self._values else None
            error = AllProvidersFailedError(self._keeper.name, failures, of)
            self._keeper.exhausted(error, rejected=False)
            return error, None
        return None, self._values[max(self._values)]

    def _unbegun(self) -> list[tuple[str, Exception]]:
        """Return those for whom the time was too short."""
        late = self._late
        if late is None:
            return []
        done = self._tried | self._refused.keys() | {one.name for one in self._skipped}
        members = self._keeper.roster.members
        return [(one.name, late) for one in members if one.name not in done]


class Forking(Broadcast):
    """So many in parallel; the first value wins, and only when none comes the call has failed."""

    __slots__ = ("_inherited", "_lost", "_running")

    def __init__(self, keeper: FailoverKeeper, work: Any) -> None:
        super().__init__(keeper, work)
        #: Forks whose threads run, and of those the ones that have lost.
        self._running: dict[int, Abandoned] = {}
        self._lost: set[int] = set()
        #: What forks that have ended have abandoned in their turn.
        self._inherited: list[Abandoned] = []

    def all(self, later: Any = None) -> list[Attempt]:
        """Return as many tries as shall be."""
        wanted = self._keeper.config.forks
        found: list[Attempt] = []
        while len(found) < wanted and (attempt := self.next(later)) is not None:
            found.append(attempt)
        return found

    def _candidates(self) -> tuple[list[Member], list[Member]]:
        return super(Broadcast, self)._candidates()

    def succeeded(self, attempt: Attempt, value: object, later: Any = None) -> bool:
        """Hear a value: the first one ends the call."""
        super().succeeded(attempt, value, later)
        return True

    def end(self) -> tuple[BaseException | None, Any]:
        """Return the one value there is, else an error of all that were tried."""
        if self._values:
            # A list first: other forks may end meanwhile.
            return None, list(self._values.values())[0]  # noqa: RUF015  # for that reason
        return super(Broadcast, self).end()

    # A thread cannot be cancelled: those that lost are counted and bounded, and stand in the ledger.

    def crowded(self) -> NoProviderError | None:
        """Return the rejection if too many forks of calls that are over still run."""
        keeper = self._keeper
        if keeper.losers < keeper.config.max_pending:
            return None
        error = NoProviderError(keeper.name, NoProviderReason.FORKS_RUNNING, None)
        keeper.exhausted(error, rejected=True)
        return error

    # Each may be heard twice, should an interrupt come in between.

    def started(self, attempt: Attempt, thread: Thread) -> None:
        """Hear that the thread of a fork begins."""
        title = hook_name(self.work.function)
        work = Abandoned(self._keeper.name, title, thread, monotonic(), self._keeper)
        with self._keeper.lock:
            self._running[id(attempt)] = work

    def ended(self, attempt: Attempt, mark: int) -> None:
        """Hear that the thread of a fork ends, or did not begin.

        Args:
            attempt: its try.
            mark: the ledger's when it began: what it has abandoned since is the call's.
        """
        left = ledger.since(mark) if mark != ledger.mark else []
        with self._keeper.lock:
            work = self._running.pop(id(attempt), None)
            lost = id(attempt) in self._lost
            if lost:
                self._lost.discard(id(attempt))
                self._keeper.losers -= 1
            else:
                self._inherited += left
        if lost and work is not None:
            work.end(mark)

    def over(self) -> None:
        """Hear that the call has its answer; what still runs has lost, and is abandoned."""
        with self._keeper.lock:
            lost = {one: work for one, work in self._running.items() if one not in self._lost}
            self._lost.update(lost)
            self._keeper.losers += len(lost)
        ledger.add(*lost.values(), *self._inherited)
