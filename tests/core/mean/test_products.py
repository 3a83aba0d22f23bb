"""core/mean/products.py: products with stored strips and with strips that are made again."""

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest

from core.mean.products import STRIP_NUMBERS, FeatureProduct, SquareProduct, Storage, square_cuts, storage_for
from core.numeric.partitions import LocalPartitions
from tests.core.mean.cases import case
from tests.dense.kernel import kernel

TOLERANCES = {Storage.FLOAT64: 1e-11, Storage.FLOAT32: 1e-4}
"""Sums of 1,500 terms of size 1: rounding of doubles, and of kernel values to 2^-24."""


LIMITS = [1 << 30, 6_000_000, 0]
"""Bytes that strips may take: all of them, some, none."""


@pytest.mark.parametrize("storage", list(Storage))
@pytest.mark.parametrize("n", [5, 1500])
def test_square_product(storage: Storage, n: int) -> None:
    """Stored strips, and those that are made again, have the same bits in the first product and in later ones."""
    at = case(0, n=n, folds=2)
    P = np.random.default_rng(0).normal(size=(n, 3))
    products = [SquareProduct(at.kernel, at.rows.X, storage, workers=2, limit=limit) for limit in LIMITS]
    found = [product.times(P) for product in products for _ in range(2)]
    expected = kernel(at.params, at.rows.X, at.rows.X) @ P
    np.testing.assert_allclose(found[0], expected, atol=TOLERANCES[storage])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    assert all(product.nbytes <= limit for product, limit in zip(products, LIMITS, strict=True))


@pytest.mark.parametrize("storage", list(Storage))
def test_feature_product(storage: Storage) -> None:
    at, random = case(1, n=1500, folds=2), np.random.default_rng(0)
    S, P, weights = at.rows.X[::3], random.normal(size=(500, 2)), random.uniform(size=(1500, 2))
    K = kernel(at.params, at.rows.X, S)
    first = None
    for limit in LIMITS:
        product = FeatureProduct(at.kernel, at.rows.X, S, weights, storage, workers=2, limit=limit)
        for _ in range(2):
            values, back = product.through(P)
            np.testing.assert_allclose(values, K @ P, atol=TOLERANCES[storage])
            np.testing.assert_allclose(back, K.T @ (weights * (K @ P)), atol=1e3 * TOLERANCES[storage])
            np.testing.assert_array_equal(product.back(weights * values), back)
            first = back if first is None else first
            np.testing.assert_array_equal(back, first)


def test_a_stored_matrix_takes_half_of_the_square() -> None:
    at = case(2, n=1500, folds=2)
    stored = SquareProduct(at.kernel, at.rows.X, Storage.FLOAT32)
    assert stored.nbytes == 0
    stored.times(np.ones((1500, 1)))
    assert 0.5 * 4 * 1500**2 < stored.nbytes < 0.7 * 4 * 1500**2  # half, and the corners of few strips


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
    assert storage_for(1000, 100, k, 1e-9, limit=4000) is Storage.FLOAT64  # float32 would round by more than the noise
    assert storage_for(1000, 100, k, 1e-1, limit=3999) is Storage.FLOAT64  # not all fit


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
    gc.disable()
    try:
        product: SquareProduct | FeatureProduct
        if square:
            product = SquareProduct(at.kernel, at.rows.X, Storage.FLOAT64)
            product.times(np.ones((len(at.rows), 1)))
            stored = weakref.ref(product._strips.stored)
        else:
            product = FeatureProduct(at.kernel, at.rows.X, at.Z, np.ones((len(at.rows), 1)), Storage.FLOAT64)
            product.through(np.ones((len(at.Z), 1)))
            assert isinstance(product._runs, LocalPartitions)
            stored = weakref.ref(product._runs.common.stored)
        assert stored() is not None
        del product
        assert stored() is None
    finally:
        gc.enable()
