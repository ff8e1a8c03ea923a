"""Interrupt a thread between two opcodes of breakerkit, at exactly the one that is asked for.

    with instrumented():
        with interrupted(after=17, by=interrupt) as count:
            ...                     # interrupt() runs before the 17th opcode

CPython 3.11 has only ``sys.settrace`` for this. From 3.12 on that loses opcodes
of threads that begin later, hence ``sys.monitoring`` there.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import breakerkit

#: Called in the thread itself; returns after how many more opcodes it wants to be called again.
Interrupt = Callable[[], int | None]
#: More opcodes than any thread here runs.
NEVER = sys.maxsize

_PACKAGE = str(Path(breakerkit.__file__).parent)
#: Where nothing is shared between threads: an interrupt there is one before or after it.
_LEFT_OUT = tuple(
    f"{_PACKAGE}/{room}"
    for room in (
        "testing", "cli", "errors", "events", "clock", "_fields", "_outcome", "_callbacks",
        "_shell/_shapes", "circuit/config", "circuit/_backoff", "circuit/_rules",
    )
)  # fmt: skip
#: One of the six tool ids; debuggers, coverage, profilers and optimizers have theirs.
_TOOL = 4
_MONITORING = sys.version_info >= (3, 12)


class Count:
    """How many opcodes of this thread have been told, and how many are left to the interrupt."""

    def __init__(self, after: int, by: Interrupt) -> None:
        self.told = 0
        self.left = after
        self.by = by


#: The threads that are to be interrupted.
_counts: dict[int, Count] = {}


def tick(*_: object) -> None:
    """Tell an opcode of this thread; a guarded function may also say so itself."""
    count = _counts.get(get_ident())
    if count is None:
        return
    count.told += 1
    count.left -= 1
    if count.left == 0:
        # What the interrupt does may be breakerkit code, which is not counted in turn.
        del _counts[get_ident()]
        try:
            count.left = count.by() or NEVER
        finally:
            _counts[get_ident()] = count


@contextlib.contextmanager
def interrupted(after: int, by: Interrupt) -> Iterator[Count]:
    """Interrupt this thread before its ``after``-th opcode from here."""
    count = _counts[get_ident()] = Count(after, by)
    before = sys.gettrace()
    if not _MONITORING:
        sys.settrace(_enter)
    try:
        yield count
    finally:
        if not _MONITORING:
            sys.settrace(before)
        del _counts[get_ident()]


@contextlib.contextmanager
def instrumented() -> Iterator[None]:
    """Let opcodes of the package be told inside the block, to whichever thread wants it."""
    if not _MONITORING:
        yield
        return
    monitoring = sys.monitoring
    instruction = monitoring.events.INSTRUCTION
    monitoring.use_tool_id(_TOOL, "breakerkit tests")
    monitoring.register_callback(_TOOL, instruction, tick)
    for code in _codes():
        monitoring.set_local_events(_TOOL, code, instruction)
    try:
        yield
    finally:
        for code in _codes():
            monitoring.set_local_events(_TOOL, code, monitoring.events.NO_EVENTS)
        monitoring.register_callback(_TOOL, instruction, None)
        monitoring.free_tool_id(_TOOL)


def _enter(frame: Any, event: str, arg: Any) -> Any:
    if not _inside(frame.f_code.co_filename):
        return None
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    return _opcode


def _opcode(frame: Any, event: str, arg: Any) -> Any:
    if event == "opcode":
        tick()
    return _opcode


def _inside(filename: str) -> bool:
    return filename.startswith(_PACKAGE) and not filename.startswith(_LEFT_OUT)


@functools.cache
def _codes() -> tuple[types.CodeType, ...]:
    """Return every code object of the package."""
    found: dict[int, types.CodeType] = {}
    seen: set[int] = set()
    waiting: list[Any] = [
        value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "breakerkit"
        for value in list(vars(module).values())
    ]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            waiting.extend(_parts(one))
            if isinstance(one, types.CodeType) and _inside(one.co_filename):
                found[id(one)] = one
    return tuple(found.values())


def _parts(one: Any) -> list[Any]:
    if isinstance(one, types.CodeType):
        return list(one.co_consts)
    if isinstance(one, types.FunctionType):
        return [one.__code__]
    if isinstance(one, classmethod | staticmethod):
        return [one.__func__]
    if isinstance(one, property):
        return [one.fget, one.fset]
    if isinstance(one, type) and one.__module__.startswith("breakerkit"):
        return list(vars(one).values())
    return []
