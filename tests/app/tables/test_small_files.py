"""Small files as people have them, good and bad: the exact reading or the exact refusal."""

import gzip
from typing import Any

import pytest

from app.errors import PursuitError
from app.tables import Kind, fit_schema, read_table
from tests.app.tables.files import arrow, parquet, workbook, zstd

Features = dict[str, list[Any]]
LEFT_OUT: list[Any] = []
Y = [10.0, 20.0, 30.5]


def read(data: bytes, **wishes: Any) -> tuple[Features, list[float], list[str]]:
    """Numbers as they are read, of a category the levels, nothing of what is left out; the target; the warnings."""
    schema, prepared = fit_schema(read_table(data), **wishes)
    found: Features = {}
    start = 0
    for feature in schema.features:
        block = prepared.inputs[:, start : start + feature.width]
        start += feature.width
        if feature.kind is Kind.CATEGORY:
            names = [*feature.levels, *["(other)"] * feature.other, *["(missing)"] * feature.indicator]
            found[feature.name] = [names[place] for place in block.argmax(axis=1).tolist()]
        else:
            found[feature.name] = block[:, 0].tolist() if feature.width else LEFT_OUT
    return found, prepared.targets.tolist(), list(prepared.warnings)


def table(column: str, cells: list[str]) -> bytes:
    """These cells beside two columns of numbers."""
    lines = [f"{cell},{row % 5},{row * row % 17}" for row, cell in enumerate(cells)]
    return (f"{column},x,y\n" + "\n".join(lines) + "\n").encode()


