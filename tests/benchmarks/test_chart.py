"""The chart: a panel for each group, and the same file from the same figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.targets import Result

if TYPE_CHECKING:
    from pathlib import Path

chart = pytest.importorskip("benchmarks.chart", reason="matplotlib is in the extra bench")


def result() -> Result:
    """Return a run of one group, with a peer."""
    group = {"closure": [100.0] * 3, "breakerkit": [150.0] * 3, "resilix": [12_000.0] * 3}
    windows = {"100": [100.0] * 3, "100000": [101.0] * 3}
    return Result("a machine", 3, {"resilix": "1.1.0"}, {"function": group, "windows": windows})


def test_the_chart_shows_each_ratio(tmp_path: Path) -> None:
    """Names, ratios and the machine are text in the picture."""
    chart.draw(result(), tmp_path / "chart.svg")
    picture = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    for shown in ("breakerkit", "1.50", "resilix", "120", "a machine", "100 000"):
        assert f">{shown}" in picture


def test_the_same_figures_give_the_same_file(tmp_path: Path) -> None:
    """No date and no random number is in it, so a commit shows only what changed."""
    for name in ("one.svg", "two.svg"):
        chart.draw(result(), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_run_without_windows_leaves_that_panel_empty(tmp_path: Path) -> None:
    """What was not measured stops no picture."""
    made = result()
    del made.samples["windows"]
    chart.draw(made, tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").exists()
