"""core/mean/subset.py against the normal equations."""

from dataclasses import replace

import numpy as np
import pytest

from core.hyperparameters import KernelFamily
from core.mean.conjugate import Stopping
from core.mean.full import full_mean
from core.mean.subset import subset_mean
from tests.core.mean.cases import FAMILIES, case
from tests.dense.kernel import kernel
from tests.dense.mean import left_out_means, subset_weights

EXACT = Stopping(tolerance=1e-9, most=500)
"""K(S, S) is nearly singular, and has a jitter of 1e-8 of its diagonal: predictions agree to about that."""


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_and_left_out_predictions(family: KernelFamily) -> None:
    at = case(0, family=family)
    centres = np.random.default_rng(0).permutation(len(at.rows))[:25]
    found = subset_mean(at.rows, at.kernel, at.D, centres, at.folds, stopping=EXACT)
    X, y, S = at.rows.X, at.rows.y, at.rows.X[centres]
    K = kernel(at.params, X, S)
    np.testing.assert_allclose(K @ found.alpha, K @ subset_weights(at.params, X, y, at.D, S), atol=1e-5)
    np.testing.assert_allclose(found.left_out, left_out_means(at.params, X, y, at.D, at.fold, S), atol=1e-5)


def test_with_all_rows_it_is_the_full_mean() -> None:
    at = case(1)
    subset = subset_mean(at.rows, at.kernel, at.D, np.arange(len(at.rows)), at.folds, stopping=EXACT)
    full = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT)
    np.testing.assert_allclose(subset.left_out, full.left_out, atol=1e-5)


@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_the_number_of_threads_changes_no_bit(limit: int) -> None:
    at = case(2, n=3000)
    centres = np.arange(0, 3000, 20)
    found = [
        subset_mean(replace(at.rows, workers=workers), at.kernel, at.D, centres, at.folds, limit=limit)
        for workers in (1, 2, 3)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.unknowns, found[0].unknowns)


def test_few_iterations_are_enough() -> None:
    """The preconditioner takes the centres for the rows: 200 of 4,000 settle in some forty iterations."""
    at = case(3, n=4000)
    found = subset_mean(at.rows, at.kernel, at.D, np.arange(0, 4000, 20), at.folds)
    assert found.settled
    assert found.iterations <= 60
