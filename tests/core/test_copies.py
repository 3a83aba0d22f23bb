"""core/copies.py: exact copies of a continuous target, and of no other."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.copies import copies


def plain(inputs: FloatArray, targets: FloatArray) -> list[int]:
    """Rows that were seen before, by their bytes."""
    seen: set[bytes] = set()
    found = []
    for place, row in enumerate(np.column_stack((inputs, targets)) + 0.0):
        if row.tobytes() in seen:
            found.append(place)
        seen.add(row.tobytes())
    return found


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 4), values=st.integers(1, 3), seed=st.integers(0, 1000))
def test_copies_are_those_of_an_earlier_row(rows: int, columns: int, values: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    inputs = random.integers(0, values, size=(rows, columns)).astype(float)
    targets = inputs @ np.pi ** np.arange(1, columns + 1)  # as many as rows that differ
    assert copies(inputs, targets).tolist() == plain(inputs, targets)


def test_equal_inputs_with_other_targets_are_no_copies() -> None:
    random = np.random.default_rng(0)
    assert not len(copies(np.ones((50, 2)), random.normal(size=50)))


def test_counts_and_classes_have_no_copies() -> None:
    """Of 20 rows that differ 2 have a target of their own."""
    inputs = np.tile(np.arange(20.0)[:, None], (3, 1))
    assert not len(copies(inputs, np.tile(np.arange(20.0) % 2, 3)))
    assert len(copies(inputs, np.tile(np.arange(20.0), 3))) == 40


def test_one_zero_and_one_nan() -> None:
    inputs = np.array([[0.0, np.nan], [-0.0, -np.nan], [1.0, 2.0]])
    assert copies(inputs, np.array([1.0, 1.0, 2.0])).tolist() == [1]
