"""The tables of a run, for a terminal, for the docs, and as JSON; each made once as data."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.growth import TABLE
from benchmarks.harness import ENOUGH_ROUNDS, Spread, spread
from benchmarks.peers import NOTES
from benchmarks.shapes import GROUPS
from benchmarks.stores import BARE_GET
from benchmarks.subjects import BARE, CLOSURE, OURS, WRAPT
from benchmarks.targets import Result, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.growth import Imports

#: The groups in two tables, so that each is narrow enough for a terminal.
SHAPES = ("function", "method", "async", "generator", "async-generator")
RULES = ("count-window", "time-window", "slow-call", "listener", "state-listener", "open")
POLICIES = (
    "bulkhead", "async-bulkhead", "fallback", "degradable", "timeout", "async-timeout", "failover",
    "pipeline", "async-pipeline",
)  # fmt: skip
CACHES = ("stale-hit", "async-stale-hit")


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a header, rows of text, and what must be said below."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def machine_line() -> str:
    """Say what the figures were taken on, and nothing that names the machine."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, {python}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def tables(result: Result) -> list[Table]:
    """Return every table that has something in it, in the order they are read."""
    made = (
        _matrix(result, "Call shapes, ratio to the no-op closure of the same shape", SHAPES),
        _matrix(result, "Rules, listeners and rejection, ratio to the closure", RULES),
        _matrix(result, "Other policies, ratio to the closure", POLICIES),
        _matrix(result, "Cache hits in memory, ratio to the closure", CACHES),
        _growing(result, "windows", "100", "Count windows, per success", "window"),
        _growing(result, "waiters", "10", "Bulkhead: one more joins the queue and leaves", "queue"),
        _growing(result, "entries", "10", "Cache hits in memory, by values stored", "store"),
        _against(result, "valkey-hit", "Cache hits in a Valkey", BARE_GET),
        _beside(result, "keys", "Keyed breakers, ns per call", TABLE),
        _beside(result, "threads", "One breaker under several threads, ns per call", CLOSURE),
        _verdicts(result),
    )
    return [table for table in made if table.rows]


def _matrix(result: Result, title: str, wanted: Sequence[str]) -> Table:
    keys = [key for key in wanted if key in result.samples]
    names = [BARE, CLOSURE, WRAPT, OURS, *_peers_in(result, keys)] if keys else []
    rows = [[_label(result, name), *(_cell(result, key, name) for key in keys)] for name in names]
    if keys:
        rows.append(["closure, ns", *(f"{_ns(result, key, CLOSURE):.0f}" for key in keys)])
    notes = [
        f"* {note}"
        for (name, key), note in NOTES.items()
        if result.ratio(key, name) and key in keys
    ]
    return Table(title, ["", *(GROUPS[key].title for key in keys)], rows, notes)


def _peers_in(result: Result, keys: Sequence[str]) -> Iterator[str]:
    """Go through the peers that have a figure in these groups, or could not be asked for one."""
    for name, version in result.peers.items():
        if not version[:1].isdigit() or any(result.ratio(key, name) for key in keys):
            yield name


def _label(result: Result, name: str) -> str:
    version = result.peers.get(name, "")
    return f"{name} {version}" if version[:1].isdigit() else name


def _cell(result: Result, key: str, name: str) -> str:
    ratio = result.ratio(key, name)
    if ratio is None:
        version = result.peers.get(name, "")
        return version.partition(":")[0] if version and not version[0].isdigit() else "-"
    mark = " *" if (name, key) in NOTES else ""
    digits = 2 if ratio.median < 10 else 1
    return f"{ratio.median:.{digits}f} ±{ratio.half_width:.{digits}f}{mark}"


def _ns(result: Result, group: str, name: str) -> float:
    return spread(result.samples[group][name]).median


def _growing(result: Result, group: str, baseline: str, title: str, what: str) -> Table:
    rows = [
        [
            _grouped(size),
            f"{_ns(result, group, size):.0f}",
            _ratio(result.ratio(group, size, baseline)),
        ]
        for size in result.samples.get(group, {})
    ]
    return Table(title, [what, "ns", f"to a {what} of {baseline}"], rows)


def _against(result: Result, group: str, title: str, baseline: str) -> Table:
    rows = [
        [name, f"{_ns(result, group, name):.0f}", _ratio(result.ratio(group, name, baseline))]
        for name in result.samples.get(group, {})
    ]
    return Table(title, ["", "ns", f"to {baseline}"], rows)


def _beside(result: Result, what: str, title: str, baseline: str) -> Table:
    rows = []
    for group in result.samples:
        kind, _, size = group.partition(" ")
        if kind == what and size:
            figures = [f"{_ns(result, group, name):.0f}" for name in (baseline, OURS)]
            rows.append([_grouped(size), *figures, _ratio(result.ratio(group, OURS, baseline))])
    return Table(title, [what, baseline, OURS, "ratio"], rows)


