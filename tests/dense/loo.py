"""Leave-one-out by n deletions: the row goes, the basis vectors stay, everything is computed again."""

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse
from tests.dense.posterior import exact_predict, predict


def leave_one_out(model: Sparse) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (noise included) of each target given all the others, each (n,)."""
    n = len(model.X)
    mean, variance = np.empty(n), np.empty(n)
    for i in range(n):
        rest = np.arange(n) != i
        m, v = predict(model._replace(X=model.X[rest], y=model.y[rest]), model.X[i : i + 1])
        mean[i], variance[i] = m[0], v[0] + model.params.s2
    return mean, variance


def exact_leave_one_out(params: Params, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same for the full Gaussian process."""
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        m, v = exact_predict(params, X[rest], y[rest], X[i : i + 1])
        mean[i], variance[i] = m[0], v[0] + params.s2
    return mean, variance
