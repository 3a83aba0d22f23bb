"""Tables and partitions of the papers' reproductions."""

import numpy as np
import pytest

from tests.benchmarks.papers.tables import friedman, partition, read
from tests.benchmarks.sets import FOLDER

needs_data = pytest.mark.skipif(not (FOLDER / "abalone.csv.gz").exists(), reason="the benchmark sets are not there")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("friedman2", lambda r, x: np.sqrt(r**2 + x**2)),
        ("friedman3", lambda r, x: np.arctan(x / r)),
    ],
)
def test_friedmans_functions_with_noise_a_third_as_large(name: str, function: object) -> None:
    found = friedman(name, 20_000, np.random.default_rng(0))
    assert found.truths is not None
    assert callable(function)
    x = found.inputs
    np.testing.assert_allclose(found.truths, function(x[:, 0], x[:, 1] * x[:, 2] - 1 / (x[:, 1] * x[:, 3])))
    ratio = np.std(found.truths) / np.std(found.targets - found.truths)
    assert 2.7 < ratio < 3.4


def test_each_trial_has_a_partition_of_its_own() -> None:
    first, again, other = (partition("friedman2", trial, 20, 30) for trial in (3, 3, 4))
    assert (len(first.train), len(first.test)) == (20, 30)
    np.testing.assert_array_equal(first.train.inputs, again.train.inputs)
    assert not np.array_equal(first.train.inputs, other.train.inputs)


@needs_data
def test_no_row_is_in_both_parts() -> None:
    split = partition("boston_housing", 0, 481)
    rows = np.column_stack(
        (np.vstack((split.train.inputs, split.test.inputs)), [*split.train.targets, *split.test.targets])
    )
    whole = read("boston_housing")
    assert (len(split.train), len(split.test)) == (481, 25)
    expected = np.column_stack((whole.inputs, whole.targets))
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])


@needs_data
def test_abalones_sex_is_three_columns_that_may_share_a_lengthscale() -> None:
    whole = read("abalone")
    assert whole.inputs.shape == (4177, 10)
    np.testing.assert_array_equal(whole.inputs[:, :3].sum(axis=1), np.ones(4177))
    assert whole.dataset().groups.tolist() == list(range(10))
    assert whole.grouped().groups.tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert whole.grouped().indicator.tolist() == [True] * 3 + [False] * 7


@needs_data
def test_a_table_without_categories_has_a_lengthscale_each() -> None:
    assert read("boston_housing").grouped().groups.tolist() == list(range(13))
