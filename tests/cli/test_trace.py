"""The reader of JMeter's CSV results: what it survives, and one clear error for what it cannot."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from breakerkit.cli import _jtl
from breakerkit.cli._jtl import DEFAULT_ORDER, TraceError
from breakerkit.cli._trace import Answer, Call, parse, read

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success"
ROWS = [
    "1700000000000,100,a,200,OK,t-1,true",
    "1700000001000,200,a,503,Unavailable,t-1,false",
    "1700000002000,300,a,404,Not Found,t-1,false",
]
CALLS = (
    Call(0.0, 0.1, Answer.RIGHT, 200),
    Call(1.0, 0.2, Answer.SERVER_ERROR, 503),
    Call(2.0, 0.3, Answer.CALLER_ERROR, 404),
)


def calls(text: str) -> tuple[Call, ...]:
    """Return the calls in a text."""
    return parse(text, "trace.jtl", "trace.jtl").calls


def text(*rows: str, head: str = HEAD, end: str = "\n") -> str:
    """Return a file's text: a header and rows."""
    return end.join([head, *rows]) + end


def test_a_call_is_known_to_have_failed_at_its_start_plus_elapsed() -> None:
    """Starts count from the first one, in seconds; the end is start plus elapsed; 4xx is no failure."""
    found = calls(text(*ROWS))
    assert found == CALLS
    assert [round(call.end, 3) for call in found] == [0.1, 1.2, 2.3]
    assert [call.failed for call in found] == [False, True, False]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(text(*reversed(ROWS)), id="not sorted by start"),
        pytest.param(text(*ROWS, end="\r\n"), id="windows line ends"),
        pytest.param(text(*ROWS, end="\r"), id="old mac line ends"),
        pytest.param(f"{HEAD}\r\n{ROWS[0]}\n{ROWS[1]}\r{ROWS[2]}", id="mixed line ends"),
        pytest.param(text(*ROWS).replace(",", "\t"), id="tabs"),
        pytest.param(text(*ROWS).replace(",", ";"), id="semicolons"),
        pytest.param(f"\n\n{HEAD}\n\n{ROWS[0]}\n   \n{ROWS[1]}\n{ROWS[2]}\n\n", id="blank lines"),
        pytest.param(text(*ROWS, HEAD), id="files glued together"),
        pytest.param(text(*(f"{row},," for row in ROWS)), id="a delimiter too many"),
        pytest.param(text(*ROWS).replace("timeStamp", '"TIMESTAMP"'), id="quotes and case"),
        pytest.param(text(*(f" {row} " for row in ROWS)), id="spaces"),
        pytest.param(
            text(*ROWS).replace("OK", '"a ""quoted""\n, new\r\nline"'), id="quoted newlines"
        ),
        pytest.param(text(*ROWS, "17000000"), id="cut in the first column"),
        pytest.param(text(*ROWS, "1700000003000,1,a,200,OK,t-1,tr"), id="cut in the last column"),
        pytest.param(text(*ROWS, '1700000003000,1,a,200,"cut in a'), id="cut in a quote"),
        pytest.param(text(*ROWS, "17000zzz,1,a,200,OK,t-1,true"), id="garbage in the last row"),
    ],
)
def test_a_reader_survives(written: str) -> None:
    """However it is written, the same three calls are found."""
    assert calls(written) == CALLS


def test_columns_may_come_in_any_order_and_more_of_them() -> None:
    """The header says where a column is; of two of one name the first counts; a message is optional."""
    head = "success,Connect,responseCode,elapsed,timeStamp,elapsed"
    assert calls(text("true,9,200,100,1700000000000,77", head=head)) == CALLS[:1]


def test_without_a_header_the_columns_are_the_default_ones() -> None:
    """JMeter's own order is taken, with the column dataType or without it."""
    tail = ",,1,1,1,1,http://x,1,0,0"
    long = [
        row.replace(",true", ",text,true").replace(",false", ",text,false") + tail for row in ROWS
    ]
    assert len(long[0].split(",")) == len(DEFAULT_ORDER)
    assert calls("\n".join(long)) == CALLS
    assert calls("\n".join(row + tail for row in ROWS)) == CALLS
    assert calls("\n".join(ROWS).replace(",", "\t")) == CALLS


