"""Field converters: each turns a setting into its inner form, or says what is allowed."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import attrs
import pytest

from breakerkit import ConfigError
from breakerkit import _fields as fields

NAN, INF = float("nan"), float("inf")


@attrs.frozen(kw_only=True)
class Settings:
    """Some settings."""

    size: int = attrs.field(default=1, converter=fields.to_count)
    wait: float | None = attrs.field(default=None, converter=fields.to_optional_seconds)
    share: float = attrs.field(default=50.0, converter=fields.to_percent)

    def __attrs_post_init__(self) -> None:
        late = "size=3: not together with wait" if self.size == 3 and self.wait else None
        fields.check(self, late, None)


async def coroutine_function(_: object) -> None:
    """Be awaited."""


class AsyncCallable:
    """An object that is called like a coroutine function."""

    async def __call__(self, _: object) -> None:
        """Be awaited."""


@pytest.mark.parametrize(
    ("given", "kept"), [(1, 1.0), (0.5, 0.5), (timedelta(minutes=2), 120.0), (5e-324, 5e-324)]
)
def test_seconds(given: Any, kept: float) -> None:
    """A finite number, or a `timedelta`, above 0 becomes float seconds."""
    assert (fields.to_seconds(given), type(fields.to_seconds(given))) == (kept, float)
    assert fields.to_optional_seconds(given) == kept


@pytest.mark.parametrize(
    "given", [0, -1, 0.0, NAN, INF, -INF, True, "1", None, timedelta(0), timedelta(-1), 10**400]
)
def test_no_seconds(given: Any) -> None:
    """Anything else is a fault, zero and a number no float can hold included."""
    fault: Any = fields.to_seconds(given)
    assert fault.value is given
    assert fault.allowed == "must be a finite number of seconds or a timedelta above 0"


def test_optional() -> None:
    """``None`` means off where that is allowed."""
    assert fields.to_optional_seconds(None) is None
    assert fields.to_optional_count(None) is None
    assert fields.to_optional_count(3) == 3


@pytest.mark.parametrize(
    ("convert", "least"),
    [(fields.to_count, 0), (fields.to_positive, 1), (fields.to_optional_count, 1)],
)
def test_counts(convert: Any, least: int) -> None:
    """An ``int`` from its least value on, neither a ``bool`` nor a whole ``float``."""
    assert convert(least) == least
    assert convert(10**400) == 10**400
    for wrong in (least - 1, -5, True, False, 2.0, 2.5, "3", [1]):
        assert convert(wrong).value is wrong
        assert convert(wrong).allowed.startswith(f"must be an int of at least {least}")


def test_an_optional_count_says_so() -> None:
    """What is allowed includes ``None``."""
    fault: Any = fields.to_optional_count(0)
    assert fault.allowed == "must be an int of at least 1, or None for off"


@pytest.mark.parametrize("given", [1, 1.0, 50, 99.99, 100])
def test_percent(given: float) -> None:
    """From 1 to 100, both inclusive, kept as float."""
    assert (fields.to_percent(given), type(fields.to_percent(given))) == (given, float)


@pytest.mark.parametrize("given", [0.5, 0, 0.99, 100.01, -1, NAN, INF, True, "50", None, 10**400])
def test_no_percent(given: Any) -> None:
    """A half is 50, not 0.5, and that is said."""
    fault: Any = fields.to_percent(given)
    assert fault.value is given
    assert fault.allowed == "must be a percentage from 1 to 100 (a half is 50)"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, True),
        (1.5, True),
        (0, True),
        (-3, True),
        (True, False),
        (NAN, False),
        (INF, False),
        ("1", False),
        (None, False),
        (10**400, False),
    ],
)
def test_numbers(value: object, number: bool) -> None:
    """A number is finite and no ``bool``."""
    assert fields.is_number(value) is number


@pytest.mark.parametrize(
    ("function", "at_once"),
    [
        (len, True),
        (lambda _: None, True),
        (functools.partial(max, 1), True),
        (lambda: None, False),
        (lambda _one, _two: None, False),
        (str, False),
        (5, False),
        (coroutine_function, False),
        (functools.partial(coroutine_function), False),
        (AsyncCallable(), False),
        (AsyncCallable().__call__, False),
    ],
)
def test_what_answers_at_once(function: Any, at_once: bool) -> None:
    """A callable of one argument that is neither a class nor, however wrapped, a coroutine function."""
    assert fields.answers_at_once(function) is at_once


class Hostile:
    """A callable proxy that raises whatever it likes when it is asked for an attribute."""

    def __call__(self, _: object) -> None:
        """Be called."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


