"""What grows: windows, keys and threads as subjects of the run; bytes and import time apart.

``windows``, ``keys`` and ``threads`` are made into subjects like any other, so
they are measured in the same interleaved rounds. Memory is counted and imports
are timed after those, each in its own way.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from dataclasses import dataclass
from itertools import cycle, islice, repeat
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import breakerkit
from benchmarks.harness import Spread, Subject, spread
from benchmarks.shapes import Unavailable, fresh, function_loop, work, work_or_fail
from benchmarks.subjects import CLOSURE, OURS, closure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOWS = (10, 100, 1_000, 10_000, 100_000)
WAITERS = (10, 100, 1_000, 10_000)
KEYS = (1, 10, 100, 1_000, 10_000, 100_000)
THREADS = (1, 2, 4, 8)
BREAKERS = 10_000
#: What the keyed family is held against: one dictionary of closures.
TABLE = "dict of closures"


@dataclass(frozen=True, slots=True)
class Imports:
    """What ``import breakerkit`` costs.

    Attributes:
        alone: milliseconds in an interpreter that has imported nothing.
        on_top: milliseconds after ``import wrapt, attrs``.
        strangers: what it loads and should not: asyncio, and whatever is neither
            its own, nor of wrapt or attrs, nor of the standard library.
    """

    alone: Spread
    on_top: Spread
    strangers: tuple[str, ...]


def window_subjects() -> list[Subject]:
    """Return a subject for each window size, full, and with failures in it at every batch."""
    return [_windowed(size) for size in WINDOWS]


def _windowed(size: int) -> Subject:
    guard = breakerkit.breaker(
        f"benchmark-window-{size}",
        registry=breakerkit.Registry(),
        window_size=size,
        minimum_calls=size,
        failure_rate_threshold=50,
    )
    call = guard(fresh(work_or_fail))
    for _ in repeat(None, size):
        call(1)
    before = functools.partial(_sow, call, max(1, size // 100))
    return Subject("windows", str(size), functools.partial(fresh(function_loop), call), before)


def _sow(call: Callable[[int], object], failures: int) -> None:
    """Put failures into a window, each with a success after it, which ends the streak."""
    for _ in repeat(None, failures):
        try:
            call(0)
        except Unavailable:
            call(1)


def waiter_subjects() -> list[Subject]:
    """Return a subject for each length of a bulkhead's queue: one more joins it, and leaves."""
    return [_waiting(size) for size in WAITERS]


def _waiting(size: int) -> Subject:
    pool = breakerkit.bulkhead(
        max_concurrent=1, max_waiting=2 * size, isolation="thread", registry=breakerkit.Registry()
    )
    release = threading.Event()
    pool.submit(release.wait)  # in a daemon thread: it ends with the program
    for _ in repeat(None, size):
        pool.submit(work, 1)
    return Subject("waiters", str(size), functools.partial(fresh(_join_and_leave), pool.submit))


def _join_and_leave(submit: Callable[..., Any], count: int) -> int:
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        submit(work, 1).cancel()
    return perf_counter_ns() - started


def key_subjects(sizes: Sequence[int] = KEYS) -> list[Subject]:
    """Return, for each number of keys, the keyed family and a plain dictionary beside it."""
    return [made for size in sizes for made in _keyed(size)]


def _keyed(size: int) -> list[Subject]:
    keys = [f"host-{number}" for number in range(size)]
    # In the order they were made, neighbours in memory would be neighbours in time.
    random.Random(size).shuffle(keys)  # noqa: S311 - an order to visit in, nothing secret
    guard = breakerkit.breaker(
        "benchmark-keys", registry=breakerkit.Registry(), key=_itself, max_keys=2 * max(KEYS)
    )
    function = fresh(work)
    table, ours = {key: closure(function) for key in keys}, guard(function)
    for key in keys:
        ours(key)
    return [
        Subject(f"keys {size}", TABLE, functools.partial(fresh(_table_loop), table, keys)),
        Subject(f"keys {size}", OURS, functools.partial(fresh(_key_loop), ours, keys)),
    ]


def _itself(key: str) -> str:
    return key


