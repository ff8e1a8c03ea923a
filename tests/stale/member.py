"""One process of a fleet that shares a Valkey: ``python -m tests.stale.member URL CALLERS LEASE WAY``.

Its callers are threads or tasks, by ``WAY``. It says ``ready``, calls one cached
function from all of them when it is told to go, and prints what they got and how
long it took. The store has its own pool, and patience with a server that shares two
cores with all of them: what they ask of it at once is the point, not how fast it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

import redis
import redis.asyncio

from breakerkit import RedisStore, stale_if_error

#: Seconds that anybody waits for anybody here.
LIMIT = 120
#: Seconds for a reply.
TIMEOUT = 5.0


class Member:
    """What the callers share.

    Args:
        url: of the server.
        callers: how many.
        lease: of an attempt, in seconds.
    """

    def __init__(self, url: str, callers: int, lease: float) -> None:
        self.url = url
        self.callers = callers
        self.server = redis.Redis.from_url(url, protocol=2, socket_timeout=LIMIT)
        self.store = RedisStore(url, timeout=TIMEOUT)
        self.cached = stale_if_error(
            "fleet", store=self.store, refresh_after=60, attempt_timeout=lease
        )
        self.got: list[Any] = []

    def wait(self) -> None:
        """Wait for the word."""
        self.server.rpush("ready", os.getpid())
        self.server.blpop(["go"], timeout=LIMIT)

    def in_threads(self) -> None:
        """Call from threads."""

        @self.cached
        def price() -> str:
            self.server.rpush("asked", os.getpid())
            return str(self.server.blpop(["answer"], timeout=LIMIT)[1].decode())

        def call() -> None:
            began = time.monotonic()
            self.got.append((price(), time.monotonic() - began))

        callers = [threading.Thread(target=call) for _ in range(self.callers)]
        self.wait()
        for caller in callers:
            caller.start()
        self.server.rpush("calling", os.getpid())
        for caller in callers:
            caller.join()

    async def in_tasks(self) -> None:
        """Call from tasks."""
        server = redis.asyncio.Redis.from_url(self.url, protocol=2, socket_timeout=LIMIT)

        @self.cached
        async def price() -> str:
            await server.rpush("asked", os.getpid())
            return str((await server.blpop(["answer"], timeout=LIMIT))[1].decode())

        async def call() -> None:
            began = time.monotonic()
            self.got.append((await price(), time.monotonic() - began))

        self.wait()
        callers = [asyncio.create_task(call()) for _ in range(self.callers)]
        await asyncio.sleep(0)
        self.server.rpush("calling", os.getpid())
        await asyncio.gather(*callers)
        await server.aclose()


def main(url: str, callers: int, lease: float, way: str) -> None:
    """Be a member."""
    member = Member(url, callers, lease)
    if way == "threads":
        member.in_threads()
    else:
        asyncio.run(member.in_tasks())
    info = member.cached.info()
    said = {"got": member.got, "refreshes": info.refreshes, "lost": info.store_lost}
    print(json.dumps(said | {"breaker": member.store.breaker.state.value}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
