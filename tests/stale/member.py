"""One process of a fleet that shares a Valkey: ``python -m tests.stale.member URL THREADS LEASE``.

It says ``ready``, calls one cached function from all its threads when it is told
to go, and prints what they got and how long it took.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import redis

from breakerkit import RedisStore, stale_if_error

#: Seconds that anybody waits for anybody here.
LIMIT = 120


def main(url: str, threads: int, lease: float) -> None:
    """Be a member."""
    server = redis.Redis.from_url(url, protocol=2, socket_timeout=LIMIT)
    store = RedisStore(url, timeout=5)

    @stale_if_error("fleet", store=store, refresh_after=60, attempt_timeout=lease)
    def price() -> str:
        server.rpush("asked", os.getpid())
        return str(server.blpop(["answer"], timeout=LIMIT)[1].decode())

    got: list[Any] = []

    def call() -> None:
        began = time.monotonic()
        got.append((price(), time.monotonic() - began))

    callers = [threading.Thread(target=call) for _ in range(threads)]
    server.rpush("ready", os.getpid())
    server.blpop(["go"], timeout=LIMIT)
    for caller in callers:
        caller.start()
    server.rpush("calling", os.getpid())
    for caller in callers:
        caller.join()
    info = price.stale_if_error.info()  # type: ignore[attr-defined]  # it is put there
    print(json.dumps({"got": got, "refreshes": info.refreshes}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
