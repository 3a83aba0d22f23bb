"""Decimal marks and grouped digits: what is guessed, what is left open, what holds when a model is asked."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import InvalidRequestError
from app.tables import (
    ReadOptions,
    Schema,
    Source,
    fit_schema,
    from_columns,
    open_canonical,
    open_file,
    read_table,
    write_table,
    write_text_blocks,
)
from app.tables.columns.number_formats import PLAIN, NumberFormat, count_marks
from app.tables.schema.profile import describe_table
from tests.app.tables.files import json_lines, parquet, workbook

COMMA = NumberFormat(",")
EUROPEAN, AMERICAN = NumberFormat(",", "."), NumberFormat(".", ",")


def quoted(columns: dict[str, list[str]], delimiter: str = ",") -> bytes:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows).encode() + b"\n"


THOUSANDS = [f"{number:,}" for number in random.Random(0).sample(range(1, 5_000), 40)]
POINTS = [cell.replace(",", ".") for cell in THOUSANDS]
HALVES = [f"{place}.5" for place in range(40)]
COMMAS = [f"{place},5" for place in range(40)]
GUESSES: list[tuple[str, bytes, NumberFormat]] = [
    ("commas in a comma file", b'x,y\n"0,5",2\n"1,0",3\n', COMMA),
    ("commas beside points", b'x,y\n"0,5",2.5\n"1,25",3\n', COMMA),
    ("European", b"x;y\n1.234,56;2\n0,5;3\n", EUROPEAN),
    ("European, points of groups alone", b"x;y\n1.234.567;2,5\n5;3,5\n", EUROPEAN),
    ("European, one column telling of another", b"x;z;y\n1.234;1.234,5;2\n5;7,5;3\n", EUROPEAN),
    ("American", b'x,y\n"1,234,567",2\n"1,234.5",3\n', AMERICAN),
    ("groups that points beside tell", quoted({"x": THOUSANDS, "y": HALVES}), AMERICAN),
    ("groups that nothing but their number tells", quoted({"x": THOUSANDS, "y": [*"12345678"] * 5}), AMERICAN),
    ("three decimals that commas beside tell", b"x;y\n1,234;2,5\n2,345;3,5\n", COMMA),
    ("blanks", "x,y\n1 234.5,2\n12\u00a0345,3\n".encode(), NumberFormat(".", " ")),
    ("narrow blanks and commas", "x;y\n1\u202f234,5;2\n1;3\n".encode(), NumberFormat(",", " ")),
    ("apostrophes", "x,y\n1'234,2\n12\u2019345.5,3\n".encode(), NumberFormat(".", "'")),
    ("points as ever", b"x,y\n1.234,2\n500,3\n", PLAIN),
    ("points beside commas", b"x;y\n1.234;2\n500,5;3\n", EUROPEAN),
    ("texts of a workbook", workbook({"x": ["0,5", "1,5"], "y": [1.25, 2]}), COMMA),
    ("texts of Parquet", parquet({"x": ["0,5", "1,5"], "y": [1.25, 2]}), COMMA),
    ("texts of JSON Lines", json_lines({"x": ["0,5", "1,5"], "y": [1.25, 2]}), COMMA),
    ("numbers among the texts of a workbook", workbook({"x": ["1.234,5", 1.234], "y": [1, 2]}), PLAIN),
]


@pytest.mark.parametrize(("data", "form"), [case[1:] for case in GUESSES], ids=[case[0] for case in GUESSES])
def test_the_format_of_a_column(data: bytes, form: NumberFormat, tmp_path: Path) -> None:
    table = read_table(data)
    assert table.columns["x"].number_format == form
    write_text_blocks(tmp_path / "stored", open_file(Source(origin=data)))
    stored = open_canonical(tmp_path / "stored")
    for name in table.names:
        assert stored.columns[name].numbers.values.tobytes() == table.columns[name].numbers.values.tobytes()


def test_numbers_are_read_in_their_format() -> None:
    _, prepared = fit_schema(read_table("x;y\n1.234,56;-2,5e3\n-,5;1\n+12.345.678;2\n".replace("-,5", "-0,5").encode()))
    assert prepared.inputs[:, 0].tolist() == [1234.56, -0.5, 12345678.0]
    assert prepared.targets.tolist() == [-2500.0, 1.0, 2.0]


OPEN = [
    ("too few", b'x,y\n"1,234",2\n"999",3\n', "'1,234' may be 1.234 or 1234"),
    ("points beside commas", b"x;y\n1.234;2,5\n500;3,5\n", "'1.234' may be 1.234 or 1234"),
    ("both", b"x;y\n1.234;2\n1,234;3\n", "'1,234' may be 1.234 or 1234"),
]


@pytest.mark.parametrize(("data", "words"), [case[1:] for case in OPEN], ids=[case[0] for case in OPEN])
def test_what_nothing_tells_is_refused_with_both_meanings(data: bytes, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        fit_schema(read_table(data))
    assert words in caught.value.message
    assert '"decimal"' in caught.value.message
    assert '"thousands"' in caught.value.message
    assert (caught.value.faults[0].column, caught.value.faults[0].line) == (
        "x",
        2 + (words[1] == "1" and b",234;3" in data),
    )


SAID: list[tuple[dict[str, Any], list[float]]] = [
    ({"decimal": ","}, [1.234, 999.0, 12.345]),
    ({"decimal": "."}, [1234.0, 999.0, 12345.0]),
    ({"thousands": ","}, [1234.0, 999.0, 12345.0]),
    ({"thousands": ""}, [1.234, 999.0, 12.345]),
    ({"thousands": "."}, [1.234, 999.0, 12.345]),
    ({"decimal": ".", "thousands": ","}, [1234.0, 999.0, 12345.0]),
]


@pytest.mark.parametrize(("said", "values"), SAID)
def test_what_is_said_holds_and_is_not_told(said: dict[str, Any], values: list[float], tmp_path: Path) -> None:
    cells = ["1,234", "999", "12,345"]
    data = quoted({"x": cells, "y": ["1", "2", "4"]})
    schema, prepared = fit_schema(read_table(data), **said)
    assert prepared.inputs[:, 0].tolist() == values
    assert prepared.warnings == ()
    schema = Schema.from_json(schema.to_json())
    one = read_table(b'x\n"1,234"\n', known=["x"], least_columns=1)
    assert schema.encode_table(one).tolist() == [[values[0]]]
    assert schema.encode_columns({"x": ["1,234", 7.5]}).tolist() == [[values[0]], [7.5]]
    table = from_columns({"x": cells, "y": [1, 2, 4]})
    assert fit_schema(table, **said)[1].inputs[:, 0].tolist() == values
    incoming = open_file(Source(origin=data))
    write_text_blocks(tmp_path / "said", incoming, ReadOptions(**said))
    assert fit_schema(open_canonical(tmp_path / "said"))[1].inputs[:, 0].tolist() == values


def test_what_is_said_now_goes_before_what_was_said_then(tmp_path: Path) -> None:
    write_text_blocks(
        tmp_path / "t", open_file(Source(origin=b'x,y\n"1,234",1\n"2,5",2\n')), ReadOptions(thousands=",")
    )
    stored = open_canonical(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match=r"'2,5' is no plain number.*grouped by commas"):
        fit_schema(stored)
    assert fit_schema(stored, decimal=",")[1].inputs[:, 0].tolist() == [1.234, 2.5]


def test_typed_numbers_have_points_whatever_is_said() -> None:
    for data in (parquet({"x": [1.5, 2.5], "y": [1.25, 3.0]}), workbook({"x": [1.5, 2.5], "y": [1.25, 3.0]})):
        assert fit_schema(read_table(data), decimal=",")[1].inputs[:, 0].tolist() == [1.5, 2.5]
    assert fit_schema(from_columns({"x": [1.5, 2.5], "y": [1, 2]}), decimal=",")[1].inputs[:, 0].tolist() == [1.5, 2.5]


TOLD = 'to have it otherwise, say "decimal" and "thousands" in the spec'


def test_a_guess_is_told() -> None:
    assert fit_schema(read_table(b'x,z,y\n"0,5","2,5",2\n"1,0","7,5",3\n'))[1].warnings == (
        f"columns 'x', 'z': the decimal mark was taken to be the comma (0,5 is 0.5); {TOLD}",
    )
    assert fit_schema(read_table(b'x,y\n"1,234,567",2\n5,3\n'))[1].warnings == (
        f"column 'x': digits were taken to be grouped by commas (1,234.5 is 1234.5); {TOLD}",
    )
    assert fit_schema(read_table(b"x;n;y\n0,5;1;2\n1,5;2;3\n"))[1].warnings == ()  # as such files are
    assert fit_schema(read_table(b'c,x,y\n"1,5",1,2\nred,2,3\nred,3,4\n'))[1].warnings == ()  # a text among texts


ASKED = [
    (b"x\n0.5\n", 0.5),
    (b'x\n"0,5"\n', 0.5),
    (b'x\n"1.234,5"\n', 1234.5),
    (b'x\n"1,234"\n', 1.234),
    (b'x,z\n"1,234,567.5",1\n', 1234567.5),
    (b"x;z\n1.234;1\n", 1234.0),
]


@pytest.mark.parametrize(("data", "value"), ASKED)
def test_a_model_reads_open_cells_as_it_learned_them(data: bytes, value: float) -> None:
    schema, _ = fit_schema(read_table(b"x;y\n1.234,56;1\n0,5;3\n"))
    assert schema.encode_table(read_table(data, known=["x"], least_columns=1)).tolist() == [[value]]


def test_a_point_that_may_be_a_program_s_is_refused() -> None:
    schema, _ = fit_schema(read_table(b"x;y\n1.234,56;1\n0,5;3\n"))
    for data in (b"x\n1.234\n", b"x,z\n1.234,1\n"):
        with pytest.raises(InvalidRequestError, match=r"'1.234' may be 1.234 or 1234"):
            schema.encode_table(read_table(data, known=["x"], least_columns=1))
    with pytest.raises(InvalidRequestError, match=r"row 1, column 'x': '1.234' may be"):
        schema.encode_columns({"x": ["0.5", "1.234", "0,5", 2]})
    assert schema.encode_columns({"x": ["0.5", "1.234,5", "0,5", 1.234]})[:, 0].tolist() == [0.5, 1234.5, 0.5, 1.234]


def test_a_model_of_plain_numbers_reads_a_european_file() -> None:
    schema, _ = fit_schema(read_table(b"x,z,y\n1.5,2,1\n2.5,3,2\n"))
    assert schema.encode_table(read_table(b"x;z\n1,234;5\n0,5;6\n")).tolist() == [[1.234, 5.0], [0.5, 6.0]]
    with pytest.raises(InvalidRequestError, match="'0,5' is no plain number"):
        schema.encode_columns({"x": ["0,5"], "z": [1]})


def test_the_profile_tells_numbers_in_their_format(tmp_path: Path) -> None:
    write_table(tmp_path / "t", from_columns({"x": ["0,5", "1,5", None], "y": [1, 2, 3]}))
    columns = describe_table(open_canonical(tmp_path / "t"), "y")["columns"]
    assert (columns[0]["type"], columns[0]["min"], columns[0]["max"]) == ("number", 0.5, 1.5)


def test_a_table_stored_by_an_earlier_release_keeps_its_mark(tmp_path: Path) -> None:
    table = pa.table({"x": ["0,5", "1,234"], "y": ["1", "2"]})
    metadata = {"pursuit": '{"format": "pursuit-table/1", "rows": 2, "decimal": ",", "notes": []}'}
    with pq.ParquetWriter(tmp_path / "old", table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    stored = open_canonical(tmp_path / "old")
    assert fit_schema(stored)[1].inputs[:, 0].tolist() == [0.5, 1.234]
    assert fit_schema(stored, thousands=".")[1].inputs[:, 0].tolist() == [0.5, 1.234]


def test_a_column_is_tallied_the_same_however_it_is_cut() -> None:
    chance = random.Random(1)
    cells = [chance.choice(["1,5", "1.234", "1.234.567", "12", "x, y", "1 234", ""]) for _ in range(1_500)]
    whole = count_marks(cells)
    assert whole.decimal_commas == cells.count("1,5")
    assert whole.grouped_by_points == cells.count("1.234.567")
    assert whole.open_points == cells.count("1.234")
    assert whole.grouped_by_blanks == cells.count("1 234")
    sliced = count_marks(["9", *cells, "9"])
    assert sliced.decimal_commas == whole.decimal_commas
