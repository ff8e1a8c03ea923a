"""What a recorded outage is: calls that began, took their time and were answered somehow."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from breakerkit.cli._jtl import Row, TraceError, read_text, rows

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FAILURES", "LONGEST_DAYS", "Answer", "Call", "Recording", "parse", "read"]

LONGEST_DAYS = 14
_DAY = 86_400.0
_SHORT = 40  # characters of a wrong field that an error shows

_MILLISECONDS = re.compile("[0-9]{1,14}")
_STATUS = re.compile("[1-5][0-9][0-9]")
_REFUSED = re.compile("refused|connectexception|hostconnect|unknownhost|noroutetohost")
_EMPTY = re.compile("nohttpresponse|remotedisconnected|failed to respond|endofchunk")
_SUM_OF_OTHERS = "Number of samples in transaction"


class Answer(enum.StrEnum):
    """How the service answered a call."""

    RIGHT = "right"
    WRONG = "wrong"  #: a good status, but judged too slow or wrong
    CALLER_ERROR = "caller error"  #: 4xx: the caller's fault, not the service's
    SERVER_ERROR = "server error"  #: 5xx
    REFUSED = "refused"  #: nobody listened
    RESET = "reset"  #: the connection broke
    EMPTY = "empty"  #: the connection was closed without a word


#: The answers that are the service's failure.
FAILURES = frozenset(
    {Answer.WRONG, Answer.SERVER_ERROR, Answer.REFUSED, Answer.RESET, Answer.EMPTY}
)


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call.

    Attributes:
        start: seconds since the first call of the recording began.
        elapsed: seconds it took; only at ``end`` is its outcome known.
        answer: how the service answered.
        status: the HTTP status, 0 where there was none.
    """

    start: float
    elapsed: float
    answer: Answer
    status: int = 0

    @property
    def end(self) -> float:
        """Seconds since the first call began."""
        return self.start + self.elapsed

    @property
    def failed(self) -> bool:
        """Whether this was the service's failure."""
        return self.answer in FAILURES


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded outage.

    Attributes:
        name: what to call it: the name of the file.
        calls: in the order in which they began.
        notes: what was left out while reading, one sentence each.
    """

    name: str
    calls: tuple[Call, ...]
    notes: tuple[str, ...] = ()

    @property
    def span(self) -> float:
        """Seconds from the first start to the last end."""
        return max(call.end for call in self.calls)


def read(path: Path) -> Recording:
    """Read a JMeter CSV result file.

    Raises:
        TraceError: if it is none; with the line where that shows.
    """
    return parse(read_text(path), str(path), path.name)


def parse(text: str, file: str, name: str) -> Recording:
    """Return the recording that the text of a JMeter CSV result file holds.

    Rows that sum up others (transaction controllers) are left out, unless the
    file has no other rows. A cut last row is left out.

    Raises:
        TraceError: with ``file`` and the line that is wrong.
    """
    singles: list[_Timed] = []
    sums: list[_Timed] = []
    notes: list[str] = []
    for row in rows(text, file):
        timed = _timed(row, file)
        if timed is None:
            notes.append(f"line {row.line} is cut off and was left out")
        else:
            (sums if row.message.startswith(_SUM_OF_OTHERS) else singles).append(timed)
    if singles and sums:
        notes.append(f"rows left out because they sum up others: {len(sums)}")
    found = singles or sums
    if not found:
        raise TraceError(file, max(1, len(text.splitlines())), "no complete call up to here")
    return Recording(name, _calls(found, file), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Timed:
    line: int
    started: int
    elapsed: int
    answer: Answer
    status: int


def _timed(row: Row, file: str) -> _Timed | None:
    try:
        answer, status = _answer(row, file)
        started = _milliseconds(row, "timeStamp", row.started, file)
        return _Timed(
            row.line, started, _milliseconds(row, "elapsed", row.elapsed, file), answer, status
        )
    except TraceError:
        if row.last:
            return None
        raise


def _milliseconds(row: Row, column: str, text: str, file: str) -> int:
    if not _MILLISECONDS.fullmatch(text):
        of = " since 1970" if column == "timeStamp" else ""
        raise TraceError(
            file, row.line, f"{column} must be whole milliseconds{of}, not {_short(text)}"
        )
    return int(text)


def _answer(row: Row, file: str) -> tuple[Answer, int]:
    success = row.success.lower()
    if success not in {"true", "false"}:
        raise TraceError(
            file, row.line, f"success must be true or false, not {_short(row.success)}"
        )
    if _STATUS.fullmatch(row.code):
        status = int(row.code)
        return _by_status(status, success == "true"), status
    # Samplers that speak no HTTP write "OK" or nothing; a failure without a
    # status is an exception class, or a transaction's empty code.
    return (Answer.RIGHT, 200) if success == "true" else (_by_text(row), 0)


def _by_status(status: int, good: bool) -> Answer:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Answer.SERVER_ERROR
    if status >= HTTPStatus.BAD_REQUEST:
        return Answer.CALLER_ERROR
    return Answer.RIGHT if good else Answer.WRONG


def _by_text(row: Row) -> Answer:
    text = f"{row.code} {row.message}".lower()
    if "timeout" in text or "timed out" in text:
        return Answer.RESET
    if _REFUSED.search(text):
        return Answer.REFUSED
    return Answer.EMPTY if _EMPTY.search(text) else Answer.RESET


def _calls(found: list[_Timed], file: str) -> tuple[Call, ...]:
    zero = min(timed.started for timed in found)
    last = max(found, key=lambda timed: timed.started + timed.elapsed)
    if (last.started + last.elapsed - zero) / 1000 > LONGEST_DAYS * _DAY:
        raise TraceError(
            file,
            last.line,
            f"ends more than {LONGEST_DAYS} days after the first call; cut it first",
        )
    found.sort(key=lambda timed: (timed.started, timed.elapsed))
    return tuple(
        Call((timed.started - zero) / 1000, timed.elapsed / 1000, timed.answer, timed.status)
        for timed in found
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHORT else f"{text[:_SHORT]}...")
