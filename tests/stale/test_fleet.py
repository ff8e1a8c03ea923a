"""Several processes that share a Valkey: the origin sees one of them, and another one when that is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import Server, until, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

#: Seconds for what takes a few: eight interpreters on a busy machine.
LIMIT = 120
ROOT = Path(__file__).parent.parent.parent


@contextmanager
def fleet(server: Server, size: int, threads: int, lease: float) -> Iterator[list[Any]]:
    """Start so many processes and wait until all are ready to call."""
    command = [sys.executable, "-m", "tests.stale.member", server.url, str(threads), str(lease)]
    members = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(size)
    ]
    try:
        until(lambda: server.client.llen("ready") == size, limit=LIMIT)
        yield members
    finally:
        for member in members:
            member.kill()
            member.wait()
            member.stdout.close()


def ended(member: Any) -> Any:
    """Return what a process has printed when it is through."""
    return json.loads(member.communicate(timeout=LIMIT)[0])


def test_a_thousand_callers_in_eight_processes(valkey: Server) -> None:
    """They all want one key that nobody has: one call of the origin, and its value for all."""
    with fleet(valkey, 8, 125, lease=120) as members:
        for _ in members:
            valkey.client.rpush("go", 1)
        until(lambda: valkey.client.llen("calling") == len(members), LIMIT)
        assert until(lambda: valkey.client.llen("asked"), LIMIT) == 1
        valkey.client.rpush("answer", "7")
        results = [ended(member) for member in members]
    assert [len(one["got"]) for one in results] == [125] * 8
    assert {value for one in results for value, _ in one["got"]} == {"7"}
    assert sum(one["refreshes"] for one in results) == 1
    assert valkey.client.llen("asked") == 1


def test_the_one_who_asks_is_killed(valkey: Server) -> None:
    """Its lease ends by itself; the next one takes over, and nobody waits for longer than the lease."""
    with fleet(valkey, 2, 5, lease=1) as members:
        for _ in members:
            valkey.client.rpush("go", 1)
        until(lambda: valkey.client.llen("calling") == len(members), LIMIT)
        until(lambda: valkey.client.llen("asked"))
        asked = int(valkey.client.lindex("asked", 0))
        (gone,) = [member for member in members if member.pid == asked]
        (other,) = [member for member in members if member.pid != asked]
        gone.send_signal(signal.SIGKILL)
        until(lambda: valkey.client.llen("asked") == 2)
        valkey.client.rpush("answer", "8")
        result = ended(other)
    assert {value for value, _ in result["got"]} == {"8"}
    assert result["refreshes"] == 1
    assert max(seconds for _, seconds in result["got"]) < 1 + 20  # a busy machine
