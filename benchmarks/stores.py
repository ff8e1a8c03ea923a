"""Cache hits by where the value is: in a store of this process that grows, and in a Valkey beside one bare GET."""

from __future__ import annotations

import atexit
import functools
import tempfile
from contextlib import ExitStack
from itertools import cycle, islice, repeat
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import breakerkit
from benchmarks.harness import Subject
from benchmarks.shapes import fresh, function_loop, work
from benchmarks.subjects import AN_HOUR, OURS
from breakerkit.cli._child import ServiceDiedError
from breakerkit.cli._options import UsageError
from breakerkit.cli.staleness._valkey import Valkey, find_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENTRIES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
#: What a hit in a Valkey is held against: one round trip of the same client.
BARE_GET = "bare GET"
#: Keys that are asked for, spread over all that are stored: visiting a million would
#: measure the processor's caches.
_ASKED = 10


class Skipped(Exception):  # noqa: N818 - no error: it is said in the report
    """Say why something cannot be measured here."""


def entry_subjects(sizes: Sequence[int] = ENTRIES) -> list[Subject]:
    """Return a subject for each number of values in the memory store: hits."""
    return [_filled(size) for size in sizes]


def _filled(size: int) -> Subject:
    cache = breakerkit.stale_if_error(
        f"benchmark-entries-{size}",
        registry=breakerkit.Registry(),
        refresh_after=AN_HOUR,
        max_stale=AN_HOUR,
        store=breakerkit.MemoryStore(max_entries=size),
    )
    call = cache(fresh(work))
    for number in range(size):
        cache.put(f"host-{number}", number)
    step = max(1, size // _ASKED)
    asked = [f"host-{number}" for number in range(0, size, step)][:_ASKED]
    return Subject("entries", str(size), functools.partial(fresh(_key_loop), call, asked))


def _key_loop(call: Callable[[str], object], keys: list[str], count: int) -> int:
    turns = islice(cycle(keys), count)
    started = perf_counter_ns()
    for key in turns:
        call(key)
    return perf_counter_ns() - started


def valkey_subjects() -> list[Subject]:
    """Return a hit through `RedisStore` and one GET of the same client, on a server of their own.

    Raises:
        Skipped: there is no server, or no client.
    """
    try:
        server = find_server()
    except UsageError as why:
        raise Skipped(str(why).rpartition("error: ")[2]) from None
    import redis  # noqa: PLC0415 - an extra, and there by now

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="breakerkit-")))
        try:
            valkey = stack.enter_context(Valkey(server, folder))
        except ServiceDiedError as why:
            raise Skipped(str(why)) from None
        client = stack.enter_context(redis.Redis.from_url(valkey.url))
        made = _hits(client)
        atexit.register(stack.pop_all().close)
    return made


def _hits(client: Any) -> list[Subject]:
    cache = breakerkit.stale_if_error(
        "benchmark-valkey",
        registry=breakerkit.Registry(),
        refresh_after=AN_HOUR,
        max_stale=AN_HOUR,
        store=breakerkit.RedisStore(client),
    )
    call = cache(fresh(work))
    call(1)
    client.set("bare", 1)  # as small a value
    if cache.info().store_lost or call(1) != 1 or cache.info().hits != 1:
        raise Skipped("the value was not stored")
    bare = functools.partial(fresh(_get_loop), client.get, "bare")
    ours = functools.partial(fresh(function_loop), call)
    return [
        Subject("valkey-hit", BARE_GET, bare, weight=5),
        Subject("valkey-hit", OURS, ours, weight=5),
    ]


def _get_loop(get: Callable[[str], object], key: str, count: int) -> int:
    turns = repeat(None, count)
    started = perf_counter_ns()
    for _ in turns:
        get(key)
    return perf_counter_ns() - started
