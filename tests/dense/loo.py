"""Leave-one-out by n deletions: the row goes, the basis vectors stay, the posterior is computed again.

Covariances of two rows do not know which others there are: those of all rows are made once.
"""

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse, kernel
from tests.dense.posterior import exact_predict, projected, target_covariance


def leave_one_out(model: Sparse) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (noise included) of each target given all the others, each (n,)."""
    n, X = len(model.X), model.X
    C, Q = target_covariance(model), projected(model, X, X)
    prior = np.diag(Q if model.approximation == "sor" else kernel(model.params, X, X))
    mean, variance = np.empty(n), np.empty(n)
    for i in range(n):
        rest = np.arange(n) != i
        inverse, k = np.linalg.inv(C[np.ix_(rest, rest)]), Q[i, rest]
        mean[i], variance[i] = k @ inverse @ model.y[rest], prior[i] - k @ inverse @ k + model.params.s2
    return mean, variance


def exact_leave_one_out(params: Params, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same for the full Gaussian process."""
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        m, v = exact_predict(params, X[rest], y[rest], X[i : i + 1])
        mean[i], variance[i] = m[0], v[0] + params.s2
    return mean, variance
