"""Small files with something wrong in them: the exact refusal."""

from typing import Any

import pytest

from app.errors import PursuitError
from tests.app.tables.files import parquet, workbook, zstd
from tests.app.tables.small import read, table

ADVICE = (
    'correct the file, list what stands for a missing cell in "missing_values", or say in "columns" what the column '
    'is ("category", "ignore")'
)
FILL = 'set "missing" to "drop" to leave such rows out, or to "impute" to integrate over what they may be'
OTHER_FORMATS = "expected CSV, JSON Lines, Parquet, Arrow or Excel (.xlsx), plain or in gzip or zstd"
NAMES = "every column needs a name of its own; "
OTHERWISE = (
    'if all cells of the column are written so, say "decimal": "{}" or "thousands" in the spec of the training; '
    + ADVICE
)
POINT = "is no plain number: the decimal mark is the point here, and digits are not grouped; " + OTHERWISE.format(",")
COMMA = "is no plain number: the decimal mark is the comma here, and digits are not grouped; " + OTHERWISE.format(".")
EITHER = (
    'may be 1.234 or 1234: write the plain number, or say "decimal": "{0}" or "thousands": "{0}" in the spec of the '
    "training; " + ADVICE
)
MANY = "{} cells cannot be used, the first at "
DATE = "is no date of the form YYYY-MM-DD; " + ADVICE
AGAIN = "save it as UTF-8 and send it again"
JANUARY = [f"2011-01-{1 + i % 9:02}" for i in range(29)]
BAD: list[tuple[str, bytes, dict[str, Any], str]] = [
    (
        "one bad cell among many numbers",
        table("a", [*map(str, range(60)), "x"]),
        {},
        f"line 62, column 'a': 'x' is not a number; {ADVICE}",
    ),
    (
        "a third of bad cells among many numbers",
        table("a", ["-" if i % 3 == 0 else str(i) for i in range(100)]),
        {},
        MANY.format(34) + f"line 2, column 'a': '-' is not a number; {ADVICE}",
    ),
    (
        "13,5 with decimal points",
        b'x,y\n"13,5",10\n"2",20\n',
        {"decimal": "."},
        f"line 2, column 'x': '13,5' {POINT}",
    ),
    (
        "thousands",
        b'x,y\n"1,234",10\n"12,345",20\n999,30\n',
        {},
        MANY.format(2) + f"line 2, column 'x': '1,234' {EITHER.format(',')}",
    ),
    ("1,234 that may be either", b"x;y\n1,234;10\n2;20\n", {}, f"line 2, column 'x': '1,234' {EITHER.format(',')}"),
    (
        "1.234 that may be either beside decimal commas",
        b"x;y\n1.234;10,5\n2;20\n",
        {},
        f"line 2, column 'x': '1.234' {EITHER.format('.')}",
    ),
    (
        "thousands among decimal commas where none are",
        b"x;y\n1.234,5;10\n2,5;20\n",
        {"thousands": ""},
        f"line 2, column 'x': '1.234,5' {COMMA}",
    ),
    ("both decimal marks", b"x;y\n1,5;10\n2.5;20\n", {}, f"line 2, column 'x': '1,5' {POINT}"),
    (
        "fewer than three digits in a group",
        b'x,y\n"1,23",10\n2.5,20\n',
        {"thousands": ","},
        "line 2, column 'x': '1,23' is no plain number: the decimal mark is the point here, and digits are grouped by "
        f"commas; {OTHERWISE.format(',')}",
    ),
    ("a bad date", table("d", ["2011-02-31", *JANUARY]), {}, f"line 2, column 'd': '2011-02-31' {DATE}"),
    (
        "a bad boolean",
        b"b,y\ntrue,1\nno,2\nfalse,3\n",
        {"columns": {"b": "boolean"}},
        f"line 3, column 'b': 'no' is neither true nor false; {ADVICE}",
    ),
    (
        "no date at all",
        b"b,y\n1,1\nno,2\n3,3\n",
        {"columns": {"b": "date"}},
        MANY.format(3) + f"line 2, column 'b': '1' {DATE}",
    ),
    (
        "text as a number",
        b"b,y\na,1\nb,2\na,3\n",
        {"columns": {"b": "number"}},
        MANY.format(3) + f"line 2, column 'b': 'a' is not a number; {ADVICE}",
    ),
    (
        "a column that is not there",
        b"x,y\n1,2\n2,3\n",
        {"columns": {"z": "date"}},
        "columns: there is no column 'z'; there are 'x', 'y'",
    ),
    (
        "a kind that is none",
        b"x,y\n1,2\n2,3\n",
        {"columns": {"x": "text"}},
        "columns.x: expected one of 'number', 'category', 'date', 'day-first', 'month-first', 'boolean', 'ignore', "
        "got 'text'",
    ),
    (
        "the target as a category",
        b"x,y\n1,2\n2,3\n",
        {"columns": {"y": "category"}},
        "columns: 'y' is the target, which has to be a number",
    ),
    ("a missing cell by line", b"x,y\n1,2\n\n?,3\n4,5\n", {}, f"line 4, column 'x': missing ('?'); {FILL}"),
    ("ragged rows", b"x,y\n1,2\n3\n4,5,6\n", {}, "line 3: expected 2 cells, got 1 (2 such lines)"),
    ("a name twice", b"x,y,x\n1,2,3\n", {}, NAMES + "columns 1 and 3 are both named 'x'"),
    ("one name in two forms", "café,cafe\u0301\n1,2\n".encode(), {}, NAMES + "columns 1 and 2 are both named 'café'"),
    ("an empty name", b"x,,y\n1,2,3\n", {}, NAMES + "column 2 has an empty name"),
    ("a cell below no name at the end", b"x,y,\n1,2,3\n", {}, NAMES + "column 3 has an empty name"),
    ("an open quotation mark", b'x,y\n1,"2\n3,4\n', {}, "line 2: a quotation mark is never closed"),
    (
        "UTF-8 cut in a letter",
        "x,y\n1,é".encode()[:-1],
        {},
        f"the file is not UTF-8: byte 0xc3 at offset 6 (line 2); {AGAIN}",
    ),
    (
        "UTF-8 and Latin-1 in one",
        "é,y\n1,".encode() + b"\xe9\n",
        {},
        f"the file is not UTF-8: byte 0xe9 at offset 7 (line 2); {AGAIN}",
    ),
    ("PDF", b"%PDF-1.4", {}, f"the file is PDF; {OTHER_FORMATS}"),
    ("bzip2", b"BZh91AY", {}, f"the file is bzip2; {OTHER_FORMATS}"),
    (
        "a damaged zip archive",
        b"PK\x03\x04" + b"x" * 30,
        {},
        "the Excel workbook is damaged or not of the .xlsx kind (it is cut short, or no zip archive)",
    ),
    (
        "an empty sheet",
        workbook({}),
        {},
        "the first sheet of the workbook is empty: expected a row of names and rows below it",
    ),
    (
        "a sheet of one column",
        workbook({"y": [1, 2]}),
        {},
        "the table has no column besides the target 'y' to learn from",
    ),
    (
        "Parquet cut short",
        parquet({"x": [1.0, 2.0, 3.0], "y": [10.0, 20.0, 30.5]})[:-9],
        {},
        "the Parquet file is damaged or uses what is not read here: Parquet magic bytes not found in footer. "
        "Either the file is corrupted or this is not a parquet file.",
    ),
    (
        "lists in Parquet",
        parquet({"x": [[1], [2, 3]], "y": [1, 2]}),
        {},
        "column 'x': its type is list<element: int64>, with 2 cells in row 1: expected numbers, text, booleans, dates, "
        "times or timestamps",
    ),
    (
        "zstd cut short",
        zstd(b"x,y\n" + b"1,2\n" * 1000)[:-5],
        {},
        "the zstd file is damaged or cut short (Truncated compressed stream); compress it again",
    ),
    (
        "a line that is no JSON",
        b'{"x": 1, "y": 2}\n{"x": 1, \n',
        {},
        "line 2 is not a JSON object: Input data was truncated; JSON Lines have one object of cells by column name on "
        "each line",
    ),
    (
        "a line that is wrong and then broken",
        b'{"x": 1, "y": 2}\n{"x": [1], "y": ;\n',
        {},
        "line 2 is not a JSON object: invalid character (byte 16); JSON Lines have one object of cells by column name "
        "on each line",
    ),
    (
        "a line nested for ever",
        b'{"x": 1, "y": 2}\n{"x": ' + b"[" * 50_000,
        {},
        "line 2 is not a JSON object: maximum recursion depth exceeded while deserializing an object; JSON Lines have "
        "one object of cells by column name on each line",
    ),
    (
        "a line that is a list",
        b'{"x": 1, "y": 2}\n[1, 2]\n',
        {},
        "line 2: expected an object of cells by column name, got a list",
    ),
    (
        "a cell that is a list",
        b'{"x": 1, "y": 2}\n{"x": [1], "y": 2}\n',
        {},
        "line 2, column 'x': expected a number or text, got a list",
    ),
    (
        "a number too large in JSON",
        b'{"x": 1, "y": 2}\n{"x": 1e999, "y": 2}\n',
        {},
        "line 2, column 'x': a number is too large: expected at most 1.8e308",
    ),
    (
        "NaN in JSON",
        b'{"x": 1, "y": 2}\n{"x": "NaN", "y": NaN}\n',
        {},
        "line 2, column 'y': NaN is not a JSON number; write a finite number, or null for a missing cell",
    ),
    ("no columns in JSON Lines", b"{}\n", {}, "there are no columns: expected at least one feature and the target"),
]


@pytest.mark.parametrize(("data", "options", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_file(data: bytes, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PursuitError) as caught:
        read(data, **options)
    assert caught.value.message == message
