"""Files: the exact reading or the exact refusal."""

import gzip
from pathlib import Path

import pytest

from app.errors import InvalidRequestError, MalformedError, PursuitError, UnsupportedMediaError
from app.tables import from_columns, read_table
from tests.app.tables.faults import Fault, faults, texts

READINGS: list[tuple[str, bytes, dict[str, list[str]]]] = [
    ("comma", b"a,b\n1,2\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
    ("no last line end", b"a,b\n1,2\n3,4", {"a": ["1", "3"], "b": ["2", "4"]}),
    ("tab", b"a\tb\n1,5\t2\n", {"a": ["1,5"], "b": ["2"]}),
    ("semicolon", b"a;b\n1,5;2\n", {"a": ["1,5"], "b": ["2"]}),
    ("commas in a semicolon header", b'"a, in m";b\n1;2\n', {"a, in m": ["1"], "b": ["2"]}),
    ("semicolons lose against agreement", b"a,b;c,d;e\n1;2;3\n", {"a,b": ["1"], "c,d": ["2"], "e": ["3"]}),
    ("tabs where commas would make a title", b"a\tb\n\t:,:\n10,5\t\n", {"a": ["", "10,5"], "b": [":,:", ""]}),
    ("CRLF", b"a,b\r\n1,2\r\n", {"a": ["1"], "b": ["2"]}),
    ("CR", b"a,b\r1,2\r3,4\r", {"a": ["1", "3"], "b": ["2", "4"]}),
    ("byte order mark", b"\xef\xbb\xbfa,b\n1,2\n", {"a": ["1"], "b": ["2"]}),
    ("gzip", gzip.compress(b"a,b\n1,2\n"), {"a": ["1"], "b": ["2"]}),
    ("two gzip members", gzip.compress(b"a,b\n1,") + gzip.compress(b"2\n"), {"a": ["1"], "b": ["2"]}),
    ("gzip with mark", gzip.compress(b"\xef\xbb\xbfa,b\n1,2\n"), {"a": ["1"], "b": ["2"]}),
    ("names trimmed, cells kept", b" a , b\t\n 1, 2\n", {"a": [" 1"], "b": [" 2"]}),
    ("blank lines", b"\n\na,b\n\n1,2\n\n\n3,4\n\n", {"a": ["1", "3"], "b": ["2", "4"]}),
    ("quotes", b'"a","b"\n"1,0","x ""y"""\n', {"a": ["1,0"], "b": ['x "y"']}),
    ("newline in quotes", b'a,b\n"x\ny",1\nz,2\n', {"a": ["x\ny", "z"], "b": ["1", "2"]}),
    ("newline in the header", b'"a\nm",b\n1,2\n', {"a\nm": ["1"], "b": ["2"]}),
    ("newline in the last cell", b'a,b\n1,"x\n"\n', {"a": ["1"], "b": ["x\n"]}),
    ("an inch", b'a,b\n5",2\n6,3"\n', {"a": ['5"', "6"], "b": ["2", '3"']}),
    ("UTF-8", "größe,b\n1,ü\n".encode(), {"größe": ["1"], "b": ["ü"]}),
    ("names in brackets", b"[m],<b>\n1,2\n", {"[m]": ["1"], "<b>": ["2"]}),
    ("empty cells", b"a,b\n,\n1,\n", {"a": ["", "1"], "b": ["", ""]}),
    ("null words stay text", b"a,b\nNA,null\n", {"a": ["NA"], "b": ["null"]}),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in READINGS], ids=[case[0] for case in READINGS])
def test_files_that_are_read(data: bytes, expected: dict[str, list[str]], tmp_path: Path) -> None:
    assert texts(read_table(data)) == expected
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    assert texts(read_table(path)) == expected


