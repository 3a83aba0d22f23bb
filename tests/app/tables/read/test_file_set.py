"""Many Parquet files are the table that one file of the same rows is."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequestError, MalformedError, TooLargeError
from app.file_version import FileVersion
from app.tables import (
    FileSet,
    Limits,
    Table,
    file_set_rows,
    file_set_table,
    open_canonical,
    read_file_set,
    read_table,
    write_table,
)
from app.tables.columns.types import is_text, restored
from app.tables.read import file_set


def columns_of(rows: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    number = pa.array(random.normal(size=rows), mask=random.random(rows) < 0.1)
    kinds = pa.array(random.choice(["north", "süd", "1,5"], rows).tolist())
    days = pa.array([date(2020, 1, 1 + day) for day in random.integers(0, 31, rows).tolist()])
    return {
        "number": number,
        "kind": kinds.dictionary_encode(),
        "text": kinds,
        "day": days,
        "y": random.integers(0, 9, rows),
    }


def opener(file: FileVersion) -> BinaryIO:
    return Path(file.address).open("rb")


def versions(paths: Sequence[Path]) -> list[FileVersion]:
    return [FileVersion(address=str(path), size=path.stat().st_size, version="1") for path in paths]


def write_parts(folder: Path, table: pa.Table, ends: Sequence[int], group: int) -> list[FileVersion]:
    edges = [0, *sorted({end for end in ends if 0 < end < len(table)}), len(table)]
    paths = []
    for place, (first, last) in enumerate(pairwise(edges)):
        paths.append(folder / f"part-{place:03d}.parquet")
        pq.write_table(table.slice(first, last - first), paths[-1], row_group_size=group)
    return versions(paths)


def cells(table: Table) -> dict[str, list[Any]]:
    return {name: table.columns[name].texts.to_pylist() for name in table.names}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 200),
    st.lists(st.integers(1, 199), max_size=5),
    st.integers(1, 90),
    st.tuples(st.integers(0, 199), st.integers(1, 200)),
)
def test_cells_are_those_of_one_file(
    tmp_path_factory: pytest.TempPathFactory, rows: int, ends: list[int], group: int, asked: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    table = pa.table(columns_of(rows))
    found = read_file_set("here", write_parts(folder, table, ends, group), opener, Limits())
    pq.write_table(table, folder / "whole.parquet")
    write_table(folder / "canonical.parquet", read_table((folder / "whole.parquet").read_bytes(), limits=Limits()))
    whole = open_canonical(folder / "canonical.parquet")
    assert FileSet.from_bytes(found.to_bytes()) == found
    made = file_set_table(found, opener)
    assert (made.names, made.rows, made.types, made.notes) == (whole.names, whole.rows, whole.types, whole.notes)
    assert made.number_formats() == whole.number_formats()
    assert cells(made) == cells(whole)
    first, last = sorted(min(end, rows) for end in asked)
    part = file_set_rows(found, opener, ["y", "text"], range(first, last))
    assert cells(part) == {name: cells(whole)[name][first:last] for name in ("y", "text")}
    assert made.parts is not None
    assert [text for part in made.parts(["text"]) for text in part["text"].texts.to_pylist()] == cells(whole)["text"]


@pytest.mark.parametrize("asked", [("y", "month", "kind"), ("kind", "month"), ("number",)])
def test_folders_of_a_partition_are_columns(tmp_path: Path, asked: tuple[str, ...]) -> None:
    """As if each file had the values in all of its rows; of a column that the files have too theirs count."""
    table = pa.table(columns_of(90))
    found = [
        replace(file, partition=(("month", month), ("kind", "other")))
        for file, month in zip(write_parts(tmp_path, table, (20, 50), 30), ("1,5", None, "12"), strict=True)
    ]
    months = ["1,5"] * 20 + [None] * 30 + ["12"] * 40
    pq.write_table(table.append_column("month", pa.array(months, pa.string())), tmp_path / "whole.parquet")
    whole = read_table((tmp_path / "whole.parquet").read_bytes(), limits=Limits())
    files = read_file_set("here", found, opener, Limits())
    assert FileSet.from_bytes(files.to_bytes()) == files
    made = file_set_table(files, opener)
    assert (made.names, made.rows, made.types) == (whole.names, 90, whole.types)
    assert made.number_formats() == whole.number_formats()
    assert cells(made) == cells(whole)
    part = file_set_rows(files, opener, asked, range(15, 70))
    assert cells(part) == {name: cells(whole)[name][15:70] for name in asked}


def test_files_of_other_partitions_are_named(tmp_path: Path) -> None:
    found = write_parts(tmp_path, pa.table(columns_of(40)), (20,), 30)
    found[1] = replace(found[1], partition=(("month", "3"),))
    with pytest.raises(InvalidRequestError, match="its folders say values of 'month', and those of 'part-000"):
        read_file_set("here", found, opener, Limits())


def test_columns_may_stand_in_another_order(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], " b ": [3.5, 4.5]})
    pq.write_table(table, tmp_path / "1.parquet")
    pq.write_table(table.select([" b ", "a"]), tmp_path / "2.parquet")
    found = read_file_set("here", versions([tmp_path / "1.parquet", tmp_path / "2.parquet"]), opener, Limits())
    assert cells(file_set_table(found, opener)) == {"a": ["1", "2", "1", "2"], "b": ["3.5", "4.5", "3.5", "4.5"]}


OTHERS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "another type": (
        {"a": ["x"], "y": [1]},
        "its column 'a' has text, and numbers in '1.parquet': write it alike in all files",
        "a",
    ),
    "a column less": ({"y": [1]}, "it has no column 'a', which '1.parquet' has", "a"),
    "a column more": ({"a": [1], "b": [1], "y": [1]}, "'1.parquet' has no column 'b'", "b"),
    "lists": ({"a": [{"b": 1}], "y": [1]}, "column 'a': its type is struct", "a"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_file_that_does_not_agree_is_named_with_its_column(tmp_path: Path, other: str) -> None:
    columns, said, column = OTHERS[other]
    pq.write_table(pa.table({"a": [1], "y": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table(columns), tmp_path / "2.parquet")
    with pytest.raises(InvalidRequestError) as caught:
        read_file_set("here", versions([tmp_path / "1.parquet", tmp_path / "2.parquet"]), opener, Limits())
    assert f"location: file '2.parquet': {said}" in caught.value.message
    assert [fault.column for fault in caught.value.faults] == [column]


def arrays_of(kind: Any) -> st.SearchStrategy[Any]:
    """Cells of a type, and nulls."""
    if pa.types.is_null(kind):
        return st.integers(1, 4).map(pa.nulls)
    made: Any = st.none()
    cells = kind
    if is_text(kind):
        made, cells = st.sampled_from(["a", "1", "1,5", "süd"]), pa.string()
    elif pa.types.is_boolean(kind):
        made = st.booleans()
    elif pa.types.is_integer(kind):
        least = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
        made = st.sampled_from([least, least + 2**kind.bit_width - 1]) | st.integers(0, 9)
    elif pa.types.is_floating(kind):
        floats: Any = st.floats
        made = floats(width=kind.bit_width, allow_nan=False, allow_infinity=False).map(kind.to_pandas_dtype())
    elif pa.types.is_decimal(kind):
        made = st.integers(-999, 999).map(lambda value: Decimal(value).scaleb(-kind.scale))
    else:
        start, cells = datetime(2020, 1, 1), pa.timestamp("us")
        made = st.integers(0, 50).map(lambda day: start + timedelta(days=day, hours=day % 2))
    lists = st.lists(st.none() | made, min_size=1, max_size=4)
    return lists.map(lambda found: pa.array(found, cells).cast(kind, safe=False))


TEXTS: tuple[Any, ...] = (pa.string(), pa.large_string(), pa.string_view(), pa.binary())
INTEGERS: tuple[Any, ...] = (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32())
FLOATS: tuple[Any, ...] = (pa.float16(), pa.float32(), pa.float64())
STAMPS: tuple[Any, ...] = (pa.date32(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")))
ALIKE: tuple[tuple[Any, ...], ...] = (
    TEXTS,
    (*INTEGERS, *FLOATS),
    (*INTEGERS, pa.uint64(), pa.decimal128(5, 2), pa.decimal128(30, 4)),
    (pa.decimal128(5, 2), *FLOATS),
    STAMPS,
    tuple(pa.timestamp(unit, tz=tz) for unit in ("s", "ns") for tz in ("UTC", "Europe/Berlin")),
    (pa.bool_(),),
)


def promoted(arrays: Sequence[Any]) -> Any:
    """Arrow's own concatenation, by a type that holds all cells; it names none for some of these."""
    kinds = {array.type for array in arrays} - {pa.null()}
    common: Any = None
    if kinds & {*TEXTS}:
        common = pa.string()
    elif pa.date32() in kinds and len(kinds) > 1:
        common = pa.timestamp("us")
    elif any(map(pa.types.is_floating, kinds)):
        common = pa.float64()  # from text, as Arrow's own cast of the decimal 0.47 is not 0.47
        arrays = [array.cast(pa.string()) if pa.types.is_decimal(array.type) else array for array in arrays]
    elif any(map(pa.types.is_decimal, kinds)):
        common = pa.decimal128(38, max(kind.scale for kind in kinds if pa.types.is_decimal(kind)))
    elif pa.uint64() in kinds:
        common = pa.decimal128(20, 0)
    elif len({kind.tz for kind in kinds if pa.types.is_timestamp(kind)}) > 1:
        common = pa.timestamp("us", tz="UTC")
    if common is not None:  # unsafe: rounds integers that doubles do not hold, and nanoseconds
        return pa.concat_arrays([array.cast(common, safe=False) for array in arrays])
    tables = [pa.table({"a": array}) for array in arrays]
    return pa.concat_tables(tables, promote_options="permissive").column("a").combine_chunks()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_columns_that_mean_the_same_are_one_of_their_common_type(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The cells are those of one file that has it; and so are those of predictions, by the type that is kept."""
    folder = tmp_path_factory.mktemp("files")
    alike = data.draw(st.sampled_from(ALIKE), "alike")
    kinds = data.draw(st.lists(st.sampled_from((*alike, pa.null())), min_size=2, max_size=4), "kinds")
    arrays = [data.draw(arrays_of(kind)) for kind in kinds]
    paths = [folder / f"{place}.parquet" for place in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        coded = array.dictionary_encode() if array.type == pa.string() and data.draw(st.booleans()) else array
        pq.write_table(pa.table({"a": coded, "y": [1.0] * len(array)}), path)
    found = read_file_set("here", versions(paths), opener, Limits())
    assert FileSet.from_bytes(found.to_bytes()) == found
    whole = promoted(arrays)
    pq.write_table(pa.table({"a": whole, "y": [1.0] * len(whole)}), folder / "whole.parquet")
    read = read_table((folder / "whole.parquet").read_bytes(), limits=Limits())
    made = file_set_table(found, opener)
    assert cells(made) == cells(read)
    assert made.number_formats() == read.number_formats()
    if "a" in made.types:
        kept = restored(made.columns["a"].texts, made.types["a"])
        assert str(kept.type) == made.types["a"]
        assert kept.cast(whole.type, safe=False).to_pylist() == whole.to_pylist()


COMMON: tuple[tuple[tuple[Any, ...], str | None], ...] = (
    ((pa.int64(), pa.float64()), "double"),
    ((pa.float32(), pa.null(), pa.float64()), "double"),
    ((pa.int32(), pa.int64()), "int64"),
    ((pa.int32(), pa.float32()), "double"),
    ((pa.null(), pa.bool_()), "bool"),
    ((pa.decimal128(5, 2), pa.float32()), "double"),
    ((pa.date32(), pa.timestamp("ms")), "timestamp[ms]"),
    ((pa.timestamp("s", tz="UTC"), pa.timestamp("ms", tz="Asia/Tokyo")), "timestamp[ms, tz=UTC]"),
    ((pa.int64(), pa.uint64()), None),
    ((pa.decimal256(76, 0), pa.decimal256(76, 40)), "double"),
    ((pa.string(), pa.large_string()), None),
    ((pa.null(), pa.null()), None),
)


@pytest.mark.parametrize(("kinds", "kept"), COMMON, ids=str)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_type_that_is_kept_holds_the_cells_of_all_files(
    tmp_path: Path, kinds: Sequence[Any], kept: str | None, turn: int
) -> None:
    paths = [tmp_path / f"{place}.parquet" for place, _ in enumerate(kinds)]
    for path, kind in zip(paths, kinds[::turn], strict=True):
        pq.write_table(pa.table({"a": pa.nulls(2, kind), "y": [1, 2]}), path)
    found = read_file_set("here", versions(paths), opener, Limits())
    assert found.types.get("a") == kept


def test_decimals_beside_doubles_are_the_nearest_double(tmp_path: Path) -> None:
    """Arrow's own cast is a bit beside one in nine."""
    random = np.random.default_rng(0)
    numbers = [Decimal(int(value)).scaleb(-25) for value in random.integers(0, 2**62, 200)]
    pq.write_table(pa.table({"a": pa.array(numbers, pa.decimal128(38, 25)), "y": [1] * 200}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [0.5], "y": [1]}), tmp_path / "2.parquet")
    found = read_file_set("here", versions(sorted(tmp_path.glob("*"))), opener, Limits())
    assert cells(file_set_table(found, opener))["a"] == [*(repr(float(number)) for number in numbers), "0.5"]


