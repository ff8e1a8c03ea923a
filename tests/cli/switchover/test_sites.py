"""A provider that dies and comes back where it was."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli import _service
from breakerkit.cli._child import Child, ServiceDiedError
from breakerkit.cli._client import Client
from breakerkit.cli.switchover._plan import Plan
from breakerkit.cli.switchover._sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_process_is_killed_and_revived_at_its_address(wait_until: Callable) -> None:
    """While it is dead connections are refused, and nobody else gets the port."""
    with Site("beta", Plan(), Child) as site:
        port, pid = site.port, site._child.pid
        with closing(Client(port, timeout=10)) as client:
            assert client.fetch(0) is True
            site.kill()
            assert not site.alive
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
            with pytest.raises(OSError):
                client.fetch(0)
            with closing(_service.socket.socket()) as other, pytest.raises(OSError):
                other.bind(("127.0.0.1", port))
            site.check()
            site.revive()
            assert (site.alive, site.port) == (True, port)
            assert site._child.pid != pid
            assert client.fetch(0) is True
        pid = site._child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_death_that_nobody_wanted_is_an_error() -> None:
    """It names the provider."""
    with Site("beta", Plan(), Child) as site:
        os.kill(site._child.pid, 9)
        site._child._process.wait(10)
        with pytest.raises(
            ServiceDiedError, match=r"^the provider beta has ended by itself \(status -9\)"
        ):
            site.check()


def test_a_dead_one_can_be_left(as_thread: Callable) -> None:
    """Nothing is held any more."""
    with Site("beta", Plan(), as_thread) as site:
        site.kill()
    with closing(_service.bound(site.port)):
        pass


def test_a_port_that_cannot_be_held_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a system keeps a dead process's port for itself, the next process gets it all the same."""

    def refuse(_port: int) -> None:
        raise PermissionError

    with Site("beta", Plan(), Child) as site:
        port = site.port
        monkeypatch.setattr(_service, "bound", refuse)
        site.kill()
        site.revive()
        assert site.port == port
