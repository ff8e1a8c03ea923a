"""What a pipeline says of its order, and where it warns."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from breakerkit import (
    ConfigError,
    Finding,
    PipelineWarning,
    as_policy,
    breaker,
    bulkhead,
    fallback,
    pipeline,
    stale_if_error,
    timeout,
)
from breakerkit.integrations.tenacity import retry_policy

Circuit = Callable[..., Any]


class RetryFailedError(Exception):
    """What a retry of somebody else's raises at last."""


def _retry(name: str = "again", *raises: type[BaseException]) -> Any:
    return as_policy(lambda function: function, name=name, kind="retry", raises=raises)


def _quiet(*policies: Any, name: str | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PipelineWarning)
        return pipeline(*policies, name=name)


def test_explain(circuit: Circuit) -> None:
    """Each policy in order, and what of the inner ones reaches it."""
    whole = _quiet(circuit("outer"), _retry("again", RetryFailedError), circuit("db"), name="whole")
    assert str(whole) == whole.explain()
    assert whole.explain().splitlines() == [
        "pipeline 'whole', outermost first:",
        "1. breaker 'outer': rejects calls while the dependency is down",
        "   sees values and errors of the function",
        "   sees RetryFailedError of retry 'again', which it judges like any error",
        "   sees CircuitOpenError of breaker 'db', which is no evidence",
        "2. retry 'again': calls again what failed",
        "   sees values and errors of the function",
        "   sees CircuitOpenError of breaker 'db'",
        "3. breaker 'db': rejects calls while the dependency is down",
        "   sees values and errors of the function",
    ]
    assert pipeline(name="empty").explain() == "pipeline 'empty': no policies, calls just run"


def test_explain_what_a_fallback_hides(circuit: Circuit) -> None:
    """Outside of a fallback only its answers are seen."""
    whole = _quiet(circuit("db"), fallback("x", name="cure"), _retry("again", RetryFailedError))
    text = whole.explain()
    assert "1. breaker 'db'" in text
    assert "   sees the answers of fallback 'cure' in place of errors further inside" in text
    assert "RetryFailedError" in text.split("2. ")[1]
    assert "RetryFailedError" not in text.split("2. ")[0]


def test_explain_a_stranger(circuit: Circuit) -> None:
    """A policy of another library is shown with what it says of itself."""
    assert (
        "1. policy 'x': another library's policy"
        in pipeline(as_policy(lambda function: function, name="x"), circuit("db")).explain()
    )


def _checked(*policies: Any) -> list[Finding]:
    return list(_quiet(*policies).check())


def test_a_good_order_has_no_findings(circuit: Circuit) -> None:
    """Fallback, breaker, timeout is the usual order: nothing to say, no warning."""
    whole = pipeline(fallback("x", name="cure"), circuit("db"), timeout(2.0, name="limit"))
    assert whole.check() == ()


def test_a_breaker_outside_of_a_fallback(circuit: Circuit) -> None:
    """A breaker that only sees the fallback's answers never opens."""
    [finding] = _checked(circuit("db"), fallback("x", name="cure"))
    assert (finding.outer, finding.inner) == ("breaker 'db'", "fallback 'cure'")
    assert "never opens" in finding.problem
    assert finding.better == "fallback 'cure' outside of breaker 'db'"


def test_a_warning_at_build(circuit: Circuit) -> None:
    """What `check` finds is warned of when the pipeline is made."""
    with pytest.warns(PipelineWarning, match="'whole': breaker 'db' around fallback 'cure': .*"):
        pipeline(circuit("db"), fallback("x", name="cure"), name="whole")


def test_a_retry_that_wraps_refusals(circuit: Circuit) -> None:
    """A breaker would count refusals that a retry wraps in an error of its own."""
    [finding] = _checked(circuit("db"), _retry("again", RetryFailedError))
    assert "counts refusals as failures" in finding.problem
    assert "reraise=True" in finding.better
    assert _checked(circuit("db"), _retry("again")) == []


def test_a_timeout_that_never_comes_first() -> None:
    """A limit inside of a shorter one is of no use; a shorter one inside is."""
    [finding] = _checked(timeout(1.0, name="short"), timeout(2.0, name="long"))
    assert "2 s inside of 1 s" in finding.problem
    assert _checked(timeout(2.0, name="long"), timeout(1.0, name="short")) == []


def test_a_fallback_to_the_same_dependency() -> None:
    """A cure that goes through the breaker it stands in for has no answer when that is open."""
    db = breaker("db")

    @db
    def other_query(_: Any) -> int:
        return 1

    [finding] = _checked(fallback(other_query, name="cure"), db)
    assert "goes through breaker 'db' too" in finding.problem
    assert _checked(fallback(other_query, name="cure"), breaker("other")) == []


