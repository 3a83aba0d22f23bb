"""core/numeric/triangle.py: against the dense product, and the same bits for a column whatever is beside it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.numeric.triangle import PANEL_ROWS, WIDEST, Triangle
from core.numeric.workspace import Workspace

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
SIZES = [
    1,
    2,
    31,
    PANEL_ROWS - 1,
    PANEL_ROWS,
    PANEL_ROWS + 1,
    2 * PANEL_ROWS,
    PANEL_ROWS + WIDEST,
    PANEL_ROWS + WIDEST + 1,
    643,
]


def upper(size: int, seed: int = 0) -> FloatArray:
    return np.triu(np.random.default_rng(seed).normal(size=(size, size)))


def columns(size: int, count: int, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).uniform(0.1, 1.0, (size, count))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(DOUBLE, 1e-13), (SINGLE, 1e-4)])
def test_it_is_the_dense_product(size: int, dtype: np.dtype[np.float64], tolerance: float) -> None:
    R, k = upper(size), columns(size, 48)
    found = Triangle(R, dtype).squared_norms(k.copy(), Workspace())
    assert found.dtype == np.float64
    scale = np.square(np.abs(R) @ k).sum(axis=0)
    np.testing.assert_array_less(np.abs(found - np.square(R @ k).sum(axis=0)), tolerance * scale)


def test_what_lies_below_the_diagonal_is_not_read() -> None:
    R = upper(2 * PANEL_ROWS + 5)
    k = columns(len(R), 8)
    littered = R + np.tril(np.full_like(R, 7.0), -1)
    ours, theirs = (Triangle(matrix, DOUBLE).squared_norms(k.copy(), Workspace()) for matrix in (littered, R))
    np.testing.assert_array_equal(ours, theirs)


@given(
    size=st.sampled_from(SIZES),
    first=st.integers(0, 63),
    count=st.integers(1, 64),
    total=st.sampled_from([64, 65, 512]),
)
@settings(max_examples=60, deadline=None)
def test_a_column_has_the_same_bits_whatever_is_beside_it(size: int, first: int, count: int, total: int) -> None:
    triangle, workspace = Triangle(upper(size), DOUBLE), Workspace()
    unit = triangle.unit
    k = columns(size, -(-total // unit) * unit)
    some = np.zeros((size, -(-count // unit) * unit))
    chosen = k[:, first : first + count]
    some[:, : chosen.shape[1]] = chosen
    whole, part = triangle.squared_norms(k.copy(), workspace), triangle.squared_norms(some, workspace)
    np.testing.assert_array_equal(part[: chosen.shape[1]], whole[first : first + count])


@pytest.mark.parametrize(("dtype", "number"), [(DOUBLE, 8), (SINGLE, 4)])
def test_it_holds_little_more_than_the_triangle(dtype: np.dtype[np.float64], number: int) -> None:
    size = 500
    assert Triangle(upper(size), dtype).nbytes < 1.3 * number * size * (size + 1) / 2
