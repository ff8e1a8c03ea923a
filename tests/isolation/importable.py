"""Module-level functions for worker processes: they find them here by name."""

from __future__ import annotations

import os
import signal
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from breakerkit import breaker, bulkhead, check_deadline, current_deadline


@bulkhead(isolation="process", max_concurrent=2)
def work(value: Any = "done") -> Any:
    """Return what was given, and where it ran."""
    return value, os.getpid()


@breaker
@work.bulkhead
@breaker(failure_threshold=1)
def between(value: Any) -> Any:
    """Work with decorators on either side."""
    return value, os.getpid()


class Service:
    """A service whose methods run in a process."""

    @work.bulkhead
    def method(self, value: Any) -> Any:
        return value, os.getpid()

    @classmethod
    @work.bulkhead
    def class_method(cls, value: Any) -> Any:
        return cls.__name__, value, os.getpid()

    @work.bulkhead
    @staticmethod
    def static_method(value: Any) -> Any:
        return value, os.getpid()


class Unsendable(Exception):
    """An error that does not pickle."""

    def __init__(self) -> None:
        super().__init__("no way")
        self.lock = lambda: None


class Unreadable(Exception):
    """An error that pickles and cannot be read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("two are needed")


class Busy(ConnectionError):
    """An error that holds a socket, as those of HTTP clients do."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is busy")
        self.response = lambda: None


class Busier(Busy):
    """An error whose base cannot be sent either."""


class Odd(Unreadable, ConnectionError):
    """An error whose first base cannot stand in for it, and whose second can."""


def raise_it(kind: str) -> None:
    """Raise something."""
    raise {
        "error": ConnectionError("down"), "exit": SystemExit(3), "interrupt": KeyboardInterrupt(),
        "unsendable": Unsendable(), "unreadable": Unreadable(1, 2), "busy": Busy("http://x"),
        "odd": Odd(1, 2), "busier": Busier("http://x"),
    }[kind]  # fmt: skip


def touch(path: str) -> int:
    """Say that the work has begun."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return os.getpid()


def hang(path: str) -> None:
    """Begin and never end."""
    touch(path)
    time.sleep(600)


def hang_deaf(path: str) -> None:
    """Begin and never end, whatever asks it to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang(path)


def until_gone(path: str) -> int:
    """Work until a file is gone."""
    touch(path + ".begun")
    while Path(path).exists():
        time.sleep(0.001)
    return os.getpid()


def seconds_left() -> Any:
    """Return the deadline as it looks over there."""
    check_deadline()
    deadline = current_deadline()
    return None if deadline is None else (deadline.name, deadline.seconds, deadline.remaining)


def kill_me() -> None:
    """Die in the middle of a call."""
    os.kill(os.getpid(), signal.SIGKILL)


def make_unsendable() -> Any:
    """Return what does not pickle."""
    return lambda: None


_tenant: ContextVar[str | None] = ContextVar("tenant", default=None)


def tenant(name: str) -> Any:
    """Set a context variable, and return what it was."""
    before = _tenant.get()
    _tenant.set(name)
    return before
