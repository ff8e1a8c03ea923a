"""Ctrl-C wherever a signal comes in, and cancellation at any opcode and await: the next call works at once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import cachetools
import pytest

from breakerkit import (
    MemoryStore,
    NoCachedValueError,
    Registry,
    State,
    breaker,
    return_value,
    stale_if_error,
)
from breakerkit._shell import _proxies  # noqa: F401  # so that its opcodes are told too
from breakerkit.stale import _starting, _waiting
from breakerkit.store.commands import Read
from breakerkit.testing import ManualClock, put_into_state
from tests.concurrency import tracing
from tests.concurrency.tracing import instrumented, interrupted, signalled
from tests.stale.rig import Down, until


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Python itself swallows one that comes in a destructor.
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    monkeypatch.setattr(_waiting, "SHORT_NAP", 0.001)
    yield
    gc.enable()


@pytest.fixture
def in_cachetools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let signals come in there too."""
    inside = tracing._inside

    def wider(filename: str, *without: Any) -> bool:
        return filename == cachetools.__file__ or inside(filename, *without)

    monkeypatch.setattr(tracing, "_inside", wider)


class Clock(ManualClock):
    """A clock that does something at one of the readings of the thread that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.do = 0, lambda: None
        self._mine = threading.get_ident()

    def now(self) -> float:
        """Return the present reading."""
        if self.left and threading.get_ident() == self._mine:
            self.left -= 1
            if not self.left:
                self.do()
        return super().now()


class World:
    """A cache around an origin that may fail, and others who call while it runs."""

    def __init__(self, *, guarded: bool = False, **settings: Any) -> None:
        self.clock, registry = Clock(), Registry()
        self.breaker = breaker("b", clock=self.clock, registry=registry)
        if guarded:
            settings["breaker"] = self.breaker
        self.store = MemoryStore(2, clock=self.clock)
        self.cache: Any = stale_if_error(
            "w", refresh_after=2, max_stale=10, jitter=0, clock=self.clock, registry=registry,
            store=self.store, **settings,
        )  # fmt: skip
        self.down, self.runs = False, 0
        #: What happens while the origin runs, once.
        self.meanwhile: Callable[[], Any] | None = None
        self.threads: list[threading.Thread] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.got: list[Any] = []
        self.calls, self._call = 0, self.cache(self.make())

    def call(self, key: str) -> Any:
        """Make a call."""
        self.calls += 1
        return self._call(key)

    def fetch(self) -> Any:
        """Make one that tells more."""
        self.calls += 1
        return self.cache.fetch("k")

    def make(self) -> Callable[..., Any]:
        """Return the origin."""

        def load(key: str) -> str:
            self.runs += 1
            self._happen()
            if self.down:
                raise Down
            return key

        return load

    def _happen(self) -> Any:
        happens, self.meanwhile = self.meanwhile, None
        return happens and happens()

    def joined(self, count: int) -> bool:
        """Tell whether so many take part in an attempt, or there is none any more."""
        running = self.cache._guard.attempts._running
        return not running or sum(len(one._listeners) for one in running.values()) >= count

    def thread(self) -> None:
        """Let another thread call."""

        def run() -> None:
            try:
                self.got.append(self.call("k"))
            except Exception as error:
                self.got.append(error)

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def left(self) -> str | None:
        """Say what is left behind, if anything is."""
        info, guard = self.cache.info(), self.cache._guard
        if info.running or info.background:
            return f"left: {info}"
        if any(
            lock._is_owned()
            for lock in (guard.lock, guard.attempts._turn, guard.instances._lock, self.store._lock)
        ):
            return "a lock is held"
        self.store.do(Read("none"))  # whoever comes next may mend what was interrupted
        line = self.store._line
        if (
            not set(self.store.entries)
            == set(line)
            == set(line._order)
            == set(line._FIFOCache__order)
        ):
            return f"books: {set(self.store.entries)}, {set(line)}, {set(line._order)}"
        if line.currsize != len(line):
            return f"size {line.currsize} of {len(line)}"
        refused = self.cache.config.breaker is not None  # a failure without a run
        if info.calls > self.calls or info.refreshes + info.failures * (not refused) > self.runs:
            return f"{self.calls} calls, {self.runs} runs, counted: {info}"
        return None

    def well(self) -> str | None:
        """Say what is wrong once all threads have ended: what is left, or a call that does not work."""
        self.meanwhile = None
        for thread in self.threads:
            thread.join(3)
            if thread.is_alive():
                return "a thread waits for ever"
        until(lambda: not self.cache.info().background)
        if (left := self.left()) is not None:
            return left
        if len(self.got) != len(self.threads) or not all(
            one == "k" or isinstance(one, NoCachedValueError) for one in self.got
        ):
            return f"others got {self.got}"
        if self.cache.config.breaker is not None:
            self.breaker.reset()
        self.down = False
        self.thread()
        self.threads[-1].join(3)
        if self.threads[-1].is_alive() or self.got[-1] not in {"k", "spare"}:
            return f"the next call: {self.got[-1:]}"
        # Each key, also in a store that is full.
        for key in (*"klmnok", "k"):
            self.cache.put(key, key)
        if self.cache.info().store_lost or self.store.entries.keys() != {"w:o", "w:k"}:
            return f"the store failed, or has {set(self.store.entries)}"
        return None


def miss(world: World) -> None:
    """Nothing is stored; then it is."""
    world.call("k")
    world.call("k")


def refresh(world: World) -> None:
    """A value is due."""
    world.call("k")
    world.clock.advance(2)
    world.call("k")


def stale(world: World) -> None:
    """A value is due, and the origin fails."""
    world.call("k")
    world.clock.advance(2)
    world.down = True
    world.call("k")


def disaster(world: World) -> None:
    """The origin fails, and there is nothing to serve."""
    world.down = True
    with contextlib.suppress(NoCachedValueError):
        world.call("k")


def commands(world: World) -> None:
    """What is there is told of."""
    world.cache.put("k", "k")
    world.cache.invalidate("k")
    world.cache.evict("k")
    world.cache.put("k", "k")
    world.cache.invalidate_all()
    world.cache.evict_all()


def full(world: World) -> None:
    """Values make others go, and are put again."""
    for key in "klmm":
        world.cache.put(key, key)


def fetch(world: World) -> None:
    """Fetch a fresh value, a cached one, and a stale one after new settings."""
    world.fetch()
    world.fetch()
    world.cache.reconfigure(refresh_after=1)
    world.clock.advance(2)
    world.down = True
    world.fetch()


def waits(world: World) -> None:
    """Another thread loads, and ends at the sixth look at the clock."""
    inside, leave = threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        leave.wait(5)

    def end() -> None:
        leave.set()
        world.threads[0].join(5)

    world.meanwhile = slow
    world.thread()
    inside.wait(5)
    world.clock.left, world.clock.do = 6, end
    try:
        world.call("k")
    finally:
        world.clock.left = 0
        leave.set()


def leads(world: World) -> None:
    """Two others wait for the value."""

    def others() -> None:
        world.thread()
        world.thread()
        until(lambda: world.joined(2))

    world.meanwhile = others
    world.call("k")


def leads_to_nothing(world: World) -> None:
    """Two others wait, and the origin fails."""
    world.down = True
    with contextlib.suppress(NoCachedValueError):
        leads(world)


def probe(world: World) -> None:
    """The attempt is the probe of a breaker."""
    world.call("k")
    world.clock.advance(2)
    put_into_state(world.breaker, State.HALF_OPEN)
    world.call("k")


def refused(world: World) -> None:
    """The breaker is open."""
    world.call("k")
    world.clock.advance(2)
    put_into_state(world.breaker, State.OPEN)
    world.call("k")


def faults(make: Callable[[], World], act: Callable[[World], None]) -> Iterator[tuple[Any, ...]]:
    """Press Ctrl-C at each place in turn."""
    for step in itertools.count(1):
        world, places = make(), []
        gc.disable()
        try:
            with signalled(step) as places:
                act(world)
        except KeyboardInterrupt:
            pass
        gc.enable()
        if (fault := world.well()) is not None:
            yield step, places, fault
        if not places:
            assert step > 5
            break


BACK = {"background": True}
SPARE = {"disaster": return_value("spare")}
ACTS: list[tuple[Callable[[World], None], dict[str, Any]]] = [
    (miss, {}), (refresh, {}), (stale, {}), (disaster, {}), (commands, {}), (full, {}), (fetch, {}),
    (refresh, BACK), (stale, BACK), (disaster, SPARE), (stale, SPARE),
    (waits, {}), (leads, {}), (leads_to_nothing, {}),
    (probe, {"guarded": True}), (refused, {"guarded": True}), (probe, {"guarded": True, **BACK}),
]  # fmt: skip
_names = [f"{act.__name__}{'-'.join(('', *settings))}" for act, settings in ACTS]


@pytest.mark.parametrize(("act", "settings"), ACTS, ids=_names)
def test_ctrl_c(act: Callable[[World], None], settings: Any, in_cachetools: None) -> None:
    """Wherever it comes: nothing is left, nobody waits for ever, the store is whole, the next call works at once."""
    assert list(faults(lambda: World(**settings), act)) == []


# -- tasks -----------------------------------------------------------------------------


class Loop(World):
    """The same in one event loop, with an origin that awaits."""

    def make(self) -> Callable[..., Any]:
        """Return the origin."""

        async def load(key: str) -> str:
            self.runs += 1
            await asyncio.sleep(0)
            self._happen()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if self.down:
                raise Down
            return key

        return load

    def task(self) -> None:
        """Let another task call."""
        self.tasks.append(asyncio.create_task(self.call("k")))

    async def well_later(self) -> str | None:
        """Say what is wrong once the other tasks have ended."""
        self.meanwhile = None
        self.got = await asyncio.wait_for(asyncio.gather(*self.tasks, return_exceptions=True), 5)
        for _ in range(30):
            await asyncio.sleep(0)
        if not all(one == "k" or isinstance(one, NoCachedValueError) for one in self.got):
            return f"others got {self.got}"
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks or _starting._tasks:
            return f"tasks: {tasks}, {_starting._tasks}"
        if self.store._open:
            return f"the store waits for {self.store._tickets.keys()}"
        if self.breaker.snapshot().probes_active:
            return "a probe has not come back"
        if (left := self.left()) is not None:
            return left
        self.down = False
        self.breaker.reset()
        runs = self.runs
        value = await asyncio.wait_for(self.call("k"), 5)
        if value not in {"k", "spare"} or self.runs > runs + 1:
            return f"the next call: {value}, {self.runs - runs} runs"
        return self.left()


async def miss_later(world: Loop) -> None:
    """Nothing is stored; then it is."""
    await world.call("k")
    await world.call("k")


async def refresh_later(world: Loop) -> None:
    """A value is due."""
    world.cache.put("k", "k")
    world.clock.advance(2)
    await world.call("k")


async def stale_later(world: Loop) -> None:
    """A value is due, and the origin fails."""
    world.down = True
    await refresh_later(world)


async def soft(world: Loop) -> None:
    """The origin takes longer than one waits."""
    world.meanwhile = lambda: world.clock.advance(1)
    await refresh_later(world)


async def disaster_later(world: Loop) -> None:
    """The origin fails, and there is nothing to serve."""
    world.down = True
    with contextlib.suppress(NoCachedValueError):
        await world.call("k")


async def waits_later(world: Loop) -> None:
    """Two others load, or wait too."""
    world.task()
    world.task()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await world.call("k")


async def leads_later(world: Loop) -> None:
    """Two others come while this one loads."""
    world.meanwhile = lambda: (world.task(), world.task())
    await world.call("k")


async def leads_to_nothing_later(world: Loop) -> None:
    """Two others come, and the origin fails."""
    world.down = True
    with contextlib.suppress(NoCachedValueError):
        await leads_later(world)


async def told_meanwhile(world: Loop) -> None:
    """The key is told of while it is loaded, and two others come then."""

    def tell() -> None:
        world.task()
        world.cache.evict("k")
        world.task()

    world.meanwhile = tell
    await world.call("k")


async def commands_later(world: Loop) -> None:
    """What is there is told of, awaited."""
    await world.cache.put_async("k", "k")
    await world.cache.invalidate_async("k")
    await world.cache.evict_async("k")
    await world.cache.invalidate_all_async()
    await world.cache.evict_all_async()


async def fetch_later(world: Loop) -> None:
    """Fetch a fresh value, and a stale one after new settings."""
    await world.fetch()
    world.cache.reconfigure(refresh_after=1)
    world.clock.advance(2)
    world.down = True
    await world.fetch()


async def probe_later(world: Loop) -> None:
    """The attempt is the probe of a breaker."""
    put_into_state(world.breaker, State.HALF_OPEN)
    await refresh_later(world)


async def first_probe(world: Loop) -> None:
    """The same with nothing stored."""
    put_into_state(world.breaker, State.HALF_OPEN)
    await world.call("k")


async def refused_later(world: Loop) -> None:
    """The breaker is open."""
    put_into_state(world.breaker, State.OPEN)
    await refresh_later(world)


Act = Callable[[Loop], Awaitable[None]]
GUARDED = {"guarded": True}
LATER: list[tuple[Act, dict[str, Any]]] = [
    (miss_later, {}), (refresh_later, {}), (refresh_later, BACK), (stale_later, {}),
    (stale_later, BACK), (soft, {"soft_timeout": 0.5}), (disaster_later, {}), (disaster_later, SPARE),
    (waits_later, {}), (leads_later, {}), (leads_to_nothing_later, {}), (told_meanwhile, {}),
    (commands_later, {}), (fetch_later, {}), (probe_later, GUARDED), (first_probe, GUARDED),
    (probe_later, {**GUARDED, **BACK}), (refused_later, GUARDED),
]  # fmt: skip
_laters = [f"{act.__name__}{'-'.join(('', *settings))}" for act, settings in LATER]
over_later = pytest.mark.parametrize(("act", "settings"), LATER, ids=_laters)


async def cancelled_at(
    world: Loop, act: Act, step: int, by: Callable[[asyncio.Task[Any]], Any]
) -> bool:
    """Do ``by`` at an opcode of the package, whichever task is there; tell whether there was one."""
    happened = False

    def go() -> None:
        nonlocal happened
        happened = True
        by(task)

    task = asyncio.ensure_future(act(world))
    with interrupted(step, go), contextlib.suppress(asyncio.CancelledError):
        await task
    return happened


def twice(task: asyncio.Task[Any]) -> None:
    """Cancel, and once more a little later."""
    task.cancel()
    asyncio.get_running_loop().call_soon(task.cancel)


@over_later
async def test_cancelled_at_any_opcode(act: Act, settings: Any) -> None:
    """Wherever the loop is when a caller is cancelled: nothing is left, others get their value, the next call works."""
    with instrumented():
        for step in itertools.count(1, 5):
            world = Loop(**settings)
            happened = await cancelled_at(world, act, step, asyncio.Task.cancel)
            assert await world.well_later() is None, step
            if not happened:
                break


@over_later
async def test_cancelled_twice(act: Act, settings: Any) -> None:
    """So it is with a second cancellation that comes while the first is on its way."""
    with instrumented():
        for step in itertools.count(1, 11):
            world = Loop(**settings)
            happened = await cancelled_at(world, act, step, twice)
            assert await world.well_later() is None, step
            if not happened:
                break


@over_later
async def test_all_are_cancelled(act: Act, settings: Any) -> None:
    """When everybody goes, at any turn of the loop, nothing runs any more."""
    for turns in range(40):
        world = Loop(**settings)
        task = asyncio.ensure_future(act(world))
        for _ in range(turns):
            await asyncio.sleep(0)
        over = task.done()
        for one in (task, *world.tasks):
            one.cancel()
        await asyncio.gather(task, *world.tasks, return_exceptions=True)
        world.tasks.clear()
        assert await world.well_later() is None, turns
        if over:
            break


@over_later
async def test_closed(act: Act, settings: Any) -> None:
    """A coroutine that is closed at any of its awaits leaves nothing either."""
    for awaits in range(40):
        world = Loop(**settings)
        one: Any = act(world)
        over = False
        for _ in range(awaits):
            try:
                waited = one.send(None)
            except StopIteration:
                over = True
                break
            if waited is not None:
                waited._asyncio_future_blocking = False
                await asyncio.wait([waited])
            else:
                await asyncio.sleep(0)
        one.close()
        assert await world.well_later() is None, awaits
        if over:
            break
    assert over
