"""What the command line may say, checked in full before anything runs."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import breakerkit
from breakerkit.cli._options import (
    AvalancheOptions,
    FailoverOptions,
    Options,
    StaleOptions,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from breakerkit.cli._options import AnyOptions

__all__ = [
    "AvalancheOptions",
    "FailoverOptions",
    "Options",
    "StaleOptions",
    "UsageError",
    "parse_arguments",
]

FASTEST = 100_000.0
FASTEST_DEATH = 8.0  # a new process must be there before the play is over
MOST_THREADS = 500
PICTURE = "breakerkit-demo.svg"
AVALANCHE_PICTURE = "breakerkit-demo-avalanche.svg"
FAILOVER_PICTURE = "breakerkit-demo-failover.svg"
STALE_PICTURE = "breakerkit-demo-stale.svg"

_DEMO, _AVALANCHE, _FAILOVER = Options.command, AvalancheOptions.command, FailoverOptions.command
_STALE = StaleOptions.command
_ALLOWED = {
    _DEMO: "demo with --trace, --speed, --threads and --svg, --help and --version;"
    " demo avalanche, demo failover and demo stale, each with --help",
    _AVALANCHE: "demo avalanche with --trace, --speed and --svg, and --help",
    _FAILOVER: "demo failover with --speed and --svg, and --help",
    _STALE: "demo stale with --trace, --speed and --svg, and --help",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: error: {message}")


def parse_arguments(arguments: Sequence[str]) -> AnyOptions:
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
    demos = {
        name: commands.add_parser(name, help=short, description=long, allow_abbrev=False)
        for name, (short, long) in _DEMOS.items()
    }
    demos[
        _DEMO
    ].epilog = (
        "More demos: breakerkit demo avalanche, breakerkit demo failover, breakerkit demo stale."
    )
    _add_arguments(demos)
    found, unknown = parser.parse_known_args(_with_joined_command(arguments))
    if unknown:
        allowed = _ALLOWED[found.command or _DEMO]
        parser.error(f"{' '.join(unknown)} is not known; allowed are {allowed}")
    if found.command is None:
        parser.error("a command is missing; allowed is: demo (breakerkit --help says more)")
    try:
        return _options(found)
    except UsageError as error:
        demos[found.command].error(str(error))


def _with_joined_command(arguments: Sequence[str]) -> list[str]:
    # A command of two words: to argparse it is one, so that no option of ``demo``
    # can stand between them and be lost.
    joined = " ".join(arguments[:2])
    return (
        [joined, *arguments[2:]] if joined in {_AVALANCHE, _FAILOVER, _STALE} else list(arguments)
    )


_DEMOS = {
    _DEMO: (
        "play a recorded outage, without and with a breaker",
        """Play a recorded outage twice to a real HTTP service on this machine, without and with a
        circuit breaker, and compare. It takes about half a minute.""",
    ),
    _AVALANCHE: (
        "let one dependency hang, without and with bulkheads",
        """Run a real HTTP service on this machine with three endpoints and a dependency behind
        each. One dependency hangs as a recorded outage did: first without isolation, then with a
        bulkhead each, and at last with a rule that degrades its endpoint. It takes less than half
        a minute.""",
    ),
    _FAILOVER: (
        "kill one of three providers, without and with failover",
        """Kill one of three real HTTP providers on this machine and revive it, while one client is
        bound to it and another fails over. It takes a quarter of a minute.""",
    ),
    _STALE: (
        "let a service die, and then the store of its cache",
        """Let a real HTTP service on this machine fare as a recorded one did, while several
        processes ask it for prices, without a cache and through a stale-if-error cache that they
        share in a Valkey. Then the Valkey is frozen and killed. It takes less than half a
        minute.""",
    ),
}


def _add_arguments(demos: Mapping[str, _Parser]) -> None:
    for name in (_DEMO, _AVALANCHE, _STALE):
        demos[name].add_argument(
            "--trace", type=Path, metavar="FILE",
            help="a JMeter result file in CSV format (default: a recording that ships)",
        )  # fmt: skip
    for name, default, most, usual in (
        (_DEMO, None, FASTEST, "seconds of the recording per second (default: a run takes 15 s)"),
        (
            _AVALANCHE,
            None,
            FASTEST,
            "seconds of the recording per second (default: its outage takes 7 s)",
        ),
        (_FAILOVER, 1.0, FASTEST_DEATH, "how many times as fast the play goes (default: 1)"),
        (_STALE, None, FASTEST, "seconds of the recording per second (default: it takes 12 s)"),
    ):
        demos[name].add_argument(
            "--speed", type=_up_to(most), metavar="X", default=default, help=usual
        )
    demos[_DEMO].add_argument(
        "--threads", type=_threads, metavar="N",
        help="client threads (default: as many as calls overlapped)",
    )  # fmt: skip
    for name, picture in _PICTURES.items():
        usual = f"where the picture goes (default: {picture} here)"
        demos[name].add_argument("--svg", metavar="PATH", help=usual)


_PICTURES = {
    _DEMO: PICTURE,
    _AVALANCHE: AVALANCHE_PICTURE,
    _FAILOVER: FAILOVER_PICTURE,
    _STALE: STALE_PICTURE,
}


def _options(found: argparse.Namespace) -> AnyOptions:
    picture = _PICTURES[found.command]
    if found.command == _FAILOVER:
        return FailoverOptions(found.speed, _picture(found.svg, None, picture))
    svg = _picture(found.svg, found.trace, picture)
    if found.command == _AVALANCHE:
        return AvalancheOptions(found.trace, found.speed, svg)
    if found.command == _STALE:
        return StaleOptions(found.trace, found.speed, svg)
    return Options(found.trace, found.speed, found.threads, svg)


def _version() -> str:
    return breakerkit.__version__


def _up_to(most: float) -> Callable[[str], float]:
    def to_speed(text: str) -> float:
        try:
            speed = float(text)
        except ValueError:
            speed = math.nan
        if not 0 < speed <= most:  # nan is in no range
            raise argparse.ArgumentTypeError(
                f"must be a number above 0, at most {most:.0f}, not {text!r}"
            )
        return speed

    return to_speed


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


def _picture(text: str | None, trace: Path | None, usual: str) -> Path:
    if text is None:
        here = Path(usual)
        return here if _obstacle(here) is None else Path(tempfile.gettempdir()) / usual
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
