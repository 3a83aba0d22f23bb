"""core/process/near_blocks.py: the partition, and the sum of exact objectives."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from core.arrays import FloatArray
from core.process.exact import exact_nlml_and_gradient
from core.process.near_blocks import blocks_nlml_and_gradient, near_blocks, random_blocks
from tests.core.problems import oracle_params, problem, to_log
from tests.dense.kernel import kernel
from tests.dense.objective import central_differences, minus_log_normal


@pytest.mark.parametrize("largest", [1, 7, 50, 1000])
def test_blocks_are_a_partition_of_even_size(largest: int) -> None:
    X = np.random.default_rng(0).normal(size=(203, 3))
    blocks = near_blocks(X, np.ones(3), largest)
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(203))
    sizes = [len(block) for block in blocks]
    assert max(sizes) <= largest
    assert max(sizes) <= min(sizes) + 2


def test_rows_of_a_block_are_near_in_units_of_the_lengthscales() -> None:
    """Only the first column matters: blocks are intervals of it."""
    X = np.random.default_rng(1).normal(size=(160, 2)) * [1.0, 100.0]
    blocks = near_blocks(X, np.array([1.0, 1e-8]), 20)
    ends = sorted((X[block, 0].min(), X[block, 0].max()) for block in blocks)
    assert len(ends) == 8
    assert all(left[1] <= right[0] for left, right in pairwise(ends))


def test_equal_rows_are_cut_too() -> None:
    blocks = near_blocks(np.zeros((40, 2)), np.ones(2), 10)
    assert [len(block) for block in blocks] == [10] * 4


def test_random_blocks_repeat_no_row() -> None:
    blocks = random_blocks(30, 12, 5, np.random.default_rng(0))
    assert [len(set(block.tolist())) for block in blocks] == [12] * 5
    assert [len(block) for block in random_blocks(7, 12, 1, np.random.default_rng(0))] == [7]


def test_one_block_of_all_rows_is_the_exact_objective() -> None:
    at = problem(0)
    value, gradient = blocks_nlml_and_gradient(at.rows, [np.arange(40)], at.hyperparameters)
    exact, slope = exact_nlml_and_gradient(at.rows, at.hyperparameters)
    np.testing.assert_allclose(value, exact, rtol=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-13)


@pytest.mark.parametrize("varying", [False, True])
def test_value_and_gradient_of_several_blocks(varying: bool) -> None:
    at = problem(1)
    blocks = [*near_blocks(at.X, oracle_params(at.hyperparameters, at.groups).w, 13), np.arange(0, 40, 3)]
    ratio = np.exp(np.random.default_rng(0).normal(size=40)) if varying else np.ones(40)

    def oracle(theta: FloatArray) -> float:
        params = oracle_params(at.at(theta).hyperparameters, at.groups)
        C = kernel(params, at.X, at.X) + params.s2 * np.diag(ratio)
        total = sum(minus_log_normal(at.y[block], C[np.ix_(block, block)]) for block in blocks)
        return float(total * 40 / sum(map(len, blocks)))

    value, gradient = blocks_nlml_and_gradient(at.rows, blocks, at.hyperparameters, ratio if varying else None)
    theta = to_log(at.hyperparameters)
    np.testing.assert_allclose(value, oracle(theta), rtol=1e-9)
    numeric = central_differences(oracle, theta, step=2e-5)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


def test_the_number_of_threads_changes_no_bit() -> None:
    at = problem(2, n=200)
    blocks = near_blocks(at.X, np.ones(4), 30)
    found = [
        blocks_nlml_and_gradient(replace(at.rows, workers=workers), blocks, at.hyperparameters) for workers in (1, 2, 3)
    ]
    for value, gradient in found[1:]:
        assert value == found[0][0]
        np.testing.assert_array_equal(gradient, found[0][1])
