"""core/mean/near.py against one solve for each row."""

import numpy as np
import pytest

from core.hyperparameters import KernelFamily
from core.mean.closed import closed_form_mean
from core.mean.folds import Folds
from core.mean.near import NearRows
from tests.core.mean.cases import FAMILIES, case
from tests.dense.mean import conditional_variance, nearest


@pytest.mark.parametrize("family", FAMILIES)
def test_variance_from_the_nearest_rows(family: KernelFamily) -> None:
    at = case(0, family=family)
    inputs = np.random.default_rng(0).normal(size=(30, at.rows.X.shape[1]))
    near = NearRows(at.kernel, at.rows.X, at.D, nearest=12, workers=2)
    expected = []
    for x in inputs:
        places = nearest(at.params, at.rows.X, x, 12)
        expected.append(conditional_variance(at.params, at.rows.X[places], at.D[places], x))
    np.testing.assert_allclose(near.latent_variance(inputs), expected, rtol=1e-8)


def test_with_all_rows_it_is_the_full_process() -> None:
    at = case(1)
    near = NearRows(at.kernel, at.rows.X, at.D, nearest=500)
    each = Folds(fold=np.arange(len(at.rows)), count=len(at.rows))
    found = near.left_out_variance(at.rows.X, each)
    exact = closed_form_mean(at.rows, at.kernel, at.D).latent_variance
    np.testing.assert_allclose(found, exact, atol=1e-10)


def test_no_neighbour_is_of_the_same_fold() -> None:
    """One in no fold may have every neighbour."""
    at = case(2, n=60, folds=3)
    fold = np.where(np.arange(60) < 5, -1, at.fold)
    found = NearRows(at.kernel, at.rows.X, at.D, nearest=8).left_out_variance(at.rows.X, Folds(fold=fold, count=3))
    for i, x in enumerate(at.rows.X):
        others = np.flatnonzero((fold != fold[i]) | (fold[i] < 0))
        places = others[nearest(at.params, at.rows.X[others], x, 8)]
        np.testing.assert_allclose(
            found[i], conditional_variance(at.params, at.rows.X[places], at.D[places], x), rtol=1e-8
        )


def test_some_rows_each_without_itself() -> None:
    at = case(6, n=90)
    near = NearRows(at.kernel, at.rows.X, at.D, nearest=8, workers=2)
    alone, places = Folds.each_alone(90), np.array([3, 4, 50, 89])
    each = near.left_out_variance(at.rows.X, alone)
    np.testing.assert_allclose(near.left_out_variance(at.rows.X[places], alone, places=places), each[places], rtol=1e-8)
    for place, x in zip(places, at.rows.X[places], strict=True):
        others = np.delete(np.arange(90), place)
        those = others[nearest(at.params, at.rows.X[others], x, 8)]
        np.testing.assert_allclose(
            each[place], conditional_variance(at.params, at.rows.X[those], at.D[those], x), rtol=1e-8
        )


def test_forward_no_neighbour_is_of_a_later_fold() -> None:
    at = case(5, n=60, folds=3)
    folds = Folds(fold=at.fold - 1, count=2, forward=True)
    found = NearRows(at.kernel, at.rows.X, at.D, nearest=8).left_out_variance(at.rows.X, folds)
    for i, x in enumerate(at.rows.X):
        others = np.flatnonzero((folds.fold < folds.fold[i]) | (folds.fold[i] < 0))
        places = others[nearest(at.params, at.rows.X[others], x, 8)]
        np.testing.assert_allclose(
            found[i], conditional_variance(at.params, at.rows.X[places], at.D[places], x), rtol=1e-8
        )


def test_fewer_others_than_neighbours() -> None:
    at = case(3, n=20, folds=2)
    found = NearRows(at.kernel, at.rows.X, at.D, nearest=15).left_out_variance(at.rows.X, at.folds)
    others = at.fold != at.fold[0]
    expected = conditional_variance(at.params, at.rows.X[others], at.D[others], at.rows.X[0])
    np.testing.assert_allclose(found[0], expected, rtol=1e-8)


def test_no_rows_have_no_variances() -> None:
    at = case(4)
    assert NearRows(at.kernel, at.rows.X, at.D).latent_variance(np.empty((0, at.rows.X.shape[1]))).shape == (0,)
