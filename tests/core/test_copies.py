"""core/copies.py: exact copies of a continuous target, and of no other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.copies
from core.arrays import FloatArray
from core.copies import copies, copies_but_for


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


def test_rows_that_differ_in_one_column_alone_are_told() -> None:
    """A counter beside them, of one column or of several inputs, and in no order."""
    random = np.random.default_rng(0)
    plain, targets = np.repeat(random.normal(size=(40, 2)), 4, axis=0), np.repeat(random.normal(size=40), 4)
    order = random.permutation(160)
    counter = np.tile(np.arange(4.0), 40)
    inputs = np.column_stack((plain[:, 0], counter, plain[:, 1]))[order]
    assert copies_but_for(inputs, targets[order], np.array([0, 1, 2])) == (1, 160)
    levels = np.column_stack((plain, np.eye(4)[counter.astype(int)]))[order]
    assert copies_but_for(levels, targets[order], np.array([0, 1, 2, 2, 2, 2])) == (2, 160)
    some = np.concatenate((np.flatnonzero(counter == 0), np.arange(20)))
    assert copies_but_for(inputs[order.argsort()][some], targets[some], np.array([0, 1, 2])) is None  # too few


def test_a_large_table_is_looked_at_by_some_of_its_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of each: with the same answer, and the same of equal inputs with other targets."""
    monkeypatch.setattr(core.copies, "LOOKED_AT", 60)
    random = np.random.default_rng(0)
    inputs = np.column_stack((np.repeat(random.normal(size=(300, 2)), 2, axis=0), np.tile([0.0, 1.0], 300)))
    targets = random.normal(size=300)
    assert copies_but_for(inputs, np.repeat(targets, 2), np.arange(3)) == (2, 600)
    assert copies_but_for(inputs, np.concatenate((targets, targets)), np.arange(3)) is None


def test_equal_rows_by_chance_are_no_copies_but_for_a_column() -> None:
    """Of few kinds, with rounded targets, a single column, other targets for equal inputs, or counts."""
    random = np.random.default_rng(0)
    kind, x = random.integers(0, 2, 600).astype(float), random.normal(size=600)
    rounded = np.round(10 * x + kind)
    groups = np.array([0, 1])
    assert copies_but_for(np.column_stack((kind, x)), rounded, groups) is None
    assert copies_but_for(x[:, None], rounded, groups[:1]) is None
    pairs = np.column_stack((np.repeat(x[:300], 2), np.tile([0.0, 1.0], 300)))
    assert copies_but_for(pairs, random.normal(size=600), groups) is None
    assert copies_but_for(pairs, np.repeat(random.integers(0, 5, 300), 2).astype(float), groups) is None
    assert copies_but_for(pairs, np.repeat(random.normal(size=300), 2), groups) == (1, 600)
