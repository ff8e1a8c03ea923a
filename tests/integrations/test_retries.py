"""tenacity and stamina around and inside of policies: who retries what, and how long it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import stamina
import tenacity

from breakerkit import (
    BulkheadFullError,
    CallCancelledError,
    CancelSignal,
    CircuitOpenError,
    ConfigError,
    State,
    breaker,
    pipeline,
    timeout,
)
from breakerkit.integrations._retries import wait_for, worth_retrying
from breakerkit.integrations.stamina import unless_rejected
from breakerkit.integrations.tenacity import (
    retry_policy,
    retry_unless_rejected,
    wait_retry_after,
)
from breakerkit.testing import ManualClock

Circuit = Callable[..., Any]
REJECTED = BulkheadFullError("db", "full", None)


class Flaky:
    """A dependency that does what it is told, call by call, then the last for ever."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.runs = 0

    def __call__(self) -> int:
        self.runs += 1
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if end is not None:
            raise end
        return self.runs


# -- what is worth it ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "plain", "with_rejections"),
    [
        (OSError(), True, True),
        (ValueError(), False, False),
        (REJECTED, False, True),
        (KeyboardInterrupt(), False, False),
        (GeneratorExit(), False, False),
        (ExceptionGroup("g", [OSError(), ValueError()]), True, True),
        (ExceptionGroup("g", [REJECTED, ExceptionGroup("h", [REJECTED])]), False, True),
        (BaseExceptionGroup("g", [OSError(), KeyboardInterrupt()]), False, False),
    ],
)
def test_what_is_retried(error: BaseException, plain: bool, with_rejections: bool) -> None:
    """Listed errors are, rejections where asked for, cancellations and interrupts never."""
    assert worth_retrying(error, OSError, rejections=False) is plain
    assert worth_retrying(error, (OSError,), rejections=True) is with_rejections
    by_predicate = worth_retrying(error, lambda e: isinstance(e, OSError), rejections=False)
    assert by_predicate is plain


def test_a_call_that_was_cancelled_before_it_began() -> None:
    """It is over: nobody wants it any more."""
    signal = CancelSignal()
    signal.cancel()
    with pytest.raises(CallCancelledError) as caught:
        pipeline().apply(Flaky(None), cancel=signal)
    assert not worth_retrying(caught.value, Exception, rejections=True)


@pytest.mark.parametrize(
    ("told", "seconds"), [(2.5, 2.5), (-1, 0.0), (None, None), ("3", None), (float("nan"), None)]
)
def test_how_long_an_error_says_to_wait(told: Any, seconds: float | None) -> None:
    """A number of seconds is believed, anything else says nothing."""
    error = OSError()
    error.retry_after = told  # type: ignore[attr-defined]  # as clients of HTTP services set it
    assert wait_for(error) == seconds
    assert wait_for(OSError()) is None


# -- tenacity ------------------------------------------------------------------------