XY = {"x": [1.0, 2.0, 3.0]}
PLAIN = "x,y\n1,10\n2,20\n3,30.5\n"
SWAPPED = {"x": [1.0, 2.0, 3.0], "y": Y}
HEADERLESS = "the file has no header line: its columns were named column_1 to column_{}"
EITHER = "holds dates that may begin with the day or with the month (write YYYY-MM-DD)"
GOOD: list[tuple[str, bytes, dict[str, Any], Features, list[str]]] = [
    ("comma", PLAIN.encode(), {}, XY, []),
    ("tab", PLAIN.replace(",", "\t").encode(), {}, XY, []),
    ("pipe", PLAIN.replace(",", "|").encode(), {}, XY, []),
    ("semicolon, decimal point", PLAIN.replace(",", ";").encode(), {}, XY, []),
    ("semicolon, decimal comma", b"x;y\n1;10\n2;20\n3;30,5\n", {}, XY, []),
    ("tab, decimal comma", b"x\ty\n1,0\t10\n2\t20\n3\t30,5\n", {}, XY, []),
    ("13,5 is not 135", b"x;y\n13,5;10\n2;20\n3;30,5\n", {}, {"x": [13.5, 2.0, 3.0]}, []),
    ("1,234 beside 0,5", b"x;y\n1,234;10\n0,5;20\n3;30,5\n", {}, {"x": [1.234, 0.5, 3.0]}, []),
    ("decimal comma with exponent", b"x;y\n1,5e3;10\n2;20\n3;30,5\n", {}, {"x": [1500.0, 2.0, 3.0]}, []),
    ("byte order mark", PLAIN.encode("utf-8-sig"), {}, XY, []),
    ("UTF-16", PLAIN.encode("utf-16"), {}, XY, []),
    ("UTF-16, big end first", b"\xfe\xff" + PLAIN.encode("utf-16-be"), {}, XY, []),
    (
        "Latin-1",
        PLAIN.replace("x", "größe").encode("latin-1"),
        {},
        {"größe": [1.0, 2.0, 3.0]},
        ["the file is not UTF-8: read as Windows-1252 (Latin-1); if letters are wrong, save it as UTF-8"],
    ),
    ("composed names", PLAIN.replace("x", "cafe\u0301").encode(), {}, {"café": [1.0, 2.0, 3.0]}, []),
    ("CRLF", PLAIN.replace("\n", "\r\n").encode(), {}, XY, []),
    ("CR", PLAIN.replace("\n", "\r").encode(), {}, XY, []),
    ("quotes", b'"x","y"\n"1","10"\n"2","20"\n"3","30.5"\n', {}, XY, []),
    (
        "newlines and quotes in quotes",
        b'c,y\n"a\nb",10\n"say ""hi""",20\n"a\nb",30.5\n',
        {},
        {"c": ["a\nb", 'say "hi"', "a\nb"]},
        [],
    ),
    ("blanks around names", PLAIN.replace("x,y", " x , y ").encode(), {"target": "y"}, XY, []),
    ("blanks around cells", b"x,y\n 1,10 \n2 ,20\n\t3,30.5\n", {}, XY, []),
    ("blank lines", b"\nx,y\n\n1,10\n2,20\n\n3,30.5\n\n", {}, XY, []),
    ("gzip", gzip.compress(PLAIN.encode()), {}, XY, []),
    ("zstd", zstd(PLAIN.encode()), {}, XY, []),
    ("Parquet", parquet(SWAPPED), {}, XY, []),
    ("Parquet of texts", parquet({"x": ["1", "2", "3"], "y": Y}), {}, XY, []),
    ("Parquet in gzip", gzip.compress(parquet(SWAPPED)), {}, XY, []),
    ("Arrow file", arrow({"x": [1, 2, 3], "y": Y}, stream=False), {}, XY, []),
    ("Arrow stream", arrow({"x": ["1", "2", "3"], "y": Y}, stream=True), {}, XY, []),
    ("Excel", workbook({"x": [1, 2, 3], "y": Y}), {}, XY, []),
    ("JSON Lines", b'{"x": 1, "y": 10}\n\n{"y": 20.0, "x": "2"}\n{"x": 3.0, "y": 30.5}\n', {}, XY, []),
    (
        "JSON Lines that grow a column",
        b'{"y": 10}\n{"y": 20, "x": 2}\n{"x": 3, "y": 30.5}',
        {"missing": "impute", "target": "y"},
        {"x": [2.0, 2.0, 3.0]},
        ["1 missing cell of column 'x' filled with the median 2.0 and marked in an indicator column"],
    ),
    ("no header", b"1,10\n2,20\n3,30.5\n", {}, {"column_1": [1.0, 2.0, 3.0]}, [HEADERLESS.format(2)]),
    (
        "no header, a text column",
        b"a,1,10\nb,2,20\na,3,30.5\n",
        {},
        {"column_1": ["a", "b", "a"], "column_2": [1.0, 2.0, 3.0]},
        [HEADERLESS.format(3)],
    ),
    (
        "years as names",
        b"2010,2011,2012\n1,7,10\n2,7.5,20\n3,7,30.5\n",
        {},
        {"2010": [1.0, 2.0, 3.0], "2011": [7.0, 7.5, 7.0]},
        [],
    ),
    ("a number for one name", PLAIN.replace("y", "2010").encode(), {}, XY, []),
    (
        "empty columns at the end",
        b"x,y,,\n1,10,,\n2,20,,\n3,30.5,,\n",
        {},
        XY,
        ["2 empty columns without a name at the end of the file dropped"],
    ),
    (
        "empty rows at the end",
        b"x;y\n1;10\n2;20\n3;30,5\n;\n ; \n;\n",
        {},
        XY,
        ["3 empty rows at the end of the file dropped"],
    ),
    (
        "missing in every spelling",
        b"x,y\n1,10\n?,1\nNA,2\nN/A,3\nnan,4\nNULL,5\n  ,6\n,7\n2,20\n3,30.5\n",
        {"missing": "drop"},
        XY,
        ["7 of 10 rows dropped because a cell is missing (by column: 'x' 7)"],
    ),
    ("NA is a level among text", b"c,y\nNA,10\nGrvl,20\nNA,30.5\n", {}, {"c": ["NA", "Grvl", "NA"]}, []),
    (
        "a code for missing",
        b"x,y\n1,10\n-200,5\n-200.0,6\n2,20\n7,-200\n3,30.5\n",
        {"missing": "drop", "missing_values": [-200]},
        XY,
        ["3 of 6 rows dropped because a cell is missing (by column: 'y' 1, 'x' 2)"],
    ),
    (
        "a code for missing with a decimal comma",
        b"x;y\n1;10\n-99,9;5\n2;20\n3;30,5\n",
        {"missing": "drop", "missing_values": [-99.9]},
        XY,
        ["1 of 4 rows dropped because a cell is missing (by column: 'x' 1)"],
    ),
    (
        "a word for missing",
        b"x,y\n1,10\nunknown,5\n2,20\n3,30.5\n",
        {"missing": "drop", "missing_values": ["unknown"]},
        XY,
        ["1 of 4 rows dropped because a cell is missing (by column: 'x' 1)"],
    ),
    (
        "a missing target is dropped, never imputed",
        b"x,y\n1,10\n9,\n2,20\n3,30.5\n",
        {"missing": "impute"},
        XY,
        ["1 of 4 rows dropped because a cell is missing (by column: 'y' 1)"],
    ),
    (
        "a missing level",
        b"c,y\na,10\n,20\nb,30.5\n",
        {"missing": "impute"},
        {"c": ["a", "(missing)", "b"]},
        ["1 missing cell of column 'c' read as a level of its own"],
    ),
    ("leading zeros", b"zip,y\n02134,10\n10001,20\n02134,30.5\n", {}, {"zip": ["02134", "10001", "02134"]}, []),
    (
        "leading zeros as numbers",
        b"zip,y\n02134,10\n10001,20\n02134,30.5\n",
        {"columns": {"zip": "number"}},
        {"zip": [2134.0, 10001.0, 2134.0]},
        [],
    ),
    ("a zero by itself", b"x,y\n0,10\n0.5,20\n10,30.5\n", {}, {"x": [0.0, 0.5, 10.0]}, []),
    ("numbers as levels", b"x,y\n1,10\n2,20\n1,30.5\n", {"columns": {"x": "category"}}, {"x": ["1", "2", "1"]}, []),
    ("booleans", b"b,y\nTrue,10\nfalse,20\nTRUE,30.5\n", {}, {"b": [1.0, 0.0, 1.0]}, []),
    ("booleans in Parquet", parquet({"b": [True, False, True], "y": Y}), {}, {"b": [1.0, 0.0, 1.0]}, []),
    (
        "booleans in JSON",
        b'{"b": true, "y": 10}\n{"b": false, "y": 20}\n{"b": "true", "y": 30.5}\n',
        {},
        {"b": [1.0, 0.0, 1.0]},
        [],
    ),
    ("0 and 1 as booleans", b"b,y\n1,10\n0,20\n1,30.5\n", {"columns": {"b": "boolean"}}, {"b": [1.0, 0.0, 1.0]}, []),
    ("ISO dates", b"d,y\n1970-01-01,10\n1970-01-03,20\n1971-01-01,30.5\n", {}, {"d": [0.0, 2.0, 365.0]}, []),
    (
        "timestamps",
        b"d,y\n1970-01-01 06:00,10\n1970-01-01T12:00:00Z,20\n1970-01-02 01:00:00+01:00,30.5\n",
        {},
        {"d": [0.25, 0.5, 1.0]},
        [],
    ),
    ("day first", b"d,y\n03/01/1970,10\n13/01/1970,20\n03/02/1970,30.5\n", {}, {"d": [2.0, 12.0, 33.0]}, []),
    ("month first", b"d,y\n01/03/1970,10\n01/13/1970,20\n02/03/1970,30.5\n", {}, {"d": [2.0, 12.0, 33.0]}, []),
    ("points mean day first", b"d,y\n03.01.1970,10\n04.01.1970,20\n03.02.1970,30.5\n", {}, {"d": [2.0, 3.0, 33.0]}, []),
    (
        "day or month first",
        b"d,x,y\n03/01/1970,1,10\n04/01/1970,2,20\n03/02/1970,3,30.5\n",
        {},
        {"d": LEFT_OUT, **XY},
        [f"column 'd' {EITHER} and was left out"],
    ),
    (
        "times with points are levels",
        b"t,y\n18.00.00,10\n19.00.00,20\n18.00.00,30.5\n",
        {},
        {"t": ["18.00.00", "19.00.00", "18.00.00"]},
        [],
    ),
    (
        "constant and empty columns",
        b"k,e,x,y\n7,,1,10\n7,,2,20\n7,,3,30.5\n",
        {},
        {"k": LEFT_OUT, "e": LEFT_OUT, **XY},
        ["column 'k' is 7.0 in every row and was left out", "column 'e' is empty in every row and was left out"],
    ),
    (
        "a column that is not wanted",
        b"junk,x,y\n1e400,1,10\na,2,20\n?,3,30.5\n",
        {"columns": {"junk": "ignore"}},
        {"junk": LEFT_OUT, **XY},
        [],
    ),
    ("an inch is no quotation mark", b'c,y\n5",10\n6",20\n5",30.5\n', {}, {"c": ['5"', '6"', '5"']}, []),
    ("numbers past 2^53", b"x,y\n9007199254740993,10\n1,20\n3,30.5\n", {}, {"x": [9007199254740992.0, 1.0, 3.0]}, []),
]


