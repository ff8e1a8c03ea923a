"""Clients of redis-py, used as they are: the user's, and those of clusters, for threads and for tasks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ResponseError

from breakerkit.store.redis._faults import Doubt, TooLargeError, answered, no_room
from breakerkit.store.redis._lane import BATCH
from breakerkit.store.redis._looks import Beat
from breakerkit.store.redis._places import LoopPlaces, Places
from breakerkit.store.redis._replies import PIECE
from breakerkit.store.redis._sending import (
    RAW,
    borrowed,
    forget,
    forget_async,
    plain,
    send,
    send_async,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.store.commands import StoreBusyError
    from breakerkit.store.redis._script import Script


class Through:
    """One client for threads.

    Args:
        make: makes the client.
        most: commands at once.
        timeout: seconds of ours, for waiting in line.
        batch: keys of one script.
        ours: whether it is closed with the store.

    Attributes:
        places: who may talk now.
    """

    __slots__ = ("_batch", "_client", "_doubt", "_lock", "_make", "_ours", "places")

    def __init__(
        self, make: Callable[[], Any], most: int, timeout: float, batch: int, *, ours: bool
    ) -> None:
        self.places = Places(most, timeout)
        self._make = make
        self._batch = batch
        self._ours = ours
        self._client: Any = None
        self._doubt = Doubt()
        self._lock = threading.RLock()  # reentrant, lest a destructor or signal handler deadlock

    def client(self) -> Any:
        """Return the client, which is made when it is first needed."""
        found = self._client
        if found is not None:
            return found
        client = self._make()  # not under the lock: that of a cluster asks the server
        with self._lock:
            found = self._client
            if found is None:
                self._client = client
                return client
        if self._ours:
            client.close()  # another thread was faster
        return found

    def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key; the server gets its text if it does not know it, or any more."""
        began = monotonic()
        try:
            client = self.client()
            if plain(client):
                return borrowed(client.connection_pool, script, key, args)
            return send(client, script, (key,), args)
        except redis.RedisError as error:
            raise self._failed(error, began, args) from None

    def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``, those of every master of a cluster."""
        began = monotonic()
        try:
            client, batch = self.client(), []
            for key in client.scan_iter(match=pattern, count=BATCH, **RAW):
                batch.append(key)
                if len(batch) >= self._batch:
                    send(client, script, tuple(batch), args)
                    batch.clear()
            if batch:
                send(client, script, tuple(batch), args)
        except redis.RedisError as error:
            raise self._failed(error, began, ()) from None

    def _failed(self, error: redis.RedisError, began: float, args: tuple[Any, ...]) -> Exception:
        if _lost(error):
            self.forget()
        return _blamed(self._doubt, error, began, args, late=False)

    def forget(self) -> None:
        """Close what nobody uses: a way that has lost one connection may have lost them all."""
        if self._client is not None:
            forget(self._client)

    def close(self) -> None:
        """Close the client, unless it is the user's."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._ours:
            client.close()


class LoopThrough:
    """The same for the tasks of one loop."""

    __slots__ = ("_batch", "_doubt", "_timeout", "client", "places")

    def __init__(self, make: Callable[[], Any], most: int, timeout: float, batch: int) -> None:
        self.places = LoopPlaces(most, timeout)
        self.client = make()
        self._batch = batch
        self._timeout = timeout
        self._doubt = Doubt()

    async def exchange(self, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        """Run a script for one key."""
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        began, beat = monotonic(), Beat(asyncio.get_running_loop(), self._timeout)
        reply: Any = None
        fault: Exception | None = None
        lost = False
        try:
            reply = await send_async(self.client, script, (key,), args)
        except redis.RedisError as error:
            lost, fault = _lost(error), _blamed(self._doubt, error, began, args, late=beat.late)
        finally:
            beat.stop()
        if task is not None and task.cancelling() > before:
            # Its client took it for a reply that came in time: ``wait_for`` of Python 3.11 does.
            raise asyncio.CancelledError
        if fault is None:
            self._doubt.answered()
            return reply
        try:
            if lost:
                await self.forget()
            raise fault
        finally:
            del fault  # it leads to this frame: no cycle

    async def sweep(self, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        """Run a script on all keys like ``pattern``."""
        began, batch = monotonic(), []
        beat = Beat(asyncio.get_running_loop(), self._timeout)
        try:
            async for key in self.client.scan_iter(match=pattern, count=BATCH, **RAW):
                batch.append(key)
                if len(batch) >= self._batch:
                    await send_async(self.client, script, tuple(batch), args)
                    batch.clear()
            if batch:
                await send_async(self.client, script, tuple(batch), args)
        except redis.RedisError as error:
            fault = _blamed(self._doubt, error, began, (), late=beat.late)
            if _lost(error):
                await self.forget()
            raise fault from None
        finally:
            beat.stop()

    async def forget(self) -> None:
        """Close what nobody uses, if that can be done at once."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(forget_async(self.client), self._timeout)

    async def close(self) -> None:
        """Close the client: it is not the user's."""
        await self.client.aclose()


def _blamed(
    doubt: Doubt, error: redis.RedisError, began: float, args: tuple[Any, ...], *, late: bool
) -> Exception:
    """Return what to raise for an error of a client."""
    if isinstance(error, ResponseError):
        return answered(error)
    if isinstance(error, redis.TimeoutError) and (large := _large(args)) is not None:
        return large
    return doubt.about(error, began, late=late)


def _lost(error: Exception) -> bool:
    """Tell whether an error says that a connection is lost, or may be."""
    return isinstance(error, redis.ConnectionError | redis.TimeoutError) and not no_room(error)


def _large(args: tuple[Any, ...]) -> StoreBusyError | None:
    """Return what is said of a command that took too long because of its size."""
    size = sum(len(one) for one in args if isinstance(one, bytes))
    return TooLargeError(size) if size > PIECE else None