def _grouped(number: str) -> str:
    return f"{int(number):,}".replace(",", " ")


def _ratio(found: Spread | None) -> str:
    return "-" if found is None else f"{found.median:.2f} ±{found.half_width:.2f}"


def _verdicts(result: Result) -> Table:
    rows = [
        ["kept" if made.kept else "MISSED", made.about, made.promised, made.found]
        for made in verdicts(result)
    ]
    return Table("Promises", ["", "about", "promised", "found"], rows, _caveats(result))


def _caveats(result: Result) -> list[str]:
    notes = []
    if result.rounds < ENOUGH_ROUNDS:
        notes.append(
            f"{result.rounds} rounds, fewer than {ENOUGH_ROUNDS}: it runs, but how fast is open."
        )
    absent = [f"{name}: {why}" for name, why in result.peers.items() if not why[:1].isdigit()]
    return notes + absent + [f"{what}: skipped, {why}" for what, why in result.skipped.items()]


def _foot(result: Result) -> Iterator[str]:
    yield result.machine
    yield f"Medians of {result.rounds} rounds, ± half the interquartile range."
    if "loop" in result.samples:
        turn = _ns(result, "loop", "empty loop")
        yield f"An empty loop takes {turn:.1f} ns a turn and is in every figure."


def as_text(result: Result) -> str:
    """Return the whole report for a terminal."""
    blocks = [_text(table) for table in tables(result)]
    return "\n\n".join([*blocks, "\n".join(_foot(result))])


def _text(table: Table) -> str:
    lines = [table.header, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]
    words = table.title == "Promises"
    body = [_text_line(line, widths, words=words) for line in lines]
    return "\n".join([table.title, "", *body, *table.notes])


def _text_line(cells: Sequence[str], widths: Sequence[int], *, words: bool) -> str:
    """Align words to the left and figures, which come after the first column, to the right."""
    padded = [
        cell.ljust(width) if words or not column else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def as_markdown(result: Result) -> str:
    """Return the same for the docs."""
    foot = [f"- {line}" for line in _foot(result)]
    groups = [
        f"- *{group.title}*: {group.what}."
        for key, group in GROUPS.items()
        if key in result.samples
    ]
    blocks = ["\n".join([*foot, *groups]), *(_markdown(table) for table in tables(result))]
    return "\n\n".join(blocks) + "\n"


def _markdown(table: Table) -> str:
    figures = ["---:"] * (len(table.header) - 1) if table.title != "Promises" else ["---"] * 3
    rows = [table.header, ["---", *figures], *(_emphasised(row) for row in table.rows)]
    body = ["| " + " | ".join(row) + " |" for row in rows]
    notes = [f"\n{note.replace('*', chr(92) + '*', 1)}" for note in table.notes]
    return "\n".join([f"**{table.title}**", "", *body, *notes])


def _emphasised(row: Sequence[str]) -> list[str]:
    cells = [cell.replace(" *", " \\*") for cell in row]
    return [f"**{cell}**" for cell in cells] if row[0] in (OURS, "MISSED") else cells


def as_json(result: Result) -> str:
    """Return everything, each round included, for whoever wants to reckon for himself."""
    groups = {
        group: {name: _figures(result, group, name) for name in members}
        for group, members in result.samples.items()
    }
    found: dict[str, Any] = {
        "machine": result.machine,
        "rounds": result.rounds,
        "peers": result.peers,
        "groups": groups,
        "bytes_per_breaker": result.memory,
        "import": result.imports and _imports(result.imports),
        "skipped": result.skipped,
        "promises": [
            {"about": made.about, "promised": made.promised, "found": made.found, "kept": made.kept}
            for made in verdicts(result)
        ],
    }
    return json.dumps(found, indent=2) + "\n"


def _figures(result: Result, group: str, name: str) -> dict[str, Any]:
    ratio = result.ratio(group, name)
    values = result.samples[group][name]
    return {
        "ns": _quartiles(spread(values)),
        "ratio_to_closure": ratio and _quartiles(ratio),
        "rounds_ns": [round(value, 2) for value in values],
    }


def _imports(found: Imports) -> dict[str, Any]:
    return {
        "alone_ms": _quartiles(found.alone),
        "over_wrapt_and_attrs_ms": _quartiles(found.on_top),
        "strangers": found.strangers,
    }


def _quartiles(found: Spread) -> dict[str, float]:
    return {"median": round(found.median, 4), "q1": round(found.low, 4), "q3": round(found.high, 4)}
