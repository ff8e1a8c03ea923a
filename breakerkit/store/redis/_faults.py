"""Whose fault it is that a command failed: the server's, which the breaker hears of, or our own."""

from __future__ import annotations

from time import monotonic

import redis.exceptions

from breakerkit.store.commands import StoreBusyError

#: What redis-py says when all connections of a pool are in use; older versions have no type for it.
_NO_ROOM = ("No connection available.", "Too many connections")
_NO_ROOM_TYPE: type[Exception] | None = getattr(redis.exceptions, "MaxConnectionsError", None)


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
