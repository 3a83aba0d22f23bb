"""core/mean/products.py: products with stored strips and with strips that are made again."""

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest

from core.mean.products import STRIP_NUMBERS, FeatureProduct, SquareProduct, Storage, square_cuts, storage_for
from tests.core.mean.cases import case
from tests.dense.kernel import kernel

TOLERANCES = {Storage.FLOAT64: 1e-11, Storage.NONE: 1e-11, Storage.FLOAT32: 1e-4}
"""Sums of 1,500 terms of size 1: rounding of doubles, and of kernel values to 2^-24."""


@pytest.mark.parametrize("storage", list(Storage))
@pytest.mark.parametrize("n", [5, 1500])
def test_square_product(storage: Storage, n: int) -> None:
    at = case(0, n=n, folds=2)
    P = np.random.default_rng(0).normal(size=(n, 3))
    product = SquareProduct(at.kernel, at.rows.X, storage, workers=2)
    expected = kernel(at.params, at.rows.X, at.rows.X) @ P
    np.testing.assert_allclose(product.times(P), expected, atol=TOLERANCES[storage])


@pytest.mark.parametrize("storage", list(Storage))
def test_feature_product(storage: Storage) -> None:
    at, random = case(1, n=1500, folds=2), np.random.default_rng(0)
    S, P, weights = at.rows.X[::3], random.normal(size=(500, 2)), random.uniform(size=(1500, 2))
    product = FeatureProduct(at.kernel, at.rows.X, S, storage, workers=2)
    values, back = product.through(P, lambda place, strip: strip * weights[place])
    K = kernel(at.params, at.rows.X, S)
    np.testing.assert_allclose(values, K @ P, atol=TOLERANCES[storage])
    np.testing.assert_allclose(back, K.T @ (weights * (K @ P)), atol=1e3 * TOLERANCES[storage])


def test_a_stored_matrix_takes_half_of_the_square() -> None:
    at = case(2, n=1500, folds=2)
    stored = SquareProduct(at.kernel, at.rows.X, Storage.FLOAT32)
    assert stored.nbytes < 0.7 * 4 * 1500**2  # half, and the corners of few strips
    assert SquareProduct(at.kernel, at.rows.X, Storage.NONE).nbytes == 0


@pytest.mark.parametrize("rows", [1, 7, 8, 724, 725, 20_000])
def test_strips_cover_all_rows_with_bounded_sizes(rows: int) -> None:
    cuts = square_cuts(rows)
    assert cuts[0] == 0
    assert cuts[-1] == rows
    assert all(begin < end for begin, end in pairwise(cuts))
    assert all((end - begin) * end <= max(STRIP_NUMBERS, 8 * end) for begin, end in pairwise(cuts))


def test_storage_follows_the_limit_and_the_noise() -> None:
    k = case(3).kernel
    assert storage_for(1000, 100, k, 1e-9, limit=8000) is Storage.FLOAT64
    assert storage_for(1000, 100, k, 1e-1, limit=4000) is Storage.FLOAT32
    assert storage_for(1000, 100, k, 1e-9, limit=4000) is Storage.NONE  # float32 would round by more than the noise
    assert storage_for(1000, 100, k, 1e-1, limit=3999) is Storage.NONE


def test_float32_storage_changes_a_mean_by_far_less_than_the_noise() -> None:
    """At the smallest noise that the rule lets through."""
    at = case(4, n=1500, folds=2)
    v0 = at.kernel.signal_variance
    noise = 2.0**-24 * v0 * np.sqrt(1500) / 1e-2
    y, K = at.rows.y, at.kernel.gram(at.rows.X)
    rounded = K.astype(np.float32).astype(np.float64)
    D = noise * np.eye(len(y))
    moved = rounded @ np.linalg.solve(rounded + D, y) - K @ np.linalg.solve(K + D, y)
    assert np.sqrt(np.mean(moved**2)) < 1e-2


@pytest.mark.parametrize("square", [True, False])
def test_strips_are_given_back_with_their_product(square: bool) -> None:
    """At once, not when garbage is next collected: they may be a gigabyte, and the next product as large."""
    at = case(0)
    gone: weakref.ref[SquareProduct] | weakref.ref[FeatureProduct]
    gc.disable()
    try:
        if square:
            gone = weakref.ref(SquareProduct(at.kernel, at.rows.X, Storage.FLOAT64))
        else:
            gone = weakref.ref(FeatureProduct(at.kernel, at.rows.X, at.Z, Storage.FLOAT64))
        assert gone() is None
    finally:
        gc.enable()