@pytest.mark.parametrize(
    ("data", "wishes", "features", "warnings"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD]
)
def test_a_good_file(data: bytes, wishes: dict[str, Any], features: Features, warnings: list[str]) -> None:
    found, targets, said = read(data, **wishes)
    assert found == features
    assert targets == Y
    assert said == warnings


LEFT: list[tuple[str, bytes, str]] = [
    ("row numbers", table("id", [str(i) for i in range(1, 26)]), "numbers the rows (unique integers in order)"),
    ("numbers that fall", table("id", [str(-3 * i) for i in range(25)]), "numbers the rows (unique integers in order)"),
    ("names of rows", table("id", [f"k{i * 7919 % 101:03}" for i in range(25)]), "is different text in every row"),
    ("padded codes", table("id", [f"{i * 7919 % 101:04}" for i in range(25)]), "is different text in every row"),
    (
        "remarks",
        table("id", ["fine", "fine", *(f"remark {i}" for i in range(23))]),
        "is text that hardly comes twice (24 different values in 25 cells)",
    ),
]


@pytest.mark.parametrize(("data", "reason"), [case[1:] for case in LEFT], ids=[case[0] for case in LEFT])
def test_what_tells_rows_apart_is_left_out_unless_asked_for(data: bytes, reason: str) -> None:
    found, _, said = read(data)
    assert found["id"] == LEFT_OUT
    assert said == [f"column 'id' {reason} and was left out; to use it, say in \"columns\" what it is"]
    for asked in ({"columns": {"id": "category"}}, {"features": ["id"]}):
        found, _, said = read(data, **asked)
        assert found["id"] != LEFT_OUT