def test_a_sum_of_others_is_not_counted_twice() -> None:
    """A transaction's row is left out and mentioned, unless there are no others."""
    parent = '1700000000000,600,p,,"Number of samples in transaction : 3, number of failing samples : 1",t,false'
    found = parse(text(*ROWS, parent), "x", "x")
    assert found.calls == CALLS
    assert found.notes == ("rows left out because they sum up others: 1",)
    alone = parse(text(parent), "x", "x")
    assert alone.calls == (Call(0.0, 0.6, Answer.RESET),)
    assert alone.notes == ()


def test_a_cut_last_line_is_mentioned() -> None:
    """The reader says which line it left out."""
    assert parse(text(*ROWS, "170"), "x", "x").notes == ("line 5 is cut off and was left out",)


@pytest.mark.parametrize(
    ("code", "message", "success", "answer", "status"),
    [
        ("200", "", "true", Answer.RIGHT, 200),
        ("304", "", "TRUE", Answer.RIGHT, 304),
        ("200", "took too long", "false", Answer.WRONG, 200),
        ("500", "", "true", Answer.SERVER_ERROR, 500),
        ("429", "", "true", Answer.CALLER_ERROR, 429),
        ("", "", "true", Answer.RIGHT, 200),
        ("OK", "", "true", Answer.RIGHT, 200),
        ("", "", "false", Answer.RESET, 0),
        ("600", "", "false", Answer.RESET, 0),
        ("Non HTTP response code: org.apache.http.conn.HttpHostConnectException", "", "false", Answer.REFUSED, 0),
        ("java.net.ConnectException", "Connection refused", "false", Answer.REFUSED, 0),
        ("java.net.ConnectException", "Connection timed out", "false", Answer.RESET, 0),
        ("java.net.SocketTimeoutException", "Read timed out", "false", Answer.RESET, 0),
        ("org.apache.http.NoHttpResponseException", "", "false", Answer.EMPTY, 0),
        ("java.net.SocketException", "Connection reset", "false", Answer.RESET, 0),
    ],
)  # fmt: skip
def test_what_an_answer_was(
    code: str, message: str, success: str, answer: Answer, status: int
) -> None:
    """Status, flag and exception class tell a right answer, a wrong one, and the ways to have none."""
    row = f"1700000000000,5,a,{code},{message},t,{success}"
    assert calls(text(row)) == (Call(0.0, 0.005, answer, status),)


