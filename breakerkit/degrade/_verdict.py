"""What an error means to those who would answer in its place."""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING

from breakerkit._outcome import Classifier, Outcome, is_neutral, leaves_of, of_the_time_around
from breakerkit.errors import CallCancelledError, CallRejectedError

if TYPE_CHECKING:
    from breakerkit._outcome import ErrorFilter


class Verdict(enum.Enum):
    """What may be done about an error."""

    THE_CALLERS = "it passes"
    FAILURE = "the call was run and failed"
    REJECTION = "the call was not run"


class Judge:
    """Judge errors by a policy's ``on``; a predicate that raises is logged and counts as a yes."""

    __slots__ = ("_classifier", "_rejections")

    def __init__(self, name: str, on: ErrorFilter) -> None:
        self._classifier = Classifier(name, on, (), (), None)
        listed = on if isinstance(on, tuple) else ()
        # A filter that lists kinds of rejection speaks about rejections: then it means just those.
        named = tuple(kind for kind in listed if issubclass(kind, CallRejectedError))
        self._rejections = named or (CallRejectedError,)

    def verdict(self, error: Exception) -> Verdict:
        """Return what ``error`` means; a group by its leaves, and never one with a cancellation in it."""
        leaves = leaves_of(error) if isinstance(error, BaseExceptionGroup) else [error]
        if any(map(is_cancellation, leaves)) or of_the_time_around(error):
            return Verdict.THE_CALLERS
        if all(map(is_neutral, leaves)):
            meant = all(isinstance(leaf, self._rejections) for leaf in leaves)
            return Verdict.REJECTION if meant else Verdict.THE_CALLERS
        failed = self._classifier.error(error) is Outcome.FAILURE
        return Verdict.FAILURE if failed else Verdict.THE_CALLERS


def is_cancellation(error: BaseException) -> bool:
    """Tell whether somebody ended the call, or the program; that is never answered by a value."""
    if not isinstance(error, Exception) or isinstance(error, CallCancelledError):
        return True
    # That of a pool's future is an Exception; who has no pool need not import one to ask.
    pools = sys.modules.get("concurrent.futures._base")
    return pools is not None and isinstance(error, pools.CancelledError)
