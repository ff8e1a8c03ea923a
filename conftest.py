"""How the documentation is tested: every Python block of README.md, docs/ and the docstrings runs.

    ```python   runs; the blocks of a page share one namespace and tell one story
    ```output   must be what the block above it printed; ... stands for anything
    ```py       the spelling of another library; runs where that library is installed

A block whose first line is ``# name.py`` is a file that later blocks of its page
import. One called ``# test_name.py`` is run by pytest in a process of its own, as
its reader would run it, with the files of the page beside it.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import time_machine
from sybil import Example, Sybil
from sybil.evaluators.doctest import DocTestEvaluator
from sybil.integration.pytest import SybilItem
from sybil.parsers.abstract.doctest import DocTestStringParser
from sybil.parsers.myst import CodeBlockParser
from sybil.parsers.rest import PythonCodeBlockParser

from breakerkit import testing
from breakerkit.testing import fresh_registry, reset_all, wall_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ROOT = Path(__file__).parent
#: When every block runs, so that what it prints is the same each time.
MOMENT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
#: The file whose tests run.
_last: dict[str, Path] = {}
FILE = re.compile(r"# (?P<name>\w+)\.py\n")


class Story:
    """What the blocks of one page have in common besides their names."""

    def __init__(self) -> None:
        self.told: set[int] = set()
        self.output = ""
        self.files: dict[str, str] = {}
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(wall_clock())
        self.stack.enter_context(fresh_registry())
        self.stack.callback(self.forget_files)

    def forget_files(self) -> None:
        """Take the modules of the page out again, and only those: a policy is imported once."""
        for file in self.files:
            sys.modules.pop(file.removesuffix(".py"), None)


def begin(namespace: dict[str, Any]) -> None:
    """Start a page with no names taken and every breaker closed."""
    reset_all()
    namespace["__story__"] = Story()


def end(namespace: dict[str, Any]) -> None:
    """Bring back what was there before the page."""
    namespace["__story__"].stack.close()


def block(run: Callable[[Example, Story], str | None]) -> Callable[[Example], str | None]:
    """Return an evaluator that tells what comes before a block first, should it run alone."""

    def evaluate(example: Example) -> str | None:
        story: Story = example.namespace["__story__"]
        story.told.add(example.start)
        for earlier in example.document:
            if earlier.start < example.start and earlier.start not in story.told:
                earlier.evaluate()
        with time_machine.travel(MOMENT, tick=False):
            return run(example, story)

    return evaluate


def run_python(example: Example, story: Story) -> str | None:
    """Run a block, or take it as a file if it is one."""
    source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
    code = compile(source, example.path, "exec", dont_inherit=True)
    named = FILE.match(example.parsed)
    name = named["name"] if named else ""
    story.files |= {f"{name}.py": example.parsed} if named else {}
    if name.startswith("test_"):
        return run_pytest(f"{name}.py", story)
    into = example.namespace
    if named:
        module = sys.modules[name] = types.ModuleType(name)
        into = vars(module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, into)  # noqa: S102  # it is what a documentation test does
    story.output = printed.getvalue()
    return None


def run_pytest(test: str, story: Story) -> str | None:
    """Run a test file of the page; return what pytest says if it fails."""
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "breakerkit.testing.plugin"]
    # Of all plugins that may be installed only ours: it starts faster, and the page needs no other.
    alone = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in story.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        done = subprocess.run(  # noqa: S603  # our own interpreter on our own files
            [sys.executable, "-m", "pytest", *options, test],
            cwd=folder,
            env=os.environ | alone,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    story.output = done.stdout
    return done.stdout + done.stderr if done.returncode else None


def compare(example: Example, story: Story) -> str | None:
    """Compare what a page shows as output with what was printed."""
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if checker.check_output(example.parsed, story.output, flags):
        return None
    return f"printed was:\n{story.output}"


def run_peer(example: Example, story: Story) -> str | None:
    """Run the spelling of another library, or skip it where that library is absent."""
    try:
        with warnings.catch_warnings(action="ignore"):  # what it warns of is not ours
            return run_python(example, story)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")


class DocTests:
    """The ``>>>`` examples of a docstring."""

    def __init__(self) -> None:
        self._parser = DocTestStringParser(DocTestEvaluator(doctest.ELLIPSIS))

    def __call__(self, document: Any) -> Any:
        """Return the regions of the document that are such examples."""
        return self._parser(document.text, document.path)


pages = Sybil(
    [
        CodeBlockParser("python", block(run_python)),
        CodeBlockParser("output", block(compare)),
        CodeBlockParser("py", block(run_peer)),
    ],
    patterns=["README.md", "docs/*.md"],
    setup=begin,
    teardown=end,
)
docstrings = Sybil([PythonCodeBlockParser(), DocTests()], path="breakerkit", pattern="*.py")

pytest_collect_file = (pages + docstrings).pytest()


def pytest_configure() -> None:
    """Let Ctrl-C come through: a shell that runs the tests in its background has it ignored, and tests press it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Put what there is out of the collector's sight, once a file: many tests make it run."""
    if _last.get("path") != item.path:
        _last["path"] = item.path
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Leave breakers as they are between two blocks of a page, where the plugin would close them."""
    told = isinstance(item, SybilItem)
    with mock.patch.object(testing, "reset_all") if told else contextlib.nullcontext():
        return (yield)