def test_a_hostile_proxy_is_a_callable_like_any_other() -> None:
    """What cannot be asked how it is called is taken as it is."""
    assert not fields.is_coroutine_function(Hostile())
    assert fields.answers_at_once(Hostile())


def test_an_object_may_be_a_coroutine_function() -> None:
    """An object that `inspect` takes for a coroutine function is one here too."""
    assert fields.is_coroutine_function(AsyncMock())
    assert not fields.answers_at_once(AsyncMock())


class Unsigned:
    """A callable that does not say how it is called."""

    __signature__ = "nonsense"

    def __call__(self, *_: object) -> None:
        """Take anything."""


@pytest.mark.parametrize(
    ("function", "count", "fits"),
    [
        (lambda: None, 0, True),
        (lambda: None, 1, False),
        (lambda _, __=1: None, 2, True),
        (lambda *_: None, 7, True),
        (Unsigned(), 3, True),
        (type("NoText", (), {"__signature__": None, "__call__": lambda *_: None})(), 3, True),
        (dict.fromkeys, 1, True),
    ],
)
def test_how_many_arguments_it_takes(function: Any, count: int, fits: bool) -> None:
    """If nobody knows, it can be called with so many."""
    assert fields.takes(function, count) is fits


class Unshowable:
    """Something whose repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError


def test_show_is_short_and_cannot_fail() -> None:
    """A value in a message neither floods it nor breaks it."""
    assert fields.show("abc") == "'abc'"
    assert len(fields.show("x" * 10_000)) < 50
    assert len(fields.show(list(range(10_000)))) < 50
    assert fields.show(Unshowable()).startswith("<Unshowable ")
    assert fields.show(10**5000).startswith("<int ")
    assert fields.show([10**5000]).startswith("<list ")


def test_all_faults_in_one_error() -> None:
    """One error names the class, and each field with its value and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        Settings(size=-1, wait=0, share=0.5)
    assert str(caught.value) == (
        "Settings: size=-1: must be an int of at least 0;"
        " wait=0: must be a finite number of seconds or a timedelta above 0;"
        " share=0.5: must be a percentage from 1 to 100 (a half is 50)"
    )


def test_further_faults_are_told_too() -> None:
    """What is wrong between fields comes after what is wrong in one."""
    with pytest.raises(ConfigError, match="^Settings: size=3: not together with wait$"):
        Settings(size=3, wait=1)
    assert Settings(size=3).size == 3


def test_sound() -> None:
    """Values are compared with each other only if none is a fault."""
    assert fields.sound()
    assert fields.sound(1, None, "x")
    assert not fields.sound(1, fields.fault(1, "must be 2"))


def test_build() -> None:
    """Known settings make the object."""
    assert fields.build(Settings, {"size": 2}) == Settings(size=2)
    assert fields.build(Settings, {}) == Settings()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sise": 2}, "Settings: sise=2: no such setting, did you mean 'size'?"),
        ({"nothing_like_it": 2}, "Settings: nothing_like_it=2: no such setting"),
        ({"fail_max": 3}, "Settings: fail_max=3: no such setting, here that is failure_threshold"),
        (
            {"sise": 2, "size": -1},
            "Settings: sise=2: no such setting, did you mean 'size'?; size=-1: must be an int of at least 0",
        ),
    ],
)
def test_build_names_what_does_not_exist(settings: dict[str, Any], text: str) -> None:
    """A setting that does not exist is told with near names, or another library's word; wrong values too."""
    with pytest.raises(ConfigError) as caught:
        fields.build(Settings, settings)
    assert str(caught.value) == text


def test_near_names() -> None:
    """Only names that look alike are offered, the nearest first, three at most."""
    assert fields.near("payment", ["payments", "zebra"]) == ", did you mean 'payments'?"
    assert fields.near("zzz", ["payments"]) == ""
    assert fields.near("api", ["api1", "api2", "api3", "api4"]).count(" or ") == 2
    assert fields.near(5, ["51"]) == ", did you mean '51'?"  # type: ignore[arg-type]  # whatever it is
