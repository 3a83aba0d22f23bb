"""Integers past 2^53, which 64-bit numbers round: read exactly or refused, in every format, training and prediction."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.tables import Schema, Table, fit_schema, from_columns, open_canonical, read_table, write_table
from app.tables.columns.cells import Cell
from app.tables.columns.integers import difference, find_offset
from app.tables.columns.number_formats import NumberFormat
from app.tables.schema.profile import describe_table
from tests.app.tables.files import FORMAT_READERS, Columns, workbook

FIRST = 2**53
INTEGERS: dict[str, list[int]] = {
    "just past 2^53": [FIRST + k for k in range(12)],
    "nanoseconds since 1970": [1_700_000_000_000_000_001 + 60_000_000_007 * k for k in range(12)],
    "64 bits without a sign": [2**64 - 3, 2**64 - 1, 2**64 - 2] * 4,
    "negative": [-(2**63) + k for k in range(12)],
    "more than 64 bits": [10**30 + k for k in range(12)],
}


def table(x: list[Any], y: list[float] | None = None) -> Columns:
    return {"x": x, "z": [float(k % 5) for k in range(len(x))], "y": y or [float(k * k) for k in range(len(x))]}


READERS: dict[str, Callable[[Columns], Table]] = {
    **FORMAT_READERS,
    "Excel": lambda columns: read_table(workbook({**columns, "x": [str(cell) for cell in columns["x"]]})),
}
"""Excel's own numbers are doubles: it keeps such integers as text."""
SIGNED = [name for name in INTEGERS if name not in ("64 bits without a sign", "more than 64 bits")]


@pytest.mark.parametrize("reader", READERS)
def test_integers_are_told_apart_in_every_format(reader: str) -> None:
    arrow = reader.startswith(("Parquet", "Arrow"))
    for name in SIGNED if arrow else INTEGERS:
        cells = INTEGERS[name]
        schema, prepared = fit_schema(READERS[reader](table(cells)))
        offset = schema.features[0].offset
        assert offset is not None
        assert prepared.inputs[:, 0].tolist() == [float(cell - offset) for cell in cells]
        assert len(set(prepared.inputs[:, 0].tolist())) == len(set(cells))
        said = "column 'x' has integers past 2^53, which 64-bit numbers round: it was read as the difference from"
        dates = [told for told in prepared.warnings if "look like dates" in told]
        assert [told for told in prepared.warnings if told not in dates] == [f"{said} {offset}"]
        assert len(dates) == (name == "nanoseconds since 1970")
        again = Schema.from_json(schema.to_json())
        assert again == schema
        new: Columns = {"x": [cells[5], cells[5] + 1], "z": [0.0, 0.0]}
        for encoded in (again.encode_table(READERS[reader](new)), again.encode_columns(new)):
            assert encoded[:, 0].tolist() == [float(cells[5] - offset), float(cells[5] + 1 - offset)]


@pytest.mark.parametrize("name", INTEGERS)
def test_the_same_cell_gives_the_same_bits_by_every_way(name: str) -> None:
    cells = INTEGERS[name]
    schema, prepared = fit_schema(from_columns(table(cells)))
    column = prepared.inputs[:, 0].tolist()
    texts: list[list[Cell]] = [[f" +{cell}.0 " if cell > 0 else str(cell), 0.0] for cell in cells]
    assert schema.encode_rows(texts)[:, 0].tolist() == column
    assert schema.encode_rows([[cell, 0.0] for cell in cells])[:, 0].tolist() == column
    assert schema.encode_rows([{"x": cell, "z": 0.0} for cell in cells])[:, 0].tolist() == column
    assert not schema.numeric_only


@given(cell=st.integers(-(2**70), 2**70), offset=st.integers(-(2**70), 2**70))
def test_a_difference_is_rounded_once(cell: int, offset: int) -> None:
    exact = float(cell - offset)
    assert difference(cell, offset) == difference(str(cell), offset) == difference(f"{cell}.00", offset) == exact
    assert difference(f"{cell},0", offset, NumberFormat(",")) == exact


@given(cell=st.floats(allow_nan=False, allow_infinity=False), offset=st.integers(-(2**60), 2**60))
def test_a_float_differs_the_same_as_number_and_as_text(cell: float, offset: int) -> None:
    found = difference(cell, offset)
    assert found == difference(repr(cell), offset)
    assert found == pytest.approx(cell - offset, rel=1e-15, abs=2**8)  # half a unit in the last place of 2^60


