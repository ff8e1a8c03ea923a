"""What every test of providers gets: a shared error that has not been raised yet."""

from __future__ import annotations

import pytest

from tests.providers.rig import DOWN


@pytest.fixture(autouse=True)
def _down_as_new() -> None:
    """An error that is raised again and again grows a traceback."""
    DOWN.__traceback__ = DOWN.__context__ = None
