"""Settings: defaults, what is refused, and what only some strategies read."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from breakerkit import BreakerConfig, ConfigError, FailoverConfig, Order, Strategy, failover


def test_the_defaults():
    """The defaults are those of the docs."""
    config = FailoverConfig()
    assert (config.strategy, config.order, config.attempts) == ("failover", "in_order", None)
    assert (config.on, config.default) == ((Exception,), None)
    assert (config.retry_interval, config.retries, config.max_pending) == (5.0, 3, 100)
    assert (config.fail_percent, config.forks, config.max_ejected) == (None, 2, 50.0)
    assert (config.breaker, config.background) == (True, True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("strategy", "failsave"),
        ("strategy", None),
        ("order", "roundrobin"),
        ("attempts", 0),
        ("attempts", True),
        ("attempts", 1.5),
        ("on", "ConnectionError"),
        ("on", (KeyboardInterrupt,)),
        ("retry_interval", 0),
        ("retry_interval", float("nan")),
        ("retry_interval", "5"),
        ("retries", 0),
        ("max_pending", 0),
        ("max_pending", 2.5),
        ("on_success", "print"),
        ("on_give_up", lambda: None),
        ("background", 1),
        ("fail_percent", 0.5),
        ("fail_percent", 101),
        ("forks", 0),
        ("max_ejected", 0),
        ("max_ejected", 100.5),
        ("breaker", 5),
    ],
)
def test_refused(field, value):
    """What is wrong is refused with field, value and what is allowed."""
    with pytest.raises(ConfigError, match=f"{field}=.*must be"):
        FailoverConfig(**{field: value})


def test_an_async_callback_is_refused():
    """A coroutine function cannot be called back from a thread."""

    async def told(record):
        pass

    with pytest.raises(ConfigError, match="plain callable"):
        FailoverConfig(strategy="failback", on_success=told)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("attempts", 2, "'failover'"),
        ("default", 7, "'failsafe' or 'failback'"),
        ("fail_percent", 50, "'broadcast'"),
        ("on_success", print, "'failback'"),
        ("on_give_up", print, "'failback'"),
        ("retry_interval", 7, "'failback'"),
        ("retries", 7, "'failback'"),
        ("background", False, "'failback'"),
        ("forks", 3, "'forking'"),
        ("max_pending", 7, "'failback' or 'forking'"),
    ],
)
def test_what_the_strategy_does_not_read(field, value, wanted):
    """A setting that would be ignored in silence is refused."""
    strategy = "failfast"
    with pytest.raises(ConfigError, match=f"{field}=.*is for strategy={wanted}, not 'failfast'"):
        FailoverConfig(strategy=strategy, **{field: value})


def test_what_says_no_more_than_the_default():
    """A setting that is given as it is by default harms no strategy."""
    assert FailoverConfig(forks=2, retries=3, max_pending=100, retry_interval=5) == FailoverConfig()


def test_all_faults_at_once():
    """One error names every fault, and a wrong strategy is not held against the others."""
    with pytest.raises(ConfigError) as caught:
        failover(["a"], strategy="x", retries=0, attempts=2)
    assert "strategy='x'" in str(caught.value)
    assert "retries=0" in str(caught.value)
    assert "attempts=2" not in str(caught.value)


def test_data():
    """A config is data: it pickles, compares, hashes and evolves."""
    config = FailoverConfig(
        strategy="failback",
        default=[],
        retry_interval=timedelta(minutes=1),
        breaker=BreakerConfig(),
    )
    assert config.retry_interval == 60.0
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(config.evolve())
    assert config.evolve(retries=5).retries == 5
    assert (Strategy("failback"), Order("random")) == (config.strategy, "random")
    with pytest.raises(ConfigError, match="no such setting, did you mean 'retries'"):
        config.evolve(retrys=5)
