"""What is wrong without the decorator is wrong with it: each line below must be an error to both checkers."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit import CancelSignal, breaker, breaker_methods
from tests.typing import test_calls, test_functions, test_methods


def test_the_bad_lines_are_never_run() -> None:
    """The lines are for the checkers only: here they only have to be importable."""
    assert not TYPE_CHECKING


if TYPE_CHECKING:
    one = test_methods.Service()
    b = breaker()

    test_functions.bare("2")  # type: ignore[arg-type]  # a text for a number
    test_functions.bare()  # type: ignore[call-arg]  # no number
    test_functions.bare(1, "a")  # type: ignore[call-arg]  # by keyword only
    test_functions.bare(1, txt="a")  # type: ignore[call-arg]  # no such keyword
    test_functions.called("2")  # type: ignore[arg-type]  # a text for a number
    test_functions.named("2")  # type: ignore[arg-type]  # a text for a number
    test_functions.by_object("2")  # type: ignore[arg-type]  # a text for a number
    number: int = test_functions.bare(1)  # type: ignore[assignment]  # it is a text
    test_functions.bare.braker  # type: ignore[attr-defined]  # no such attribute
    test_functions.takes(test_functions.coroutine)  # type: ignore[arg-type]  # it is async

    one.method("2")  # type: ignore[arg-type]  # a text for a number
    one.method()  # type: ignore[call-arg]  # no number
    one.method(one, 1)  # type: ignore[call-arg, arg-type]  # self is given already
    test_methods.Service.method(1)  # type: ignore[call-arg, arg-type]  # self is missing
    test_methods.Service.class_under("2")  # type: ignore[arg-type]  # a text for a number
    test_methods.Service.class_over("2")  # type: ignore[arg-type]  # a text for a number
    one.class_over()  # type: ignore[call-arg]  # no number
    test_methods.Service.static_under("2")  # type: ignore[arg-type]  # a text for a number
    one.static_over("2")  # type: ignore[arg-type]  # a text for a number
    one.static_over()  # type: ignore[call-arg]  # no number

    b.call(test_calls.work, "2")  # type: ignore[arg-type]  # a text for a number
    b.call(test_calls.work)  # type: ignore[call-arg]  # no number
    b.call(42)  # type: ignore[arg-type]  # not callable
    b.apply(test_calls.work, cancel=True)  # type: ignore[arg-type]  # no signal
    b.subscribe(42)  # type: ignore[arg-type]  # no listener
    b.state = "open"  # type: ignore[misc, assignment]  # read-only
    b.mode = "auto"  # type: ignore[misc, assignment]  # read-only
    CancelSignal("why")  # type: ignore[call-arg]  # the reason comes with cancel()

    breaker("x", failure_treshold=3)  # type: ignore[call-overload]  # misspelt
    breaker("x", failure_threshold="3")  # type: ignore[call-overload]  # a text for a number
    breaker(42)  # type: ignore[call-overload]  # neither name nor function
    breaker(key="host")  # type: ignore[call-overload]  # no function
    breaker_methods("x", scope="object")(object)  # type: ignore[arg-type]  # no such scope
    test_calls.fetch(42)  # type: ignore[arg-type]  # a number for a text
    test_calls.Client().get(42)  # type: ignore[arg-type]  # a number for a text
