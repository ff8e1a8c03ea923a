"""What the command line may say, checked in full before anything runs."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import breakerkit

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Options", "UsageError", "parse_arguments"]

FASTEST = 100_000.0
MOST_THREADS = 500
PICTURE = "breakerkit-demo.svg"
_OPTIONS = "demo with --trace, --speed, --threads and --svg, --help and --version"


class UsageError(Exception):
    """Say in one line which argument is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of ``breakerkit demo``; ``None`` leaves the choice to the demo.

    Attributes:
        trace: the recording to play; ``None`` is the one that ships.
        speed: seconds of the recording per second of real time.
        threads: client threads.
        svg: where the picture goes, writable when the arguments were read.
    """

    trace: Path | None
    speed: float | None
    threads: int | None
    svg: Path


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: error: {message}")


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Read and check the arguments after the program's name.

    Raises:
        UsageError: at the first one that is wrong.
        SystemExit: after ``--help`` or ``--version``, with status 0.
    """
    parser = _Parser(
        prog="breakerkit", description="Circuit breakers for Python.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"breakerkit {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    demo = commands.add_parser(
        "demo",
        help="play a recorded outage, without and with a breaker",
        description="Play a recorded outage twice to a real HTTP service on this machine, without"
        " and with a circuit breaker, and compare. It takes about half a minute.",
        allow_abbrev=False,
    )
    _add_demo_arguments(demo)
    found, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(f"{' '.join(unknown)} is not known; allowed are {_OPTIONS}")
    if found.command is None:
        parser.error("a command is missing; allowed is: demo (breakerkit --help says more)")
    try:
        return Options(found.trace, found.speed, found.threads, _picture(found.svg, found.trace))
    except UsageError as error:
        demo.error(str(error))


def _add_demo_arguments(demo: argparse.ArgumentParser) -> None:
    demo.add_argument(
        "--trace", type=Path, metavar="FILE",
        help="a JMeter result file in CSV format (default: a recording that ships)",
    )  # fmt: skip
    demo.add_argument(
        "--speed", type=_speed, metavar="X",
        help="seconds of the recording per second (default: a run takes 15 s)",
    )  # fmt: skip
    demo.add_argument(
        "--threads", type=_threads, metavar="N",
        help="client threads (default: as many as calls overlapped)",
    )  # fmt: skip
    demo.add_argument(
        "--svg", metavar="PATH", help=f"where the picture goes (default: {PICTURE} here)"
    )


def _version() -> str:
    return breakerkit.__version__


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed <= FASTEST:  # nan is in no range
        raise argparse.ArgumentTypeError(
            f"must be a number above 0, at most {FASTEST:.0f}, not {text!r}"
        )
    return speed


def _threads(text: str) -> int:
    try:
        threads = int(text)
    except ValueError:
        threads = 0
    if not 1 <= threads <= MOST_THREADS:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 1 to {MOST_THREADS}, not {text!r}"
        )
    return threads


def _picture(text: str | None, trace: Path | None) -> Path:
    if text is None:
        here = Path(PICTURE)
        return here if _obstacle(here) is None else Path(tempfile.gettempdir()) / PICTURE
    path = Path(text)
    if trace is not None and path.exists() and trace.exists() and path.samefile(trace):
        raise UsageError(f"argument --svg: {text!r} is the trace itself; give another file")
    obstacle = _obstacle(path)
    if obstacle is not None:
        raise UsageError(
            f"argument --svg: must be a file that can be written, not {text!r} ({obstacle})"
        )
    return path


def _obstacle(path: Path) -> str | None:
    """Return why a picture cannot be written there, and leave the place as it was."""
    new = not path.exists()
    if not new and not path.is_file():
        return "it is not a file"
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        return os.strerror(error.errno or 0)
    if new:
        path.unlink()
    return None
