"""Sphinx settings: MyST pages, the reference from docstrings, furo; built with ``-W``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # so that it builds from a checkout, too

import breakerkit  # noqa: E402  # found by the line above

project = "breakerkit"
author = "the breakerkit authors"
copyright = author  # noqa: A001  # the name Sphinx reads
version = release = breakerkit.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "benchmarks-table.md"]
myst_enable_extensions = ["deflist", "attrs_block"]
myst_heading_anchors = 3
default_role = "py:obj"  # single backticks in a docstring name an object of the package
nitpicky = True
nitpick_ignore_regex = [
    ("py:(?!obj).*", ".*")
]  # types in signatures: of the library or not
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
napoleon_use_rtype = False

pygments_dark_style = (
    "github-dark"  # furo reads it: the default underlines module names
)
html_theme = "furo"
html_title = f"breakerkit {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "light_css_variables": {
        "color-brand-primary": "#0f766e",
        "color-brand-content": "#0f766e",
        "color-brand-visited": "#0f766e",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5eead4",
        "color-brand-content": "#5eead4",
        "color-brand-visited": "#5eead4",
    },
}

#: Where the page of the benchmarks shows what ``python -m benchmarks --write`` wrote.
FIGURES = "<!-- figures -->"
ABSENT = "*There are no figures yet: `python -m benchmarks --write` writes them here.*"


def show_figures(_app: Any, page: str, source: list[str]) -> None:
    """Put the chart and the table of the benchmarks into their page, where they have been written."""
    if page != "benchmarks":
        return
    table, chart = HERE / "benchmarks-table.md", HERE / "_static" / "benchmarks.svg"
    found = [
        "```{image} _static/benchmarks.svg\n:class: chart\n:alt: the figures as a chart\n```"
    ]
    found = found if chart.exists() else []
    found += [table.read_text(encoding="utf-8")] if table.exists() else []
    source[0] = source[0].replace(FIGURES, "\n\n".join(found) or ABSENT)


def plain_signature(*details: Any) -> tuple[str, str] | None:
    """Take out of a signature what autodoc leaves of a ``ParamSpec`` and of a class as a default."""
    signature, returned = details[-2:]
    if not signature:
        return None
    signature = re.sub(r"~([a-z_.]+\.~?)?", "", signature)
    return re.sub(r"<class '(\w+)'>", r"\1", signature), returned


def setup(app: Any) -> None:
    """Connect what is above."""
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("source-read", show_figures)
