"""After a fork with busy threads the child has fresh locks, free slots and its parent's evidence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import breakerkit

SCRIPT = Path(__file__).with_name("forking.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("scene", ["busy", "held", "leases", "evidence", "inside", "families"])
def test_a_forked_child(scene: str) -> None:
    """Every child ends its calls in time, and finds what the scene says; see `forking`."""
    # From 3.12 on Python warns of any fork beside threads: that is what is tested here.
    mode = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    root = str(Path(breakerkit.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *mode, str(SCRIPT), scene],
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
