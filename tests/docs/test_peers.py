"""What README.md and docs/moving-over.md say of other libraries, where these are installed."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # what a peer warns of is not ours


async def raises(error):
    raise error


async def yields_to_the_loop(ran):
    ran.append(1)
    await asyncio.sleep(0)


async def passes_on(function, *args):
    await function(*args)


async def ten_at_once(call):
    """Return how many of ten calls at once got inside."""
    ran = []
    await asyncio.gather(*(call(yields_to_the_loop, ran) for _ in range(10)))
    return len(ran)


@pytest.fixture
def pybreaker():
    return pytest.importorskip("pybreaker")


@pytest.fixture
def circuitbreaker():
    return pytest.importorskip("circuitbreaker")


@pytest.fixture
def aiobreaker():
    return pytest.importorskip("aiobreaker")


def test_pybreaker_runs_one_call_at_a_time(pybreaker):
    """pybreaker holds its lock while the function runs, so a second call waits."""
    breaker, inside, leave, second = (
        pybreaker.CircuitBreaker(), threading.Event(), threading.Event(), threading.Event()
    )  # fmt: skip

    def first():
        inside.set()
        leave.wait(10)

    threads = [threading.Thread(target=breaker.call, args=(call,)) for call in (first, second.set)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    assert not breaker._lock.acquire(blocking=False)
    assert not second.is_set()
    leave.set()
    for thread in threads:
        thread.join(10)
    assert second.is_set()


def test_pybreaker_replaces_the_error_that_opens_it(pybreaker):
    """By default the caller whose call opens a pybreaker gets CircuitBreakerError."""
    with pytest.raises(pybreaker.CircuitBreakerError):
        pybreaker.CircuitBreaker(fail_max=1).call(int, "x")
    keeps = pybreaker.CircuitBreaker(fail_max=1, throw_new_error_on_trip=False)
    with pytest.raises(ValueError, match="invalid literal"):
        keeps.call(int, "x")


def test_pybreaker_takes_a_new_coroutine_for_a_success(pybreaker):
    """A failing async function never opens a pybreaker: making the coroutine is what it sees."""
    breaker = pybreaker.CircuitBreaker(fail_max=1)
    guarded = breaker(raises)
    with pytest.raises(OSError, match="down"):
        asyncio.run(guarded(OSError("down")))
    assert breaker.current_state == "closed"


def test_pybreaker_takes_an_excluded_error_for_a_success(pybreaker):
    """`exclude` clears the count of failures, as `success_on` does and `ignore_on` does not."""
    breaker = pybreaker.CircuitBreaker(exclude=[KeyError])
    with pytest.raises(ValueError, match="invalid literal"):
        breaker.call(int, "x")
    assert breaker.fail_counter == 1
    with pytest.raises(KeyError):
        breaker.call({}.__getitem__, "x")
    assert breaker.fail_counter == 0


def test_circuitbreaker_lets_any_number_probe(circuitbreaker):
    """Every call is let in once the period of a circuitbreaker is over."""
    breaker = circuitbreaker.CircuitBreaker(failure_threshold=1, recovery_timeout=30, name="p")

    async def story():
        with pytest.raises(OSError, match="down"):
            await breaker(raises)(OSError("down"))
        breaker._opened -= 31
        assert breaker.state == circuitbreaker.STATE_HALF_OPEN
        return await ten_at_once(breaker(passes_on))

    assert asyncio.run(story()) == 10


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyError("x")])
def test_circuitbreaker_takes_other_errors_for_successes(circuitbreaker, error):
    """What is not an `expected_exception` clears the count, a cancelled task included."""
    breaker = circuitbreaker.CircuitBreaker(expected_exception=OSError, name="q")

    async def story():
        with pytest.raises(OSError, match="down"):
            await breaker(raises)(OSError("down"))
        assert breaker.failure_count == 1
        with pytest.raises(type(error)):
            await breaker(raises)(error)

    asyncio.run(story())
    assert breaker.failure_count == 0


def test_circuitbreaker_counts_in_a_with_block_and_rejects_nothing(circuitbreaker):
    """A `with` block is entered though the circuitbreaker is open."""
    breaker = circuitbreaker.CircuitBreaker(failure_threshold=1, name="r")
    with pytest.raises(OSError, match="down"), breaker:
        raise OSError("down")
    assert breaker.opened
    with breaker:
        entered = True
    assert entered


def test_aiobreaker_lets_any_number_probe(aiobreaker):
    """Every call is let in once the period of an aiobreaker is over."""
    breaker = aiobreaker.CircuitBreaker(fail_max=1, timeout_duration=timedelta(seconds=30))

    async def story():
        with pytest.raises(aiobreaker.CircuitBreakerError) as caught:
            await breaker.call_async(raises, OSError("down"))
        assert isinstance(caught.value.__cause__, OSError)
        breaker._state_storage.opened_at -= timedelta(seconds=31)
        return await ten_at_once(breaker.call_async)

    assert asyncio.run(story()) == 10


def test_aiobreaker_takes_an_async_generator_for_a_success(aiobreaker):
    """A failing async generator never opens an aiobreaker."""
    breaker = aiobreaker.CircuitBreaker(fail_max=1)

    @breaker
    async def stream():
        yield 1
        raise OSError("down")

    async def story():
        with pytest.raises(OSError, match="down"):
            _ = [item async for item in stream()]

    asyncio.run(story())
    assert breaker.current_state is aiobreaker.CircuitBreakerState.CLOSED


def test_aiobreaker_takes_a_cancelled_task_for_no_evidence(aiobreaker):
    """A cancellation leaves the count of an aiobreaker as it was."""
    breaker = aiobreaker.CircuitBreaker()

    async def story():
        with pytest.raises(OSError, match="down"):
            await breaker.call_async(raises, OSError("down"))
        with pytest.raises(asyncio.CancelledError):
            await breaker.call_async(raises, asyncio.CancelledError())

    asyncio.run(story())
    assert breaker.fail_counter == 1
