"""A worker process: runs the calls that come over its pipe, one by one, and dies with its parent."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from contextvars import copy_context
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from breakerkit import _ambient as ambient
from breakerkit.clock import system_clock
from breakerkit.isolation._inside import inside
from breakerkit.isolation._naming import unpacked

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: How a call ended: with a value, an exception, or something that cannot be sent.
RETURNED, RAISED, UNSENDABLE = "returned", "raised", "unsendable"
_PROTOCOL = pickle.HIGHEST_PROTOCOL
_PR_SET_PDEATHSIG = 1


def request(call: Any, limit: ambient.Limit | None) -> bytes:
    """Return a call, packed, and the time it has left, as one message."""
    left, limit = None, ambient.live(limit)
    if limit is not None and limit[0] != ambient.NEVER:
        seconds, bound = ambient.binding(limit)
        left = (bound[1].name, seconds, bound[1].seconds)
    return pickle.dumps((left, *call), _PROTOCOL)


def main(pipe: Connection[Any, Any], parent: int) -> None:
    """Serve until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    _die_with(parent)
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        answer = _answer(message)
        with contextlib.suppress(OSError):
            pipe.send_bytes(answer)


def _answer(message: bytes) -> bytes:
    try:
        left, packed, through = pickle.loads(message)  # noqa: S301  # from our own parent process
        function, args, kwargs = unpacked(packed)
        value = _run(left, through, function, args, kwargs)
    except BaseException as error:
        return _raised(error)
    return _sent(RETURNED, value, "what the call returned")


def _run(left: Any, through: str | None, function: Any, args: Any, kwargs: Any) -> Any:
    """Call it in a context of its own: what it sets there is not for the next caller."""
    return copy_context().run(_call, left, through, function, args, kwargs)


def _call(left: Any, through: str | None, function: Any, args: Any, kwargs: Any) -> Any:
    if left is not None:
        name, seconds, whole = left
        end = system_clock.now() + seconds
        ambient.limit.set([end, ambient.Terms(whole, name, system_clock), None, None, False])
    inside.set(through)
    return function(*args, **kwargs)


def _raised(error: BaseException) -> bytes:
    where = "".join(traceback.format_exception(error))
    with contextlib.suppress(Exception):
        error.add_note(f"in worker process {os.getpid()}:\n{where}")
    if _can_be_read(error):
        return _sent(RAISED, error, "what the call raised")
    said = f"{type(error).__name__}: {error}"
    for kind in takewhile(
        lambda base: base not in {Exception, BaseException}, type(error).__mro__[1:]
    ):
        # Near enough for whoever goes by types; the note says what it was.
        with contextlib.suppress(Exception):
            stand_in = kind(said)
            stand_in.__notes__ = [f"in worker process {os.getpid()}, and cannot be sent:\n{where}"]
            if _can_be_read(stand_in):
                return _sent(RAISED, stand_in, "what the call raised")
    return _sent(RAISED, error, f"{said}, which the call raised,")


def _can_be_read(error: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(error, _PROTOCOL))  # noqa: S301  # just made here
    except Exception:
        return False
    return True


def _sent(ended: str, value: Any, what: str) -> bytes:
    try:
        return pickle.dumps((ended, value), _PROTOCOL)
    except Exception as error:
        text = f"{what} cannot be sent from the worker process: {error}"
        return pickle.dumps((UNSENDABLE, text), _PROTOCOL)


def _die_with(parent: int) -> None:
    """See to it that nothing is left when the parent is gone, however it went."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # only there

        # Even a call that never lets another thread of Python run ends then.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    from multiprocessing import parent_process  # noqa: PLC0415  # loaded already, over here
    from multiprocessing.connection import wait  # noqa: PLC0415  # likewise

    process = parent_process()
    if process is not None:
        wait([process.sentinel])
        os._exit(1)
