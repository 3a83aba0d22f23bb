"""Lines around a table: separators that are said, comments, titles, units; sheets and formulas of workbooks."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from app.errors import InvalidRequestError
from app.tables import Table, fit_schema, read_table
from app.tables.read.edited_text import Comments, EditedText
from tests.app.tables.faults import texts

XY = {"x": ["1", "3"], "y": ["2", "4"]}
SKIPPED = "skipped, beginning with '#'"
READ: list[tuple[str, bytes, dict[str, list[str]], list[str], list[int]]] = [
    (
        "sep=",
        b"sep=;\nx;y\n1;2\n3;4\n",
        XY,
        ["line 1: 'sep=;' was read as what separates the cells, not as a row"],
        [3, 4],
    ),
    (
        "sep= in quotes, with a mark and CRLF",
        b'\xef\xbb\xbf"sep=\t"\r\nx\ty\r\n1\t2\r\n3\t4\r\n',
        XY,
        ["line 1: '\"sep=\\t\"' was read as what separates the cells, not as a row"],
        [3, 4],
    ),
    ("comments", b"# a, b\n#\nx,y\n1,2\n3,4\n", XY, [f"2 comment lines above the table {SKIPPED}"], [4, 5]),
    (
        "names in the last comment",
        b"# of me\n# x,y\n1,2\n3,4\n",
        XY,
        [
            f"1 comment line above the table {SKIPPED}",
            "the names of the columns were read from line 2, which begins with '#'",
        ],
        [3, 4],
    ),
    ("a name that begins so", b"#x,y\n1,2\n3,4\n", {"#x": ["1", "3"], "y": ["2", "4"]}, [], [2, 3]),
    ("a number sign as a name", b"#,y\n1,2\n3,4\n", {"#": ["1", "3"], "y": ["2", "4"]}, [], [2, 3]),
    (
        "comments among rows",
        b"x,y\n# a\n1,2\n#b,c,d\n3,4\n# end",
        XY,
        [f"3 comment lines {SKIPPED} (the first is line 2)"],
        [3, 5],
    ),
    ("cells that begin so", b"x,y\n#1,2\n#N/A,4\n", {"x": ["#1", "#N/A"], "y": ["2", "4"]}, [], [2, 3]),
    (
        "a comment in quotation marks",
        b'x,y\n"1\n# a",2\n3,4\n',
        {"x": ["1\n# a", "3"], "y": ["2", "4"]},
        [],
        [2, 4],
    ),
    (
        "a title",
        b"Report 2024\n\nx,y\n1,2\n3,4\n",
        XY,
        ["line 1: a title above the names of the columns skipped ('Report 2024')"],
        [4, 5],
    ),
    (
        "titles of a spreadsheet",
        b'Report,\n"of\nmine",\nx,y\n1,2\n3,4\n',
        XY,
        ["lines 1 to 2: titles above the names of the columns skipped ('Report')"],
        [5, 6],
    ),
    (
        "names of groups",
        b"in,,out\nx,z,y\n1,5,2\n3,6,4\n",
        {"x": ["1", "3"], "z": ["5", "6"], "y": ["2", "4"]},
        ["line 1: a title above the names of the columns skipped ('in out')"],
        [3, 4],
    ),
    ("units", b"x,y\n[m],[s]\n1,2\n3,4\n", XY, ["line 2: a row of units skipped ('[m]', '[s]')"], [3, 4]),
    ("bare units", b"x,y\nkm/h,m^2\n1,2\n3,4\n", XY, ["line 2: a row of units skipped ('km/h', 'm^2')"], [3, 4]),
    ("units above", b"[m],[s]\nx,y\n1,2\n3,4\n", XY, ["line 1: a row of units skipped ('[m]', '[s]')"], [3, 4]),
    (
        "units beside a category",
        b"c,x,y\n,m,\na,1,2\nb,3,4\n".replace(b"m,", b"(m),"),
        {"c": ["a", "b"], **XY},
        ["line 2: a row of units skipped ('(m)')"],
        [3, 4],
    ),
    (
        "title, comment and units",
        b"Report\n# c\nx,y\n(m),(s)\n1,2\n3,4\n",
        XY,
        [
            "line 1: a title above the names of the columns skipped ('Report')",
            "line 4: a row of units skipped ('(m)', '(s)')",
            f"1 comment line {SKIPPED} (the first is line 2)",
        ],
        [5, 6],
    ),
]


@pytest.mark.parametrize(
    ("data", "cells", "notes", "lines"), [case[1:] for case in READ], ids=[case[0] for case in READ]
)
def test_what_is_no_row_is_skipped_and_told(
    data: bytes, cells: dict[str, list[str]], notes: list[str], lines: list[int]
) -> None:
    table = read_table(data)
    assert texts(table) == cells
    assert list(table.notes) == notes
    assert table.lines([0, 1]) == dict(enumerate(lines))
    assert texts(read_table(data, known=list(cells), least_columns=1)) == cells  # as predictions read it


KEPT = [
    ("a word for missing", b"x,y\nunknown,n/a\n1,2\n3,4\n"),
    ("one wrong cell", b"x,kind,y\noops,a,2\n1,b,3\n3,a,4\n"),
    ("texts alone", b"a,b\nm,s\nkg,s\nm,K\n"),
    ("units where numbers follow in one column of two", b"x,y\nm,5\n1,2\n3,4\n"),
]


@pytest.mark.parametrize("data", [case[1] for case in KEPT], ids=[case[0] for case in KEPT])
def test_a_row_that_may_be_data_stays(data: bytes) -> None:
    table = read_table(data)
    assert table.notes == ()
    assert table.rows == data.count(b"\n") - 1


REFUSED = [
    ("a separator that is not read", b"sep=:\nx:y\n1:2\n", "line 1: 'sep=:' names a separator that is not read"),
    ("a title without names", b"Report\n1,2\n3,4\n", "if it is a title, a row of names has to stand below it"),
    ("comments alone", b"# a\n# b\n", "the file holds only comments"),
]


@pytest.mark.parametrize(("data", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_not_read_is_refused_by_name(data: bytes, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_table(data)
    assert words in caught.value.message


def test_a_wrong_cell_below_is_named_by_its_own_line() -> None:
    with pytest.raises(InvalidRequestError, match="line 6, column 'x': 'a' is not a number"):
        fit_schema(read_table(b"Report\n# c\nx,y\n1,2\n# d\na,4\n5,6\n7,8\n"), columns={"x": "number"})


TEXTS = ["1,2", "#1,2", "# c", "#", "", '"a\n# b",1', '"#",1', "#N/A"]
lines = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(["\n", "\r\n", "\r"])), max_size=12)


@settings(max_examples=200, deadline=None)
@given(parts=lines, size=st.integers(1, 40), edited=st.booleans())
def test_comments_are_blanked_wherever_pieces_end(parts: list[tuple[str, str]], size: int, edited: bool) -> None:
    comments = Comments(",", 2)
    data = "".join(text + end for text, end in parts).encode()
    wanted = "".join(("" if comments.matches(text) else text) + end for text, end in parts).encode()
    edits = {1: "x"} if edited and parts and "\n" not in parts[0][0] else {}
    if edits:
        wanted = b"x" + wanted[0 if comments.matches(parts[0][0]) else len(parts[0][0]) :]
    stream = EditedText(io.BytesIO(data), edits, comments)
    pieces = []
    while piece := stream.read(size):
        pieces.append(piece)
    assert b"".join(pieces) == wanted


def book(*sheets: tuple[str, list[list[Any]]], change: Callable[[Workbook], None] = lambda _: None) -> bytes:
    made = Workbook()
    made.remove(made.worksheets[0])
    for name, rows in sheets:
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    change(made)
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


ROWS: list[list[Any]] = [["x", "y"], [1, 2.5], [3, 4]]
NUMBERS = {"x": ["1", "3"], "y": ["2.5", "4"]}
TWO = book(("One", ROWS), ("2", [["a", "b"], [5, 6]]))


@pytest.mark.parametrize(
    ("rows", "note", "first"),
    [
        ([["Report"], [], *ROWS], "line 1: a title above the names of the columns skipped ('Report')", 4),
        ([ROWS[0], ["m", "s"], *ROWS[1:]], "line 2: a row of units skipped ('m', 's')", 3),
    ],
)
def test_titles_and_units_of_a_sheet(rows: list[list[Any]], note: str, first: int) -> None:
    table = read_table(book(("S", rows)))
    assert texts(table) == NUMBERS
    assert table.notes == (note,)
    assert table.lines([0, 1]) == {0: first, 1: first + 1}


def read(sheet: str | int | None, *, wanted: bool = True, data: bytes = TWO) -> Table:
    return read_table(data, sheet=sheet, sheet_wanted=wanted)


def test_a_sheet_by_name_or_number() -> None:
    assert read(None).notes == (
        "the workbook has 2 sheets: 'One' was read, not '2'; say \"sheet\" in the spec for another",
    )
    for sheet in ("2", 2, " 2 "):
        assert read(sheet).names == ("a", "b")
        assert read(sheet).notes == ("the workbook has 2 sheets: '2' was read, not 'One'",)
    assert read("One").names == read(1).names == ("x", "y")
    for wrong in ("one", 3):
        with pytest.raises(InvalidRequestError, match=f"sheet: the workbook has no sheet {wrong!r}; it has 'One', '2'"):
            read(wrong)
    with pytest.raises(InvalidRequestError, match="sheet: the table is no Excel workbook"):
        read("One", data=b"x,y\n1,2\n")


def test_a_first_sheet_of_text_leads_to_the_others() -> None:
    """A sheet that explains the workbook comes first: its refusal says which other sheets there are."""
    data = book(("About", [["Read me first"], [1.0], [2.0], [3.0]]), ("Data", [["a", "b"], [1, 2], [2, 3], [3, 5]]))
    with pytest.raises(InvalidRequestError, match=r"no column besides .*'About' was read, not 'Data'; say \"sheet\""):
        fit_schema(read_table(data))


def test_what_is_predicted_may_have_one_sheet_of_another_name() -> None:
    assert read("Data", wanted=False, data=book(("S", ROWS))).names == ("x", "y")
    assert read("Data", wanted=False, data=b"x,y\n1,2\n").names == ("x", "y")
    assert read("2", wanted=False).names == ("a", "b")
    with pytest.raises(InvalidRequestError, match="no sheet 'Data'"):
        read("Data", wanted=False)


def test_a_formula_without_a_value_is_named() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_table(book(("S", [*ROWS, [5, "=A2*2"]])))
    assert caught.value.message == (
        "the cell B4 of the sheet 'S' holds a formula without a stored value: open the workbook in Excel or "
        "LibreOffice, save it, and send it again"
    )
    assert caught.value.faults[0].line == 4
    other = book(("One", ROWS), ("Two", [["a"], ["=1+1"]]))
    assert texts(read("One", data=other)) == NUMBERS
