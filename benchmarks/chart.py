"""The picture for the docs: a panel for each group, and for what grows: windows, and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.peers import NOTES
from benchmarks.shapes import GROUPS
from benchmarks.subjects import OURS, WRAPT

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.targets import Result

ACCENT, PEER, FAINT, INK, RULE = "#0f766e", "#94a3b8", "#cbd5e1", "#1e293b", "#64748b"
#: Panels row by row; rows hold groups with about as many subjects as their neighbours.
PANELS = (
    ("function", "method", "async"),
    ("count-window", "time-window", "slow-call"),
    ("generator", "async-generator", "listener"),
    ("state-listener", "open", "windows"),
    ("bulkhead", "fallback", "async-pipeline"),
    ("stale-hit", "async-stale-hit", "entries"),
)
#: Panels of something that grows: title, to what it is held, that in words, what grows.
GROWING = {
    "windows": (
        "count window that grows",
        "100",
        "success, to a window of 100",
        "calls in the window",
    ),
    "entries": ("memory store that grows", "10", "hit, to a store of 10", "values in the store"),
}
#: Ratios that get a tick; the axis is logarithmic.
TICKS = (1, 2, 5, 10, 20, 50, 100, 200)
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": RULE,
    "xtick.color": RULE,
    "ytick.color": INK,
    "svg.fonttype": "none",  # text stays text: small, searchable, and every browser has a font
    "svg.hashsalt": "breakerkit",  # the same figures give the same file
}


def draw(result: Result, path: Path) -> None:
    """Draw every panel that has figures, and save the picture as SVG."""
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.14)
        figure = Figure(figsize=(11, 14), layout=layout)
        FigureCanvasSVG(figure)
        heights = [max(_height(result, key) for key in row) for row in PANELS]
        grid = figure.subplots(len(PANELS), len(PANELS[0]), height_ratios=heights)
        for axes, key in zip(grid.flat, (key for row in PANELS for key in row), strict=True):
            _panel(axes, result, key)
        figure.suptitle(
            "Time of a guarded call as a ratio to a no-op closure (log scale, shorter is better)",
            fontsize=11.5,
            fontweight="bold",
        )
        figure.supxlabel(_foot(result), fontsize=8, color=RULE)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _foot(result: Result) -> str:
    lines = [f"* {note}" for (name, key), note in NOTES.items() if result.ratio(key, name)]
    return "\n".join([*lines, f"{result.machine}; medians of {result.rounds} rounds"])


def _height(result: Result, key: str) -> float:
    return 5 if key in GROWING else len(_bars(result, key)) + 2


def _panel(axes: Any, result: Result, key: str) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if key in GROWING:
        _growth(axes, result, key)
    else:
        _ratios(axes, result, key)


def _bars(result: Result, key: str) -> list[tuple[str, float]]:
    """Return who is in a group with his ratio, the fastest first."""
    found = {name: result.ratio(key, name) for name in (OURS, WRAPT, *result.peers)}
    named = [(name, ratio.median) for name, ratio in found.items() if ratio is not None]
    return sorted(named, key=lambda bar: bar[1])


def _ratios(axes: Any, result: Result, key: str) -> None:
    """Draw a bar from 1, the closure, to each ratio: on this axis 1 is where nothing is added."""
    bars = _bars(result, key)
    axes.set_title(GROUPS[key].title, loc="left", fontweight="bold", fontsize=9.5)
    axes.set_xscale("log")
    axes.set_xlim(min([0.8, *(0.85 * value for _, value in bars)]), 260)
    for row, (name, value) in enumerate(bars):
        axes.barh(row, value - 1, left=1, height=0.62, color=_colour(name))
        weight = "bold" if name == OURS else "normal"
        shown = f"{value:.2f}" if value < 10 else f"{value:.0f}"
        axes.text(max(value, 1) * 1.06, row, shown, va="center", fontsize=8, fontweight=weight)
    axes.axvline(1, color=RULE, linewidth=0.9)
    marks = {name: " *" if (name, key) in NOTES else "" for name, _ in bars}
    axes.set_yticks(range(len(bars)), [name + marks[name] for name, _ in bars])
    _embolden(axes)
    axes.invert_yaxis()
    axes.tick_params(left=False)
    _ticks(axes)


def _ticks(axes: Any) -> None:
    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in TICKS])
    axes.grid(axis="x", color=FAINT, linewidth=0.5, zorder=0)
    axes.set_axisbelow(True)


def _embolden(axes: Any) -> None:
    for label in axes.get_yticklabels():
        if label.get_text() == OURS:
            label.set_color(ACCENT)
            label.set_fontweight("bold")


def _colour(name: str) -> str:
    return {OURS: ACCENT, WRAPT: FAINT}.get(name, PEER)


def _growth(axes: Any, result: Result, key: str) -> None:
    """Draw a time over a number that grows, against that at the smallest that is meant, from 0 up."""
    title, base, against, grows = GROWING[key]
    found = {int(size): result.ratio(key, size, base) for size in result.samples.get(key, {})}
    drawn = {size: ratio for size, ratio in found.items() if ratio is not None}
    sizes, ratios = list(drawn), list(drawn.values())
    axes.set_title(title, loc="left", fontweight="bold", fontsize=9.5)
    axes.set_ylabel(against)
    axes.set_xscale("log")
    low, high = [each.low for each in ratios], [each.high for each in ratios]
    axes.fill_between(sizes, low, high, color=ACCENT, alpha=0.18, linewidth=0)
    axes.plot(sizes, [each.median for each in ratios], color=ACCENT, marker="o", markersize=4)
    axes.set_ylim(0, max([1.6, *high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes, [f"{size:,}".replace(",", " ") for size in sizes])
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_xlabel(grows)
