"""A program that becomes another one, which ends when its parent does, however that ends.

``python _tied.py PARENT PROGRAM ARGUMENT...``; it knows nothing of breakerkit. A
server neither reads standard input nor cares who started it, so the system has
to see to it. Where the system has no such thing it is left to the parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the program, tied to the parent of that number."""
    parent, program, *more = arguments
    if sys.platform == "linux":
        # Kept when another program takes this process over.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(parent):  # else it has ended meanwhile
        os.execv(program, [program, *more])  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
