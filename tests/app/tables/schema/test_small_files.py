"""Small files as people have them: the exact reading."""

import gzip
from typing import Any

import pytest

from tests.app.tables.files import arrow, parquet, workbook, zstd
from tests.app.tables.small import LEFT_OUT, Features, read

Y = [10.0, 20.0, 30.5]
XY = {"x": [1.0, 2.0, 3.0]}
PLAIN = "x,y\n1,10\n2,20\n3,30.5\n"
SWAPPED = {"x": [1.0, 2.0, 3.0], "y": Y}
DOUBT = "the names of the columns are numbers ({}): if the first row is data, put a row of names above it"
HEADERLESS = "the file has no header line: its columns were named column_1 to column_{}"
INTEGRATED = (
    "1 missing cell of column {!r}: such rows are predicted by integrating over what the cell may be, given the row's "
    "other columns"
)
EITHER = (
    "holds dates that may begin with the day or with the month (write YYYY-MM-DD, or say "
    'in "columns" that it is "day-first" or "month-first")'
)
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
        {"x": [None, 2.0, 3.0]},
        [INTEGRATED.format("x")],
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
        [DOUBT.format("'2010', '2011', '2012'")],
    ),
    (
        "years as names beside a name",
        b"c,2010,2011\na,1,10\nb,2,20\na,3,30.5\n",
        {},
        {"c": ["a", "b", "a"], "2010": [1.0, 2.0, 3.0]},
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
        {"c": ["a", None, "b"]},
        [INTEGRATED.format("c")],
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
    (
        "day first",
        b"d,y\n03/01/1970,10\n13/01/1970,20\n03/02/1970,30.5\n",
        {},
        {"d": [2.0, 12.0, 33.0]},
        ["column 'd': dates begin with the day, as '13/01/1970' shows"],
    ),
    (
        "month first",
        b"d,y\n01/03/1970,10\n01/13/1970,20\n02/03/1970,30.5\n",
        {},
        {"d": [2.0, 12.0, 33.0]},
        ["column 'd': dates begin with the month, as '01/13/1970' shows"],
    ),
    ("points mean day first", b"d,y\n03.01.1970,10\n04.01.1970,20\n03.02.1970,30.5\n", {}, {"d": [2.0, 3.0, 33.0]}, []),
    (
        "day or month first",
        b"d,x,y\n03/01/1970,1,10\n04/01/1970,2,20\n05/01/1970,3,30.5\n",
        {},
        {"d": LEFT_OUT, **XY},
        [f"column 'd' {EITHER} and was left out"],
    ),
    (
        "day first because the rows are then in order",
        b"d,x,y\n03/01/1970,1,10\n04/01/1970,2,20\n03/02/1970,3,30.5\n",
        {},
        {"d": [2.0, 3.0, 33.0], **XY},
        [
            "column 'd': dates begin with the day, for only so are the rows in order ('03/01/1970' is 1970-01-03); if "
            'not, say "columns": {"d": "month-first"}'
        ],
    ),
    (
        "month first because it is said",
        b"d,y\n01/02/1970,10\n02/01/1970,20\n03/01/1970,30.5\n",
        {"columns": {"d": "month-first"}},
        {"d": [1.0, 31.0, 59.0]},
        [],
    ),
    ("names of months", b"d,y\n01-Jan-1970,10\n03-Jan-1970,20\n01-FEB-1970,30.5\n", {}, {"d": [0.0, 2.0, 31.0]}, []),
    ("months", b"d,y\n1970-01,10\n1970-02,20\n1970-03,30.5\n", {}, {"d": [0.0, 31.0, 59.0]}, []),
    ("quarters", b"d,y\n1970Q1,10\n1970Q2,20\n1971Q1,30.5\n", {}, {"d": [0.0, 90.0, 365.0]}, []),
    (
        "years of two digits",
        b"d,y\n1/5/24,10\n2/5/24,20\n13/5/24,30.5\n",
        {},
        {"d": [19844.0, 19845.0, 19856.0]},
        [
            "column 'd': dates begin with the day, as '13/5/24' shows",
            "column 'd': years of two digits are 1969 to 2068 ('1/5/24' is 2024-05-01)",
        ],
    ),
    (
        "numbers that are said to be dates",
        b"d,y\n19700101,10\n19700103,20\n19710101,30.5\n",
        {"columns": {"d": "date"}},
        {"d": [0.0, 2.0, 365.0]},
        ["column 'd': its numbers were read as dates (YYYYMMDD)"],
    ),
    (
        "numbers that look like dates",
        b"d,y\n19700101,10\n19700103,20\n19710101,30.5\n",
        {},
        {"d": [19700101.0, 19700103.0, 19710101.0]},
        [
            "column 'd' holds numbers that look like dates ('19700101', YYYYMMDD) and was read as numbers; to read it "
            'as dates, say "columns": {"d": "date"}'
        ],
    ),
    (
        "seconds since 1970, in order",
        b"d,y\n1706659200,10\n1706659237,20\n1706832011,30.5\n",
        {},
        {"d": [1706659200.0, 1706659237.0, 1706832011.0]},
        [
            "column 'd' holds numbers that look like dates ('1706659200', seconds since 1970) and was read as numbers; "
            'to read it as dates, say "columns": {"d": "date"}'
        ],
    ),
    (
        "whole minutes in milliseconds since 1970, in no order",
        b"d,y\n1706659200000,10\n1706745600000,20\n1706659260000,30.5\n",
        {},
        {"d": [1706659200000.0, 1706745600000.0, 1706659260000.0]},
        [
            "column 'd' holds numbers that look like dates ('1706659200000', milliseconds since 1970) and was read as "
            'numbers; to read it as dates, say "columns": {"d": "date"}'
        ],
    ),
    (
        "large numbers in no order",
        b"d,y\n1706659201,10\n1706745600,20\n1206832037,30.5\n",
        {},
        {"d": [1706659201.0, 1706745600.0, 1206832037.0]},
        [],
    ),
    (
        "seconds since 1970 that are said to be dates",
        b"d,y\n1706659200,10\n1706745600,20\n1706832000,30.5\n",
        {"columns": {"d": "date"}},
        {"d": [19753.0, 19754.0, 19755.0]},
        ["column 'd': its numbers were read as dates (seconds since 1970)"],
    ),
    (
        "texts that look like dates",
        b"d,y\n31 Jan,10\n1 Feb,20\n31 Jan,30.5\n",
        {},
        {"d": ["31 Jan", "1 Feb", "31 Jan"]},
        [
            "column 'd' looks like dates, such as '1 Feb', but too few of its texts can be read so: it was taken for "
            "text; write YYYY-MM-DD"
        ],
    ),
    (
        "times with points are levels",
        b"t,y\n18.00.00,10\n19.00.00,20\n18.00.00,30.5\n",
        {},
        {"t": ["18.00.00", "19.00.00", "18.00.00"]},
        [
            "column 't' was read as a category, though '18.00.00' is a time; to learn from its order, write the hours "
            "as a number, 13.75, or the date with the time"
        ],
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
    ("data", "options", "features", "warnings"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD]
)
def test_a_good_file(data: bytes, options: dict[str, Any], features: Features, warnings: list[str]) -> None:
    found, targets, said = read(data, **options)
    assert found == features
    assert targets == Y
    assert said == warnings