UNLIKE: dict[str, tuple[list[Any], list[Any], str]] = {
    "numbers, text": ([1.5], ["x"], "has text, and numbers in"),
    "dates, numbers": ([date(2020, 1, 1)], [1], "has numbers, and dates in"),
    "text, booleans": (["x"], [True], "has booleans, and text in"),
    "numbers, booleans": ([1], [True], "has booleans, and numbers in"),
    "dates, times": ([date(2020, 1, 1)], [time(1)], "has times of day, and dates in"),
    "durations, numbers": ([timedelta(1)], [1], "has numbers, and durations in"),
    "with zone, without": (
        [datetime(2020, 1, 1, tzinfo=UTC)],
        [datetime(2020, 1, 1)],
        "has dates, and dates with a time zone in",
    ),
}


@pytest.mark.parametrize("unlike", UNLIKE)
def test_cells_of_other_meaning_are_told_in_plain_words(tmp_path: Path, unlike: str) -> None:
    """Of the first file that has cells in the column."""
    one, other, said = UNLIKE[unlike]
    for place, column in enumerate(([None], one, other)):
        pq.write_table(pa.table({"a": column, "y": [1]}), tmp_path / f"{place}.parquet")
    with pytest.raises(InvalidRequestError) as caught:
        read_file_set("here", versions(sorted(tmp_path.glob("*"))), opener, Limits())
    assert f"file '2.parquet': its column 'a' {said} '1.parquet': write it alike" in caught.value.message


