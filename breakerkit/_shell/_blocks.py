"""A guarded ``with`` block: each block owns its lease, wherever it is entered and left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from breakerkit._outcome import NO_VALUE, Outcome
from breakerkit._shell._gate import enter, enter_async, fail, succeed

if TYPE_CHECKING:
    from types import TracebackType

    from breakerkit._callbacks import Later

__all__ = ["GuardBlock"]


class GuardBlock:
    """What ``guard()`` of a policy returns: ``with`` or ``async with`` it, once.

    Inside, `fail` and `ignore` decide the outcome at once; the slot is freed
    when the block ends. Nothing is kept in a context variable, so the block may
    be entered in one thread or task and left in another.
    """

    __slots__ = ("_decided", "_entry", "_gate", "_later")

    def __init__(self, gate: Any) -> None:
        self._gate = gate
        self._entry: Any = None
        self._decided = False
        self._later: Later | None = None

    def fail(self, error: BaseException | None = None) -> None:
        """Count this block as a failure, whatever happens in it from now on.

        Args:
            error: what went wrong, for the opening callbacks.

        Raises:
            RuntimeError: the block is not running.
        """
        self._decide(Outcome.FAILURE, error)

    def ignore(self) -> None:
        """Count this block as no evidence, whatever happens in it from now on.

        Raises:
            RuntimeError: the block is not running.
        """
        self._decide(Outcome.NEUTRAL, None)

    def __enter__(self) -> Self:
        self._gate.check_sync()
        self._begin()
        self._entry = enter(self._gate)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entry = self._end()
        if self._decided:
            self._gate.release(entry)
        elif error is not None:
            self._gate.failed(entry, error)
        elif (ticket := next(entry.ticks)) >= entry.attention:
            self._gate.succeeded(entry, ticket, NO_VALUE)

    async def __aenter__(self) -> Self:
        self._begin()
        self._later = []
        self._entry = await enter_async(self._gate)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entry = self._end()
        if self._decided:
            self._gate.release(entry)
        elif error is not None:
            await fail(self._gate, entry, error)
        elif (ticket := next(entry.ticks)) >= entry.attention:
            await succeed(self._gate, entry, ticket, NO_VALUE)
        for notice in self._later or ():
            await notice()

    def __del__(self) -> None:
        entry = getattr(self, "_entry", None)  # absent if __init__ was interrupted
        if entry not in (None, _USED):
            self._gate.drop(entry, decided=self._decided)

    def _begin(self) -> None:
        if self._entry is not None:
            raise RuntimeError("a guard block works once: call guard() for each block")
        self._entry = _USED

    def _end(self) -> Any:
        if self._entry in (None, _USED):
            raise RuntimeError("the guard block is not running")
        entry, self._entry = self._entry, _USED
        return entry

    def _decide(self, outcome: Outcome, error: BaseException | None) -> None:
        if self._entry in (None, _USED):
            raise RuntimeError("the guard block is not running")
        if not self._decided:
            self._decided = True
            self._gate.decide(self._entry, outcome, error, self._later)


#: In place of an entry: the block has begun or ended, and holds none.
_USED = object()
