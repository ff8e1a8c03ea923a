"""The script that made the recording that ships: it plays the real thing, and writes what the demo reads."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from breakerkit.cli._trace import Answer, read

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "record_outage.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, made to last three seconds."""
    spec = importlib.util.spec_from_file_location("record_outage", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "record_outage", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "WARM_UP", 0.0)
    for name in ("SECONDS", "FREEZE_AT", "KILL_AT", "RESTART_AT"):
        monkeypatch.setattr(module, name, getattr(module, name) / 25)
    monkeypatch.setattr(module, "RATE", 40.0)
    monkeypatch.setattr(module, "TIMEOUT", 0.4)
    return module


def test_a_real_service_is_frozen_killed_and_revived(script: ModuleType, tmp_path: Path) -> None:
    """The clients see good answers, time-outs, refusals and good answers again; the demo can read it."""
    out = tmp_path / "recording.csv"
    script.write(script.record(), out)
    recording = read(out)
    assert len(recording.calls) == int(script.SECONDS * script.RATE)
    answers = [call.answer for call in recording.calls]
    assert {Answer.RIGHT, Answer.RESET, Answer.REFUSED} <= set(answers)
    first_refusal = answers.index(Answer.REFUSED)
    assert Answer.RIGHT in answers[:first_refusal]
    assert Answer.RESET in answers[:first_refusal]
