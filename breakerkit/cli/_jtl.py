"""How a JMeter CSV file is written: bytes in, one `Row` of text fields per call out, each with its line number."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["MAXIMUM_BYTES", "Row", "TraceError", "read_text", "rows"]

#: More than this is not a load test's log but a wrong file, or one to cut first.
MAXIMUM_BYTES = 256 * 1024 * 1024

NEEDED = ("timeStamp", "elapsed", "responseCode", "success")

#: What JMeter writes when the header is switched off (5.x).
DEFAULT_ORDER = [
    *("timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName"),
    *("dataType", "success", "failureMessage", "bytes", "sentBytes", "grpThreads"),
    *("allThreads", "URL", "Latency", "IdleTime", "Connect"),
]

#: The same without the optional ``dataType``.
SHORT_ORDER = [column for column in DEFAULT_ORDER if column != "dataType"]

_DIGITS = re.compile("[0-9]+")
_FIRST_FIELD = re.compile(r'"?[0-9]+"?([,\t;|])')
_ROW_INSIDE_A_FIELD = re.compile(r"[\r\n][0-9]{10,}[,\t;|][0-9]+[,\t;|]")
_FIELD_LIMIT = 131_072  # what the csv module takes by default


class TraceError(Exception):
    """Say what is wrong with a trace file, and in which line of which file.

    Attributes:
        file: the file as it was named.
        line: its line, from 1; ``None`` if the file could not be read at all.
        problem: what is wrong and what is allowed.
    """

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(file, line, problem)
        self.file = file
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{where}: {self.problem}"


class Row(NamedTuple):
    """One call as it was written; ``message`` is empty where that column is missing."""

    line: int
    started: str
    elapsed: str
    code: str
    message: str
    success: str
    last: bool


class _Record(NamedTuple):
    line: int
    fields: list[str]


def read_text(path: Path) -> str:
    """Return the text of the file: UTF-8, or UTF-16 where a byte order mark says so.

    Raises:
        TraceError: if it cannot be read, is too long, or is in another encoding.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise TraceError(str(path), None, f"cannot be read: {error.strerror}") from None
    except ValueError as error:  # a name with a null character in it
        raise TraceError(repr(str(path)), None, f"cannot be read: {error}") from None
    if len(data) > MAXIMUM_BYTES:
        raise TraceError(str(path), None, f"is longer than {MAXIMUM_BYTES >> 20} MiB; cut it first")
    return _decode(data, str(path))


def _decode(data: bytes, name: str) -> str:
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", data[: error.start])) + 1
        raise TraceError(
            name, line, "is not UTF-8 text; a trace is a JMeter result file in CSV format"
        ) from None


def rows(text: str, name: str) -> Iterator[Row]:
    """Yield the rows below the header, blank lines and repeated headers left out.

    A last row with too few columns was cut off while it was written: it is
    yielded empty. Anywhere else that is an error.

    Raises:
        TraceError: at the line that cannot be a row of a JMeter CSV file.
    """
    records = _records(text, name)
    if not records:
        raise TraceError(name, 1, "the file is empty; a trace is a JMeter CSV result file")
    first = [field.strip() for field in records[0].fields]
    headless = _DIGITS.fullmatch(first[0]) is not None
    at = _positions(_default_columns(first) if headless else first, records[0].line, name)
    least, most = (max(at.values()) + 1, None) if headless else (len(first), len(first))
    for record in records if headless else records[1:]:
        if record.fields == records[0].fields and not headless:
            continue  # files glued together
        last = record is records[-1]
        if len(record.fields) < least and last:
            yield Row(record.line, "", "", "", "", "", last)
            continue
        _check_width(record, least, most, name)
        yield _row(record, at, last)


def _records(text: str, name: str) -> list[_Record]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    found: list[_Record] = []
    line = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                found.append(_Record(line, fields))
            line = reader.line_num + 1
    except csv.Error:
        raise TraceError(name, line, f"no field is longer than {_FIELD_LIMIT} characters") from None
    if found and any(_ROW_INSIDE_A_FIELD.search(field) for field in found[-1].fields):
        raise TraceError(name, found[-1].line, "a quote that opens here is never closed")
    return found


def _delimiter(text: str) -> str:
    line = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    row = _FIRST_FIELD.match(line)
    if row:
        return row[1]
    for delimiter in ",\t;|":
        if "timestamp" in (name.strip().strip('"').lower() for name in line.split(delimiter)):
            return delimiter
    return ","


def _default_columns(first: Sequence[str]) -> list[str]:
    place = SHORT_ORDER.index("success")
    short = len(first) > place and first[place].lower() in {"true", "false"}
    return SHORT_ORDER if short else DEFAULT_ORDER


def _positions(columns: Sequence[str], line: int, name: str) -> dict[str, int]:
    if columns[0].startswith("<"):
        raise TraceError(name, line, "is XML; have JMeter save its results as CSV")
    at = {column.lower(): place for place, column in reversed(list(enumerate(columns)))}
    missing = [column for column in NEEDED if column.lower() not in at]
    if missing:
        raise TraceError(
            name,
            line,
            f"no column {', '.join(missing)}; a trace is a JMeter CSV result file with the columns"
            f" {', '.join(NEEDED)} (any order, more columns welcome)",
        )
    wanted = [*NEEDED, "responseMessage"]
    return {column: at[column.lower()] for column in wanted if column.lower() in at}


def _check_width(record: _Record, least: int, most: int | None, name: str) -> None:
    # A delimiter at the end of each row makes empty columns, which do no harm.
    found = len(record.fields)
    if found < least or (most is not None and any(record.fields[most:])):
        raise TraceError(name, record.line, f"{found} columns, where {least} are expected")


def _row(record: _Record, at: dict[str, int], last: bool) -> Row:
    started, elapsed, code, success = (record.fields[at[name]].strip() for name in NEEDED)
    place = at.get("responseMessage")
    message = "" if place is None else record.fields[place].strip()
    return Row(record.line, started, elapsed, code, message, success, last)
