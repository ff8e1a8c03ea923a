"""The store itself: commands become scripts, their answers entries; a breaker keeps calls from waiting in an outage."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit import _fork as fork
from breakerkit._log import write
from breakerkit.store import commands as told
from breakerkit.store.commands import NOTHING, Entry
from breakerkit.store.redis import _scripts as scripts
from breakerkit.store.redis._serializers import Choice, Packing
from breakerkit.store.redis._settings import breaker_of, check, redis_py

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import ModuleType
    from typing import Self

    from breakerkit import Clock
    from breakerkit.store.redis._scripts import Script

__all__ = ["RedisStore"]

MICRO = 1_000_000
#: About a century: what is longer is told to the server as this.
LONGEST = 3_000_000_000.0
#: What a script answers to a value that a full server refused.
FULL = -1
#: Lines about values that do not fit; types may come from traffic.
MOST_TOLD = 100
_SPECIAL = re.compile(rb"([\\*?\[\]])")


class RedisStore:
    """A store in Redis or Valkey, one server or a cluster; safe across threads, tasks, event loops and forks.

    Each command is one script, atomic, by the server's clock. What fails raises,
    and whoever uses the store goes on as if nothing were stored; the first
    failure opens the store's own breaker, for 1 s growing to 30 s, so that not
    every call waits for a server that does not answer.

    Args:
        url_or_client: ``redis://``, ``rediss://`` (TLS) or ``unix://``; or a
            client of redis-py, sync or async, of a server or a cluster. It is
            used as it is, with its own timeouts and retries; for the other side
            one is made from its settings, without retries.
        prefix: what all keys on the server begin with.
        serializer: ``"json"``, ``"msgspec"``, ``"pickle"``, or an object with
            ``dumps`` and ``loads``. Pickle runs code of whoever can write to
            the server.
        timeout: seconds, for a connection, for each reply, and for a free
            connection; recommended are 0.05 to 0.25.
        max_connections: connections at most, for threads, and for each event
            loop; in a cluster for each node.
        cluster: whether the URL is that of a node of a cluster.
        name: of its breaker and in log lines; by default the URL without the password.
        clock: of its breaker.

    Raises:
        ConfigError: a setting is wrong.
        ImportError: redis-py is missing: install ``breakerkit[redis]``.
    """

    local = False

    def __init__(
        self,
        url_or_client: Any,
        /,
        *,
        prefix: str = "breakerkit:",
        serializer: Choice = "json",
        timeout: float | timedelta = 0.1,
        max_connections: int = 50,
        cluster: bool = False,
        name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        seconds = check(prefix, timeout, max_connections, cluster, name)
        self._packing = Packing(serializer)
        redis = redis_py()
        self._clients = redis.Clients(url_or_client, seconds, max_connections, cluster=cluster)
        self._most = 1 if self._clients.cluster else redis.BATCH  # keys of one script: of one slot
        self._prefix = prefix
        self.name = name or self._clients.shown
        self._moment: int | None = None  # tests say what time it is on the server
        self._full = False
        self._told_of: set[tuple[str, str]] = set()
        #: The store's own breaker, for those who want to watch it.
        self.breaker = breaker_of(self.name, clock)
        self._guard(redis)
        fork.remember(self)

    def _guard(self, redis: ModuleType) -> None:
        """Put the breaker in front of the server."""
        clients = self._clients
        run, run_async = clients.run, clients.run_async

        def send(script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
            return run(script, key, args)

        async def send_async(script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
            return await run_async(script, key, args)

        def sweep(script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
            redis.sweep(clients.sync(), script, pattern, self._most, args)

        async def sweep_async(script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
            await redis.sweep_async(await clients.here(), script, pattern, self._most, args)

        # Plain functions: a breaker around one is a plain function too.
        self._send, self._send_async = self.breaker(send), self.breaker(send_async)
        self._sweep, self._sweep_async = self.breaker(sweep), self.breaker(sweep_async)

    def after_fork(self) -> None:
        """Connect anew in a forked child."""
        self._clients.after_fork()

    # -- commands ------------------------------------------------------------------

    def do(self, command: told.Command) -> Any:
        """Carry out a command and return what it says.

        Raises:
            CircuitOpenError: the server failed a moment ago, and was not asked.
            TypeError: it is no command.
            Exception: whatever redis-py raises.
        """
        if type(command) is told.Read:
            return self._entry(self._send(scripts.READ, self._key(command.key), self._now))
        if isinstance(command, told.InvalidateAll | told.EvictAll):
            return self._sweep(*self._all(command))
        return self._answer(command, self._send(*self._change(command)))

    async def do_async(self, command: told.Command) -> Any:
        """Do the same without blocking the event loop."""
        if type(command) is told.Read:
            key = self._key(command.key)
            return self._entry(await self._send_async(scripts.READ, key, self._now))
        if isinstance(command, told.InvalidateAll | told.EvictAll):
            return await self._sweep_async(*self._all(command))
        return self._answer(command, await self._send_async(*self._change(command)))

    @property
    def _now(self) -> tuple[int, ...]:
        return () if self._moment is None else (self._moment,)

    def _key(self, key: str) -> bytes:
        return f"{self._prefix}{{{key}}}".encode("utf-8", "surrogatepass")

    def _entry(self, reply: Any) -> Entry | None:
        """Return what a reply holds; garbage, and what another version wrote, is nothing."""
        try:
            second, micro, stored, refresh, keep, _, data = reply.split(b" ", 6)
            now, born, due = int(second) * MICRO + int(micro), int(stored), int(refresh)
            if now >= int(keep):
                return None
            value = self._packing.unpack(data) if born else NOTHING
        except Exception:
            return None
        return Entry(value, max(0, now - born) / MICRO if born else 0.0, (due - now) / MICRO)

    def _all(self, command: told.InvalidateAll | told.EvictAll) -> tuple[Script, bytes, Any]:
        begin = self._key(command.prefix).removesuffix(b"}")
        pattern = _SPECIAL.sub(rb"\\\1", begin) + b"*}"  # with the brace: it may be in a prefix
        return scripts.CHANGES[type(command)], pattern, self._now or (b"",)

    def _change(self, command: Any) -> tuple[Script, bytes, tuple[Any, ...]]:
        """Return the script of a command, its key and its arguments.

        Raises:
            TypeError: it is no command.
        """
        if type(command) not in _ARGUMENTS:
            raise TypeError(
                f"{fields.show(command)}: must be a command of breakerkit.store.commands"
            )
        data = self._pack(command.value) if hasattr(command, "value") else b""
        if data is None:  # the attempt ends all the same; what is put outdates what was there
            put = isinstance(command, told.Put)
            one: Any = command
            command = told.Evict(one.key) if put else told.Release(one.key, one.ticket)
        args = _ARGUMENTS[type(command)](command, data)
        return (
            scripts.CHANGES[type(command)],
            self._key(command.key),
            (self._now or (b"",)) + args,
        )

    def _pack(self, value: Any) -> bytes | None:
        """Return a value as bytes, ``None`` if the serializer cannot."""
        try:
            data = self._packing.pack(value)
        except Exception as error:
            self._tell("%s: a value cannot be stored: %s", value, error)
            return None
        if self._packing.alters(value, data):
            self._tell("%s: a value comes back from the store as another one: %s", value)
        return data

    def _answer(self, command: Any, reply: Any) -> Any:
        """Return what the reply to a command says."""
        if not isinstance(command, told.Write | told.Put):
            return reply
        full = reply == FULL
        if full is not self._full and reply is not None:
            self._full = full  # of two threads both may tell it
            text = "%s: the server is full, and keeps no new values" if full else "%s: stores again"
            write(logging.WARNING if full else logging.INFO, text, self.name)
        return reply == 1

    def _tell(self, text: str, value: Any, error: Exception | None = None) -> None:
        """Write a line, once for each type of value."""
        kind = type(value).__qualname__
        if (text, kind) not in self._told_of and len(self._told_of) < MOST_TOLD:
            self._told_of.add((text, kind))
            write(logging.WARNING, text, self.name, kind, error=error)

    # -- the end -------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections of threads; a client that was given stays open. Used again, it connects anew."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close those of the event loop that runs; they are when the loop is shut down, too."""
        await self._clients.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<RedisStore {self._prefix!r} at {self._clients.shown}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} has connections of this process: make one where it is needed")


def _micro(seconds: float) -> int:
    return round(max(0.0, min(seconds, LONGEST)) * MICRO)


#: What each script is told after the time; the second argument is the value's bytes.
_ARGUMENTS: dict[type[Any], Callable[[Any, Any], tuple[Any, ...]]] = {
    told.Begin: lambda one, _: (_micro(one.lease),),
    told.Write: lambda one, data: (one.ticket or 0, data, _micro(one.due), _micro(one.keep)),
    told.Postpone: lambda one, _: (one.ticket or 0, _micro(one.due), int(one.empty)),
    told.Release: lambda one, _: (one.ticket or 0,),
    told.Put: lambda one, data: (data, _micro(one.due), _micro(one.keep)),
    told.Invalidate: lambda *_: (),
    told.Evict: lambda *_: (),
}