class Naps(list[float]):
    """Sleeps that take no time."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def _retrying(naps: Naps, attempts: int = 3, **settings: Any) -> Any:
    return tenacity.retry(
        **{
            "stop": tenacity.stop_after_attempt(attempts),
            "wait": tenacity.wait_fixed(1),
            "retry": retry_unless_rejected(),
            "reraise": True,
            "sleep": naps,
            **settings,
        }
    )


def test_retry_outside(circuit: Circuit) -> None:
    """Every attempt counts; when it opens the rest is rejected, at once and without waiting (C055)."""
    db = circuit("db", failure_threshold=5)
    naps = Naps()
    for _ in range(2):
        flaky = Flaky(OSError(), OSError(), None)
        assert _retrying(naps)(db(flaky))() == 3
    assert (db.snapshot().failures, db.snapshot().consecutive_failures) == (4, 0)
    db.reset()
    dead = Flaky(OSError())
    guarded = _retrying(naps)(db(dead))
    for expected in (
        OSError,
        CircuitOpenError,
        CircuitOpenError,
        CircuitOpenError,
        CircuitOpenError,
    ):
        with pytest.raises(expected):
            guarded()
    assert (dead.runs, db.state) == (5, State.OPEN)


def test_retry_inside(circuit: Circuit) -> None:
    """The breaker sees one call whatever the attempts (C055)."""
    db = circuit("db", failure_threshold=5)
    naps = Naps()
    for _ in range(2):
        assert db(_retrying(naps)(Flaky(OSError(), OSError(), None)))() == 3
    assert db.snapshot().failures == 0
    dead = Flaky(OSError())
    guarded = db(_retrying(naps)(dead))
    for _ in range(5):
        with pytest.raises(OSError):
            guarded()
    assert (dead.runs, db.state) == (15, State.OPEN)


def test_an_open_breaker_is_asked_once(circuit: Circuit, clock: ManualClock) -> None:
    """Five tries a second apart around an open breaker: one rejection, no waiting (C056)."""
    db = circuit("db", failure_threshold=1, open_duration=60)
    naps = Naps()
    guarded = _retrying(naps, 5)(db(Flaky(OSError())))
    with pytest.raises(CircuitOpenError):
        guarded()
    assert naps == [1.0]
    with pytest.raises(CircuitOpenError):
        guarded()
    assert (naps, db.snapshot().rejected) == ([1.0], 2)


def test_a_job_may_wait_until_it_half_opens(circuit: Circuit, clock: ManualClock) -> None:
    """With ``rejections`` a refused call is made again after its ``retry_after``, no sooner."""
    db = circuit("db", failure_threshold=1, open_duration=10)
    waits: list[float] = []

    def nap(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    flaky = Flaky(OSError(), None)
    guarded = _retrying(
        Naps(),
        retry=retry_unless_rejected(rejections=True),
        wait=wait_retry_after(tenacity.wait_fixed(1)),
        sleep=nap,
    )(db(flaky))
    assert guarded() == 2
    assert waits == [1.0, 9.0]


def test_waits_have_a_limit() -> None:
    """A ``retry_after`` of an hour is cut to ``maximum``; an error that says nothing waits as told."""
    state: Any = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    error = OSError()
    error.retry_after = 3600.0  # type: ignore[attr-defined]  # as clients set it
    state.set_exception((OSError, error, None))
    assert wait_retry_after(maximum=5)(state) == 5
    state.set_exception((OSError, OSError(), None))
    assert wait_retry_after(tenacity.wait_fixed(2))(state) == 2
    assert wait_retry_after()(state) == 0
    state.set_result(7)
    assert wait_retry_after(tenacity.wait_fixed(2))(state) == 2
    assert retry_unless_rejected()(state) is False


async def test_retry_policy_in_a_pipeline(circuit: Circuit) -> None:
    """As a policy it stands in a pipeline, sync and async, and re-raises the last error itself."""
    naps = Naps()

    async def anap(seconds: float) -> None:
        naps.append(seconds)

    wait = tenacity.wait_fixed(1)
    both = pipeline(
        retry_policy("again", wait=wait, sleep=naps), circuit("db", failure_threshold=9)
    )
    assert both.call(Flaky(OSError(), OSError(), None)) == 3
    error = OSError()
    with pytest.raises(OSError) as caught:
        both.call(Flaky(error))
    assert caught.value is error
    flaky = Flaky(OSError(), None)

    @pipeline(retry_policy("again", wait=wait, sleep=anap), circuit("adb"))
    async def work() -> int:
        return flaky()

    assert await work() == 2
    assert naps == [1.0] * 5


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: retry_policy("r", attempts=0), "attempts=0: must be an int of at least 1"),
        (lambda: retry_policy("r", attempts="3"), "attempts='3': must be"),  # type: ignore[arg-type]  # that is wrong
        (lambda: retry_policy("r", retry=tenacity.retry_always), "retry=.*: say what is retried"),
        (lambda: retry_policy("r", wait=1), "wait=1: must be a wait of tenacity's"),
        (lambda: retry_policy("r", on="x"), "on='x': must be exception types, or a predicate"),  # type: ignore[arg-type]  # likewise
        (lambda: retry_unless_rejected(3), "on=3: must be"),  # type: ignore[arg-type]  # likewise
        (lambda: unless_rejected(("x",)), "must be exception types"),  # type: ignore[arg-type]  # likewise
    ],
)
def test_wrong_settings(make: Callable[[], Any], text: str) -> None:
    """What is wrong is said when the retry is made, not when the first call fails."""
    with pytest.raises(ConfigError, match=text):
        make()


def test_a_retry_that_wraps_its_last_error() -> None:
    """It says so to whoever looks at the order of a pipeline."""
    assert retry_policy("r").raises == ()
    assert retry_policy("r", reraise=False).raises == (tenacity.RetryError,)


def test_the_usual_wait_is_short() -> None:
    """Without ``wait`` it waits between a tenth of a second and five, growing."""
    naps = Naps()
    with pytest.raises(OSError):
        retry_policy("again", attempts=4, sleep=naps)(Flaky(OSError()))()
    assert len(naps) == 3
    assert all(0.1 <= nap <= 5 for nap in naps)


# -- stamina ---------------------------------------------------------------------------


@pytest.fixture
def _no_waiting() -> Any:
    with stamina.set_testing(True, attempts=3):
        yield


@pytest.mark.usefixtures("_no_waiting")
def test_stamina_outside_and_inside() -> None:
    """With the hook stamina spares rejections; inside of the breaker all attempts are one call (C055)."""
    db = breaker("db", failure_threshold=5)
    dead = Flaky(OSError())
    guarded = stamina.retry(on=unless_rejected(OSError), attempts=3)(db(dead))
    for expected in (OSError, CircuitOpenError, CircuitOpenError):
        with pytest.raises(expected):
            guarded()
    assert (dead.runs, db.state) == (5, State.OPEN)
    inner = breaker("inner", failure_threshold=5)
    dead = Flaky(OSError())
    guarded = inner(stamina.retry(on=unless_rejected(OSError), attempts=3)(dead))
    for _ in range(5):
        with pytest.raises(OSError):
            guarded()
    assert (dead.runs, inner.state) == (15, State.OPEN)


def test_what_the_hook_answers() -> None:
    """No for what is not to be retried, the seconds an error says, else yes."""
    error = OSError()
    error.retry_after = 4  # type: ignore[attr-defined]  # as clients set it
    hook = unless_rejected(OSError)
    assert (hook(ValueError()), hook(REJECTED), hook(OSError()), hook(error)) == (
        False,
        False,
        True,
        4,
    )
    error.retry_after = 0  # type: ignore[attr-defined]  # as clients set it
    assert hook(error) is True
    rejected = CircuitOpenError("db", "x", 3.0, None)  # type: ignore[arg-type]  # no matter when
    assert unless_rejected(rejections=True)(rejected) == 3.0


# -- the time that is left ----------------------------------------------------------------


def test_a_wait_beyond_the_deadline(clock: ManualClock):
    """A retry inside a limit does not wait for a call that would begin too late: the last error at once."""
    slept: list[float] = []
    again = retry_policy("again", attempts=5, wait=tenacity.wait_fixed(4), sleep=slept.append)
    limit = timeout(10, clock=clock)

    def call() -> None:
        clock.advance(2)  # the work's own time; sleeping is not done here
        raise OSError(len(slept))

    with pytest.raises(OSError, match="2"):
        pipeline(limit, again).call(call)
    assert slept == [4, 4]  # at 2 and at 4; at 6 four seconds more are too many
    with pytest.raises(OSError, match="6"):
        pipeline(again).call(call)  # with no limit: all five
    assert len(slept) == 6


def test_another_stop():
    """A ``stop`` of the user's takes the place of ``attempts``."""
    flaky = Flaky(OSError())
    stop = tenacity.stop_after_attempt(2)
    with pytest.raises(OSError, match="^$"):
        pipeline(retry_policy("again", stop=stop, wait=tenacity.wait_none())).call(flaky)
    assert flaky.runs == 2


def test_what_an_error_tells_beyond_the_deadline(clock: ManualClock):
    """An error that says to wait longer than there is time is not retried, nor is anything after the deadline."""
    told = BulkheadFullError("db", "full", 5.0)
    hook = unless_rejected(OSError, rejections=True)
    with timeout(6, clock=clock).guard():
        assert hook(told) == 5.0
        assert hook(OSError()) is True
        clock.advance(1)
        assert hook(told) is False
        assert hook(OSError()) is True
        clock.advance(5)
        assert hook(OSError()) is False


def test_a_signal_that_is_set():
    """Once the signal of the calls around is set, nothing is called again."""
    signal = CancelSignal()
    runs: list[int] = []

    def call() -> None:
        runs.append(1)
        signal.cancel()
        raise OSError("down")

    with pytest.raises(OSError, match="down"):
        pipeline(retry_policy("again", wait=tenacity.wait_none())).apply(call, cancel=signal)
    assert runs == [1]
