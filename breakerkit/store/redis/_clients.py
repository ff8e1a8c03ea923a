"""What a command goes through: one way for threads, one for each event loop, none shared with a fork."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import TYPE_CHECKING, Any

from breakerkit.store.redis._sides import ASYNC, given, sides

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

#: What a forked child has of its parent's async connections: to close one would take its
#: socket out of the selector that both share.
_left_behind: list[Any] = []


class Clients:
    """The ways of one store, made when they are first needed.

    Args:
        source: a URL, or a client of redis-py.
        timeout: seconds, for connecting and for each reply.
        most: commands at once, for threads and for each event loop.
        cluster: whether the URL is that of a node of a cluster.

    Raises:
        ConfigError: it is neither, or they do not go together.
    """

    def __init__(self, source: Any, timeout: float, most: int, *, cluster: bool) -> None:
        self._sides = sides(source, timeout, most, cluster=cluster)
        self.shown, self.cluster = self._sides.shown, self._sides.cluster
        self._given = None if isinstance(source, str) else source
        self._given_loop: weakref.ref[Any] | None = None
        self._limits = timeout, most
        self._fresh()

    def _fresh(self) -> None:
        self._lock = threading.RLock()  # reentrant, lest a destructor or signal handler deadlock
        self._sync: Any = None
        self._here: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def after_fork(self) -> None:
        """Connect anew in a forked child."""
        _left_behind.append(self._here)
        self._fresh()

    def _lent(self) -> Any:
        return given(self._given, *self._limits, cluster=self.cluster)

    # -- for threads ---------------------------------------------------------------

    def sync(self) -> Any:
        """Return the way for threads."""
        found = self._sync
        if found is not None:
            return found
        with self._lock:
            if self._sync is None:
                lent = self._given is not None and not isinstance(self._given, ASYNC)
                self._sync = self._lent() if lent else self._sides.make()
            return self._sync

    def close(self) -> None:
        """Close the connections of threads, unless they are the user's."""
        with self._lock:
            way, self._sync = self._sync, None
        if way is not None:
            way.close()

    # -- for event loops ---------------------------------------------------------

    def there(self) -> Any:
        """Return the way of the loop that runs, ``None`` if it has none yet."""
        found = self._here.get(asyncio.get_running_loop())
        return None if found is None else found[0]

    async def here(self) -> Any:
        """Return the way of the loop that runs."""
        loop = asyncio.get_running_loop()
        if getattr(loop, "_asyncgens_shutdown_called", False) and loop not in self._here:
            way = self._sides.make_async()
            await way.close()  # nobody would later: what is used from now on is closed after it
            return way
        with self._lock:
            if (there := self._here.get(loop)) is not None:
                return there[0]
            for other in [other for other in self._here if other.is_closed()]:
                del self._here[other]  # a connection holds its loop: nothing else would
            if isinstance(self._given, ASYNC) and self._given_loop is None:
                self._given_loop = weakref.ref(loop)
                way, life = self._lent(), None
            else:
                way = self._sides.make_async()
                life = self._life(loop, way)
            self._here[loop] = way, life
        if life is not None:
            await anext(life)
        return way

    async def _life(self, loop: Any, way: Any) -> AsyncGenerator[None]:
        """Close a way when its loop is shut down: what a loop closes then are its generators."""
        try:
            yield
        finally:
            with self._lock:
                self._here.pop(loop, None)
            await way.close()

    async def aclose(self) -> None:
        """Close that of the loop that runs, unless it is the user's."""
        _, life = self._here.get(asyncio.get_running_loop(), (None, None))
        if life is not None:
            await life.aclose()
