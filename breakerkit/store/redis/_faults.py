"""Whose fault it is that a command failed: the server's, which the breaker hears of, or our own."""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING

import redis.exceptions

from breakerkit.store.commands import StoreBusyError
from breakerkit.store.redis._refusals import RefusedError

if TYPE_CHECKING:
    from redis.exceptions import ResponseError

#: What redis-py says when all connections of a pool are in use; older versions have no type for it.
_NO_ROOM = ("No connection available.", "Too many connections")
_NO_ROOM_TYPE: type[Exception] | None = getattr(redis.exceptions, "MaxConnectionsError", None)


#: How the errors of a server begin that refuse writing alone: it may be read.
_REFUSALS = re.compile(r"\b(READONLY|NOREPLICAS|MISCONF|OOM)\b")


def answered(error: ResponseError) -> Exception:
    """Return what to raise for an error that a server has answered."""
    if isinstance(error, redis.exceptions.ReadOnlyError):
        return RefusedError("READONLY")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return RefusedError("OOM")
    found = _REFUSALS.search(str(error))
    return RefusedError(found[0]) if found else error


class TooLargeError(StoreBusyError):
    """A command took too long, and is, or its reply, so large that this need not surprise."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a value of {size} bytes took longer than the timeout")


def closing(error: BaseException) -> BaseException:
    """Return why a coroutine ends: what is closed with its loop cannot await, and redis-py tries."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GeneratorExit):
            return cause
        cause = cause.__context__
    return error


def no_room(error: Exception) -> bool:
    """Tell whether an error says that all connections of a client's pool are in use."""
    if _NO_ROOM_TYPE is not None and isinstance(error, _NO_ROOM_TYPE):
        return True
    return isinstance(error, redis.exceptions.ConnectionError) and str(error) in _NO_ROOM


def _timed_out(error: BaseException | None) -> bool:
    kinds = (redis.exceptions.TimeoutError, TimeoutError)
    return isinstance(error, kinds) or (error is not None and isinstance(error.__cause__, kinds))


class Doubt:
    """Timeouts that may come of our own slowness: a process, or a loop, that is held up is late for replies.

    Where that may be, one says nothing about the server; the second in a row does, of
    a command that began after the first: those that were sent together are late together.
    """

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: float | None = None  # the end of the last command, if it timed out

    def about(self, error: Exception, began: float, *, late: bool) -> Exception:
        """Return what to raise for an error of a client.

        Args:
            error: the error.
            began: when its command did, by ``time.monotonic``.
            late: whether we were held up meanwhile.
        """
        if no_room(error):
            return StoreBusyError(str(error))
        if not _timed_out(error):
            return error
        since = self._since
        if since is None or began >= since:
            self._since = monotonic()
        if late and (since is None or began < since):
            return StoreBusyError(f"{error}, while this process was held up")
        return error

    def answered(self) -> None:
        """Hear that the server has answered."""
        if self._since is not None:
            self._since = None
