"""Interrupt a thread between two opcodes of breakerkit, at exactly the one that is asked for.

    with instrumented():
        with interrupted(after=17, by=interrupt):
            ...                     # interrupt() runs before the 17th opcode

    with signalled(after=5):
        ...                         # Ctrl-C at the 5th place where a signal can come in

On the first Python all places are tried; where ``BREAKERKIT_SEARCH_EVERY`` says so, on
others, every so many of them.

CPython 3.11 has only ``sys.settrace`` for this. From 3.12 on that loses opcodes
of threads that begin later, hence ``sys.monitoring`` there.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

import breakerkit

#: Called in the thread itself; returns after how many more opcodes it wants to be called again, if ever.
Interrupt = Callable[[], int | None]

_PACKAGE = str(Path(breakerkit.__file__).parent)
#: Where nothing is shared between threads: an interrupt there is one before or after it.
_LEFT_OUT = tuple(
    f"{_PACKAGE}/{room}"
    for room in (
        "testing", "cli", "errors", "events", "clock", "_fields", "_outcome", "_callbacks",
        "_shell/_shapes", "circuit/config", "circuit/_backoff", "circuit/_rules",
    )
)  # fmt: skip
#: What no service runs.
_OUTSIDE = (f"{_PACKAGE}/testing", f"{_PACKAGE}/cli")
#: Where CPython looks for signals, in a profiler's words.
_LOOKS = ("call", "c_return", "c_exception")
#: Which places are tried: all, or every so many.
_EVERY = int(os.environ.get("BREAKERKIT_SEARCH_EVERY", "1"))
#: For a test that must find something: it may lie at any place.
whole = pytest.mark.skipif(_EVERY > 1, reason="not all places are tried")
#: One of the six tool ids; debuggers, coverage, profilers and optimizers have theirs.
_TOOL = 4
_MONITORING = sys.version_info >= (3, 12)
#: Opcodes that touch nothing another thread can see: an interrupt before one of them
#: shows what one before the next other opcode shows.
_PRIVATE = (
    "BINARY_OP", "BUILD_", "CACHE", "COMPARE_OP", "COPY", "IS_OP", "JUMP", "KW_NAMES", "LOAD_CLOSURE",
    "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL", "MAKE_", "NOP", "POP_", "PRECALL",
    "PUSH_", "RERAISE", "RESUME", "RETURN_", "STORE_FAST", "SWAP", "UNARY_", "UNPACK_",
)  # fmt: skip


class Count:
    """How many more opcodes of a thread there are to the interrupt."""

    def __init__(self, left: int, by: Interrupt) -> None:
        self.left = left
        self.by = by


#: The threads that are to be interrupted.
_counts: dict[int, Count] = {}


def tick() -> None:
    """Tell an opcode of this thread; a guarded function may also say so itself."""
    count = _counts.get(get_ident())
    if count is None:
        return
    count.left -= 1
    if count.left:
        return
    # What the interrupt does may be breakerkit code, which is not counted in turn.
    del _counts[get_ident()]
    left = count.by()
    if left is not None:
        count.left = left
        _counts[get_ident()] = count
    elif not _MONITORING:
        sys.settrace(None)


@contextlib.contextmanager
def interrupted(after: int | None, by: Interrupt) -> Iterator[None]:
    """Interrupt this thread before its ``after``-th opcode from here; ``None`` is never."""
    if after is None:
        yield
        return
    _counts[get_ident()] = Count(after, by)
    before = sys.gettrace()
    if not _MONITORING:
        sys.settrace(_enter)
    try:
        yield
    finally:
        if not _MONITORING:
            sys.settrace(before)
        _counts.pop(get_ident(), None)


@contextlib.contextmanager
def signalled(after: int) -> Iterator[list[str]]:
    """Press Ctrl-C in this thread at its ``after``-th place in the package where a signal comes in.

    CPython looks for signals at the start of a function, after each call of a
    function in C and at a jump backwards; the first two are tried here, by the
    same profiler in every version. A ``with`` looks nowhere before its body.
    What is yielded names the place, once it was reached.
    """
    left, places = after * _EVERY, []

    def told(frame: types.FrameType, event: str, arg: Any) -> None:
        nonlocal left
        if event not in _LOOKS or not _inside(frame.f_code.co_filename, _OUTSIDE):
            return
        left -= 1
        if not left:
            sys.setprofile(None)
            places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno} {event} {arg}")
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(told)
    try:
        yield places
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def instrumented() -> Iterator[None]:
    """Let opcodes of the package be told inside the block, to whichever thread wants it."""
    _told.update(_shared())
    if not _MONITORING:
        yield
        return
    monitoring = sys.monitoring
    instruction = monitoring.events.INSTRUCTION

    def told(code: types.CodeType, offset: int) -> object:
        if not _counts:
            return None
        if offset not in _told[id(code)]:
            return monitoring.DISABLE
        tick()
        return None

    monitoring.use_tool_id(_TOOL, "breakerkit tests")
    monitoring.register_callback(_TOOL, instruction, told)
    for code in _codes():
        monitoring.set_local_events(_TOOL, code, instruction)
    try:
        yield
    finally:
        monitoring.restart_events()
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
    if event == "opcode" and frame.f_lasti in _told[id(frame.f_code)]:
        tick()
    return _opcode


def _inside(filename: str, without: tuple[str, ...] = _LEFT_OUT) -> bool:
    return filename.startswith(_PACKAGE) and not filename.startswith(without)


#: By the id of a code object, for its hash takes as long as its code: which opcodes are told.
_told: dict[int, frozenset[int]] = {}


@functools.cache
def _shared() -> dict[int, frozenset[int]]:
    """Return by code object where in it stands an opcode that another thread may notice."""
    return {
        id(code): frozenset(
            [
                one.offset
                for one in dis.get_instructions(code)
                if not one.opname.startswith(_PRIVATE)
            ][number % _EVERY :: _EVERY]
        )
        for number, code in enumerate(_codes())
    }


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