def test_times_of_day_have_the_finest_unit(tmp_path: Path) -> None:
    for place, kind in enumerate((pa.time32("s"), pa.time64("us"))):
        pq.write_table(pa.table({"a": pa.array([time(1, 2, 3)], kind), "y": [1]}), tmp_path / f"{place}.parquet")
    found = read_file_set("here", versions(sorted(tmp_path.glob("*"))), opener, Limits())
    assert cells(file_set_table(found, opener))["a"] == ["01:02:03.000000"] * 2


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "y": [1]}), tmp_path / "1.parquet")
    (tmp_path / "2.parquet").write_bytes(b"PAR1 and more PAR1")
    with pytest.raises(MalformedError, match=r"file '2\.parquet'"):
        read_file_set("here", versions(sorted(tmp_path.glob("*"))), opener, Limits())
    with pytest.raises(MalformedError):
        FileSet.from_bytes(b'{"format": "pursuit-table-files/1"}')


def test_limits_hold_for_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = write_parts(tmp_path, pa.table(columns_of(100)), [30, 60], 20)
    read_file_set("here", found, opener, Limits(rows=100))
    for limits, said in (
        (Limits(rows=99), "PURSUIT_MAX_ROWS"),
        (Limits(bytes=500), "PURSUIT_MAX_TABLE_BYTES"),
        (Limits(columns=4), "PURSUIT_MAX_COLUMNS"),
        (Limits(cell=4), "PURSUIT_MAX_CELL_CHARS"),
    ):
        with pytest.raises(TooLargeError, match=said):
            read_file_set("here", found, opener, limits)
    monkeypatch.setattr(file_set, "MOST_GROUP_BYTES", 100)
    with pytest.raises(InvalidRequestError, match="smaller row groups"):
        read_file_set("here", found, opener, Limits())


def test_files_without_rows_are_no_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}), tmp_path / "1.parquet")
    with pytest.raises(InvalidRequestError, match="no rows"):
        read_file_set("here", versions([tmp_path / "1.parquet"]), opener, Limits())
