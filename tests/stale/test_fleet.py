"""Several processes that share a Valkey: the origin sees one of them, and another one when that is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from breakerkit.stale.guard import LEASED
from tests.servers import Server, until, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

#: Seconds for what takes a few: eight interpreters on a busy machine.
LIMIT = 120
#: Seconds of one that is killed.
LEASE = 2.0
ROOT = Path(__file__).parent.parent.parent


@contextmanager
def fleet(
    server: Server, size: int, callers: int, *, lease: float, way: str
) -> Iterator[list[Any]]:
    """Start so many processes and wait until all are ready to call."""
    command = [
        sys.executable, "-m", "tests.stale.member", server.url, str(callers), str(lease), way,
    ]  # fmt: skip
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


def go(server: Server, members: list[Any]) -> None:
    """Let them call."""
    for _ in members:
        server.client.rpush("go", 1)
    until(lambda: server.client.llen("calling") == len(members), LIMIT)


WAYS = pytest.mark.parametrize("way", ["threads", "tasks"])


@WAYS
def test_a_thousand_callers_in_eight_processes(valkey: Server, way: str) -> None:
    """They all want one key that nobody has, through one store: one call of the origin, and its value for all."""
    with fleet(valkey, 8, 125, lease=120, way=way) as members:
        go(valkey, members)
        until(lambda: valkey.client.llen("asked"), LIMIT)
        valkey.client.rpush("answer", "7")
        results = [ended(member) for member in members]
    assert [len(one["got"]) for one in results] == [125] * 8
    assert {value for one in results for value, _ in one["got"]} == {"7"}
    assert [(one["lost"], one["breaker"]) for one in results] == [(False, "closed")] * 8
    assert sum(one["refreshes"] for one in results) == 1
    assert valkey.client.llen("asked") == 1


@WAYS
def test_the_one_who_asks_is_killed(valkey: Server, way: str) -> None:
    """Its lease ends by itself, and not before: then another one asks, and all who waited get its value."""
    with fleet(valkey, 2, 5, lease=LEASE, way=way) as members:
        valkey.client.rpush("go", 1)
        until(lambda: valkey.client.llen("asked"))
        began = time.monotonic()
        asked = int(valkey.client.lindex("asked", 0))
        (gone,) = [member for member in members if member.pid == asked]
        (other,) = [member for member in members if member.pid != asked]
        gone.send_signal(signal.SIGKILL)
        until(lambda: time.monotonic() > began + LEASE / 2)  # who waits then has the patience
        valkey.client.rpush("go", 1)
        until(lambda: valkey.client.llen("asked") == 2)
        waited = time.monotonic() - began
        valkey.client.rpush("answer", "8")
        result = ended(other)
    assert {value for value, _ in result["got"]} == {"8"}
    assert result["refreshes"] == 1
    assert int(valkey.client.lindex("asked", 1)) == other.pid
    assert LEASE * LEASED * 0.9 < waited < LEASE * 3
