"""One call on its way through the providers: whom it is given next, and what comes of it in the end.

The shell drives it, sync and async alike: `Tries.next` until there is nobody
left or a try ended the call, `succeeded` or `failed` after each, then `end`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._ambient import too_late
from breakerkit.errors import AllProvidersFailedError, CallRejectedError, NoProviderError
from breakerkit.providers._slots import DOOR, Attempt, Member
from breakerkit.providers.events import NoProviderReason

if TYPE_CHECKING:
    from breakerkit.errors import DeadlineExceededError
    from breakerkit.providers.keeper import FailoverKeeper

#: Providers that one call tries at most where nothing is said; a list may never stop changing.
MOST_TRIES = 100


class Tries:
    """Strategy ``"failover"``: the next provider on failure."""

    __slots__ = (
        "_failures", "_keeper", "_late", "_left", "_listed", "_refused", "_repeats", "_skipped",
        "_tried", "_turn", "provider", "work",
    )  # fmt: skip

    #: Whether what is called may return work that runs later, to be judged when it has run.
    carries = True
    #: Whether there is but one try.
    once = False

    def __init__(self, keeper: FailoverKeeper, work: Any) -> None:
        self._keeper = keeper
        self.work = work
        #: Who was given the call last.
        self.provider: str | None = None
        self._left: int | None = None
        self._listed = 0
        self._repeats = False
        self._turn: int | None = None
        self._tried: set[str] = set()
        self._failures: list[tuple[str, Exception]] = []
        self._refused: dict[str, CallRejectedError] = {}
        self._skipped: list[Member] = []
        self._late: DeadlineExceededError | None = None

    # -- whom to try ---------------------------------------------------------

    def next(self, later: Any = None) -> Attempt | None:
        """Return the next try, let in; ``None`` if there shall be none.

        Args:
            later: where an async call collects what an admission wants awaited.
        """
        if self._left == 0:
            return None
        self._late = too_late()
        if self._late is not None:
            return None
        candidates, bypassed = self._candidates()
        for member in candidates:
            attempt = self._admit(member, later, bypass=member in bypassed)
            if attempt is not None:
                self._begun(member)
                return attempt
        return None

    def adopt(self, member: Member, entry: Any) -> Attempt:
        """Take over a first try that is under way already."""
        self._listed = len(self._keeper.roster.members)
        self._begun(member)
        return Attempt(member, member.gate, entry)

    def _candidates(self) -> tuple[list[Member], list[Member]]:
        """Return who may be tried, the best first, and who of them past an open breaker."""
        keeper = self._keeper
        if self._turn is None:
            self._turn = next(keeper.turns)
        choice, self._listed = keeper.choose(self._turn)
        skipped = [one for one in choice.skipped if one.name not in self._tried]
        if skipped and not self._skipped:
            keeper.passed_over(skipped)  # once a call
        self._skipped = skipped
        line = [one for one in choice.line() if one.name not in self._refused]
        fresh = [one for one in line if one.name not in self._tried]
        if not fresh and self._repeats:
            self._tried.clear()  # everybody had a try: the next round
            fresh = line
        return fresh, choice.bypassed

    def _admit(self, member: Member, later: Any, *, bypass: bool) -> Attempt | None:
        """Ask a provider's breaker, unless it is to be passed by.

        What comes of a try past an open breaker is no evidence for it: its
        period goes on, and at its end a probe is let in as ever.
        """
        if bypass:
            self._keeper.bypassed(member)
            return Attempt(member, DOOR, DOOR)
        gate = member.gate
        entry, probes = gate.fast, False
        if entry is None:
            entry, probes = gate.admit(later), True
            if isinstance(entry, CallRejectedError):
                self._refused[member.name] = (
                    entry  # it opened, or the probe is taken, since the look
                )
                return None
        return Attempt(member, gate, entry, probes=probes)

    def _begun(self, member: Member) -> None:
        self._left = (self._limit(member) if self._left is None else self._left) - 1
        self._tried.add(member.name)
        self.provider = member.name

    def _limit(self, first: Member) -> int:
        """Return how many tries there may be: the failover's word, else that of the first provider."""
        if self.once:
            return 1
        wanted = self._keeper.config.attempts or first.provider.attempts
        self._repeats = wanted is not None
        return wanted or max(MOST_TRIES, self._listed)

    # -- what came of it ---------------------------------------------------------

    def succeeded(self, attempt: Attempt, value: object, later: Any = None) -> bool:
        """Hear a value; tell whether that ends the call."""
        attempt.succeeded(value, later)
        self._well(attempt)
        if self._failures:
            failed = tuple(name for name, _ in self._failures)
            self._keeper.failed_over(attempt.member, failed)
        return True

    def _well(self, attempt: Attempt) -> None:
        next(attempt.member.successes)
        if attempt.probes:
            self._keeper.recovered(attempt.member)

    def failed(self, attempt: Attempt, error: BaseException, later: Any = None) -> bool:
        """Hear an exception; tell whether the call goes on without it, else it is the caller's."""
        attempt.failed(error, later)
        member = attempt.member
        if isinstance(error, CallRejectedError) and attempt.refused(error):
            # The provider's own breaker, asked again further inside: no failure, and no try.
            self._refused[member.name] = error
            self._left = (self._left or 0) + 1
            return True
        if not (isinstance(error, Exception) and self._keeper.is_failure(error)):
            return False
        self._keeper.failed(member, error)
        self._failures.append((member.name, error))
        return self._goes_on(error)

    def _goes_on(self, error: Exception) -> bool:  # noqa: ARG002  # other strategies look at it
        return True

    # -- the end -------------------------------------------------------------

    def end(self) -> tuple[BaseException | None, Any]:
        """Return the error the call ends in, or ``None`` and what it returns."""
        error = self._verdict()
        self._keeper.exhausted(error, rejected=isinstance(error, CallRejectedError))
        return error, None

    def _verdict(self) -> Exception:
        if not self._failures:
            return self._late or self._nobody()
        error = AllProvidersFailedError(
            self._keeper.name, [*self._failures, *self._refusals()], self._of()
        )
        error.__cause__ = self._late
        return error

    def _of(self) -> int | None:
        """Return how many there are, if some had no say."""
        named = len({name for name, _ in self._failures} | self._refused.keys()) + len(
            self._skipped
        )
        return self._listed if self._listed > named else None

    def _refusals(self) -> list[tuple[str, Exception]]:
        """Return what kept those from being tried that were passed over."""
        failed = {name for name, _ in self._failures}
        skipped = [one for one in self._skipped if one.name not in failed | self._refused.keys()]
        found = [*self._refused.items(), *self._keeper.refusals(skipped)]
        return [(name, error) for name, error in found if name not in failed]

    def _nobody(self) -> NoProviderError:
        refusals = self._refusals()
        waits = [
            wait for _, one in refusals if (wait := getattr(one, "retry_after", None)) is not None
        ]
        reason = NoProviderReason.ALL_BROKEN if self._listed else NoProviderReason.NONE_LISTED
        return NoProviderError(self._keeper.name, reason, min(waits, default=None))
