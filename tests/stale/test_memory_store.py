"""A cache on the store in memory: what the store does by itself is shown in tests/store/test_memory.py."""

from __future__ import annotations

from breakerkit import MemoryStore


def test_a_put_that_the_store_did_not_take(cached, clock):
    """It says so; the caller gets the loaded value all the same."""
    store = MemoryStore(max_bytes=100, size_of=len, clock=clock)
    c = cached(store=store)
    assert c.put("k", "x" * 101) is False
    assert c.put("k", "x") is True
    load = cached(store=MemoryStore(max_bytes=1, size_of=len, clock=clock))(lambda: "long")
    assert load() == load() == "long"
    assert load.stale_if_error.info().misses == 2


def test_twenty_thousand_keys_in_a_store_of_a_hundred(cached, origin):
    """What is held is bounded by settings, not by traffic: values, attempts, leases."""
    store = MemoryStore(100)
    c = cached(store=store, warn_after=10**9)
    call = c(lambda key: origin(key))
    for key in range(20_000):
        call(key)
        assert len(store) <= 100
    assert set(store.entries) == set(store._line) == set(store._line._order)
    assert len(store) == 100
    assert (len(store._open), c.info().running) == (0, 0)
