"""What every store does: the rules of `breakerkit.store.commands`, one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from breakerkit.store.commands import (
    NOTHING,
    Begin,
    Entry,
    Evict,
    EvictAll,
    Invalidate,
    InvalidateAll,
    Postpone,
    Put,
    Read,
    Release,
    Write,
)

ODD_KEYS = ["", " ", "a b", "a:b", "ключ", "𝄞", "{", "}", "{}", "a{b}c", "a\nb\r\n", "\0", "*", "[a]?", "\\", "\udc80"]  # fmt: skip


def begin(world: Any, key: str = "k", lease: float = 30) -> Any:
    """Begin an attempt."""
    return world.do(Begin(key, lease))


def read(world: Any, key: str = "k") -> Any:
    """Read a key."""
    return world.do(Read(key))


def write(world: Any, ticket: Any, value: Any, due: float = 10, keep: float = 100) -> Any:
    """End an attempt with a value."""
    return world.do(Write("k", ticket, value, due, keep))


def entry(value, age, due, rests=None):
    """Return what a read says; a refresh time alone was set by an attempt that failed."""
    return Entry(value, age, due, value is NOTHING if rests is None else rests)


def test_nothing_is_stored_at_first(world):
    """A key that nobody wrote has no entry."""
    assert read(world) is None


def test_a_value_grows_older_and_its_refresh_comes_nearer(world):
    """Ages and refresh times are relative to the moment of reading."""
    assert write(world, begin(world), {"a": [1, None]}) is True
    assert read(world) == entry({"a": [1, None]}, 0, 10)
    world.advance(4)
    assert read(world) == entry({"a": [1, None]}, 4, 6)
    world.advance(16)
    assert read(world) == entry({"a": [1, None]}, 20, -10)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_falsy_values_are_values(world, value):
    """None and other falsy values are stored like any other."""
    assert write(world, begin(world), value) is True
    assert read(world) == entry(value, 0, 10)


def test_a_value_is_gone_once_nobody_wants_it(world):
    """After ``keep`` seconds there is no entry, not one moment later."""
    write(world, begin(world), 1)
    world.advance(99.9)
    assert read(world).value == 1
    world.advance(0.1)
    assert read(world) is None


def test_one_attempt_has_the_lease(world):
    """While an attempt holds the lease no other begins; once it has run out one may."""
    first = begin(world)
    assert first is not None
    world.advance(29.9)
    assert begin(world) is None
    world.advance(0.1)
    second = begin(world)
    assert second > first
    assert begin(world) is None


def test_another_key_has_a_lease_of_its_own(world):
    """An attempt at one key is in nobody's way at another."""
    assert begin(world, "a") is not None
    assert begin(world, "b") is not None


def test_a_lease_of_no_time_is_in_nobodys_way(world):
    """With a lease of 0 any number of attempts may run."""
    assert begin(world, lease=0) < begin(world, lease=0)


def test_the_lease_of_an_owner_is_in_nobodys_way_of_his_own(world):
    """He makes one attempt at a time: the reply to that one was lost, or he gave it up."""
    lost = world.do(Begin("k", 30, owner=7))
    assert world.do(Begin("k", 30, owner=8)) is None
    assert begin(world) is None
    second = world.do(Begin("k", 30, owner=7))
    assert second > lost
    assert world.do(Begin("k", 30, owner=8)) is None
    assert write(world, second, "new") is True
    assert write(world, lost, "old") is False
    assert world.do(Begin("k", 30, owner=8)) is not None


def test_nobodys_lease_is_in_the_way_of_everybody(world):
    """Who does not say whose it is does not take over."""
    assert begin(world) is not None
    assert begin(world) is None
    assert world.do(Begin("k", 30, owner=7)) is None


def test_an_attempt_that_was_taken_over_is_late_after_an_eviction(world):
    """It may run all the same: what makes attempts late makes it late, however it lost its lease."""
    first = world.do(Begin("k", 30, owner=7))
    second = world.do(Begin("k", 30, owner=7))
    assert write(world, second, "new") is True
    world.do(Evict("k"))
    assert write(world, first, "old") is False
    assert read(world) is None


