"""What was promised of breakerkit's speed and size, and whether a run kept it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.harness import Samples, Spread, ratios
from benchmarks.shapes import GROUPS
from benchmarks.stores import BARE_GET
from benchmarks.subjects import CLOSURE, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.growth import Imports

#: Total time per call, as a ratio to the no-op closure of the same shape.
AT_MOST = {
    "function": 1.6,
    "method": 1.8,
    "async": 1.5,
    "count-window": 1.8,
    "time-window": 3.0,
    "open": 2.5,
    "bulkhead": 4.0,
    "async-bulkhead": 4.0,
    "fallback": 1.6,
    "degradable": 1.6,
    "timeout": 5.0,
    "async-timeout": 1.15,
    "pipeline": 10.0,
    "stale-hit": 12.0,
    "async-stale-hit": 12.0,
}
#: The time per success in the largest window, as a ratio to that in a window of 100.
WINDOW_GROWTH = 1.10
#: The time of one admission in the longest queue, as a ratio to that in a queue of 10.
QUEUE_GROWTH = 1.10
#: The time of a hit in the largest memory store, as a ratio to that in a store of 10.
STORE_GROWTH = 1.10
#: The time of a hit in a Valkey, as a ratio to one bare GET of the same client.
VALKEY_HIT = 1.3
BYTES_PER_BREAKER = 3 * 1024
IMPORT_MILLISECONDS = 30.0


@dataclass(slots=True)
class Result:
    """Everything one run found out; what was not asked for is empty.

    Attributes:
        machine: processor and interpreter, in one line.
        rounds: how often each subject was measured.
        peers: the version of each peer, or why it has none.
        samples: nanoseconds per call, by group, name and round.
        memory: bytes per breaker, by how it was made.
        imports: what ``import breakerkit`` costs.
        skipped: what could not be measured here, and why.
    """

    machine: str
    rounds: int
    peers: dict[str, str] = field(default_factory=dict)
    samples: Samples = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    imports: Imports | None = None
    skipped: dict[str, str] = field(default_factory=dict)

    def ratio(self, group: str, name: str, baseline: str = CLOSURE) -> Spread | None:
        """Return the ratio to the baseline, taken round by round; ``None`` if not measured."""
        members = self.samples.get(group, {})
        if name not in members or baseline not in members:
            return None
        return ratios(members[name], members[baseline])


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise: what it is about, what was promised, what was found, and if it was kept."""

    about: str
    promised: str
    found: str
    kept: bool


def verdicts(result: Result) -> list[Verdict]:
    """Judge everything this run measured, in the order of the groups."""
    return [
        *(made for key in GROUPS for made in _of_group(result, key)),
        *_of_growth(result, "windows", "100", "100000", "window", WINDOW_GROWTH),
        *_of_growth(result, "waiters", "10", "10000", "queue", QUEUE_GROWTH),
        *_of_growth(result, "entries", "10", "1000000", "store", STORE_GROWTH),
        *_of_valkey(result),
        *(_of_memory(about, size) for about, size in result.memory.items()),
        *(_of_import(result.imports) if result.imports else ()),
    ]


def fastest_peer(result: Result, key: str) -> str | None:
    """Return the peer with the lowest ratio in a group, if any peer is in it."""
    found = {
        name: ratio.median
        for name in result.peers
        if (ratio := result.ratio(key, name)) is not None
    }
    return min(found, key=lambda name: found[name], default=None)


def _of_group(result: Result, key: str) -> Iterator[Verdict]:
    title, ours = GROUPS[key].title, result.ratio(key, OURS)
    if ours is None:
        return
    if key in AT_MOST:
        promised = f"at most {AT_MOST[key]:.2f} x closure"
        yield Verdict(title, promised, f"{ours.median:.2f}", kept=ours.median <= AT_MOST[key])
    rival = fastest_peer(result, key)
    if rival is not None:
        behind = ratios(result.samples[key][rival], result.samples[key][OURS]).median
        found = f"{rival} takes {behind:.2f} x as long"
        yield Verdict(title, "faster than every peer", found, kept=behind > 1)


def _of_growth(
    result: Result, group: str, small: str, large: str, what: str, most: float
) -> Iterator[Verdict]:
    growth = result.ratio(group, large, small)
    if growth is None:
        return
    promised = f"at most {most:.2f} x a {what} of {small}"
    about = f"{what} of {int(large):,}".replace(",", " ")
    yield Verdict(about, promised, f"{growth.median:.2f}", growth.median <= most)


def _of_valkey(result: Result) -> Iterator[Verdict]:
    ratio = result.ratio("valkey-hit", OURS, BARE_GET)
    if ratio is not None:
        promised = f"at most {VALKEY_HIT:.2f} x one bare GET"
        found = f"{ratio.median:.2f}"
        yield Verdict("hit in a Valkey", promised, found, kept=ratio.median <= VALKEY_HIT)


def _of_memory(about: str, size: float) -> Verdict:
    promised = f"at most {BYTES_PER_BREAKER} bytes"
    return Verdict(f"a breaker, {about}", promised, f"{size:.0f}", kept=size <= BYTES_PER_BREAKER)


def _of_import(found: Imports) -> Iterator[Verdict]:
    promised = f"at most {IMPORT_MILLISECONDS:.0f} ms over wrapt and attrs"
    took = f"{found.on_top.median:.1f} ms; {found.alone.median:.1f} ms with all it loads"
    yield Verdict("import", promised, took, kept=found.on_top.median <= IMPORT_MILLISECONDS)
    loaded = ", ".join(found.strangers) or "none of them"
    yield Verdict("import", "no asyncio, no extra", loaded, kept=not found.strangers)