JSON_OR_HTML = (
    "the file looks like JSON or HTML, not like CSV; send JSON as application/json, or as JSON Lines: "
    "one object on each line"
)
MANY_RAGGED = b"a,b\n" + b"1,2\n3\n" * 25
REFUSALS: list[tuple[str, bytes, type[PursuitError], str, list[Fault]]] = [
    ("empty", b"", InvalidRequestError, "the file is empty: expected a header line and rows of data below it", []),
    (
        "blank",
        b" \n\r\n\t",
        InvalidRequestError,
        "the file holds only blank lines: expected a header line and rows of data below it",
        [],
    ),
    (
        "empty gzip",
        gzip.compress(b""),
        InvalidRequestError,
        "the file holds only blank lines: expected a header line and rows of data below it",
        [],
    ),
    (
        "header only",
        b"a,b\n",
        InvalidRequestError,
        "the file has a header line but no rows of data below it",
        [],
    ),
    (
        "header without line end",
        b"a,b",
        InvalidRequestError,
        "the file has a header line but no rows of data below it",
        [],
    ),
    (
        "one column",
        b"a\n1\n2\n",
        InvalidRequestError,
        "the header names only one column; expected at least two (one feature and the target), "
        "separated by comma, tab, semicolon or pipe",
        [],
    ),
    (
        "duplicate names",
        b"a,b,a\n1,2,3\n",
        InvalidRequestError,
        "every column needs a name of its own; columns 1 and 3 are both named 'a'",
        [(None, 1, "a", "columns 1 and 3 are both named 'a'")],
    ),
    (
        "empty names",
        b"\na,, \n1,2,3\n",
        InvalidRequestError,
        "every column needs a name of its own; column 2 has an empty name",
        [(None, 2, None, "column 2 has an empty name"), (None, 2, None, "column 3 has an empty name")],
    ),
    (
        "long name",
        b"a," + b"b" * 257 + b"\n1,2\n",
        InvalidRequestError,
        "every column needs a name of its own; "
        "the name of column 2 is longer than 256 characters or not valid text",
        [(None, 1, None, "the name of column 2 is longer than 256 characters or not valid text")],
    ),
    (
        "short row",
        b"a,b\n1,2\n3\n",
        InvalidRequestError,
        "line 3: expected 2 cells, got 1",
        [(1, 3, None, "expected 2 cells, got 1")],
    ),
    (
        "ragged after blank lines and quoted line ends",
        b'a,b\n\n"x\ny",2\n\n3,4,5\n6\n',
        InvalidRequestError,
        "line 6: expected 2 cells, got 3 (2 such lines)",
        [(1, 6, None, "expected 2 cells, got 3"), (2, 7, None, "expected 2 cells, got 1")],
    ),
    (
        "many ragged rows",
        MANY_RAGGED,
        InvalidRequestError,
        "line 3: expected 2 cells, got 1 (25 such lines)",
        [(2 * i + 1, 2 * i + 3, None, "expected 2 cells, got 1") for i in range(20)],
    ),
    (
        "blanks are no blank line",
        b"a,b\n1,2\n  \n",
        InvalidRequestError,
        "line 3: expected 2 cells, got 1",
        [(1, 3, None, "expected 2 cells, got 1")],
    ),
    (
        "open quotation mark",
        b'a,b\n1,"2\n3,4\n',
        MalformedError,
        "line 2: a quotation mark is never closed",
        [(None, 2, None, "a quotation mark is never closed")],
    ),
    (
        "open quotation mark in the header",
        b'a,"b\n1,2\n',
        MalformedError,
        "line 1: a quotation mark in the header is never closed",
        [],
    ),
    (
        "open quotation mark in a long file",
        b'a,b\n1,2\n3,"' + b"x,y\n" * 200_000,
        MalformedError,
        "line 3: a cell is longer than 131,072 characters; is a quotation mark not closed?",
        [],
    ),
    (
        "Latin-1 after a mark",
        b"\xef\xbb\xbfa,b\n\xe9,2\n",
        MalformedError,
        "the file is not UTF-8: byte 0xe9 at offset 7 (line 2); save it as UTF-8 and send it again",
        [],
    ),
    (
        "cut within a character",
        "a,b\n1,é".encode()[:-1],
        MalformedError,
        "the file is not UTF-8: byte 0xc3 at offset 6 (line 2); save it as UTF-8 and send it again",
        [],
    ),
    (
        "binary",
        bytes(range(256)),
        MalformedError,
        "the file is not text: line 1 holds a zero byte (NUL); expected CSV or JSON Lines in UTF-8, UTF-16 or "
        "Windows-1252, Parquet, Arrow or Excel (.xlsx)",
        [(None, 1, None, "a zero byte (NUL)")],
    ),
    (
        "a zero byte far down",
        b"a,b\n" + b"1,2\n" * 100_000 + b"1,\x002\n",
        MalformedError,
        "the file is not text: line 100,002 holds a zero byte (NUL); expected CSV or JSON Lines in UTF-8, UTF-16 or "
        "Windows-1252, Parquet, Arrow or Excel (.xlsx)",
        [(None, 100_002, None, "a zero byte (NUL)")],
    ),
    (
        "a control character",
        b"a,b\n1,2\n3,\x1b4\n",
        MalformedError,
        "the file is not text: line 3 holds the control character 0x1b; expected CSV or JSON Lines in UTF-8, UTF-16 or "
        "Windows-1252, Parquet, Arrow or Excel (.xlsx)",
        [(None, 3, None, "the control character 0x1b")],
    ),
    (
        "gzip cut short",
        gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-10],
        MalformedError,
        "the gzip file is damaged or cut short "
        "(Compressed file ended before the end-of-stream marker was reached); compress it again",
        [],
    ),
    (
        "damaged Parquet",
        b"PAR1....",
        MalformedError,
        "the Parquet file is damaged or uses what is not read here: Parquet magic bytes not found in footer. "
        "Either the file is corrupted or this is not a parquet file.",
        [],
    ),
    (
        "damaged Excel",
        b"PK\x03\x04....",
        MalformedError,
        "the Excel workbook is damaged or not of the .xlsx kind (it is cut short, or no zip archive)",
        [],
    ),
    (
        "old Excel",
        b"\xd0\xcf\x11\xe0....",
        UnsupportedMediaError,
        "the file is an old Excel workbook (.xls); expected CSV, JSON Lines, Parquet, Arrow or Excel (.xlsx), plain or "
        "in gzip or zstd",
        [],
    ),
    (
        "JSON",
        b'{"columns": {"a": [1], "b": [2]}}',
        InvalidRequestError,
        "line 1, column 'columns': expected a number or text, got an object",
        [(0, 1, "columns", "expected a number or text, got an object")],
    ),
    (
        "JSON rows",
        b'[\n  {"a": 1, "b": 2}\n]',
        MalformedError,
        JSON_OR_HTML,
        [],
    ),
    (
        "HTML",
        b"<!DOCTYPE html><p>a, b",
        MalformedError,
        JSON_OR_HTML,
        [],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "kind", "message", "places"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_files_that_are_refused(
    data: bytes, kind: type[PursuitError], message: str, places: list[Fault], tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(kind) as caught:
            read_table(source)
        assert type(caught.value) is kind
        assert caught.value.message == message
        assert faults(caught.value) == places


def test_how_many_ragged_rows_is_said() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_table(MANY_RAGGED)
    assert caught.value.total == 25
    assert len(caught.value.faults) == 20
    with pytest.raises(InvalidRequestError, match=r"\(at least 1,000 such lines\)"):
        read_table(b"a,b\n" + b"1\n" * 1500)


def test_lines_of_rows() -> None:
    table = read_table(b'\na,b\n1,2\n\n"x\ny",3\r\n4,5\n')
    assert [table.line(row) for row in range(3)] == [3, 5, 7]
    assert table.lines([2, 0]) == {0: 3, 2: 7}
    assert from_columns({"a": [1], "b": [2]}).line(0) is None


def test_records_larger_than_a_block_of_lines() -> None:
    cell = "long\n" * 20_000
    table = read_table(("a,b\n" + f'"{cell}",1\n' * 60).encode())
    assert table.rows == 60
    assert set(texts(table)["a"]) == {cell}


def test_one_column_where_no_target_is_needed() -> None:
    assert texts(read_table(b'a\n1\n""\n\n2\n', least_columns=1)) == {"a": ["1", "", "2"]}