def test_an_attempt_whose_reply_was_lost_is_ended_by_its_owner(world):
    """Without its ticket, and for nobody else."""
    world.do(Begin("k", 30, owner=7))
    world.do(Release("k", None, owner=8))
    world.do(Release("k", None))
    assert begin(world) is None
    world.do(Release("k", None, owner=7))
    world.do(Release("k", None, owner=7))
    ticket = begin(world)
    assert ticket is not None
    world.do(Release("k", None, owner=7))  # it has none any more
    assert begin(world) is None
    assert write(world, ticket, 1) is True
    world.do(Release("other", None, owner=7))


def test_owners_are_numbers_up_to_2_to_the_52nd(world):
    """Each one is another."""
    most = 2**52
    assert world.do(Begin("k", 30, owner=most)) is not None
    assert world.do(Begin("k", 30, owner=most - 1)) is None
    assert world.do(Begin("k", 30, owner=most)) is not None


@pytest.mark.parametrize("end", [
    lambda ticket: Write("k", ticket, 1, 10, 100),
    lambda ticket: Postpone("k", ticket, 10),
    lambda ticket: Postpone("k", ticket, 10, empty=True),
    lambda ticket: Release("k", ticket),
])  # fmt: skip
def test_the_end_of_an_attempt_ends_its_lease(world, end):
    """However an attempt ends, the next one may begin."""
    world.do(end(begin(world)))
    assert begin(world) is not None


def test_an_attempt_that_lost_its_lease_does_not_end_that_of_the_next(world):
    """Whoever ends late leaves the lease of another alone."""
    first = begin(world)
    world.advance(30)
    second = begin(world)
    world.do(Release("k", first))
    assert begin(world) is None
    world.do(Release("k", second))
    assert begin(world) is not None


def test_an_attempt_that_is_late_may_still_write(world):
    """A lease that ran out takes nothing from a value that is the newest."""
    first = begin(world)
    world.advance(100)
    assert write(world, first, "late") is True
    assert read(world).value == "late"


def test_an_older_attempt_does_not_overwrite_a_newer_ones_value(world):
    """Tickets order the values, not the moments at which they arrive."""
    first = begin(world)
    world.advance(30)
    second = begin(world)
    assert write(world, second, "new") is True
    assert write(world, first, "old") is False
    assert read(world).value == "new"


def test_nor_once_the_newer_value_has_gone(world):
    """What was newer stays newer when its value is no longer wanted."""
    first = begin(world)
    world.advance(30)
    assert write(world, begin(world), "new", keep=20) is True
    world.advance(20)
    assert read(world) is None
    assert write(world, first, "old") is False
    assert read(world) is None


def test_a_newer_attempt_overwrites_an_older_ones_late_value(world):
    """In the order in which they began is in order."""
    first = begin(world)
    world.advance(30)
    second = begin(world)
    assert write(world, first, "old") is True
    assert write(world, second, "new") is True
    assert read(world).value == "new"


def test_a_write_without_a_ticket_fills_an_empty_place_alone(world):
    """An attempt the store could not number is older than whatever is there."""
    assert write(world, None, "first") is True
    assert write(world, begin(world), "second") is True
    assert write(world, None, "third") is False
    world.do(Postpone("k", None, 50))
    assert read(world) == entry("second", 0, 10)
    world.do(Release("k", None))
    world.do(Evict("k"))
    world.do(Postpone("k", None, 50, empty=True))
    assert read(world) == entry(NOTHING, 0, 50)


def test_a_failed_attempt_moves_the_refresh_time_alone(world):
    """What is stored stays as old as it is, and is kept no longer."""
    write(world, begin(world), 1)
    world.advance(15)
    world.do(Postpone("k", begin(world), 10))
    assert read(world) == entry(1, 15, 10, rests=True)
    world.advance(85)
    assert read(world) is None


def test_a_failed_attempt_leaves_nothing_where_there_was_nothing(world):
    """A key with no value gets no refresh time, unless it is asked for."""
    world.do(Postpone("k", begin(world), 10))
    assert read(world) is None


def test_a_refresh_time_may_be_kept_alone(world):
    """With ``empty`` a key with no value rests until its refresh time, and is forgotten then."""
    world.do(Postpone("k", begin(world), 10, empty=True))
    assert read(world) == entry(NOTHING, 0, 10)
    world.advance(4)
    assert read(world) == entry(NOTHING, 0, 6)
    world.advance(6)
    assert read(world) is None


