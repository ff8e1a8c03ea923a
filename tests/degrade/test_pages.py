"""The two pages of this wing say what the code says."""

from __future__ import annotations

import attrs
import pytest

from breakerkit import DegradableConfig, FallbackConfig, events
from breakerkit._degradable import Degradable
from breakerkit._fallback import Fallback
from breakerkit.degrade.board import Board
from tests.docs.test_pages import DOCS, rows_under, shown, text_of


@pytest.mark.parametrize(
    ("page", "config"), [("fallback", FallbackConfig), ("degradation", DegradableConfig)]
)
def test_the_tables_of_defaults(page, config):
    """Every setting is listed, in order, with its default."""
    rows = rows_under(DOCS / f"{page}.md", "Defaults")
    fields = attrs.fields(config)
    assert [row[:2] for row in rows] == [
        [f"`{field.name}`", f"`{shown(field.default)}`"] for field in fields
    ]


@pytest.mark.parametrize(
    ("page", "keepers"),
    [("fallback", [Fallback.keeper]), ("degradation", [Board, Degradable.keeper])],
)
def test_the_tables_of_events(page, keepers):
    """Every kind of event is listed with its own fields."""
    text = text_of(DOCS / f"{page}.md")
    common = {field.name for field in attrs.fields(events.Event)}
    for kind in {kind for keeper in keepers for kind in keeper.kinds}:
        fields = [f"`{field.name}`" for field in attrs.fields(kind) if field.name not in common]
        assert f"| `{kind.__name__}` |" in text
        row = text.partition(f"| `{kind.__name__}` |")[2].partition("\n")[0]
        assert row.split("|")[-2].strip() == ", ".join(fields)
