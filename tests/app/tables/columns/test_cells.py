"""The grammar of one cell, and that the fast reading of a column is the slow reading of its cells."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables.columns.cells import (
    MISSING_TOKENS,
    Cell,
    CellKind,
    describe_number,
    levels_of,
    parse_cells,
    parse_levels,
    parse_number,
    parse_numbers,
    quote,
    texts_of,
)
from app.tables.columns.number_formats import GROUP_PATTERNS, OTHER_MARK, NumberFormat

COMMA = NumberFormat(",")
FORMATS = [NumberFormat(mark, group) for mark in OTHER_MARK for group in (None, *GROUP_PATTERNS) if group != mark]

NUMBERS = [
    ("3", 3.0),
    ("+1", 1.0),
    ("-0", -0.0),
    (".5", 0.5),
    ("3504.", 3504.0),
    ("1e5", 1e5),
    ("1E+05", 1e5),
    ("  7\t", 7.0),
    ("0.1", 0.1),
    ("9007199254740993", 9007199254740992.0),
    ("2.2250738585072011e-308", 2.225073858507201e-308),  # sent some parsers into a loop
    ("1e-400", 0.0),
    ("02134", 2134.0),
    ("1" * 400 + "e-399", float("1" * 400 + "e-399")),
]
NOT_NUMBERS = [
    ("13,5", CellKind.SEPARATED),
    ("1 000", CellKind.SEPARATED),
    ("1,234.5", CellKind.SEPARATED),
    ("1.234.567", CellKind.SEPARATED),
    ("1'000", CellKind.SEPARATED),
    ("0,758", CellKind.SEPARATED),
    ("1,2,3", CellKind.TEXT),
    ("18.00.00", CellKind.TEXT),
    ("1_000", CellKind.TEXT),
    ("0x10", CellKind.TEXT),
    ("１", CellKind.TEXT),
    ("\xa01", CellKind.TEXT),
    ("1e", CellKind.TEXT),
    (".", CellKind.TEXT),
    ("-", CellKind.TEXT),
    ("+-1", CellKind.TEXT),
    ("true", CellKind.TEXT),
    ("nan(1)", CellKind.TEXT),
    ("-nan", CellKind.TEXT),
    ("1e400", CellKind.HUGE),
    ("-1e400", CellKind.HUGE),
    ("inf", CellKind.INFINITE),
    ("-Infinity", CellKind.INFINITE),
    *((token, CellKind.MISSING) for token in MISSING_TOKENS),
    ("  ", CellKind.MISSING),
    (" NA ", CellKind.MISSING),
]


def column(texts: list[str | None]) -> "pa.ChunkedArray[pa.StringScalar]":
    return pa.chunked_array([pa.array(texts, pa.string())])


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_numbers(text: str, value: float) -> None:
    for reading in (parse_cells([text]), parse_numbers(column([text])), parse_numbers(column([text, None]))):
        assert reading.values[:1].tobytes() == np.array([value]).tobytes()
        assert not reading.missing[0]
        assert len(reading.invalid) == 0


@pytest.mark.parametrize(("text", "kind"), NOT_NUMBERS)
def test_cells_that_are_no_number(text: str, kind: CellKind) -> None:
    assert parse_number(text)[0] is kind
    for reading in (parse_cells([text, "1"]), parse_numbers(column([text, "1"]))):
        assert math.isnan(reading.values[0])
        assert reading.values[1] == 1.0
        assert reading.missing.tolist() == [kind is CellKind.MISSING, False]
        assert reading.invalid.tolist() == ([] if kind is CellKind.MISSING else [0])
        assert reading.unusable == (kind in (CellKind.HUGE, CellKind.INFINITE, CellKind.SEPARATED))


@pytest.mark.parametrize(
    ("text", "value"),
    [("13,5", 13.5), ("0,7578", 0.7578), (",5", 0.5), ("1e3", 1e3), ("12", 12.0), ("-1,25E2", -125.0)],
)
def test_decimal_commas(text: str, value: float) -> None:
    for reading in (
        parse_cells([text], COMMA),
        parse_numbers(column([text]), COMMA),
        parse_numbers(column([text, "x"]), COMMA),
    ):
        assert reading.values[0] == value


@pytest.mark.parametrize("text", ["1.234", "1.234,5", "1,234.5", "13.5", "1,2,3"])
def test_points_among_decimal_commas_are_no_numbers(text: str) -> None:
    for reading in (parse_cells([text, "1"], COMMA), parse_numbers(column([text, "1"]), COMMA)):
        assert reading.invalid.tolist() == [0]


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        (None, CellKind.MISSING),
        (math.nan, CellKind.MISSING),
        (math.inf, CellKind.INFINITE),
        (10**400, CellKind.HUGE),
        (True, CellKind.TEXT),
        (2**53 + 1, CellKind.NUMBER),
    ],
)
def test_json_cells(cell: float | None, kind: CellKind) -> None:
    assert parse_number(cell)[0] is kind


cells = st.one_of(
    st.sampled_from([text for text, _ in NUMBERS] + [text for text, _ in NOT_NUMBERS]),
    st.from_regex(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[ \t]*", fullmatch=True),
    st.floats().map(repr),
    st.from_regex(r" ?[+-]?[0-9]{1,3}([., '\u202f][0-9]{3}){1,2}([.,][0-9]*)?(e2)? ?", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.none(),
)


@given(st.lists(st.lists(cells, max_size=6), max_size=4), st.sampled_from(FORMATS))
def test_a_column_of_text_is_read_as_its_cells(chunks: list[list[str | None]], form: NumberFormat) -> None:
    fast = parse_numbers(pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string()), form)
    slow = parse_cells([cell for chunk in chunks for cell in chunk], form)
    assert fast.values.tobytes() == slow.values.tobytes() or np.array_equal(fast.values, slow.values, equal_nan=True)
    assert np.array_equal(np.signbit(fast.values[fast.values == 0]), np.signbit(slow.values[slow.values == 0]))
    assert fast.missing.tolist() == slow.missing.tolist()
    assert fast.invalid.tolist() == slow.invalid.tolist()
    assert fast.unusable == slow.unusable


def test_levels_are_trimmed_and_keep_na() -> None:
    levels = parse_levels(column(["b", " a ", "", None, "NA", " \t", "b "]))
    assert levels.present() == ["NA", "a", "b"]
    assert [None if code < 0 else levels.names[int(code)].as_py() for code in levels.codes] == [
        "b", "a", None, None, "NA", None, "b",
    ]  # fmt: skip


@given(
    st.lists(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(" \t\x0b\f\x1c\x85ab", max_size=3))
    )
)
def test_json_cells_have_the_levels_of_their_texts(cells: list[Cell]) -> None:
    ours, theirs = levels_of(cells), parse_levels(texts_of(cells))
    assert ours.codes.tolist() == theirs.codes.tolist()
    assert ours.names.to_pylist() == theirs.names.to_pylist()


def test_descriptions_fit_in_a_sentence() -> None:
    assert describe_number("x" * 100) == f"'{'x' * 37}...' is not a number"
    assert describe_number("") == "missing (empty)"
    assert describe_number(None) == "missing (null)"
    assert describe_number("inf") == "'inf' is not a finite number"
    assert quote(10**400) == "'1e400'"
