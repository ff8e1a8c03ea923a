"""The tables and the verdicts, made from figures that no machine has measured."""

from __future__ import annotations

import json

import pytest

from benchmarks.growth import Imports
from benchmarks.harness import Spread
from benchmarks.report import as_json, as_markdown, as_text, machine_line, tables
from benchmarks.targets import Result, fastest_peer, verdicts


def result(**more: object) -> Result:
    """Return a run in which a closure takes 100 ns and breakerkit 150."""
    group = {
        "bare": [20.0] * 3,
        "closure": [100.0] * 3,
        "wrapt no-op": [480.0] * 3,
        "breakerkit": [150.0, 150.0, 170.0],
        "resilix": [200.0] * 3,
        "fluxgate": [6_000.0] * 3,
    }
    peers = {"resilix": "1.1.0", "fluxgate": "0.9.4", "nopanic": "not installed"}
    made = Result("a machine", 3, peers, {"function": group, "loop": {"empty loop": [9.0] * 3}})
    for name, value in more.items():
        setattr(made, name, value)
    return made


def row(text: str, start: str) -> list[str]:
    """Return the words of the first line that starts with these."""
    return next(line for line in text.splitlines() if line.startswith(start)).split()


def test_a_cell_is_the_ratio_and_half_the_quartile_range() -> None:
    """150, 150 and 170 against 100 are 1.50, give or take 0.05."""
    text = as_text(result())
    assert row(text, "breakerkit") == ["breakerkit", "1.50", "±0.05"]
    assert row(text, "fluxgate 0.9.4")[2:] == ["60.0", "±0.0"]
    assert row(text, "closure, ns")[2:] == ["100"]


def test_a_peer_that_is_not_there_is_said_to_be_so() -> None:
    """It has a row of its own and breaks nothing."""
    text = as_text(result())
    assert row(text, "nopanic") == ["nopanic", "not", "installed"]
    assert "nopanic: not installed" in text


def test_a_group_that_a_peer_cannot_do_is_a_dash() -> None:
    """An installed peer without a figure is shown as -."""
    made = result()
    made.samples["method"] = {"closure": [100.0] * 3, "breakerkit": [150.0] * 3}
    assert row(as_text(made), "resilix")[-1] == "-"


def test_few_rounds_are_called_few() -> None:
    """Fewer than 15 rounds are no result, and the report says so."""
    assert "3 rounds, fewer than 15" in as_text(result())
    assert "fewer than" not in as_text(result(rounds=15))


def test_a_promise_is_kept_or_missed() -> None:
    """1.50 keeps "at most 1.6", and resilix needs a third more time."""
    limit, rivals = verdicts(result())
    assert (limit.found, limit.kept) == ("1.50", True)
    assert (rivals.found, rivals.kept) == ("resilix takes 1.33 x as long", True)


def test_a_slower_breakerkit_misses_both() -> None:
    """Nothing is kept when it takes twice the time of the fastest peer."""
    made = result()
    made.samples["function"]["breakerkit"] = [400.0] * 3
    assert [each.kept for each in verdicts(made)] == [False, False]
    assert "MISSED" in as_text(made)


def test_the_fastest_peer_has_the_lowest_ratio() -> None:
    """Absent peers and references do not count."""
    assert fastest_peer(result(), "function") == "resilix"
    assert fastest_peer(result(), "method") is None


@pytest.mark.parametrize(("largest", "kept"), [(110.0, True), (111.0, False)])
def test_a_large_window_may_cost_a_tenth_more(largest: float, kept: bool) -> None:
    """The window of 100 000 is held against that of 100."""
    made = result(samples={"windows": {"100": [100.0] * 3, "100000": [largest] * 3}})
    (verdict,) = verdicts(made)
    assert (verdict.about, verdict.kept) == ("window of 100 000", kept)
    assert row(as_text(made), "100 000")[:3] == ["100", "000", f"{largest:.0f}"]


def test_memory_and_import_have_limits_too() -> None:
    """3 KB a breaker, 30 ms an import, and no module that has no business there."""
    time = Spread(30.0, 29.0, 31.0)
    imports = Imports(alone=time, on_top=time, strangers=("rich",))
    made = result(samples={}, memory={"own config": 3_073.0}, imports=imports)
    assert [each.kept for each in verdicts(made)] == [False, True, False]


def test_growth_is_shown_beside_its_baseline() -> None:
    """Each number of keys and threads is a row: baseline, breakerkit, ratio."""
    made = result(
        samples={
            "keys 1000": {"dict of closures": [100.0] * 3, "breakerkit": [300.0] * 3},
            "threads 8": {"closure": [50.0] * 3, "breakerkit": [75.0] * 3},
        }
    )
    text = as_text(made)
    assert row(text, "1 000")[2:] == ["100", "300", "3.00", "±0.00"]
    assert row(text, "8") == ["8", "50", "75", "1.50", "±0.00"]


def test_what_was_not_measured_has_no_table() -> None:
    """An empty run shows nothing but the machine."""
    made = result(samples={}, peers={})
    assert tables(made) == []
    assert as_text(made).startswith("\n\na machine") or as_text(made).startswith("a machine")


def test_the_docs_get_the_same_cells() -> None:
    """Markdown has breakerkit in bold and a line for the machine."""
    text = as_markdown(result())
    assert "| **breakerkit** | **1.50 ±0.05** |" in text
    assert text.startswith("- a machine\n")


def test_json_holds_every_round() -> None:
    """Whoever doubts a median can take his own."""
    found = json.loads(as_json(result()))
    figures = found["groups"]["function"]["breakerkit"]
    assert figures["rounds_ns"] == [150.0, 150.0, 170.0]
    assert figures["ratio_to_closure"] == {"median": 1.5, "q1": 1.5, "q3": 1.6}
    assert found["promises"][0]["kept"] is True


def test_the_machine_line_names_no_host() -> None:
    """Processor, cores, system and interpreter are in it; the machine's name is not."""
    import platform

    line = machine_line()
    assert platform.python_version() in line
    assert platform.node() not in line
