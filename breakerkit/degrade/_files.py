"""A file of rules: read whole and checked whole, so that a broken one says where and changes nothing."""

from __future__ import annotations

import functools
import json
import os
import re
import stat
import tomllib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from breakerkit._fields import near, show
from breakerkit._until import LONGEST
from breakerkit.degrade import _json as exact
from breakerkit.degrade import _places as places
from breakerkit.degrade._standing import check_name, check_text
from breakerkit.degrade.rule import Rule
from breakerkit.errors import ConfigError, RuleError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes a file of rules may have.
MOST_BYTES = 1_048_576
#: Parts a dotted key may have: for one that has no end the parser takes for ever.
MOST_PARTS = 64
#: What is no key: texts and comments. A text that is never closed is taken to the end, once: who
#: looks again from each quote in it takes for ever.
_ASIDE = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?|\'{3}.*?(?:\'{3,5}|\Z)'''
    r"""|"(?:[^"\\\n]|\\[^\n])*+"?|'[^'\n]*+'?|#[^\n]*""",
    re.DOTALL,
)
_CHAIN = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{MOST_PARTS}}}")
KEYS = ("name", "rule", "by", "reason", "until")
_LAYOUT = (
    'a file of rules has "rules", a list of tables with name, rule, and maybe by, reason, until'
)


@attrs.frozen
class Line:
    """One rule as somebody says it: a file, where ``until`` is a moment, or a program."""

    name: str
    rule: Rule
    by: str | None
    reason: str | None
    until: datetime | timedelta | None


class Mark(NamedTuple):
    """What a file looks like from outside; another one is another file, or another content."""

    changed: int
    size: int
    inode: int
    device: int


class Reading(NamedTuple):
    """A file's bytes, and what it looked like when they were read."""

    mark: Mark
    data: bytes


def source_of(path: Any) -> str:
    """Return the name under which the rules of a file are kept: its whole path.

    Raises:
        RuleError: it is no path of a TOML or JSON file.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str) or "\0" in text or _suffix(text) not in _PARSERS:
        raise RuleError(f"path={show(path)}: must be the path of a .toml or .json file")
    return os.path.abspath(text)  # noqa: PTH100  # resolve() would follow a link that may be moved later


def mark_of(source: str) -> Mark:
    """Return what a file looks like now.

    Raises:
        OSError: there is none.
    """
    return _mark(Path(source).stat())


def read(source: str) -> Reading:
    """Return the bytes of a file.

    Raises:
        RuleError: it is not there, no regular file, or too large.
    """
    try:
        # Without blocking: a pipe of that name would wait for its writer for ever.
        handle = os.open(source, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode):
                raise RuleError(f"{source}: is no regular file")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RuleError(f"{source}: cannot be read: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise RuleError(f"{source}: is larger than {MOST_BYTES} bytes")
    return Reading(_mark(seen), data)


def parse(source: str, data: bytes) -> list[Line]:
    """Return the rules in a file's bytes.

    Raises:
        RuleError: it cannot be taken; names the file, the line where that is
            known, and what is allowed.
    """
    text = _text(source, data)
    try:
        document = _PARSERS[_suffix(source)](text)
    except RecursionError:
        raise RuleError(f"{source}: nests too deeply") from None
    except ValueError as odd:
        raise RuleError(f"{source}: {odd}") from None
    return _lines(source, text, _entries(source, document))


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


def _mark(seen: os.stat_result) -> Mark:
    return Mark(seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_dev)


def _text(source: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as odd:
        number = data.count(b"\n", 0, odd.start) + 1
        raise RuleError(f"{source}, line {number}: is not UTF-8") from None


def _json(text: str) -> Any:
    try:
        return exact.read(text)
    except json.JSONDecodeError as odd:
        raise ValueError(f"line {odd.lineno}: is not JSON: {odd.msg}") from None


def _toml(text: str) -> Any:
    if _CHAIN.search(_ASIDE.sub("x", text)):
        raise ValueError(f"has a dotted key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as odd:
        raise ValueError(f"is not TOML: {odd}") from None


_PARSERS: dict[str, Callable[[str], Any]] = {".toml": _toml, ".json": _json}


def _entries(source: str, document: Any) -> list[Any]:
    if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
        raise RuleError(f'{source}: has no list "rules": {_LAYOUT}; [] is for no rules')
    for key in document:
        if key != "rules":
            raise RuleError(f"{source}: has {show(key)}{near(key, ['rules'])}: {_LAYOUT}")
    return document["rules"]  # type: ignore[no-any-return]  # a list, as was looked


def _lines(source: str, text: str, entries: list[Any]) -> list[Line]:
    lines: dict[str, Line] = {}
    for number, entry in enumerate(entries):
        try:
            line = _line(entry)
            if line.name in lines:
                first = list(lines).index(line.name) + 1
                raise _WrongError("name", f"name {line.name!r} is in rule {first} already")
        except _WrongError as wrong:
            where = places.where(text, _suffix(source), len(entries), number, wrong.key)
            raise RuleError(f"{source}, {where}: {wrong}") from None
        lines[line.name] = line
    return list(lines.values())


class _WrongError(Exception):
    """What is wrong with one rule, and under which key."""

    def __init__(self, key: str | None, why: str) -> None:
        super().__init__(why)
        self.key = key


def _line(entry: Any) -> Line:
    if not isinstance(entry, dict):
        raise _WrongError(None, f"{show(entry)} is no table with {', '.join(KEYS)}")
    for key in entry:
        if key not in _CHECKS:
            raise _WrongError(key, f"no such key {show(key)}{near(key, KEYS)}: {_LAYOUT}")
    for key in KEYS[:2]:
        if key not in entry:
            raise _WrongError(None, f"has no {key}: {_LAYOUT}")
    return Line(*(_checked(key, entry.get(key)) for key in KEYS))


def _checked(key: str, value: Any) -> Any:
    try:
        return _CHECKS[key](value)
    except ConfigError as odd:
        raise _WrongError(key, str(odd)) from None


def _until(value: Any) -> datetime | None:
    """Return a moment: a file is read again and again, so a time from now would never pass."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if moment.tzinfo is None or moment - datetime.now(UTC) > timedelta(seconds=LONGEST):
            raise ValueError
        return moment.astimezone(UTC)
    except (ValueError, TypeError, AttributeError, OverflowError):
        shown = value if isinstance(value, date) else show(value)
        raise RuleError(
            f"until={shown}: must be a date and time with an offset, such as"
            " 2026-03-01T12:00:00Z, within a hundred years"
        ) from None


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": check_name,
    "rule": Rule.parse,
    "by": functools.partial(check_text, "by"),
    "reason": functools.partial(check_text, "reason"),
    "until": _until,
}