def _key_loop(call: Callable[[str], object], keys: list[str], count: int) -> int:
    turns = islice(cycle(keys), count)
    started = perf_counter_ns()
    for key in turns:
        call(key)
    return perf_counter_ns() - started


def _table_loop(table: dict[str, Callable[[str], object]], keys: list[str], count: int) -> int:
    turns = islice(cycle(keys), count)
    started = perf_counter_ns()
    for key in turns:
        table[key](key)
    return perf_counter_ns() - started


def thread_subjects() -> list[Subject]:
    """Return, for each number of threads, one breaker under all of them and a closure beside it."""
    guard = breakerkit.breaker("benchmark-threads", registry=breakerkit.Registry())
    return [
        Subject(f"threads {size}", name, functools.partial(_threaded, size, call), weight=5)
        for size in THREADS
        for name, call in ((CLOSURE, closure(fresh(work))), (OURS, guard(fresh(work))))
    ]


def _threaded(threads: int, call: Callable[[int], object], count: int) -> int:
    """Share ``count`` calls among threads and scale the wall time to exactly ``count``."""
    share = -(-count // threads)
    line = threading.Barrier(threads)
    spans: list[tuple[int, int]] = []

    def busy() -> None:
        loop = fresh(function_loop)
        line.wait()
        started = perf_counter_ns()
        loop(call, share)
        spans.append((started, perf_counter_ns()))

    crew = [threading.Thread(target=busy) for _ in range(threads)]
    for member in crew:
        member.start()
    for member in crew:
        member.join()
    wall = max(end for _, end in spans) - min(start for start, _ in spans)
    return round(wall * count / (share * threads))


def memory(breakers: int = BREAKERS) -> dict[str, float]:
    """Return the bytes of one breaker in a registry, with a config of its own and a shared one."""
    shared = breakerkit.BreakerConfig(failure_threshold=3)
    window = breakerkit.BreakerConfig(window_size=100, failure_rate_threshold=50, minimum_calls=10)
    return {
        "own config": _bytes_each(breakers, lambda: {"failure_threshold": 3}),
        "shared config": _bytes_each(breakers, lambda: {"config": shared}),
        "shared config, count window": _bytes_each(breakers, lambda: {"config": window}),
    }


def _bytes_each(breakers: int, settings: Callable[[], dict[str, Any]]) -> float:
    registry = breakerkit.Registry()
    breakerkit.breaker("the first one pays for what all share", registry=registry, **settings())
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(breakers):
            breakerkit.breaker(f"b{number}", registry=registry, **settings())
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / breakers


_ALONE = """
import json, sys
from time import perf_counter_ns
known, started = set(sys.modules), perf_counter_ns()
import breakerkit
taken = perf_counter_ns() - started
print(json.dumps([taken, sorted(set(sys.modules) - known)]))
"""
_ON_TOP = "import wrapt, attrs\n" + _ALONE


def import_time(rounds: int) -> Imports:
    """Time ``import breakerkit``, each time in a new interpreter, its bytecode in a cache."""
    alone: list[float] = []
    on_top: list[float] = []
    with tempfile.TemporaryDirectory() as cache:
        _, modules = _imported(_ALONE, cache)  # not timed: it has the bytecode to write
        for _ in range(rounds):
            alone.append(_imported(_ALONE, cache)[0])
            on_top.append(_imported(_ON_TOP, cache)[0])
    strangers = {stranger for name in modules if (stranger := _stranger(name))}
    return Imports(spread(alone), spread(on_top), tuple(sorted(strangers)))


def _imported(program: str, cache: str) -> tuple[float, list[str]]:
    """Return the milliseconds an import took, and the modules it brought in."""
    command = [sys.executable, "-c", program]
    # An installed package has its bytecode beside it; a checkout may not be allowed to.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command, env=environment, check=True, capture_output=True, text=True
    )
    nanoseconds, modules = json.loads(done.stdout)
    return nanoseconds / 1e6, modules


def _stranger(module: str) -> str | None:
    top = module.partition(".")[0]
    welcome = top in {"breakerkit", "wrapt", "attr", "attrs"} or top in sys.stdlib_module_names
    return None if welcome and top != "asyncio" else top