def test_an_offset_is_taken_only_where_it_helps() -> None:
    assert find_offset(np.array([2.0**52 - 1, 2.0**52 - 9])) is None
    assert find_offset(np.array([2.0**52, 2.0**52 + 9, np.nan])) == 2**52
    assert find_offset(np.array([0.0, 2.0**60])) is None
    assert find_offset(np.array([-(2.0**60), 2.0**60])) is None
    assert find_offset(np.array([1e300, 1.0000001e300])) is None  # measurements
    assert find_offset(np.array([np.nan])) is None


def test_missing_cells_beside_them_and_the_exact_median_of_marked_ones() -> None:
    cells: list[Any] = [FIRST + 1, FIRST + 3, None, FIRST + 5, FIRST + 7, "NA", FIRST + 9, FIRST + 11]
    schema, prepared = fit_schema(from_columns(table(cells)), missing="impute")
    offset = schema.features[0].offset or 0
    nan = np.nan
    np.testing.assert_array_equal(prepared.inputs[:, 0] + (offset - FIRST), [1, 3, nan, 5, 7, nan, 9, 11])
    schema = replace(schema, features=tuple(feature.marked for feature in schema.features))
    assert schema.features[0].replacement == FIRST + 5
    new: list[list[Cell]] = [[None, 1.0], [FIRST + 3, 1.0]]
    assert (schema.encode_rows(new)[:, 0] + (offset - FIRST)).tolist() == [5, 3]


def test_one_integer_in_every_row_is_shown_with_all_its_digits() -> None:
    with pytest.raises(InvalidRequestError, match="column 'x' is 18446744073709551615 in every row and was left out"):
        fit_schema(from_columns({"x": [2**64 - 1] * 12, "y": list(range(12))}))


def test_a_table_that_was_stored_is_read_the_same(tmp_path: Any) -> None:
    held = from_columns(table(INTEGERS["64 bits without a sign"]))
    write_table(tmp_path / "table.parquet", held)
    (schema, prepared), (stored, read) = fit_schema(held), fit_schema(open_canonical(tmp_path / "table.parquet"))
    assert stored == schema
    assert read.inputs.tobytes() == prepared.inputs.tobytes()


def test_they_are_described_with_all_their_digits() -> None:
    described = describe_table(from_columns(table(INTEGERS["64 bits without a sign"])), None)["columns"][0]
    assert (described["distinct"], described["min"], described["max"]) == (3, 2**64 - 3, 2**64 - 1)


def test_integers_that_stay_one_number_are_refused_by_cell() -> None:
    cells = ["0", str(FIRST), "7", str(FIRST + 1), "9", "11"]
    text = "x,y\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells))
    with pytest.raises(InvalidRequestError) as caught:
        fit_schema(read_table(text.encode()))
    said = "'9007199254740993' and '9007199254740992' are one 64-bit number beside the others of the column"
    assert caught.value.message.startswith(f"line 5, column 'x': {said}; if such cells name something, say")
    fault = caught.value.faults[0]
    assert (fault.row, fault.line, fault.column, fault.value) == (3, 5, "x", "9007199254740993")
    schema, _ = fit_schema(read_table(text.encode()), columns={"x": "category"})
    assert {str(FIRST), str(FIRST + 1)} <= set(schema.features[0].levels)


def test_a_missing_value_far_away_does_not_spoil_the_others() -> None:
    x = [-1, *INTEGERS["nanoseconds since 1970"]]
    schema, prepared = fit_schema(from_columns(table(x)), missing_values=[-1], missing="drop")
    assert schema.features[0].offset is not None
    assert np.diff(prepared.inputs[:, 0]).tolist() == [60_000_000_007.0] * 11


TARGETS: dict[str, tuple[list[int], bool]] = {
    "one apart": ([FIRST + k for k in range(12)], False),
    "two apart": ([FIRST + 2 * k for k in range(12)], True),
    "without a sign": ([2**64 - 1 - k * k for k in range(12)], False),
    "nanoseconds over days": ([1_700_000_000_000_000_001 + 86_400_000_000_007 * k for k in range(12)], True),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_would_be_rounded_is_refused_by_cell(name: str) -> None:
    cells, fine = TARGETS[name]
    text = "x,y\n" + "".join(f"{row % 7},{cell}\n" for row, cell in enumerate(cells))
    if fine:
        assert fit_schema(read_table(text.encode()))[1].targets.tolist() == [float(cell) for cell in cells]
        return
    with pytest.raises(InvalidRequestError) as caught:
        fit_schema(read_table(text.encode()))
    fault = caught.value.faults[0]
    assert fault.row is not None
    assert (fault.column, fault.line) == ("y", fault.row + 2)
    assert fault.value == str(cells[fault.row])
    assert int(float(cells[fault.row])) != cells[fault.row]
    assert "is past the integers that 64-bit numbers hold, and would be read as" in caught.value.message
    assert "subtract a constant from the target" in caught.value.message
