"""A pool's future whose error may be answered; it imports the pools, so it is imported when one comes."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class RelievedFuture(Future[Any]):
    """A future that ends when another has ended and what is to be done about that is done.

    Cancelling, and whether it runs, are matters of the other one.
    """

    def __init__(self, inner: Future[Any], finish: Callable[[Future[Any]], Any]) -> None:
        super().__init__()
        self._inner = inner
        self._finish = finish
        inner.add_done_callback(self._ended)

    def cancel(self) -> bool:
        """Cancel the work, if it has not begun."""
        return self._inner.cancel()

    def running(self) -> bool:
        """Tell whether the work, or the answer to it, is being done."""
        return self._inner.running() or (self._inner.done() and not self.done())

    def _ended(self, inner: Future[Any]) -> None:
        if inner.cancelled():
            super().cancel()
            self.set_running_or_notify_cancel()
            return
        try:
            value = self._finish(inner)
        except BaseException as error:  # whatever it is, it belongs to whoever asks for the result
            self.set_exception(error)
        else:
            self.set_result(value)
