"""The store itself: commands become scripts, their answers entries; a breaker keeps calls from waiting in an outage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit import _fork as fork
from breakerkit.clock import system_clock
from breakerkit.store import commands as told
from breakerkit.store.commands import StoreBusyError
from breakerkit.store.redis import _scripts as scripts
from breakerkit.store.redis._arguments import ANSWERS, ARGUMENTS, VALUES
from breakerkit.store.redis._reading import MisledError, entry_of
from breakerkit.store.redis._refusals import RefusedError, Rests
from breakerkit.store.redis._sends import guarded
from breakerkit.store.redis._serializers import Choice, Packing
from breakerkit.store.redis._settings import breaker_of, check, redis_py
from breakerkit.store.redis._telling import Telling

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from breakerkit import Clock
    from breakerkit.store.redis._clients import Clients
    from breakerkit.store.redis._script import Script

__all__ = ["RedisStore"]

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
        timeout: seconds, for a connection, and for each reply; recommended are
            0.05 to 0.25. The next megabyte of a large value has as long again.
        max_connections: commands at once, for threads, and for each event loop;
            the others wait in line, for 20 timeouts at most.
        max_value_bytes: a value that is larger once it is serialized is not stored,
            which is told once; ``None``: whatever its size.
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
        max_value_bytes: int | None = 10_000_000,
        cluster: bool = False,
        name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        seconds = check(prefix, timeout, max_connections, max_value_bytes, cluster, name)
        self._packing = Packing(serializer)
        self._clients: Clients = redis_py().Clients(
            url_or_client, seconds, max_connections, cluster=cluster
        )
        self._prefix = prefix
        self._largest = max_value_bytes
        self.name = name or self._clients.shown
        self._moment: int | None = None  # tests say what time it is on the server
        self._telling = Telling(self.name)
        #: The store's own breaker, for those who want to watch it.
        self.breaker = breaker_of(self.name, clock)
        self._rests = Rests(system_clock if clock is None else clock)
        sends = guarded(self._clients, self.breaker)
        self._send, self._sweep, self._send_async, self._sweep_async = sends
        fork.remember(self)

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
        try:
            if type(command) is told.Read:
                key = self._key(command.key)
                return self._entry(command.key, key, self._send(scripts.READ, key, self._now))
            if isinstance(command, told.InvalidateAll | told.EvictAll):
                return self._answer(command, self._sweep(*self._all(command)))
            return self._answer(command, self._send(*self._change(command)))
        except StoreBusyError as error:
            return self._undone(command, error)
        except MisledError as error:
            self._clients.sync().forget()
            return self._misled(command, error)

    async def do_async(self, command: told.Command) -> Any:
        """Do the same without blocking the event loop."""
        try:
            if type(command) is told.Read:
                key = self._key(command.key)
                reply = await self._send_async(scripts.READ, key, self._now)
                return self._entry(command.key, key, reply)
            if isinstance(command, told.InvalidateAll | told.EvictAll):
                return self._answer(command, await self._sweep_async(*self._all(command)))
            return self._answer(command, await self._send_async(*self._change(command)))
        except StoreBusyError as error:
            return self._undone(command, error)
        except MisledError as error:
            await (await self._clients.here()).forget()
            return self._misled(command, error)

    def _entry(self, shown: str, key: bytes, reply: Any) -> Any:
        entry = entry_of(reply, key, self._packing)
        return self._rests.over(shown, entry) if self._rests.until else entry

    def _answer(self, command: Any, reply: Any) -> Any:
        """Return what a reply says.

        Raises:
            MisledError: it says nothing: that is no server of ours.
        """
        kind = type(command)
        if not isinstance(reply, ANSWERS.get(kind, type(None))) or (
            kind is told.Begin and reply < 0
        ):
            raise MisledError(f"{kind.__name__} was answered with {fields.show(reply)}")
        if self._rests.until:
            self._rests.end(command)
        if kind in VALUES:
            return self._telling.stored(reply)
        return reply or None  # somebody else has the lease

    def _misled(self, command: Any, error: MisledError) -> None:
        """Say that there is nothing, if that was asked."""
        if type(command) is not told.Read:
            raise error

    def _undone(self, command: Any, error: StoreBusyError) -> Any:
        """Return what a command comes to that the server has not carried out.

        Raises:
            StoreBusyError: it comes to nothing.
        """
        if isinstance(error, RefusedError):
            self._telling.refused(str(error))
            return self._rests.refused(command, error)
        if type(command) in VALUES:
            self._telling.late(command.value, error)
        elif type(error) is not StoreBusyError:
            self._telling.slow(error)
        raise error

    @property
    def _now(self) -> tuple[int, ...]:
        return () if self._moment is None else (self._moment,)

    def _key(self, key: str) -> bytes:
        return f"{self._prefix}{{{key}}}".encode("utf-8", "surrogatepass")

    def _all(self, command: told.InvalidateAll | told.EvictAll) -> tuple[Script, bytes, Any]:
        begin = self._key(command.prefix).removesuffix(b"}")
        pattern = _SPECIAL.sub(rb"\\\1", begin) + b"*}"  # with the brace: it may be in a prefix
        return scripts.CHANGES[type(command)], pattern, self._now or (b"",)

    def _change(self, command: Any) -> tuple[Script, bytes, tuple[Any, ...]]:
        """Return the script of a command, its key and its arguments.

        Raises:
            TypeError: it is no command.
        """
        if type(command) not in ARGUMENTS:
            raise TypeError(
                f"{fields.show(command)}: must be a command of breakerkit.store.commands"
            )
        data = (
            self._telling.pack(self._packing, command.value, self._largest)
            if hasattr(command, "value")
            else b""
        )
        if data is None:  # the attempt ends all the same; what is put outdates what was there
            put = isinstance(command, told.Put)
            one: Any = command
            command = told.Evict(one.key) if put else told.Postpone(one.key, one.ticket, one.due)
        args = ARGUMENTS[type(command)](command, data)
        return (
            scripts.CHANGES[type(command)],
            self._key(command.key),
            (self._now or (b"",)) + args,
        )

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
