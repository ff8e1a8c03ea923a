"""The price service of the play, a process of its own: it answers at each moment as a recorded service did then.

Whoever asks, and however often: what was recorded at that moment is what one
gets. After the recording, and before it, it is well.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from typing import TYPE_CHECKING

from breakerkit.cli import _service
from breakerkit.cli._service import Reply, Script, Service, say_to_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Prices", "dumps", "main", "make", "serve"]


class Prices(Service):
    """The service.

    Args:
        script: what was answered, call by call, and when nobody listened.
        starts: when each of the calls began, in seconds since ``go``; rising.
        until: when the recording is over.
    """

    def __init__(self, script: Script, starts: list[float], until: float) -> None:
        super().__init__(script)
        self._starts = starts
        self._until = until
        # A well one's: the first good answer, which is as fast as it was.
        good = (reply for reply in self.replies if reply.manner == "right")
        self._well = next(good, Reply(0.0, "right", 200))

    def reply(self, name: str) -> Reply:  # noqa: ARG002  # each product has a price
        """Return what was answered to the call that began last, up to this moment."""
        at = self.at()
        if not 0 <= at < self._until:
            return self._well
        return self.replies[max(0, bisect_right(self._starts, at) - 1)]

    def body(self, reply: Reply) -> bytes:
        """Return the price now, if the answer is a good one."""
        return f"{self._price():.2f}".encode() if reply.manner == "right" else b""

    def _price(self) -> float:
        return 4.0 + max(0.0, self.at()) % 60 / 100  # a cent each second


def dumps(script: Script, starts: list[float], until: float) -> str:
    """Return what such a service is told, as one line of JSON."""
    return json.dumps([script.dumps(), starts, until])


def make(line: str) -> Prices:
    """Return the service that was described by `dumps`."""
    script, starts, until = json.loads(line)
    return Prices(Script.loads(script), starts, until)


def serve(commands: Iterable[str], say: Callable[[str], None]) -> None:
    """Serve until the commands end."""
    _service.serve(commands, say, make)


def main() -> None:
    """Serve whoever holds the other end of standard input and output."""
    serve(sys.stdin, say_to_parent)


if __name__ == "__main__":
    main()
