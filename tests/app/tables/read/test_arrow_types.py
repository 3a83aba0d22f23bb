"""Every type of Arrow: its cells as text, or the refusal that names column and type."""

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import InvalidRequestError
from app.tables import fit_schema, read_table


def stream(column: Any) -> bytes:
    table = pa.table({"x": column, "y": pa.array([1.0, 2.0, 4.0])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def parquet(column: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": column, "y": pa.array([1.0, 2.0, 4.0])}), sink)
    return sink.getvalue()


def levels(values: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), values)


AB, FIRST, SECOND = ["a", "b", None], dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)
BYTES: Any = [b"a", b"b", None]
MONEY: Any = [Decimal("1.50"), Decimal("-0.25"), None]
Texts = list[str | None]
READ: list[tuple[str, Any, Texts]] = [
    ("string_view", pa.array(AB, pa.string_view()), AB),
    ("large_string", pa.array(AB, pa.large_string()), AB),
    ("binary", pa.array(BYTES, pa.binary()), AB),
    ("large_binary", pa.array(BYTES, pa.large_binary()), AB),
    ("binary_view", pa.array(BYTES, pa.binary_view()), AB),
    ("dictionary of string_view", levels(pa.array(["a", "b"], pa.string_view())), AB),
    ("dictionary of numbers", levels(pa.array([7.5, 8.0])), ["7.5", "8.0", None]),
    ("dictionary of booleans", levels(pa.array([True, False])), ["true", "false", None]),
    ("decimal32", pa.array(MONEY, pa.decimal32(5, 2)), ["1.50", "-0.25", None]),
    ("decimal128", pa.array(MONEY, pa.decimal128(5, 2)), ["1.50", "-0.25", None]),
    ("decimal256", pa.array(MONEY, pa.decimal256(40, 2)), ["1.50", "-0.25", None]),
    ("duration in s", pa.array([86_400, 43_200, None], pa.duration("s")), ["1.0", "0.5", None]),
    ("duration in ns", pa.array([86_400 * 10**9, 0, None], pa.duration("ns")), ["1.0", "0.0", None]),
    ("date64", pa.array([0, 86_400_000, None], pa.date64()), ["1970-01-01", "1970-01-02", None]),
    ("time64", pa.array([3_600_000_000, 0, None], pa.time64("us")), ["01:00:00.000000", "00:00:00.000000", None]),
    ("half floats", pa.array(np.array([1.5, 2.5, np.nan], np.float16)), ["1.5", "2.5", None]),
    ("large lists of one", pa.array([[1.0], [2.0], None], pa.large_list(pa.float64())), ["1.0", "2.0", None]),
    ("fixed lists of one", pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3]), 1), ["1", "2", "3"]),
    (
        "runs",
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, 2.5])),
        ["1.5", "1.5", "2.5"],
    ),
]
REFUSED: list[tuple[str, Any, str]] = [
    ("bytes that are no text", pa.array([b"a", b"\xff", b"c"]), "binary, whose cells from row 0 on cannot be read"),
    ("bytes of one length", pa.array(BYTES, pa.binary(1)), "fixed_size_binary[1]: expected"),
    ("lists of two", pa.array([[1.0], [2.0, 3.0], [4.0]]), "list<item: double>, with 2 cells in row 1: expected"),
    ("empty lists", pa.array([[1.0], [2.0], []]), "list<item: double>, with 0 cells in row 2: expected"),
    ("objects", pa.array([{"a": 1}] * 3), "struct<a: int64>: expected"),
    ("intervals", pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()), "month_day_nano_interval: expected"),
    ("views of lists", pa.array([[1.0]] * 3, pa.list_view(pa.float64())), "list_view<item: double>: expected"),
]


@pytest.mark.parametrize(("column", "texts"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_types_that_are_read(column: Any, texts: Texts) -> None:
    table = read_table(stream(column))
    assert table.columns["x"].texts.to_pylist() == texts
    told = ("'x': a duration is read as days",) if pa.types.is_duration(column.type) else ()
    assert table.notes == told


@pytest.mark.parametrize(("column", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_types_that_are_refused_by_name(column: Any, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_table(stream(column))
    assert caught.value.message.startswith(f"column 'x': its type is {words}")
    assert caught.value.faults[0].column == "x"


def test_a_target_of_shape_n_1_is_a_column() -> None:
    ones = pa.array([[1.5], [2.5], [4.0]])
    for data in (stream(ones), parquet(ones)):
        assert fit_schema(read_table(data), target="x")[1].targets.tolist() == [1.5, 2.5, 4.0]
