"""The one logger, and how the faults of user hooks are told there without flooding it."""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import Any

logger = logging.getLogger("breakerkit")
# No NullHandler: in a program that has not set up logging, a broken hook shall
# still be seen on stderr, where Python prints warnings and errors by itself.

#: What a hook may raise to end the program or a generator: that passes, all else is logged.
PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit)

#: Faults already told, by kind, name and type: bounded, so that names from traffic cannot grow it.
_told: dict[tuple[str, str, type[BaseException]], itertools.count[int]] = {}
_MOST = 1000


def fault_in(kind: str, name: str, error: BaseException) -> None:
    """Log that a hook of the user's raised; the 1st, 10th, 100th ... time, never raising itself.

    Args:
        kind: what the hook is for, with its own name where it has one.
        name: name of the policy it belongs to.
        error: what it raised.
    """
    message = "%s of %r raised (%d so far); the call it watched is not affected"
    write_seldom(logging.ERROR, message, kind, name, error)


def write_seldom(level: int, message: str, kind: str, name: str, error: BaseException) -> None:
    """Write a line the 1st, 10th, 100th ... time that this kind, name and type of error come together.

    Args:
        level: of `logging`.
        message: with places for the kind, the name, and how often so far.
        kind: what it is about.
        name: name of the policy.
        error: shown below the line.
    """
    key = (kind, name, type(error))
    if len(_told) >= _MOST and key not in _told:
        _told.clear()
    times = next(_told.setdefault(key, itertools.count(1)))  # exact without a lock
    if str(times).strip("0") == "1":
        write(level, message, kind, name, times, error=error)


def write(level: int, message: str, *args: object, error: BaseException | None = None) -> None:
    """Write a line; a log handler or filter that raises is a user's hook like any other."""
    with contextlib.suppress(Exception):
        logger.log(level, message, *args, exc_info=error, stacklevel=2)


def hook_name(hook: Any) -> str:
    """Return the qualified name of a hook, or of its type; whatever the hook does when asked."""
    try:
        name = getattr(hook, "__qualname__", None)
    except Exception:
        name = None
    return name if isinstance(name, str) else type(hook).__qualname__
