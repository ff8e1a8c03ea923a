"""The strategies of one try: what becomes of its failure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from breakerkit._log import write_seldom
from breakerkit.providers._tries import Tries

if TYPE_CHECKING:
    from breakerkit.providers.keeper import FailoverKeeper


class FailFast(Tries):
    """One try, its error at once."""

    __slots__ = ()

    once = True

    def _goes_on(self, error: Exception) -> bool:
        self._keeper.exhausted(error, rejected=False)
        return False


class FailSafe(Tries):
    """One try; an error is logged and the default returned."""

    __slots__ = ()

    once = True

    _message = "%s %r: a call failed (%d so far); it returned its default"

    def end(self) -> tuple[BaseException | None, Any]:
        """Return the default; only a deadline that has passed is the caller's."""
        if self._late is not None and not self._failures:
            return super().end()
        error = self._failures[0][1] if self._failures else self._nobody()
        self._keeper.exhausted(error, rejected=not self._failures)
        self._degrade(error)
        return None, self._keeper.config.default

    def _degrade(self, error: Exception) -> None:
        write_seldom(logging.ERROR, self._message, "failover", self._keeper.name, error)


class FailBack(FailSafe):
    """One try; if it fails the call is left for the background and the default returned."""

    __slots__ = ()

    carries = False

    def _degrade(self, error: Exception) -> None:
        self._keeper.retries.queue(self.work, self.provider, error)


class Again(FailFast):
    """One more try, in the background: with another provider than the last time, if there is one."""

    __slots__ = ()

    carries = False

    def __init__(self, keeper: FailoverKeeper, work: Any, last: str | None) -> None:
        super().__init__(keeper, work)
        self._tried.update(() if last is None else (last,))
        self._repeats = True

    def _goes_on(self, error: Exception) -> bool:  # noqa: ARG002  # no end of a call: not counted
        return False
