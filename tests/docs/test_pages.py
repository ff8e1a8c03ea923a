"""The pages say what the code says: defaults, names, commands, links, pictures."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import attrs
import pytest

import breakerkit
from breakerkit import BreakerConfig, testing
from breakerkit.events import EVENT_KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
COMMANDS = """\
python3 -m venv .venv && .venv/bin/pip install -e '.[demo]' && .venv/bin/breakerkit demo
python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest
"""


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose_of(page):
    """Return a page without its code."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def name_of(page):
    return page.name


def rows_under(page, heading):
    """Return the cells of the first table under a heading."""
    table = text_of(page).partition(f"## {heading}\n")[2].partition("| --- |")[2]
    lines = table.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def shown(default):
    """Return a default as one would write it."""
    if isinstance(default, tuple) and default:
        return f"({', '.join(kind.__name__ for kind in default)},)"
    return repr(default)


def test_the_readme_begins_with_the_two_commands():
    """A reader of README.md meets the two commands first, to the letter."""
    assert text_of(ROOT / "README.md").startswith(f"# breakerkit\n\n```sh\n{COMMANDS}```\n")


def test_the_start_page_shows_the_same_commands():
    """The start page of the docs shows the same two commands."""
    assert f"```sh\n{COMMANDS}```\n" in text_of(DOCS / "index.md")


def test_the_table_of_defaults_is_that_of_the_config():
    """docs/breaker.md lists every field of BreakerConfig, in order, with its default."""
    rows = rows_under(DOCS / "breaker.md", "Defaults")
    fields = attrs.fields(BreakerConfig)
    assert [row[:2] for row in rows] == [
        [f"`{field.name}`", f"`{shown(field.default)}`"] for field in fields
    ]


@pytest.mark.parametrize(
    ("module", "names"),
    [("breakerkit", breakerkit.__all__), ("breakerkit.testing", testing.__all__)],
)
def test_every_public_name_is_in_the_reference(module, names):
    """docs/api.md has an entry for every name that is exported."""
    reference = text_of(DOCS / "api.md")
    entries = re.findall(rf":: (?:{re.escape(module)}\.)?(\w+)(?:\(\))?$", reference, re.MULTILINE)
    assert [name for name in names if name not in entries] == []


def test_every_event_is_in_the_table_of_events():
    """docs/breaker.md lists every kind of event with its own fields."""
    rows = rows_under(DOCS / "breaker.md", "Events")
    common = {"name", "timestamp"}
    assert {row[0]: row[2] for row in rows} == {
        f"`{kind.__name__}`": ", ".join(
            f"`{field.name}`" for field in attrs.fields(kind) if field.name not in common
        )
        for kind in EVENT_KINDS
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    """A link to a file leads to a file, and one to a heading to a heading of that page."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors_of(file), target


def anchors_of(page):
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,3} (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one).strip().lower().replace(" ", "-") for one in headings}


def test_every_page_is_in_a_table_of_contents():
    """Each page of the docs can be reached from the start page."""
    listed = re.findall(r"```\{toctree\}(.*?)```", text_of(DOCS / "index.md"), re.DOTALL)
    names = set(re.findall(r"^[\w-]+$", "\n".join(listed), re.MULTILINE))
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index", "benchmarks-table"}
    assert names == pages


@pytest.mark.parametrize("picture", sorted((DOCS / "_static").glob("*.svg")), ids=name_of)
def test_pictures_are_sound(picture):
    """A picture is well-formed, and the hand-made ones say in words what they show."""
    root = ET.fromstring(text_of(picture))
    made_by_hand = "class" in root.attrib
    assert not made_by_hand or all(
        root.find(f"{{http://www.w3.org/2000/svg}}{part}").text for part in ("title", "desc")
    )


def test_the_changelog_knows_this_version():
    """CHANGELOG.md has an entry for the version of the package."""
    version = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["version"]
    assert breakerkit.__version__ == version
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$",
                     text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)  # fmt: skip
