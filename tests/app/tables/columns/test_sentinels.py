"""Numbers that stand for a missing cell are told and never taken out unasked; what is only unusual is not told."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import InvalidRequestError
from app.tables import fit_schema, from_columns, read_table
from app.tables.columns.cells import FloatArray
from app.tables.columns.sentinels import find_sentinels
from app.tables.schema.profile import describe_column
from tests.app.tables.messy import FOLDER, needs_files, numeric_columns

ROWS = 600
CHANCE = np.random.default_rng(5)
BELL = CHANCE.normal(20.0, 3.0, ROWS)
SKEWED = CHANCE.exponential(200.0, ROWS)
COUNTS = CHANCE.integers(0, 28, ROWS).astype(float)
SIGNED = CHANCE.normal(0.0, 10.0, ROWS)
WIDE = np.array([-1.7e308, 0.0, 1e308] * (ROWS // 3))

TOLD = [
    *((BELL, code, 12) for code in (-200.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0, -99.9, 999.9, -32768.0, 1e20)),
    (BELL, -1000.0, 590),
    (SKEWED, -200.0, 300),
    (SKEWED, -9.0, 12),
    (SKEWED, -1.0, 12),
    (COUNTS, 999.0, 500),
    (COUNTS, -1.0, 12),
    (COUNTS, 99.0, 12),
    (SIGNED, -999.0, 12),
    (SIGNED, 888.0, 12),
    (CHANCE.integers(1, 5, ROWS).astype(float), 9.0, 12),
    (CHANCE.integers(1990, 2021, ROWS).astype(float), -1.0, 12),
]


@pytest.mark.parametrize(("numbers", "code", "count"), TOLD)
def test_a_code_for_missing_is_found(numbers: FloatArray, code: float, count: int) -> None:
    column = numbers.copy()
    column[:count] = code
    (found,) = find_sentinels(column)
    others = column[count:]
    assert (found.value, found.count, found.low, found.high) == (code, count, others.min(), others.max())
    column[count + 1 :: 2] = np.nan  # known to be missing: no matter
    assert [sentinel.value for sentinel in find_sentinels(column)] == [code]


NOT_TOLD = [
    (BELL, -999.0, 4, "too few rows"),
    (np.tile(BELL, 10), -999.0, 50, "too small a share"),
    (BELL, 20.0, 300, "among the others"),
    (BELL, 35.0, 12, "near the others"),
    (BELL, 1234.0, 12, "not written as a code"),
    (BELL, 0.0, 12, "zero is a number"),
    (COUNTS, 28.0, 300, "the largest of many"),
    (np.linspace(90.0, -90.0, ROWS), -99.9, 300, "not the only one below zero, and near"),
    (SKEWED / 10.0, 100.0, 12, "a round number above the others"),
    (np.tile([0.0, 1.0], ROWS // 2), -1.0, 200, "-1, 0 and 1"),
    (np.tile([1.0, 2.0, 3.0, 4.0], ROWS // 4), -1.0, 200, "-1 to 4"),
    (np.tile([3.0, 4.0, 5.0, 6.0], ROWS // 4), 8.0, 200, "cylinders"),
    (np.zeros(ROWS), 99.0, 300, "one other value"),
    (np.full(ROWS, np.nan), 999.0, 600, "nothing else"),
    (WIDE, 9.0, 12, "differences past float64"),
]


@pytest.mark.parametrize(
    ("numbers", "code", "count"), [case[:3] for case in NOT_TOLD], ids=[case[3] for case in NOT_TOLD]
)
def test_what_is_only_unusual_is_not(numbers: FloatArray, code: float, count: int) -> None:
    column = numbers.copy()
    column[:count] = code
    assert find_sentinels(column) == []


def test_several_codes_in_one_column() -> None:
    column = BELL.copy()
    column[:12], column[12:24], column[24:36] = -999.0, -888.0, 9999.0
    assert [(found.value, found.count) for found in find_sentinels(column)] == [
        (-999.0, 12),
        (-888.0, 12),
        (9999.0, 12),
    ]
    assert find_sentinels(np.empty(0)) == []


def test_training_names_columns_and_counts_and_changes_nothing() -> None:
    x, z, y = SKEWED.copy(), BELL.copy(), SIGNED.copy()
    x[:30], z[7:27], y[-6:], z[100:107] = -200.0, -200.0, 9999.0, 9999.0
    table = from_columns({"x": x.tolist(), "z": z.tolist(), "y": y.tolist()})
    _, prepared = fit_schema(table)
    assert prepared.inputs.tolist() == np.column_stack([x, z]).tolist()
    assert prepared.targets.tolist() == y.tolist()
    assert prepared.warnings == (
        f"the target 'y' is 9999 in 6 rows, far from its other values ({min(y):.17g} to {y[y < 9999].max():.17g}), and "
        "was learnt as it stands: error bars and scores are those of predicting it too; if it stands for a missing "
        'cell, say "missing_values": [9999], and such rows are left out',
        "-200 repeats far from the other values of its column (cells by column: 'x' 30, 'z' 20) and was read as a "
        'number; if it stands for a missing cell, say "missing_values": [-200]',
        "9999 repeats far from the other values of its column (cells by column: 'z' 7) and was read as a "
        'number; if it stands for a missing cell, say "missing_values": [9999]',
    )
    _, declared = fit_schema(table, missing="drop", missing_values=[-200, 9999])
    assert declared.warnings == ("43 of 600 rows dropped because a cell is missing (by column: 'y' 6, 'x' 30, 'z' 27)",)
    assert fit_schema(table, columns={"z": "ignore"})[1].warnings[0].startswith("the target 'y' is 9999 in 6 rows")


def test_the_profile_of_a_column_tells_it() -> None:
    x = COUNTS.copy()
    x[:30] = 999.0
    described = describe_column("x", from_columns({"x": x.tolist()}).columns["x"])
    assert described["warnings"] == [
        "999 stands in 30 cells, the other values are 0 to 27; if it stands for a missing cell, say "
        '"missing_values": [999]'
    ]


ROUNDED = [-999.9, -99.99, 99.9, 1e20, -9999.0, 9999999.0, 99999999.0, 9999999999.0]


@pytest.mark.parametrize("code", ROUNDED)
def test_a_code_in_single_precision_is_told_as_it_was_written(code: float) -> None:
    x = BELL.astype(np.float32)
    x[:30] = code
    single = float(np.float32(code))
    (found,) = find_sentinels(x.astype(np.float64))
    assert (found.value, found.count) == (single, 30)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": x, "y": SIGNED}), sink)
    table = read_table(sink.getvalue().to_pybytes())
    shown = f"{int(single)}" if single.is_integer() and single < 1e15 else f"{code!r}"
    (told,) = [words for words in fit_schema(table)[1].warnings if words.startswith(shown)]
    assert f'"missing_values": [{shown}]' in told
    schema, prepared = fit_schema(table, missing="drop", missing_values=[float(shown)])
    assert prepared.dropped == 30
    with pytest.raises(InvalidRequestError, match="row 0, column 'x': missing"):
        schema.encode_rows([[single]])


@needs_files
def test_air_quality_has_one_in_all_its_numbers() -> None:
    columns = numeric_columns(FOLDER / "messy" / "AirQualityUCI.csv")
    assert len(columns) == 13
    for name, numbers in columns.items():
        assert [found.value for found in find_sentinels(numbers)] == [-200.0], name


CLEAN = [
    *("abalone", "bank32nh", "bank8FM", "boston_housing", "cal_housing", "cpu_act", "cpu_small", "diamonds"),
    *("house_16H", "house_8L", "pumadyn32nm"),
    *("messy/AmesHousing", "messy/auto-mpg", "messy/bike_sharing_day", "messy/forestfires", "messy/winequality-red"),
]


@needs_files
@pytest.mark.parametrize("name", CLEAN)
def test_no_other_set_has(name: str) -> None:
    suffix = ".csv" if name.startswith("messy/") else ".csv.gz"
    for column, numbers in numeric_columns(FOLDER / f"{name}{suffix}").items():
        assert find_sentinels(numbers) == [], column
