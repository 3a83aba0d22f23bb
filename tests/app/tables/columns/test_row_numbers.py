"""Numbers that only rise are numbers, what looks like a row number is told, a data frame's index is left out."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import InvalidRequestError
from app.tables import Schema, Table, fit_schema, from_columns, open_canonical, read_table, write_table
from app.tables.schema.profile import describe_table
from tests.app.tables.files import FORMAT_READERS, Columns
from tests.app.tables.small import read, table

RISING: dict[str, tuple[str, list[str]]] = {
    "from 0": ("k", [str(k) for k in range(25)]),
    "from 1": ("count", [str(k + 1) for k in range(25)]),
    "years": ("year", [str(1990 + k) for k in range(25)]),
    "in steps of two": ("id", [str(2 * k) for k in range(25)]),
    "falling": ("id", [str(-3 * k) for k in range(25)]),
    "written as decimals": ("k", [f"{k}.0" for k in range(25)]),
    "seconds since 1970": ("time", [str(1_700_000_000 + k * k * 37) for k in range(25)]),
    "a table sorted by a column": ("area", [str(50 + k * k % 7 + 9 * k) for k in range(25)]),
    "row numbers that begin late": ("id", [str(k + 100) for k in range(25)]),
}


@pytest.mark.parametrize(("name", "cells"), RISING.values(), ids=list(RISING))
def test_rising_numbers_are_read_as_numbers(name: str, cells: list[str]) -> None:
    found, _, said = read(table(name, cells))
    assert found[name] == [float(cell) for cell in cells]
    assert [told for told in said if "look like dates" not in told] == []
    assert len(said) == (name == "time")


NAMES = ["id", "ID", "Index", "row", "row_number", "customer_id", "PassengerId", "Unnamed: 0", "level_0", "#"]
SAID = (
    "column {!r} looks like a row number ({}, ..) and was read as a number like others; if it says nothing of new "
    'rows, leave it out ("columns": {{"...": "ignore"}})'
)


@pytest.mark.parametrize("name", NAMES)
def test_what_looks_like_a_row_number_stays_in_and_is_told(name: str) -> None:
    for first, counted in ((0, "0, 1, 2"), (1, "1, 2, 3")):
        data = table(name, [str(first + k) for k in range(25)])
        found, _, said = read(data)
        assert found[name] == [first + k for k in range(25)]
        assert said == [SAID.format(name, counted)]
        for asked in ({"columns": {name: "number"}}, {"features": [name, "x"]}):
            assert read(data, **asked)[2] == []
        assert read(data, columns={name: "ignore"})[2] == []


def test_row_numbers_in_another_order_are_told_too() -> None:
    assert read(table("id", [str(k * 7 % 25) for k in range(25)]))[2] == [SAID.format("id", "0, 1, 2")]
    assert read(table("id", [str(k * 7 % 24) for k in range(25)]))[2] == []


def test_the_first_column_without_any_header_has_no_name() -> None:
    data = "".join(f"{k},{k % 5},{k * k % 17}\n" for k in range(1, 26))
    assert read(data.encode())[2][1:] == [SAID.format("column_1", "1, 2, 3")]


INDEX = {
    "0, 1, 2": list(range(12)),
    "another start": list(range(100, 112)),
    "rows of a larger frame": [k * 37 % 101 for k in range(12)],
    "frames put together": [*range(11), 0],
}
LEFT = (
    "column 'Unnamed: 0' is the index of a data frame (whole numbers in a column without a name) and was left out; to "
    'use it, say in "columns" what it is'
)


def frame(index: list[int]) -> Columns:
    return {"": index, "x": [0.5 * (k % 5) for k in range(12)], "y": [float(k % 5) for k in range(12)]}


@pytest.mark.parametrize("reader", FORMAT_READERS.values(), ids=list(FORMAT_READERS))
def test_a_data_frames_index_is_left_out_in_every_format(reader: Callable[[Columns], Table]) -> None:
    schema, prepared = fit_schema(reader(frame(INDEX["0, 1, 2"])))
    assert schema.names == ("x",)  # a positional row has no index
    assert prepared.warnings == (LEFT,)
    new = reader({"": [7, 8], "x": [0.25, 3.0]})
    assert schema.encode_table(new).tolist() == [[0.25], [3.0]]


@pytest.mark.parametrize("index", INDEX.values(), ids=list(INDEX))
def test_an_index_may_begin_anywhere(index: list[int]) -> None:
    assert fit_schema(from_columns(frame(index)))[1].warnings == (LEFT,)


def test_an_index_is_used_when_asked_for() -> None:
    for asked in ({"columns": {"Unnamed: 0": "number"}}, {"features": ["Unnamed: 0", "x"]}, {"features": ["", "x"]}):
        options: dict[str, Any] = asked
        schema, prepared = fit_schema(from_columns(frame(INDEX["another start"])), **options)
        assert schema.names == ("Unnamed: 0", "x")
        assert prepared.inputs[:, 0].tolist() == INDEX["another start"]
        assert schema.encode_columns({"": [3], "x": [1.0]}).tolist() == [[3.0, 1.0]]
        assert schema.encode_rows([{"Unnamed: 0": 3, "x": 1.0}]).tolist() == [[3.0, 1.0]]


def test_an_index_beside_nothing_else_may_be_a_time() -> None:
    found, _, said = read(b",y\n" + b"".join(b"%d,%d\n" % (k, k * k) for k in range(30)))
    assert found["Unnamed: 0"] == [float(k) for k in range(30)]
    assert said == [SAID.format("Unnamed: 0", "0, 1, 2"), *said[1:]]


def test_dates_and_decimals_below_no_name_are_read() -> None:
    dates = ",x,y\n" + "".join(f"2011-01-{k + 1:02},{k % 5},{k % 7}\n" for k in range(25))
    found, _, said = read(dates.encode())
    assert found["Unnamed: 0"] == [14975.0 + k for k in range(25)]
    assert said == ["the column without a name was read as 'Unnamed: 0'"]
    found, _, said = read(table("", [f"{k}.5" for k in range(25)]))
    assert found["Unnamed: 0"] == [k + 0.5 for k in range(25)]
    assert said == ["the column without a name was read as 'Unnamed: 0'"]


def test_an_empty_column_without_a_name_is_left_out() -> None:
    found, _, said = read(b",x,y\n,1,2\n,2,3\n,5,4\n")
    assert found == {"x": [1.0, 2.0, 5.0]}
    assert said == ["column 'Unnamed: 0' is empty in every row and was left out"]


def test_a_frame_that_was_saved_twice_has_two_indices() -> None:
    data = ",Unnamed: 0,x,y\n" + "".join(f"{k},{k},{k % 5},{k * k % 17}\n" for k in range(25))
    found, _, said = read(data.encode())
    assert list(found) == ["Unnamed: 0", "x"]
    assert said == [LEFT.replace("Unnamed: 0", "Unnamed: 0.1"), SAID.format("Unnamed: 0", "0, 1, 2")]


def arrow_index(rows: list[int], x: list[float], y: list[float]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": x, "y": y, "__index_level_0__": rows}), sink)
    return sink.getvalue().to_pybytes()


def test_the_index_that_pandas_writes_to_parquet_is_left_out() -> None:
    chosen = [k * 37 % 101 for k in range(12)]
    data = arrow_index(chosen, [0.5 * (k % 5) for k in range(12)], [float(k % 5) for k in range(12)])
    found, _, said = read(data, target="y")
    assert found == {"x": [0.5 * (k % 5) for k in range(12)]}
    assert said == [LEFT.replace("Unnamed: 0", "__index_level_0__")]
    by_name = from_columns({"x": [1.0, 2.0, 3.0], "__index_level_0__": [5, 6, 7], "y": [1, 2, 4]})
    assert fit_schema(by_name)[0].names == ("x",)


def test_the_index_is_remembered_with_a_stored_table(tmp_path: Any) -> None:
    path = tmp_path / "table.parquet"
    write_table(path, from_columns(frame(INDEX["another start"])))
    stored = open_canonical(path)
    assert stored.index == ("Unnamed: 0",)
    schema, prepared = fit_schema(stored)
    assert (schema.names, prepared.warnings) == (("x",), (LEFT,))
    assert Schema.from_json(schema.to_json()) == schema


def test_both_are_told_of_a_table_that_is_described() -> None:
    columns = {**frame(INDEX["another start"]), "id": list(range(12))}
    found = describe_table(from_columns(columns), "y")["columns"]
    assert found[0]["warnings"] == ["the index of a data frame: training leaves it out"]
    assert found[3]["warnings"] == ["looks like a row number (0, 1, 2, ..): training reads it as a number"]


def test_a_name_that_is_missing_elsewhere_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="column 2 has an empty name"):
        read_table(b"x,,y\n1,2,3\n")
