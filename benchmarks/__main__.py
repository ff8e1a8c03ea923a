"""``python -m benchmarks``: read the command line, run, print, and write what was asked for."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from benchmarks import growth, report, stores
from benchmarks.harness import ENOUGH_ROUNDS, Subject, run
from benchmarks.peers import PEERS, peer_subjects
from benchmarks.shapes import GROUPS
from benchmarks.subjects import loop_cost, ours, references
from benchmarks.targets import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DOCS = Path(__file__).resolve().parent.parent / "docs"
#: Those that grow and are measured in the rounds, and those that have a way of their own.
GROWING: dict[str, Callable[[Effort], list[Subject]]] = {
    "windows": lambda _effort: growth.window_subjects(),
    "waiters": lambda _effort: growth.waiter_subjects(),
    "keys": lambda effort: growth.key_subjects(effort.keys),
    "threads": lambda _effort: growth.thread_subjects(),
    "entries": lambda effort: stores.entry_subjects(effort.entries),
    "valkey-hit": lambda _effort: stores.valkey_subjects(),
}
APART = ("memory", "import")
EVERYTHING = (*GROUPS, *GROWING, *APART)


class Effort(NamedTuple):
    """How much work a run is; one batch lasts ``batch_ns`` nanoseconds."""

    rounds: int
    batch_ns: int
    keys: tuple[int, ...]
    breakers: int
    imports: int
    entries: tuple[int, ...]


FULL = Effort(21, 20_000_000, growth.KEYS, growth.BREAKERS, 11, stores.ENTRIES)
QUICK = Effort(3, 2_000_000, growth.KEYS[:-1], 1_000, 3, stores.ENTRIES[:-2])


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line and nothing else."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; whatever is wrong with it ends the program with status 2."""
    parser = _Parser(
        prog="python -m benchmarks",
        description="Time breakerkit beside a no-op closure, wrapt and other circuit breakers.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="few and short rounds, to see that it runs"
    )
    parser.add_argument(
        "--rounds", type=_at_least_one, metavar="N", help=f"rounds (default {FULL.rounds})"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=EVERYTHING,
        metavar="GROUP",
        help="measure this group alone; may be given again: " + ", ".join(EVERYTHING),
    )
    parser.add_argument("--json", type=_writable, metavar="FILE", help="write every figure there")
    parser.add_argument(
        "--write", action="store_true", help="write the table and the chart of the docs"
    )
    chosen = parser.parse_args(arguments)
    chosen.effort = QUICK if chosen.quick else FULL
    chosen.rounds = chosen.rounds or chosen.effort.rounds
    if chosen.write:
        _check_write(parser, chosen)
    return chosen


def _check_write(parser: _Parser, chosen: argparse.Namespace) -> None:
    """Refuse to put into the docs what is not the whole of a result."""
    if chosen.only:
        parser.error("argument --write: not allowed with --only, the docs show every group")
    if chosen.quick or chosen.rounds < ENOUGH_ROUNDS:
        parser.error(f"argument --write: needs at least {ENOUGH_ROUNDS} rounds and no --quick")
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("argument --write: needs matplotlib: pip install 'breakerkit[bench]'")


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} is not a whole number of at least 1"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        msg = f"cannot write to {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return path


def subjects_of(wanted: Sequence[str], effort: Effort, result: Result) -> list[Subject]:
    """Make every subject of the wanted groups, and note each peer's version."""
    groups = [key for key in GROUPS if key in wanted]
    made = [subject for key in groups for subject in (*references(key), ours(key))]
    for name in PEERS if groups else ():
        theirs, result.peers[name] = peer_subjects(name, groups)
        made += theirs
    for key, make in GROWING.items():
        if key in wanted:
            try:
                made += make(effort)
            except stores.Skipped as why:
                result.skipped[key] = str(why)
    return [*made, loop_cost()] if made else []


def measure(chosen: argparse.Namespace) -> Result:
    """Do what the command line asks for, and show how far it is."""
    wanted = chosen.only or EVERYTHING
    result = Result(report.machine_line(), chosen.rounds)
    _rounds(wanted, chosen, result)
    if "memory" in wanted:
        progress("memory", 0, 1)
        result.memory = growth.memory(chosen.effort.breakers)
    if "import" in wanted:
        progress("import", 0, 1)
        result.imports = growth.import_time(chosen.effort.imports)
    progress("", 1, 1)
    return result


def _rounds(wanted: Sequence[str], chosen: argparse.Namespace, result: Result) -> None:
    """Run what is measured in rounds; its subjects, which hold much memory, end with it."""
    progress("making the subjects", 0, 1)
    subjects = subjects_of(wanted, chosen.effort, result)
    if subjects:
        result.samples = run(
            subjects, rounds=chosen.rounds, batch_ns=chosen.effort.batch_ns, progress=progress
        )


def progress(stage: str, done: int, total: int) -> None:
    """Show one moving line in a terminal, and elsewhere a line every quarter."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{stage} {done}/{total}" if stage else "\r\x1b[K")
    elif stage and (done in (0, total) or done * 4 // total != (done - 1) * 4 // total):
        sys.stderr.write(f"{stage} {done}/{total}\n")
    sys.stderr.flush()


def write_docs(result: Result) -> list[Path]:
    """Write the table and the chart the docs include."""
    from benchmarks import chart  # noqa: PLC0415 - matplotlib, only for who wants the chart

    table, picture = DOCS / "benchmarks-table.md", DOCS / "_static" / "benchmarks.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(report.as_markdown(result), encoding="utf-8")
    chart.draw(result, picture)
    return [table, picture]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; a missed promise is printed and is no error."""
    chosen = options(arguments)
    try:
        result = measure(chosen)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    sys.stdout.write(report.as_text(result) + "\n")
    if chosen.json:
        chosen.json.write_text(report.as_json(result), encoding="utf-8")
    for path in write_docs(result) if chosen.write else ():
        sys.stdout.write(f"wrote {path.relative_to(DOCS.parent)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