@pytest.mark.parametrize(
    ("written", "line", "says"),
    [
        ("", 1, "the file is empty"),
        ("\n \n", 1, "the file is empty"),
        ("hello\nworld\n", 1, "no column timeStamp, elapsed, responseCode, success"),
        ("\n\ntimeStamp,elapsed,success\n", 3, "no column responseCode"),
        ("<?xml version='1.0'?>\n<testResults/>\n", 1, "is XML"),
        (text(), 1, "no complete call up to here"),
        (text("17"), 2, "no complete call up to here"),
        (text(ROWS[0], "soon,1,a,200,OK,t,true", ROWS[1]), 3, "timeStamp must be whole milliseconds since 1970, not 'soon'"),
        (text(ROWS[0], "1700000000000,-1,a,200,OK,t,true", ROWS[1]), 3, "elapsed must be whole milliseconds, not '-1'"),
        (text(ROWS[0], "1700000000000,٣,a,200,OK,t,true", ROWS[1]), 3, "elapsed must be"),
        (text(ROWS[0], "1700000000000,1,a,200,OK,t,maybe", ROWS[1]), 3, "success must be true or false, not 'maybe'"),
        (text(ROWS[0], f"1700000000000,{'9' * 60},a,200,OK,t,true", ROWS[1]), 3, "9...'"),
        (text(ROWS[0], "1700000000000,1,a", ROWS[1]), 3, "3 columns, where 7 are expected"),
        (text(ROWS[0], f"{ROWS[1]},more", ROWS[2]), 3, "8 columns, where 7 are expected"),
        (text(ROWS[0], '1700000000000,1,a,200,"x\ny",t', ROWS[1]), 3, "6 columns"),
        (text(ROWS[0], '1700000000000,1,a,200,"OK', *ROWS), 3, "a quote that opens here is never closed"),
        (text(ROWS[0], f'1700000000000,1,a,200,"{"x" * 140_000}",t,true'), 3, "no field is longer than 131072"),
        (text(*ROWS, "1799999999999,1,a,200,OK,t,true"), 5, "ends more than 14 days after the first call"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_error_with_its_line(written: str, line: int, says: str) -> None:
    """The error names the file, the line, what is wrong and what is allowed, in one line."""
    with pytest.raises(TraceError) as caught:
        calls(written)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"trace.jtl, line {line}: ")
    assert says in caught.value.problem
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    """UTF-8 and UTF-16 with a mark are read; the recording has the file's name."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path = tmp_path / f"{encoding}.jtl"
        path.write_text(text(*ROWS).replace("OK", "Ωκ"), encoding=encoding)
        found = read(path)
        assert (found.name, found.calls) == (path.name, CALLS)


def test_another_encoding_is_an_error_at_the_line_it_shows(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are named by their line, whatever the line ends."""
    path = tmp_path / "latin.jtl"
    path.write_bytes(text(*ROWS, end="\r\n").encode() + b"caf\xe9")
    with pytest.raises(TraceError, match=r"latin\.jtl, line 5: is not UTF-8 text"):
        read(path)


def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, a folder, an impossible name, too long: the error names the file and says why."""
    with pytest.raises(TraceError, match="none: cannot be read: No such file or directory"):
        read(tmp_path / "none")
    with pytest.raises(TraceError, match="cannot be read: Is a directory") as caught:
        read(tmp_path)
    assert caught.value.line is None
    with pytest.raises(TraceError, match="cannot be read: embedded null"):
        read(tmp_path / "a\0b")
    monkeypatch.setattr(_jtl, "MAXIMUM_BYTES", 5)
    (tmp_path / "long").write_text("123456")
    with pytest.raises(TraceError, match="long: is longer than 0 MiB; cut it first"):
        read(tmp_path / "long")


FRAGMENTS = st.sampled_from(
    [HEAD, *ROWS, "\n", "\r\n", "\r", ",", "\t", '"', "1700000000000", "true", "\0"]
)


@given(st.one_of(st.text(), st.lists(st.one_of(FRAGMENTS, st.text(max_size=3))).map("".join)))
@example(f'{HEAD}\n1,1,a,200,"\n1700000000000,5,')
def test_any_text_is_a_list_of_calls_or_one_error_with_a_line(written: str) -> None:
    """Whatever the text, the reader ends with calls or with an error at an existing line."""
    try:
        found = calls(written)
    except TraceError as error:
        assert error.line is not None
        assert 1 <= error.line <= len(written) + 1
    else:
        assert found
        assert [call.start for call in found] == sorted(call.start for call in found)
        assert found[0].start == 0.0


CODES = {
    Answer.RIGHT: "200",
    Answer.WRONG: "200",
    Answer.CALLER_ERROR: "404",
    Answer.SERVER_ERROR: "503",
    Answer.REFUSED: "ConnectionRefusedError",
    Answer.RESET: "SocketException",
    Answer.EMPTY: "NoHttpResponseException",
}


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.sampled_from(list(Answer)))).filter(bool),
    st.sampled_from([",", "\t", ";", "|"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_what_is_written_is_read_again(rows: list, delimiter: str, end: str, shuffle) -> None:
    """Calls written with any delimiter and line end, in any order of rows and columns, come back."""
    columns = ["timeStamp", "elapsed", "responseCode", "success", "responseMessage", "x"]
    shuffle.shuffle(columns)
    lines = [delimiter.join(columns)]
    for start, elapsed, answer in rows:
        success = str(answer is Answer.RIGHT).lower()
        values = {"timeStamp": start, "elapsed": elapsed, "success": success, "x": ""}
        values |= {"responseCode": CODES[answer], "responseMessage": '"a\nb"'}
        lines.append(delimiter.join(str(values[column]) for column in columns))
    zero = min(start for start, _, _ in rows)
    expected = sorted(
        ((start - zero) / 1000, elapsed / 1000, answer) for start, elapsed, answer in rows
    )
    found = calls(end.join(lines) + end)
    assert sorted((call.start, call.elapsed, call.answer) for call in found) == expected


@pytest.mark.parametrize(
    ("name", "number", "failed", "notes"),
    [
        ("outage-recovery.jtl", 13_000, 3_531, 0),
        ("process-killed.jtl", 2_230, 918, 0),
        ("flapping-at-capacity.jtl", 5_608, 687, 0),
        ("healthy-with-noise.jtl", 4_955, 109, 2),
    ],
)
def test_the_real_recordings_are_read(
    traces: Path, name: str, number: int, failed: int, notes: int
) -> None:
    """Each real file gives as many calls and failures as were counted by other means."""
    found = read(traces / name)
    kinds = Counter(call.failed for call in found.calls)
    assert (len(found.calls), kinds[True], len(found.notes)) == (number, failed, notes)
