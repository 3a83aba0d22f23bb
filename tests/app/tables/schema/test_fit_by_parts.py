"""A table that is read by parts: fit, refusals and profile are those of its columns in memory, however it is cut."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.tables import Column, Limits, Table, TableOptions, fit_table, open_canonical, read_table, write_table
from app.tables.columns import sums
from app.tables.columns.counts import DistinctNumbers, LevelCounts
from app.tables.columns.sums import TableSums
from app.tables.read import canonical
from app.tables.schema import leaks, row_groups
from app.tables.schema.profile import describe_table
from tests.app.tables.schema.messy_tables import messy_columns

OPTIONS: list[dict[str, Any]] = [
    {},
    {"missing": "drop"},
    {"missing": "impute", "dates": "cyclic"},
    {"missing": "drop", "missing_values": [-200], "dates": "elapsed", "max_levels": 3},
    {"missing": "impute", "target": ["y", "x1"]},
    {"missing": "drop", "groups": "x1"},
    {"missing": "drop", "columns": {"x1": "date"}},
    {"missing": "drop", "columns": {"x1": "category"}},
]


def table_of(columns: Mapping[str, Sequence[str | None]]) -> Table:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return read_table(text.getvalue().encode(), limits=Limits())


def cut(table: Table, ends: Sequence[int]) -> Table:
    """The same table by parts that end before these rows; no column of it can be read as a whole."""
    edges = [0, *sorted({end for end in ends if 0 < end < table.rows}), table.rows]

    def read(names: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        for first, last in pairwise(edges):
            yield {name: table.columns[name].take(np.arange(first, last)) for name in names}

    return replace(table, parts=read)


def found(table: Table, options: Mapping[str, Any]) -> Any:
    """The fit, or what is refused."""
    try:
        schema, rows = fit_table(table, TableOptions(**options))
    except InvalidRequestError as error:
        return error.message, error.faults, error.total
    return schema.to_json(), rows.warnings, rows.rows.tolist()


def but_for_rounding(document: Any) -> Any:
    """A profile that equals any whose means are the same: sums over parts are rounded elsewhere."""

    def mean(column: Mapping[str, Any]) -> Any:
        largest = max(abs(column.get("min", 0)), abs(column.get("max", 1)))
        return pytest.approx(column["mean"], rel=1e-12, abs=1e-12 * largest)

    columns = [
        {**column, "mean": mean(column)} if column.get("mean") is not None else column for column in document["columns"]
    ]
    return document | {"columns": columns}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 300), st.lists(st.integers(1, 299), max_size=8), st.sampled_from(OPTIONS))
def test_parts_are_fitted_as_the_whole(seed: int, rows: int, ends: list[int], options: dict[str, Any]) -> None:
    table = table_of(messy_columns(seed, rows))
    parts = cut(table, ends)
    assert found(parts, options) == found(table, options)
    assert describe_table(parts, None) == but_for_rounding(describe_table(table, None))


def test_a_file_of_several_row_groups_is_read_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_GROUP_ROWS", 70)
    table = table_of(messy_columns(11, 500))
    write_table(tmp_path / "t.parquet", table)
    stored = open_canonical(tmp_path / "t.parquet")
    assert stored.parts is not None
    assert [len(part["y"]) for part in stored.parts(["y"])] == [70] * 7 + [10]
    for options in OPTIONS:
        assert found(stored, options) == found(table, options)


def test_a_fit_holds_no_column_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 rows in parts of 100 nothing is ever read that has more: single values are those of a sample."""
    random = np.random.default_rng(0)
    names = [f"name {number}" for number in random.integers(0, 1_500, 5_000).tolist()]
    columns = {
        "a": list(map(repr, random.normal(size=5_000).tolist())),
        "code": list(map(str, random.choice([1, 2, 3, 4, 9999], 5_000).tolist())),
        "name": names,
        "when": [f"2020-01-{day:02d}" for day in random.integers(1, 31, 5_000).tolist()],
        "y": list(map(repr, random.normal(size=5_000).tolist())),
    }
    monkeypatch.setattr(sums, "MOST_VALUES", 300)
    monkeypatch.setattr(leaks, "_SAMPLE", 500)
    monkeypatch.setattr(row_groups, "SAMPLE", 500)
    whole = table_of(columns)
    expected, rows = fit_table(whole, TableOptions(missing="impute"))
    parts = replace(cut(whole, range(100, 5_000, 100)), columns={})
    schema, kept = fit_table(parts, TableOptions(missing="impute"))
    assert kept.rows.tolist() == rows.rows.tolist()
    for feature, other in zip(schema.features, expected.features, strict=True):
        assert (feature.name, feature.kind, feature.levels) == (other.name, other.kind, other.levels)
    sample = TableSums(parts.read_as(None))["a"].values()
    assert 150 < len(sample) < 450
    assert set(sample.tolist()) <= set(map(float, columns["a"]))
    assert abs(float(np.median(sample))) < 0.3


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=10, deadline=None)
def test_levels_beyond_the_limit_are_estimated_and_the_common_ones_kept(seed: int, parts: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"rare {number}" for number in random.integers(0, 4_000, 6_000).tolist()]
    names += [f"common {number}" for number in range(5) for _ in range(200)]
    random.shuffle(names)
    counts = LevelCounts(most=400)
    for part in np.array_split(np.array(names, dtype=object), parts):
        counts.add(Column(cells=part.tolist()))
    assert len(counts.counts) <= 400
    assert not counts.complete
    assert counts.cells == len(names)
    assert abs(counts.distinct / len(set(names)) - 1.0) < 0.4  # five deviations of a sample of 150
    common = sorted(counts.counts, key=lambda name: -counts.counts[name])[:5]
    assert sorted(common) == [f"common {number}" for number in range(5)]
    assert all(counts.counts[name] == 200 for name in common)


@given(st.integers(0, 2**32), st.integers(0, 3_000), st.integers(1, 9))
def test_distinct_numbers_are_counted_up_to_the_limit_and_then_estimated(seed: int, size: int, parts: int) -> None:
    values = np.random.default_rng(seed).integers(-size, size + 1, 3_000).astype(np.float64)
    exact, estimated = DistinctNumbers(), DistinctNumbers(most=500)
    for part in np.array_split(values, parts):
        exact.add(part)
        estimated.add(part)
    distinct = len(np.unique(values))
    assert exact.count == distinct
    assert abs(estimated.count - distinct) <= (0.35 * distinct if distinct > 500 else 0)
