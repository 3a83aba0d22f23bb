"""Many Parquet files are the table that one file of the same rows is."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
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
        "its column 'a' is string, and int64 in '1.parquet'",
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
        (Limits(rows=99), "max_rows"),
        (Limits(bytes=500), "max_table_bytes"),
        (Limits(columns=4), "max_columns"),
        (Limits(cell=4), "max_cell_chars"),
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