def test_a_retry_outside_of_a_breaker(circuit: Circuit) -> None:
    """A retry that calls again what an open breaker refuses is told; one that spares it is not."""
    [finding] = _checked(_retry("again"), circuit("db"))
    assert "what breaker 'db' has just refused with CircuitOpenError" in finding.problem
    assert _checked(retry_policy("again"), circuit("db")) == []
    assert len(_checked(retry_policy("again", rejections=True), circuit("db"))) == 1
    assert _checked(circuit("db"), _retry("again")) == []


def test_what_stands_around_a_cache(circuit: Circuit) -> None:
    """What refuses calls belongs inside of a cache, and so does nothing that makes values up."""
    cache = stale_if_error("prices")
    assert pipeline(fallback(0), cache, circuit("db"), bulkhead(), timeout(1)).check() == ()
    (blind,) = _quiet(circuit("db"), cache).check()
    assert blind.problem == (
        "while it is open it refuses values that are stored as well, and stale answers look like"
        " successes to it"
    )
    assert blind.better == "stale_if_error 'prices' outside of breaker 'db'"
    (full,) = _quiet(bulkhead("slots"), cache).check()
    assert full.problem == "when it is full it refuses values that are stored as well"
    (stored,) = _quiet(cache, fallback(0, name="zero")).check()
    assert "stored as if the origin had given them" in stored.problem
    assert "serves the last good value" in _quiet(cache, name="one").explain()


def test_a_finding_is_a_sentence() -> None:
    """Printed it says who stands around whom, what happens, and what is better."""
    assert str(Finding("a", "b", "nothing", "c")) == "a around b: nothing. Better: c"


def test_a_pipeline_inside(circuit: Circuit) -> None:
    """What is in a pipeline inside is explained and checked as if it stood there; it has said its own already."""
    inner = _quiet(timeout(1, name="short"), timeout(2, name="long"), fallback(1, name="cure"))
    with pytest.warns(PipelineWarning) as told:
        whole = pipeline(circuit("db"), pipeline(), inner, name="whole")
    assert ["fallback 'cure'" in str(one.message) for one in told] == [True]
    assert [one.outer for one in whole.check()] == ["breaker 'db'", "timeout 'short'"]
    assert [line[:2] for line in whole.explain().splitlines() if line[0] in "1234"] == [
        "1.", "2.", "3.", "4.",
    ]  # fmt: skip
    sees = pipeline(circuit("other"), pipeline(timeout(3, name="limit"))).explain()
    assert "CallTimeoutError of timeout 'limit', which it judges" in sees.split("2. ")[0]


def test_fetching_says_nothing_again(circuit: Circuit) -> None:
    """The warning comes where the order is written, not where a pipeline is fetched by its name."""
    made = _quiet(circuit("db"), fallback(1, name="cure"), name="whole")
    assert pipeline(name="whole") is made


def test_a_foreign_kind(circuit: Circuit) -> None:
    """A policy of another library's whose kind is no word is known by its class."""
    odd = _retry()
    odd.kind = 5
    guarded = pipeline(odd, circuit("db"))(lambda text: len(text))
    assert guarded("tea") == 3
    assert guarded.ForeignPolicy is odd


def test_a_bulkhead_of_processes_is_the_innermost() -> None:
    """What is inside of it cannot be sent to a process, so no call would ever run."""
    crunch = bulkhead("crunch", isolation="process")
    assert pipeline(timeout(1), crunch, name="right").policies[-1] is crunch
    with pytest.raises(ConfigError, match="must be the innermost"):
        pipeline(crunch, timeout(1))
    with pytest.raises(ConfigError, match="must be the innermost"):
        pipeline(pipeline(crunch, name="inner"), timeout(1))


class Caller:
    """An object that is called."""

    def __call__(self, value: int = 1, *, more: int = 2) -> int:
        return value + more


async def _later(value: int = 1, *, more: int = 2) -> int:
    return value + more


def _now(value: int = 1, *, more: int = 2) -> int:
    return value + more


def test_a_decorator_that_returns_the_function_itself() -> None:
    """The user's function is not written on."""
    nothing = as_policy(lambda function: function, name="nothing")
    made: Any = pipeline(nothing)(_now)
    assert (made(), made(3, more=4), inspect.signature(made)) == (3, 7, inspect.signature(_now))
    assert not hasattr(_now, "__wrapped__")
    later: Any = pipeline(nothing)(_later)
    assert asyncio.run(later()) == 3
    assert not hasattr(_later, "__wrapped__")
    assert pipeline(nothing).call(Caller(), 5) == 7
