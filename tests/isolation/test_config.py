"""The settings of a bulkhead: checked once, together, and named when wrong."""

from __future__ import annotations

import attrs
import pytest

from breakerkit import BulkheadConfig, ConfigError, bulkhead


def test_the_defaults():
    """The defaults are those of the documentation: ten at a time, nobody waits."""
    config = BulkheadConfig()
    assert attrs.asdict(config) == {
        "max_concurrent": 10, "max_waiting": 0, "max_wait": None, "isolation": "caller",
        "shares": None, "share_of": None, "order": "fifo", "stuck_after": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("max_concurrent", 0), ("max_concurrent", True), ("max_concurrent", 1.5),
        ("max_waiting", -1), ("max_waiting", None), ("max_wait", 0), ("max_wait", -1),
        ("max_wait", float("inf")), ("isolation", "fiber"), ("isolation", None),
        ("order", "random"), ("stuck_after", 0), ("shares", {}), ("shares", 3),
        ("shares", {"a": 0}), ("shares", {"a": 1.1}), ("shares", {"a": True}),
        ("shares", {None: 0.5}), ("shares", {"a": 0.6, "b": 0.5}), ("share_of", "gold"),
    ],
)  # fmt: skip
def test_each_wrong_value_is_named(field, wrong):
    """A wrong setting is an error that names the field and the value; nothing is clamped."""
    with pytest.raises(ConfigError, match=f"{field}="):
        BulkheadConfig(**{"share_of": len, field: wrong} if field == "shares" else {field: wrong})


def test_all_faults_at_once():
    """One error names every fault."""
    with pytest.raises(ConfigError) as caught:
        BulkheadConfig(max_concurrent=0, max_waiting=-1, order="x")
    assert all(name in str(caught.value) for name in ("max_concurrent", "max_waiting", "order"))


def test_shares_and_share_of_go_together():
    """One without the other does nothing, so it is refused."""
    with pytest.raises(ConfigError, match="shares without share_of"):
        BulkheadConfig(shares={"a": 0.5})
    with pytest.raises(ConfigError, match="share_of without shares"):
        BulkheadConfig(share_of=len)


def test_a_share_of_that_must_be_awaited_is_refused():
    """The class of a call is asked before it is let in, so it cannot be a coroutine."""

    async def share_of(*args):
        return "a"

    with pytest.raises(ConfigError, match="share_of="):
        BulkheadConfig(shares={"a": 0.5}, share_of=share_of)


def test_shares_that_add_up_exactly():
    """Shares are read as they are written: ten tenths are one, and three tenths of ten are three."""
    tenths = BulkheadConfig(shares=dict.fromkeys(range(10), 0.1), share_of=len)
    assert tenths.guaranteed == {**dict.fromkeys(range(10), 1), None: 0}
    config = BulkheadConfig(shares={"a": 0.3, "b": 0.58}, share_of=len, max_concurrent=100)
    assert config.guaranteed == {"a": 30, "b": 58, None: 12}


def test_shares_are_rounded_down_but_never_to_nothing():
    """A share means one slot at least; what is left is the rest's."""
    config = BulkheadConfig(shares={"a": 0.5, "b": 0.01}, share_of=len, max_concurrent=5)
    assert config.guaranteed == {"a": 2, "b": 1, None: 2}
    assert config.evolve(max_concurrent=1).guaranteed == {"a": 1, "b": 1, None: 0}


def test_equal_configs_are_equal():
    """Shares have no order, and configs with equal ones are equal and hash alike."""
    one = BulkheadConfig(shares={"a": 0.5, "b": 0.2}, share_of=len)
    other = BulkheadConfig(shares={"b": 0.2, "a": 0.5}, share_of=len)
    assert one == other
    assert hash(one) == hash(other)
    assert one.evolve() == one


def test_a_setting_that_does_not_exist():
    """A misspelt setting is an error with the near name."""
    with pytest.raises(ConfigError, match="did you mean 'max_waiting'"):
        bulkhead(max_waitng=1)
