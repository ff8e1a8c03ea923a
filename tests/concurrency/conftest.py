"""What the concurrency tests share: threads that take turns far more often than usual."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def eager() -> Iterator[None]:
    """Let threads take turns every ten microseconds instead of every five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
