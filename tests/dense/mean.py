"""Means and variances of the full process, and means on some of the rows, one solve for each question."""

import numpy as np
from numpy.typing import NDArray

from tests.dense.kernel import FloatArray, Params, kernel

IntArray = NDArray[np.int64]


def full_weights(params: Params, X: FloatArray, y: FloatArray, D: FloatArray) -> FloatArray:
    """alpha of (K + D) alpha = y, (n,)."""
    return np.asarray(np.linalg.solve(kernel(params, X, X) + np.diag(D), y))


def subset_weights(params: Params, X: FloatArray, y: FloatArray, D: FloatArray, S: FloatArray) -> FloatArray:
    """alpha that minimises sum_i (y_i - k(x_i, S) alpha)^2 / D_i + alpha' K_SS alpha, (M,)."""
    K = kernel(params, X, S)
    return np.asarray(np.linalg.solve(K.T @ (K / D[:, None]) + kernel(params, S, S), K.T @ (y / D)))


def left_out_means(
    params: Params, X: FloatArray, y: FloatArray, D: FloatArray, fold: IntArray, S: FloatArray | None = None
) -> FloatArray:
    """Mean of each row by a fit without the rows of its fold, (n,); on centres S where these are given."""
    means = np.empty(len(y))
    for number in np.unique(fold):
        out = fold == number
        if S is None:
            alpha, centres = full_weights(params, X[~out], y[~out], D[~out]), X[~out]
        else:
            alpha, centres = subset_weights(params, X[~out], y[~out], D[~out], S), S
        means[out] = kernel(params, X[out], centres) @ alpha
    return means


def conditional_variance(params: Params, X: FloatArray, D: FloatArray, x: FloatArray) -> float:
    """Variance of the function at x (p,) given noisy targets at X (m, p)."""
    k = kernel(params, X, x[None])[:, 0]
    return float(params.v0 + params.vb - k @ np.linalg.solve(kernel(params, X, X) + np.diag(D), k))


def nearest(params: Params, X: FloatArray, x: FloatArray, count: int) -> IntArray:
    """Places of the rows with the largest kernel values at x."""
    return np.asarray(np.argsort(-kernel(params, X, x[None])[:, 0], kind="stable")[:count], np.int64)


def conditional_covariance(params: Params, X: FloatArray, D: FloatArray, Xs: FloatArray) -> FloatArray:
    """Covariance of the function among Xs (m, p) given noisy targets at X (n, p), (m, m)."""
    K = kernel(params, Xs, X)
    return np.asarray(kernel(params, Xs, Xs) - K @ np.linalg.solve(kernel(params, X, X) + np.diag(D), K.T))
