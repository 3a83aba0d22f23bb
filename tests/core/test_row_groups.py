"""core/row_groups.py: no group is on both sides of a split, forward folds see the past alone, and rows alone are as
before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data import Dataset
from core.errors import InvalidDataError
from core.row_groups import FEWEST_GROUPS, Grouping, RowGroups, groups_of_equal_rows

KINDS = st.sampled_from([Grouping.EQUAL, Grouping.GROUP, Grouping.ORDER])


def made(by: Grouping, groups: int, seed: int) -> RowGroups:
    """Groups of 1 to 6 rows, in a random order."""
    random = np.random.default_rng(seed)
    return RowGroups.of(by, random.permutation(np.repeat(np.arange(groups), random.integers(1, 7, groups))))


@given(KINDS, st.integers(2, 60), st.integers(1, 12), st.integers(0, 9))
def test_whole_groups_are_dealt(by: Grouping, groups: int, folds: int, seed: int) -> None:
    at = made(by, groups, seed)
    rows = len(at.group)
    fold = at.folds(rows, folds, np.random.default_rng(seed))
    assert set(fold.tolist()) == set(range(-1 if at.forward else 0, fold.max() + 1))
    assert fold.max() < folds or by is Grouping.ORDER
    for group in range(groups):
        assert len(set(fold[at.group == group])) == 1
    for inside, rest in at.splits(fold):
        assert len(rest) > 0 or fold.max() == 0
        assert not set(at.group[inside]) & set(at.group[rest])
        if at.forward:
            assert at.group[inside].min() > at.group[rest].max()
        else:
            assert len(inside) + len(rest) == rows


@given(KINDS, st.integers(4, 60), st.integers(0, 9))
def test_whole_groups_are_held_out(by: Grouping, groups: int, seed: int) -> None:
    at = made(by, groups, seed)
    rows = len(at.group)
    held_out = at.held_out(rows, rows // 10, np.random.default_rng(seed))
    others = np.setdiff1d(np.arange(rows), held_out)
    assert not set(at.group[held_out]) & set(at.group[others])
    assert len(held_out) <= max(rows / 3, rows // 10)
    if by is Grouping.ORDER and len(held_out):
        assert at.group[held_out].min() > at.group[others].max()


def test_a_group_that_is_most_of_the_rows_is_not_held_out() -> None:
    at = RowGroups.of(Grouping.GROUP, np.repeat([0, 1], [90, 10]))
    for seed in range(10):
        held_out = at.held_out(100, 10, np.random.default_rng(seed))
        assert held_out.tolist() in ([], list(range(90, 100)))


def test_rows_alone_are_dealt_one_by_one() -> None:
    alone, random = RowGroups(), np.random.default_rng(3)
    order = np.random.default_rng(3).permutation(20)
    assert alone.held_out(20, 5, random).tolist() == sorted(order[:5].tolist())
    assert np.bincount(alone.folds(20, 4, random)).tolist() == [5] * 4
    assert alone.count == 0
    assert len(alone.take(np.arange(3)).group) == 0


def test_folds_of_uneven_groups_are_of_even_size() -> None:
    at = RowGroups.of(Grouping.GROUP, np.repeat(np.arange(8), [40, 5, 5, 5, 5, 10, 10, 20]))
    sizes = np.bincount(at.folds(100, 2, np.random.default_rng(0)))
    assert sorted(sizes.tolist()) == [50, 50]


def test_equal_inputs_are_one_group() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    x[7], x[9] = x[3], x[3]
    at = groups_of_equal_rows(x)
    assert at.by is Grouping.EQUAL
    assert at.count == 28
    assert at.group[7] == at.group[3] == at.group[9]
    assert at.single().tolist() == [row for row in range(30) if row not in (3, 7, 9)]


def test_zeros_of_both_signs_are_equal_inputs() -> None:
    x = np.arange(20.0)[:, None]
    x[1] = -0.0
    assert groups_of_equal_rows(x).group[0] == groups_of_equal_rows(x).group[1]


@pytest.mark.parametrize(
    "x", [np.arange(30.0), np.repeat(np.arange(FEWEST_GROUPS - 1.0), 4), np.repeat(np.arange(50.0), 10)]
)
def test_rows_are_alone_without_equal_inputs_and_where_settings_are_few(x: np.ndarray) -> None:
    """Of settings that come ten times each, or are a handful, new rows will be."""
    assert groups_of_equal_rows(x[:, None]).alone


def test_groups_fit_the_table() -> None:
    x = np.arange(6.0)[:, None]
    with pytest.raises(InvalidDataError, match="a group for each of the 6 rows, got 3"):
        Dataset(inputs=x, targets=x[:, 0], row_groups=RowGroups.of(Grouping.GROUP, np.arange(3)))
    taken = Dataset(inputs=x, targets=x[:, 0], row_groups=RowGroups.of(Grouping.GROUP, np.arange(6) // 2)).take(
        np.array([0, 4, 5])
    )
    assert taken.row_groups.group.tolist() == [0, 1, 1]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 9))
def test_blocks_have_no_two_rows_of_one_group(groups: int, largest: int, seed: int) -> None:
    at = made(Grouping.GROUP, groups, seed)
    blocks = at.blocks(largest)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(at.group)))
    for block in blocks:
        assert 0 < len(block) <= largest
        assert len(set(at.group[block].tolist())) == len(block)
