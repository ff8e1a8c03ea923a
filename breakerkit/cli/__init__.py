"""The command line: ``breakerkit demo`` plays a recorded outage, without and with a breaker.

The rooms of that demo; its parts serve the others as well:

    _arguments  _options  what may be said           _trace    what a recorded call is
    _demo       the whole play                       _jtl      how JMeter writes it
    _child      a program in its own process         _plan     what is played, how fast
    _service    an HTTP service, such a program      _client   one HTTP client
    _drive      calls issued on time, what came      _crew     threads that do so
    _display    plain lines    _live  with rich      _settings the recommended breaker
    _report     the table                            _words    how figures are written
    _timeline   the picture    _lanes its lanes      _axes  _frame  _svg  what pictures share

The other demos:

    avalanche/   ``breakerkit demo avalanche``: one dependency hangs, without and with isolation
    switchover/  ``breakerkit demo failover``: one provider dies, without and with failover
    staleness/   ``breakerkit demo stale``: a service dies, then the store of its cache

It uses breakerkit as any program would: its public names alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from breakerkit.cli._options import AnyOptions

__all__ = ["main"]

#: Where each command's play is.
_PLAYS = {
    "demo": "breakerkit.cli._demo",
    "demo avalanche": "breakerkit.cli.avalanche._play",
    "demo failover": "breakerkit.cli.switchover._play",
    "demo stale": "breakerkit.cli.staleness._play",
}
_FAILED, _WRONG_USE, _INTERRUPTED, _PIPE_CLOSED = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status.

    Args:
        arguments: what follows the program's name; by default that of this process.

    Returns:
        0; 1 if something failed on the way; 2 for wrong arguments or a trace that
        is none; 130 after Ctrl-C; 141 if whoever read the output has gone.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        _complain("breakerkit: stopped")
        return _INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return _PIPE_CLOSED
    except OSError as error:
        _complain(f"breakerkit: error: {error}")
        _forget_output()
        return _FAILED


def _run(arguments: Sequence[str]) -> int:
    # Loaded here, so that Ctrl-C meanwhile is met like any other.
    from breakerkit.cli._arguments import UsageError, parse_arguments  # noqa: PLC0415  # see above
    from breakerkit.cli._child import ServiceDiedError  # noqa: PLC0415  # see above
    from breakerkit.cli._jtl import TraceError  # noqa: PLC0415  # see above

    command = "demo"
    try:
        options = parse_arguments(arguments)
        command = options.command
        _play(options)
    except UsageError as error:
        _complain(str(error))
        return _WRONG_USE
    except TraceError as error:
        _complain(f"breakerkit {command}: error: argument --trace: {error}")
        return _WRONG_USE
    except ServiceDiedError as error:
        _complain(f"breakerkit {command}: error: {error}")
        return _FAILED
    return 0


def _play(options: AnyOptions) -> None:
    # Each demo is loaded alone, once it is known which.
    play = import_module(_PLAYS[options.command]).play
    play(options, _output())


def _output() -> TextIO:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A trace's name may hold what the terminal's encoding cannot say.
        sys.stdout.reconfigure(errors="backslashreplace")
    # None is what ``>&-`` leaves.
    return sys.stdout if sys.stdout is not None else io.StringIO()


def _complain(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens there either
        print(line, file=sys.stderr)  # noqa: T201  # an error's place


def _forget_output() -> None:
    # What is still buffered would fail again, loudly, when the interpreter ends.
    with contextlib.suppress(OSError, ValueError):  # a stream that is no file
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)