def test_a_refresh_time_alone_can_be_moved(world):
    """The next failure moves it on; one that does not ask for it leaves it."""
    world.do(Postpone("k", begin(world), 10, empty=True))
    world.advance(5)
    world.do(Postpone("k", begin(world), 20, empty=True))
    assert read(world) == entry(NOTHING, 0, 20)
    world.do(Postpone("k", begin(world), 50))
    assert read(world) == entry(NOTHING, 0, 20)


def test_a_refresh_time_may_outlive_the_value(world):
    """With ``empty`` the entry is there until its refresh time, though the value has aged out."""
    write(world, begin(world), 1, keep=15)
    world.advance(10)
    world.do(Postpone("k", begin(world), 30, empty=True))
    world.advance(20)
    assert read(world) == entry(1, 30, 10, rests=True)
    world.advance(10)
    assert read(world) is None


def test_a_refresh_time_shortens_the_life_of_no_value(world):
    """With ``empty`` too the value is kept as long as it was wanted."""
    write(world, begin(world), 1)
    world.do(Postpone("k", begin(world), 10, empty=True))
    world.advance(20)
    assert read(world) == entry(1, 20, -10, rests=True)


def test_a_value_that_has_just_aged_out_is_none(world):
    """At the very moment a failure finds nothing there."""
    write(world, begin(world), 1, keep=15)
    ticket = begin(world)
    world.advance(15)
    world.do(Postpone("k", ticket, 30, empty=True))
    assert read(world) == entry(NOTHING, 0, 30)


def test_a_value_replaces_a_refresh_time_that_is_alone(world):
    """Also that of an older attempt: a failure is nothing newer than a value."""
    first = begin(world)
    world.advance(30)
    world.do(Postpone("k", begin(world), 50, empty=True))
    assert write(world, first, "late") is True
    assert read(world) == entry("late", 0, 10)


def test_an_older_failure_does_not_move_a_newer_ones_refresh_time(world):
    """Nor does it where nothing is stored."""
    first = begin(world)
    world.advance(30)
    world.do(Postpone("k", begin(world), 50, empty=True))
    world.do(Postpone("k", first, 5, empty=True))
    assert read(world) == entry(NOTHING, 0, 50)


def test_a_failure_changes_nothing_that_was_written_since(world):
    """The refresh time of a newer value stays."""
    first = begin(world)
    world.advance(30)
    write(world, begin(world), "new")
    world.do(Postpone("k", first, 99, empty=True))
    assert read(world) == entry("new", 0, 10)


def test_a_released_attempt_changes_nothing(world):
    """Nothing was learned: value and refresh time stay."""
    write(world, begin(world), 1)
    world.advance(12)
    world.do(Release("k", begin(world)))
    assert read(world) == entry(1, 12, -2)


def test_an_evicted_value_is_gone_and_no_attempt_brings_it_back(world):
    """What began before an eviction comes too late."""
    write(world, begin(world), "old")
    running = begin(world)
    world.do(Evict("k"))
    assert read(world) is None
    assert write(world, running, "back") is False
    assert read(world) is None


def test_nor_does_one_that_has_lost_its_lease(world):
    """Each attempt that runs is late, however long it has."""
    first = begin(world)
    world.advance(30)
    second = begin(world)
    world.advance(30)
    world.do(Evict("k"))
    assert write(world, first, "1") is write(world, second, "2") is False
    assert read(world) is None


def test_an_eviction_frees_the_lease(world):
    """The next attempt begins at once, and may write."""
    old = begin(world)
    world.do(Evict("k"))
    new = begin(world)
    assert new > old
    assert write(world, old, "old") is False
    assert begin(world) is None
    assert write(world, new, "new") is True
    assert read(world).value == "new"


def test_a_failure_after_an_eviction_leaves_no_refresh_time(world):
    """An attempt that is late has nothing to say about its key."""
    running = begin(world)
    world.do(Evict("k"))
    world.do(Postpone("k", running, 10, empty=True))
    assert read(world) is None


def test_what_is_put_beats_the_attempts_that_run(world):
    """A put is newer than whatever began before it, and ends no attempt that begins later."""
    running = begin(world)
    assert world.do(Put("k", "put", 10, 100)) is True
    assert write(world, running, "old") is False
    assert read(world) == entry("put", 0, 10)
    assert write(world, begin(world), "new") is True
    assert read(world).value == "new"


