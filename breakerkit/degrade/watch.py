"""A file of rules that is looked at again and again; what is wrong with it is said once."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from breakerkit import _fork as fork
from breakerkit import _log as log
from breakerkit._log import fault_in
from breakerkit._sole import Sole
from breakerkit.degrade import _files as files
from breakerkit.errors import RuleError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from breakerkit.degrade._files import Mark
    from breakerkit.degrade.board import Board

__all__ = ["RuleWatch"]

#: Nanoseconds for which a file that was just written is read again, though it looks the
#: same: clocks of file systems have coarse ticks, and two writes may share one.
FRESH = 2_000_000_000
#: Seconds that ``stop`` waits for a look that is going on.
PATIENCE = 1.0


class RuleWatch:
    """What ``degradation.watch`` returns: it looks at a file, by itself or when told, until it is stopped.

    A ``with`` block stops it at its end. A forked child goes on watching with
    a thread of its own.

    Attributes:
        path: the whole path of the file.
        every: seconds between two looks, ``None`` = only when told.
    """

    __slots__ = (
        "__weakref__", "_begun", "_board", "_digest", "_first", "_forget", "_looking", "_mark",
        "_problem", "_stopped", "_thread", "every", "path",
    )  # fmt: skip

    def __init__(
        self, board: Board, path: str, every: float | None, forget: Callable[[RuleWatch], None]
    ) -> None:
        self.path = path
        self.every = every
        self._board = board
        self._forget = forget
        self._mark: Mark | None = None
        self._digest: bytes | None = None
        self._problem: str | None = None
        self._looking = Sole()
        #: Held for the first look: whoever asks for the watch meanwhile waits for it.
        self._first = threading.RLock()
        self._begun = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        fork.remember(self)

    def look(self) -> bool:
        """Look at the file now and take its rules, should it have changed.

        Never raises for what is wrong with the file: that is logged, once, and
        is in `problem`. While another thread is looking this does nothing.

        Returns:
            Whether its rules were taken.
        """
        taken = False

        def once() -> None:
            nonlocal taken
            try:
                taken = self._look()
            except RuleError as error:
                self._refuse(str(error))

        self._looking.run(once)
        return taken

    @property
    def problem(self) -> str | None:
        """What is wrong with the file now; ``None`` if its rules are in force."""
        return self._problem

    @property
    def running(self) -> bool:
        """Whether it looks by itself."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop looking; the rules stay. Doing so twice is no error."""
        self._stopped.set()
        self._forget(self)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(PATIENCE)

    def begin(self) -> None:
        """Look for the first time, and begin to look by itself; once that is done this does nothing."""
        with self._first:
            if not self._begun:
                self.look()
                self.start()
                self._begun = True

    def start(self) -> None:
        """Begin to look by itself, where it was told how often, unless it does."""
        if self.every is None or self._stopped.is_set() or self.running:
            return
        name = f"breakerkit rules of {self.path}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def after_fork(self) -> None:
        """Go on with fresh locks and a thread of its own in a forked child."""
        self._looking = Sole()
        self._first = threading.RLock()
        stopped, self._stopped = self._stopped.is_set(), threading.Event()
        if stopped:
            self._stopped.set()
        elif self._thread is not None:
            self._thread = None  # it is the parent's
            self.start()

    def _run(self) -> None:
        stopped = self._stopped  # kept by name: a forked child has another one
        while not stopped.wait(self.every):
            try:
                self.look()
            except BaseException as error:  # a listener may raise anything; the watch goes on
                fault_in("watch of rules", self.path, error)

    def _look(self) -> bool:
        if self._unchanged():
            return False
        self._mark = None  # should it be gone: it may come back looking as before
        reading = files.read(self.path)
        settled = abs(time.time_ns() - reading.mark.changed) > FRESH
        mark = reading.mark if settled else None
        digest = hashlib.blake2b(reading.data).digest()
        if self._digest == digest and self._problem is None:
            self._mark = mark
            return False
        try:
            self._board.replace(self.path, files.parse(self.path, reading.data))
        except RuleError:
            self._mark = mark  # as it is, it need not be read again
            raise
        # Known only once its rules are in force: an interrupt may come before.
        self._digest, self._mark = digest, mark
        if self._problem is not None:
            self._problem = None
            log.write(logging.WARNING, "%s: is sound again, its rules are in force", self.path)
        return True

    def _unchanged(self) -> bool:
        if self._mark is None:
            return False
        try:
            return files.mark_of(self.path) == self._mark
        except OSError:
            return False  # reading it will say what is wrong

    def _refuse(self, why: str) -> None:
        if self._problem != why:
            self._problem = why
            self._board.refuse(self.path, why)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        how = "when told" if self.every is None else f"every {self.every:g} s"
        state = "stopped" if self._stopped.is_set() else how
        return f"<RuleWatch of {self.path!r}, {state}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} is a matter of this process: it cannot be pickled")
