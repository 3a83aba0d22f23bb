"""Targets far from all others are told; long tails, rare events and codes for missing cells are not told as such."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables import fit_schema, from_columns
from app.tables.columns.cells import FloatArray
from app.tables.columns.outliers import Outliers, find_outliers, outlier_warning

ROWS = 1_000
RANDOM = np.random.default_rng(3)
BELL = RANDOM.normal(20.0, 3.0, ROWS)


def with_values(numbers: FloatArray, *values: float) -> FloatArray:
    """The same numbers with these in the middle."""
    return np.concatenate((numbers[:500], values, numbers[500:]))


@pytest.mark.parametrize(
    "values", [(1e6,), (-1e6,), (-5e5, 1e6), (1e6, 1.1e6, 1e7), (1e300,), (-1.7e308, 1.7e308), (300.0,)]
)
def test_values_far_from_all_others_are_found(values: tuple[float, ...]) -> None:
    found = find_outliers(with_values(BELL, *values))
    assert found == Outliers(values=values, low=float(BELL.min()), high=float(BELL.max()))


@pytest.mark.parametrize(
    "numbers",
    [
        BELL,
        np.exp(BELL / 3.0),
        RANDOM.standard_t(3, ROWS),
        np.where(np.arange(ROWS) < 5, 50.0, 0.0),  # rare events among nothing
        np.where(np.arange(ROWS) < 5, 50.0, np.arange(ROWS) % 2),
        np.where(np.arange(ROWS) < 20, 1e6 + BELL, BELL),  # too many to be slips
        with_values(BELL, 150.0),
        np.append(BELL[:20], 1e6),  # of a few rows none is apart
        np.array([-1.7e308, 0.0, 1e308] * 300),
        np.full(ROWS, np.nan),
        np.empty(0),
    ],
)
def test_what_is_only_unusual_is_not(numbers: FloatArray) -> None:
    assert find_outliers(numbers) is None


def test_known_values_and_missing_cells_do_not_count() -> None:
    numbers = with_values(BELL, 9999.0, np.nan, 1e6)
    assert find_outliers(numbers, [9999.0, 1e6]) is None
    assert find_outliers(numbers, [9999.0]) == find_outliers(with_values(BELL, 1e6))


@given(st.lists(st.floats(-1e6, 1e6), min_size=100, max_size=300))
def test_order_and_sign_do_not_matter(values: list[float]) -> None:
    numbers = np.array(values)
    found = find_outliers(numbers)
    assert find_outliers(numbers[::-1]) == found
    mirrored = find_outliers(-numbers)
    assert (mirrored is None) is (found is None)
    if found is not None and mirrored is not None:
        assert [-value for value in mirrored.values[::-1]] == list(found.values)
        assert (-mirrored.high, -mirrored.low) == (found.low, found.high)


def test_the_target_is_warned_of_before_anything_else_and_no_column_is() -> None:
    columns = {"x": with_values(BELL, 1e9).tolist(), "y": with_values(BELL[::-1], 1e6).tolist()}
    warnings = fit_schema(from_columns(columns))[1].warnings
    assert "the target 'y' has 1 value far from all others, which are" in warnings[0]
    assert ": 1000000; scores of all rows" in warnings[0]
    assert not [each for each in warnings if "'x'" in each]


def test_a_warning_lists_a_few_values() -> None:
    told = outlier_warning("y", Outliers(values=(1.5, 2.5, 3.5, 4.5), low=0.0, high=0.1))
    assert "has 4 values far from all others, which are 0 to 0.1: 1.5, 2.5, 3.5, ..; scores" in told


def test_a_single_value_of_a_large_table_is_found_though_a_sample_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tables.columns.sums.MOST_VALUES", 300)
    columns = {"x": BELL.tolist(), "y": [*BELL[:500].tolist(), -1e6, *BELL[501:].tolist()]}
    warnings = fit_schema(from_columns(columns), target="y")[1].warnings
    assert ": -1000000; scores of all rows" in warnings[0]
    found = find_outliers(BELL[:300], (), (float(BELL[0]), 1e6))
    assert found is not None
    assert found.values == (1e6,)