def test_what_is_put_frees_the_lease(world):
    """The next attempt begins at once."""
    begin(world)
    world.do(Put("k", "put", 10, 100))
    assert begin(world) is not None


def test_an_invalidated_value_stays_and_is_due(world):
    """It is as old as before."""
    write(world, begin(world), 1)
    world.advance(3)
    world.do(Invalidate("k"))
    assert read(world) == entry(1, 3, 0)


def test_an_attempt_that_was_invalidated_writes_what_is_due_at_once(world):
    """It read the origin before something changed there: its value is a reserve."""
    running = begin(world)
    world.do(Invalidate("k"))
    after = begin(world)
    assert after is not None
    assert write(world, running, "reserve") is True
    assert read(world) == entry("reserve", 0, 0)
    assert write(world, after, "new") is True
    assert read(world) == entry("new", 0, 10)


def test_a_failure_after_an_invalidation_moves_nothing(world):
    """The next call asks the origin all the same."""
    write(world, begin(world), 1)
    running = begin(world)
    world.do(Invalidate("k"))
    world.do(Postpone("k", running, 50))
    assert read(world) == entry(1, 0, 0)


def test_an_invalidation_forgets_a_refresh_time_that_is_alone(world):
    """There is no reserve to keep."""
    world.do(Postpone("k", begin(world), 50, empty=True))
    world.do(Invalidate("k"))
    assert read(world) is None


def test_to_invalidate_or_evict_nothing_is_nothing(world):
    """A key that is not there stays so."""
    for command in (Invalidate("k"), Evict("k"), InvalidateAll("k"), EvictAll("")):
        assert world.do(command) is None
    assert read(world) is None
    assert write(world, begin(world), 1) is True


PREFIXES = ["a*", "a[b]", "a", "", "a\\", "a?", "ключ", "{", "a}"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_all_keys_with_a_prefix_are_evicted_and_no_other(world, prefix):
    """A prefix is text: its stars and brackets mean themselves."""
    keys = {one + end for one in PREFIXES for end in ("", "1", "{x}")} | {"b", "ab"}
    for key in keys:
        world.do(Put(key, key, 10, 100))
    world.do(EvictAll(prefix))
    left = {key for key in keys if read(world, key) is not None}
    assert left == {key for key in keys if not key.startswith(prefix)}


def test_all_keys_with_a_prefix_are_invalidated(world):
    """Their values stay; attempts at them are due at once, those of others are not."""
    for key in ("a:1", "a:2", "b:1"):
        world.do(Put(key, key, 10, 100))
    running, other = begin(world, "a:3"), begin(world, "b:2")
    world.do(InvalidateAll("a:"))
    assert [read(world, key).due for key in ("a:1", "a:2", "b:1")] == [0, 0, 10]
    world.do(Write("a:3", running, 1, 10, 100))
    world.do(Write("b:2", other, 1, 10, 100))
    assert [read(world, key).due for key in ("a:3", "b:2")] == [0, 10]


def test_an_eviction_of_many_makes_their_attempts_late(world):
    """Also where nothing was stored yet."""
    running = begin(world)
    world.do(EvictAll(""))
    assert write(world, running, 1) is False
    assert read(world) is None


@pytest.mark.parametrize("key", ODD_KEYS)
def test_a_key_is_any_text(world, key):
    """Spaces, braces, newlines and half a surrogate pair are characters like others."""
    others = [other for other in ODD_KEYS if other != key]
    assert world.do(Put(key, key.encode("utf-8", "replace").decode(), 10, 100)) is True
    assert read(world, key) is not None
    assert all(read(world, other) is None for other in others)
    world.do(Evict(key))
    assert read(world, key) is None


def test_a_value_may_be_large(world):
    """Ten megabytes come back as they went."""
    value = "x" * 10_000_000
    assert write(world, begin(world), value) is True
    assert read(world).value == value


def test_what_is_no_command_is_refused(world):
    """Clearly, and naming it."""
    with pytest.raises(TypeError, match="'read': must be a command"):
        world.do("read")


def test_a_store_is_not_pickled(world):
    """The error says what to do."""
    import pickle

    with pytest.raises(TypeError, match="of this process"):
        pickle.dumps(world.store)