def test_the_only_feature_is_never_left_out() -> None:
    found, _, _ = read(b"t,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(30)))
    assert found["t"] == [float(i) for i in range(30)]


ADVICE = (
    'correct the file, list what stands for a missing cell in "missing_values", or say in "columns" what the column '
    'is ("category", "ignore")'
)
FILL = 'set "missing" to "drop" to leave such rows out, or to "impute" to fill them in'
OTHER_FORMATS = "expected CSV, JSON Lines, Parquet, Arrow or Excel (.xlsx), plain or in gzip or zstd"
NAMES = "every column needs a name of its own; "
POINT = "is no plain number: the decimal mark is the point here, and digits are not grouped; " + ADVICE
COMMA = "is no plain number: the decimal mark is the comma here, and digits are not grouped; " + ADVICE
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
    ("13,5 in a comma file", b'x,y\n"13,5",10\n"2",20\n', {}, f"line 2, column 'x': '13,5' {POINT}"),
    (
        "thousands",
        b'x,y\n"1,234",10\n"12,345",20\n999,30\n',
        {},
        MANY.format(2) + f"line 2, column 'x': '1,234' {POINT}",
    ),
    ("1,234 that may be either", b"x;y\n1,234;10\n2;20\n", {}, f"line 2, column 'x': '1,234' {POINT}"),
    ("thousands among decimal commas", b"x;y\n1.234,5;10\n2,5;20\n", {}, f"line 2, column 'x': '1.234,5' {COMMA}"),
    ("blanks between thousands", b"x,y\n1 234,10\n2,20\n", {}, f"line 2, column 'x': '1 234' {POINT}"),
    ("both decimal marks", b"x;y\n1,5;10\n2;20.5\n", {}, f"line 2, column 'x': '1,5' {POINT}"),
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
        "columns.x: expected one of 'number', 'category', 'date', 'boolean', 'ignore', got 'text'",
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
        "the Excel workbook is damaged or not of the .xlsx kind (BadZipFile)",
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
        parquet(SWAPPED)[:-9],
        {},
        "the Parquet file is damaged or uses what is not read here: Parquet magic bytes not found in footer. "
        "Either the file is corrupted or this is not a parquet file.",
    ),
    (
        "lists in Parquet",
        parquet({"x": [[1], [2]], "y": [1, 2]}),
        {},
        "column 'x': its type is list<element: int64>: expected numbers, text, booleans, dates or timestamps",
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
        "line 2: a number is too large: expected at most 1.8e308",
    ),
    ("no columns in JSON Lines", b"{}\n", {}, "there are no columns: expected at least one feature and the target"),
]


@pytest.mark.parametrize(("data", "wishes", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_file(data: bytes, wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(PursuitError) as caught:
        read(data, **wishes)
    assert caught.value.message == message


def test_there_are_enough_files() -> None:
    assert len(GOOD) + len(LEFT) + len(BAD) >= 100
